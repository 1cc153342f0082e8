"""On a terminal: a table that fits, optional colour, and no control characters."""

import json
import os
import re
import shlex
import shutil
import subprocess
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import kafkalog
from kafkalog.cli import terminal
from kafkalog.cli.text_table import CUT, SAMPLE_ROWS, TableColumn, lay_out
from kafkalog.query.scan_columns import DEFAULT_COLUMNS
from kafkalog.text.binary_units import in_units
from tests import golden_data

from . import golden
from .shell import COMMAND, call, objects, on_terminal, run, within_terminal

ORDERS = golden.CLEAN / "orders.zstd-0"
BOLD = "\x1b[1m"
RESET = "\x1b[0m"
EVIL = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp.exe\r\nline"
CONTROL_CHARACTERS = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e]"
)


@pytest.fixture
def hostile_log(tmp_path):
    batch = kafkalog.RecordBatchBuilder(base_offset=0)
    batch.append(EVIL.encode(), EVIL.encode(), timestamp=1, headers=[(EVIL, b"\x1b")])
    path = tmp_path / "0.log"
    path.write_bytes(batch.build())
    return path


SEGMENT = golden.CLEAN / "state.none-0" / f"{0:020}.log"
TABLES = {
    "ls": ("ls", golden.CLEAN),
    "ls segments": ("ls", golden.CLEAN / "state.none-0"),
    "cat": ("cat", ORDERS),
    "head": ("head", golden.CLEAN),
    "tail": ("tail", golden.CLEAN / "sizes-0"),
    "columns": ("head", ORDERS, "--columns", "segment,position,codec,headers,value"),
    "find": ("find", golden.CLEAN, "--offset", "3"),
    "groups": ("groups", golden.CLEAN),
    "lag": ("lag", golden.CLEAN),
    "txns": ("txns", golden.CLEAN),
    "diff": ("diff", golden.CLEAN, golden.CLEAN),
    "stats": ("stats", golden.CLEAN, "--sizes", "--quiet"),
    "preflight": ("preflight", golden_data.logs("k431-crash")),
    "whatif": ("whatif", golden.CLEAN, "--quiet"),
    "why": ("why", SEGMENT, "--quiet"),
    "repair": ("repair", "damaged"),
    "compact": ("compact", golden.CLEAN, "--dry-run"),
    "salvage": ("salvage", "damaged", "new", "--dry-run"),
    "heal": ("heal", "damaged", golden.CLEAN, "new", "--dry-run"),
    "restore": ("restore", golden.CLEAN, "new", "--dry-run", "--quiet"),
    "verify": ("verify", "damaged", "--quiet"),
    "dump": ("dump", "--files", SEGMENT, "--format", "table"),
}
IDENTITIES = {
    "ls": ["topic", "partition", "size"],
    "ls segments": ["segment", "next offset"],
    "cat": ["offset", "key", "value"],
    "head": ["partition", "offset", "value"],
    "columns": ["segment", "codec"],
    "find": ["offset", "path"],
    "lag": ["group", "topic", "partition", "lag"],
    "stats": ["topic", "bytes", "share"],
    "verify": ["severity", "message"],
    "repair": ["path", "action"],
}
"""Columns that are shown at every width."""


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    place = tmp_path_factory.mktemp("terminal") / "logs"
    for name in ("orders.none-0", "ledger-0"):
        shutil.copytree(golden.CLEAN / name, place / name)
        log = min((place / name).glob("*.log"))
        data = bytearray(log.read_bytes())
        data[100] ^= 1
        log.write_bytes(data)
    return place


def table_in(sent, *arguments):
    """Return the lines of a table on a terminal, without what is around it."""
    lines = sent.replace("\r\n", "\n").splitlines()
    [start] = [i for i, line in enumerate(lines) if line.startswith(BOLD)]
    rows = objects(call(*arguments, "--format", "jsonl").stdout)
    count = len(rows[0]["because"]) if arguments[0] == "why" else len(rows)
    table = [line.replace(BOLD, "").replace(RESET, "") for line in lines[start:]]
    assert not any("\x1b" in line for line in table)
    return table[: 1 + count], table[1 + count :]


@pytest.mark.parametrize("width", [60, 80, 200])
@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_a_line_a_row_that_fits_the_terminal(
    name, width, damaged, tmp_path
):
    places = {"damaged": damaged, "new": tmp_path / "new"}
    arguments = [places.get(each, each) for each in TABLES[name]]
    sent, errors = within_terminal(*arguments, width=width)
    (heading, *rows), after = table_in(sent, *arguments)
    assert rows
    assert max(map(cell_len, (heading, *rows))) <= width
    assert not any(line.startswith(" " * 9) for line in after)  # no row is wrapped
    assert all(title in heading for title in IDENTITIES.get(name, ()))
    noted = re.findall(
        r"^kafkalog: (\d+) more columns?: (.*); .*--format jsonl shows them$",
        errors,
        re.MULTILINE,
    )
    [(count, names)] = noted or [("0", "")]
    dropped = names.split(", ") if names else []
    assert int(count) == len(dropped)
    if width == 200:
        rows = objects(call(*arguments, "--format", "jsonl").stdout)
        assert all(row[each] in (None, "", []) for row in rows for each in dropped)


