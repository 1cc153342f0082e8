"""On a terminal: a table that fits, optional colour, and no control characters."""

import json
import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

import kafkalog
from kafkalog.cli import terminal
from kafkalog.cli.text_table import TableColumn, lines_of

from . import golden
from .shell import call, on_terminal, run

ORDERS = golden.CLEAN / "orders.zstd-0"
BOLD = "\x1b[1m"
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


def test_a_terminal_gets_a_table_of_its_width():
    sent = on_terminal("cat", ORDERS, width=90)
    lines = [line for line in sent.replace(BOLD, "").split("\r\n") if line]
    assert lines[0].split()[:3] == ["topic", "partition", "offset"]
    assert len(lines) == 1 + len(golden.records("k431-clean", "orders.zstd-0"))
    assert max(map(cell_len, lines)) <= 115  # numbers are not cut
    assert any("…" in line for line in lines)


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
        TableColumn("one", may_be_cut=True),
        TableColumn("two", True, may_be_cut=True),
    ]
    rows = [[terminal.escape(cell) for cell in row] for row in cells]
    lines = list(lines_of(columns, rows, width=width))
    assert len(lines) == 1 + len(rows)
    assert all(cell_len(line) <= width for line in lines)


@given(size=st.integers(0, 2**63))
def test_sizes_are_short(size):
    assert len(terminal.in_units(size)) <= 12