@pytest.mark.parametrize("width", [60, 80, 200])
def test_both_tables_of_a_description_fit(width):
    sent, _ = within_terminal("info", ORDERS, width=width)
    _, segments, others = sent.replace("\r\n", "\n").split(BOLD)
    assert len(segments.splitlines()) == 1 + 4 + 1
    assert len(others.splitlines()) == 1 + 14
    lines = f"{segments}{others}".replace(RESET, "").splitlines()
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize("width", [60, 80])
def test_values_are_cut_only_where_other_columns_are_dropped(width):
    (heading, *rows), _ = table_in(
        within_terminal("head", golden.CLEAN / "sizes-0", width=width)[0],
        "head",
        golden.CLEAN / "sizes-0",
    )
    assert heading.split()[-1] in ("value", "headers")
    assert all(cell_len(row) == width for row in rows if row.endswith(CUT))


def test_a_number_wider_than_its_column_narrows_the_texts():
    columns = [TableColumn("offset", right=True), TableColumn("value", cut="value")]
    rows = [["1", "x" * 90]] * SAMPLE_ROWS + [["9" * 19, "y" * 90]]
    _, lines = lay_out(columns, rows, width=60, drops=True)
    *_, last = lines
    assert cell_len(last) == 60
    assert "9" * 19 in last
    assert last.endswith(f"y{CUT}")


def test_a_path_is_cut_at_its_start():
    columns = [TableColumn("path", cut="path"), TableColumn("size", right=True)]
    path = "/" + "long/" * 20 + "orders-0/5.log"
    table, lines = lay_out(columns, [[path, "7"]], width=40, drops=True)
    _, line = lines
    assert line.startswith(CUT)
    assert "long/orders-0/5.log     7" in line
    assert table.dropped == []


def test_a_pipe_gets_all_columns_and_no_note():
    ran = run("head", ORDERS, "--format", "table")
    heading, *_ = ran.stdout.decode().splitlines()
    assert heading.split() == list(DEFAULT_COLUMNS)
    assert ran.stderr == b""


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
@pytest.mark.parametrize("width", [60, 80, 200])
def test_tables_look_the_same_in_tmux(width, tmp_path):
    """A terminal wraps lines that are too long, which a pipe to one does not show."""
    shown, ended = tmp_path / "shown", tmp_path / "ended"
    command = shlex.join([*COMMAND, "head", str(golden.CLEAN), "-n", "20"])
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    capture = shlex.join([*tmux, "capture-pane", "-e", "-p"])
    script = f"{command}; {capture} > {shown}; touch {ended}; sleep 60"
    subprocess.run(
        [*tmux, "new-session", "-d", "-x", str(width), "-y", "50", script],
        check=True,
        env={name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ},
        cwd=golden_data.GOLDEN.parents[1],
    )
    try:
        while not ended.exists():
            time.sleep(0.05)
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)
    heading, *lines = shown.read_text().splitlines()
    assert heading.startswith(BOLD)
    rows = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in lines[:20]]
    numbered = re.compile(r"__cluster_metadata +0 +\d+  ")
    assert all(map(numbered.match, rows))  # none takes two lines
    assert BOLD not in "".join(lines)
    assert lines[20].startswith("kafkalog: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("head", ORDERS, "--columns", EVIL),
        ("cat", ORDERS, "--topic", EVIL),
        ("head", ORDERS, "--start-timestamp", EVIL),
        ("head", ORDERS, "-n", EVIL),
        ("head", ORDERS, "--format", EVIL),
        ("stats", ORDERS, "--by", EVIL),
        ("whatif", ORDERS, "--set", f"{EVIL}=1"),
        ("ls", EVIL),
        (EVIL,),
    ],
    ids=lambda arguments: arguments[0] if arguments[0] != EVIL else "command",
)
def test_errors_about_arguments_have_no_control_characters(arguments):
    sent = on_terminal(*arguments, fails=True)
    assert "owned" in sent
    assert not CONTROL_CHARACTERS.search(sent.replace("\r\n", ""))


@pytest.mark.parametrize(
    ("arguments", "variables", "coloured"),
    [
        ((), {}, True),
        ((), {"NO_COLOR": "1"}, False),
        ((), {"TERM": "dumb"}, False),
        (("--no-color",), {}, False),
    ],
)
@pytest.mark.parametrize("command", ["ls", "head"])
def test_colour_can_be_switched_off(command, arguments, variables, coloured):
    sent = on_terminal(command, ORDERS, *arguments, **variables)
    assert (BOLD in sent) == coloured
    assert ("\x1b" in sent) == coloured


def test_a_pipe_gets_no_colour():
    assert b"\x1b" not in run("head", ORDERS, "--format", "table").stdout


@pytest.mark.parametrize("form", ["table", "jsonl", "json", "csv"])
def test_a_terminal_gets_no_control_characters(hostile_log, form):
    sent = on_terminal("cat", hostile_log, "--format", form, NO_COLOR="1", width=400)
    shown = sent.replace("\r\n", "\n")
    assert not CONTROL_CHARACTERS.search(shown)
    assert "owned" in shown
    if form in ("jsonl", "json"):
        parsed = json.loads(shown)
        row = parsed[0] if form == "json" else parsed
        assert row["key"] == row["value"] == EVIL
        assert row["headers"] == [[EVIL, "\x1b"]]


@pytest.mark.parametrize("form", ["table", "jsonl", "json", "csv"])
@pytest.mark.parametrize(
    "command", [("info",), ("find", "--key-pattern", "owned"), ("tail",), ("verify",)]
)
def test_names_and_ids_are_escaped_in_every_command(
    hostile_log, tmp_path, command, form
):
    place = tmp_path / "\x1b[2J\u202eevil"
    (place / "t-0").mkdir(parents=True)
    segment = place / "t-0" / "00000000000000000000.log"
    segment.write_bytes(hostile_log.read_bytes())
    (place / "meta.properties").write_text(
        "version=1\nnode.id=1\ncluster.id=\\u001b[2J\\u009b31m\n"
    )
    for path in (place, place / "t-0", segment):
        arguments = (*command, path, "--format", form)
        sent = on_terminal(*arguments, TERM="dumb", width=999)  # without a progress bar
        assert sent or form in ("jsonl", "csv")
        assert not CONTROL_CHARACTERS.search(sent.replace("\r\n", "\n"))


def test_names_of_files_in_messages_are_escaped(tmp_path):
    ran = call("cat", tmp_path / "\x1b[2J.log")
    assert ran.exit_code == 3
    assert "\x1b" not in ran.stderr
    assert r"\x1b[2J.log" in ran.stderr


def test_a_pipe_gets_the_bytes_unescaped(hostile_log):
    [line] = run("cat", hostile_log).stdout.decode().splitlines()
    assert json.loads(line)["key"] == EVIL


@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize("arguments", [["info"], ["find", "--offset", "0"]])
@pytest.mark.parametrize("show", [run, on_terminal])
def test_a_name_that_is_not_utf8_is_escaped_in_json(tmp_path, show, arguments, form):
    place = tmp_path / os.fsdecode(b"logs-\xff")
    (place / "log-0").mkdir(parents=True)
    batch = kafkalog.RecordBatchBuilder()
    batch.append(None, b"value", timestamp=1)
    (place / "log-0" / f"{0:020}.log").write_bytes(batch.build())
    shown = show(*arguments, place, "--format", form)
    text = shown if isinstance(shown, str) else shown.stdout.decode()
    found = json.loads(text)
    [row] = found if isinstance(found, list) else [found]
    assert row["path"].startswith(str(place))


def test_progress_is_shown_on_a_terminal_unless_quiet(tmp_path):
    loud = on_terminal("export", golden.CLEAN, tmp_path / "a.csv")
    assert "3,200 records" in loud
    quiet = on_terminal("export", golden.CLEAN, tmp_path / "b.csv", "--quiet")
    assert quiet == ""
    checked = on_terminal("verify", golden.CLEAN)
    shown = on_terminal("verify", golden.CLEAN, "--quiet")
    assert len(shown) < len(checked)
    assert shown in checked


@given(text=st.text())
def test_escaped_json_is_equivalent(text):
    spelled = json.dumps({text: text}, ensure_ascii=False)
    escaped = terminal.escape_json(spelled)
    assert json.loads(escaped) == {text: text}
    assert not CONTROL_CHARACTERS.search(escaped)


@given(
    cells=st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=5),
    width=st.integers(20, 60),
)
def test_a_table_whose_columns_may_all_be_cut_fits(cells, width):
    columns = [
        TableColumn("one", cut="value"),
        TableColumn("two", True, cut="value"),
    ]
    rows = [[terminal.escape(cell) for cell in row] for row in cells]
    _, printed = lay_out(columns, rows, width=width)
    lines = list(printed)
    assert len(lines) == 1 + len(rows)
    assert all(cell_len(line) <= width for line in lines)


@given(size=st.integers(0, 2**63))
def test_sizes_are_short(size):
    assert len(in_units(size)) <= 12
