"""Start and end of commands: imports, exit codes, pipes, help."""

import json
import re
import shlex
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import kafkalog
from kafkalog.cli import exits
from kafkalog.cli.main import COMMANDS, MODULES, group, main
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data

from . import golden
from .shell import COMMAND, call, objects, run

ROOT = Path(__file__).parents[2]
ORDERS = golden.CLEAN / "orders.zstd-0"
PACKAGE = "kafkalog.cli.commands."
SHARED = {"lag": {"groups"}, "why": {"whatif"}}
READERS = ("ls", "info", "cat", "head", "tail")
EXAMPLES = (
    *READERS,
    "find",
    "stats",
    "dump",
    "export",
    "verify",
    "whatif",
    "why",
    "preflight",
    "repair",
    "restore",
    "groups",
    "lag",
    "txns",
    "diff",
)


@cache
def modules_loaded_by(*arguments):
    program = f"""
import sys
from kafkalog.cli.main import main
main({[str(one) for one in arguments]!r})
print(*sys.modules, file=sys.stderr)
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return frozenset(ran.stderr.split())


def test_help_imports_nothing_heavy():
    heavy = {"numpy", "pyarrow", "lz4", "snappy", "zstandard", "crc32c"}
    for option in ("--help", "--version"):
        assert not (heavy | {"rich"}) & modules_loaded_by(option)
    for command in EXAMPLES:
        assert not heavy & modules_loaded_by(command, "--help")


def test_no_command_is_imported_for_the_list_of_commands():
    assert not [
        name for name in modules_loaded_by("--help") if name.startswith(PACKAGE)
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_imports_no_other_but_one_whose_code_it_shares(name):
    loaded = {
        module.removeprefix(PACKAGE)
        for module in modules_loaded_by(name, "--help")
        if module.startswith(PACKAGE)
    }
    assert loaded == {MODULES.get(name, name), *SHARED.get(name, ())}


@pytest.mark.parametrize("command", READERS)
def test_small_commands_do_not_import_pyarrow(command):
    assert "pyarrow" not in modules_loaded_by(command, ORDERS)


@pytest.mark.parametrize("form", ["json", "jsonl"])
@pytest.mark.parametrize(
    "arguments",
    [
        ("compact", golden.CLEAN / "state.none-0"),
        ("diff", ORDERS, ORDERS),
        ("heal", ORDERS, ORDERS, "out", "--dry-run"),
        ("info", ORDERS),
        ("preflight", golden.CLEAN, "--no-check-cleaner"),
        ("repair", golden.CLEAN),
        ("restore", ORDERS, "out", "--dry-run"),
        ("salvage", ORDERS, "out", "--dry-run"),
        ("stats", ORDERS),
        ("verify", ORDERS),
        ("whatif", ORDERS),
        ("why", ORDERS / "00000000000000000000.log"),
    ],
    ids=lambda each: each[0],
)
def test_each_object_of_a_report_begins_with_the_schema(arguments, form):
    printed = call(*arguments, "--format", form).stdout
    found = objects(printed) if form == "jsonl" else json.loads(printed)
    rows = found if isinstance(found, list) else [found]
    has_no_row = form == "jsonl" and arguments[0] in ("repair", "verify")
    assert bool(rows) != has_no_row
    assert [(next(iter(row)), row["schema"]) for row in rows] == [("schema", 1)] * len(
        rows
    )


def test_the_version_is_that_of_the_package():
    ran = run("--version")
    assert ran.stdout.decode() == f"kafkalog, version {kafkalog.__version__}\n"


def test_every_command_is_listed_with_its_summary():
    listed = call("--help").output
    for name, line in COMMANDS.items():
        command = group.get_command(None, name)
        assert command.name == name
        assert re.search(rf"^  {name} +{re.escape(line)}$", listed, re.MULTILINE)
        assert call(name, "--help").exit_code == 0


def examples_of(name):
    text = group.get_command(None, name).epilog
    return [line.strip() for line in text.splitlines() if "kafkalog " in line]


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_help_run(name, tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("kafkalog.cli.commands.tail._wait", interrupted)
    examples = examples_of(name)
    assert 2 <= len(examples) <= 4
    for example in examples:
        text = example.replace("/var/lib/kafka/data", str(golden.CLEAN))
        program, *arguments = shlex.split(text)
        assert (program, arguments[0]) == ("kafkalog", name)
        ran = call(*arguments)
        assert ran.exit_code == (130 if "-f" in arguments else 0), ran.output
        assert ran.stdout or list(tmp_path.iterdir())


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_ends_with_the_examples(name):
    lines = call(name, "--help").output.splitlines()
    assert lines[-len(examples_of(name)) - 1].strip() == "Examples:"


@pytest.mark.parametrize(
    "arguments",
    [
        ("frobnicate",),
        ("cat",),
        ("cat", ORDERS, "--columns", "offset,nonsense"),
        ("cat", ORDERS, "--columns", "offset,offset"),
        ("cat", ORDERS, "--start-timestamp", "2026-01-01T00:00:00"),
        ("cat", ORDERS, "--start-timestamp", "yesterday"),
        ("cat", ORDERS, "--isolation-level", "serializable"),
        ("cat", ORDERS, "--threads", "0"),
        ("cat", ORDERS, "-n", "-1"),
        ("head", ORDERS, "--format", "xml"),
        ("head", ""),
        ("verify", ""),
        ("repair", "", "--apply"),
        ("export", ORDERS),
        ("export", ORDERS, "out", "--format", "xml"),
    ],
)
def test_wrong_usage_ends_with_2(arguments):
    ran = call(*arguments)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "Usage:" in ran.stderr


@pytest.mark.parametrize("command", READERS)
def test_an_unreadable_path_ends_with_3(command, tmp_path):
    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "notes.txt").write_text("nothing of Kafka's")
    for path in (tmp_path / "nowhere", strange, strange / "notes.txt"):
        ran = call(command, path)
        assert (ran.exit_code, ran.stdout) == (3, "")
        assert str(path) in ran.stderr
        assert len(ran.stderr.splitlines()) == 1


def test_an_os_error_ends_with_3(monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", str(ORDERS))

    monkeypatch.setattr("kafkalog.query.scan.find_sources", refuse)
    ran = call("cat", ORDERS)
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert ran.stderr == f"kafkalog: Permission denied: {ORDERS}\n"


def test_a_bug_is_not_hidden(monkeypatch):
    def fail(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr("kafkalog.query.scan.find_sources", fail)
    with pytest.raises(ZeroDivisionError):
        main(["cat", str(ORDERS)])


def test_main_returns_the_code(capfd):
    assert main(["ls", str(ORDERS)]) == exits.Exit.FINE
    assert main(["ls", "nowhere"]) == exits.Exit.UNREADABLE
    assert main(["ls"]) == exits.Exit.USAGE
    assert main(["--help"]) == exits.Exit.FINE
    assert "Usage:" in capfd.readouterr().err


@pytest.mark.parametrize("form", ["jsonl", "json", "csv", "table"])
def test_a_closed_pipe_ends_quietly(form):
    line = shlex.join([*COMMAND, "cat", str(golden.CLEAN), "--format", form])
    ran = subprocess.run(
        ["bash", "-c", f"{line} | head -c 20; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        check=False,
    )
    assert len(ran.stdout) == 20
    assert ran.stderr == b""
    assert ran.returncode == 0


@pytest.mark.parametrize("command", ["cat", "head", "tail", "find", "export"])
def test_the_maximum_batch_size_is_an_option(command, tmp_path):
    batch = kafkalog.RecordBatchBuilder(base_offset=0, codec="gzip")
    batch.append(b"key", bytes(100_000), timestamp=1)
    path = tmp_path / "a.log"
    path.write_bytes(batch.build())
    more = {"find": ("--key-pattern", "k"), "export": (tmp_path / "out.jsonl",)}
    options = (command, path, *more.get(command, ()), "--max-batch-bytes")
    assert call(*options, 200_000).exit_code == 0
    refused = call(*options, 50_000, *(["--overwrite"] if command == "export" else []))
    assert refused.exit_code == 1
    assert f"decompresses to more than max_batch_bytes allows: {path}" in refused.stderr
    assert call(*options, 0).exit_code == 2
    assert call(*options, (1 << 30) + 1).exit_code == 2


def run_in_shell(line):
    """Run a command in a shell, with redirections."""
    return subprocess.run(["sh", "-c", line], capture_output=True, check=False)


@pytest.mark.parametrize(
    "arguments",
    [
        *(("cat", ORDERS, "--format", form) for form in ("jsonl", "json", "csv")),
        ("cat", ORDERS, "--format", "table"),
        ("ls", ORDERS),
        ("head", "-n", "1", ORDERS),
        ("tail", "-f", ORDERS),
        ("verify", ORDERS, "--format", "json"),
        ("dump", "--files", ORDERS / "00000000000000000000.log"),
        ("dump", ORDERS, "--format", "jsonl"),
    ],
)
def test_a_closed_standard_output_is_reported_in_a_line(arguments):
    line = shlex.join([*COMMAND, *map(str, arguments)])
    ran = run_in_shell(f"{line} >&-")
    assert ran.stderr == b"kafkalog: Bad file descriptor: standard output\n"
    assert ran.returncode == 3


def test_a_full_disk_at_standard_output_is_reported_in_a_line():
    for count in ("1", "1000"):
        line = shlex.join([*COMMAND, "head", "-n", count, str(golden.CLEAN)])
        ran = run_in_shell(f"{line} >/dev/full")
        assert ran.stderr == b"kafkalog: No space left on device\n"
        assert ran.returncode == 3


def test_commands_that_print_nothing_need_no_streams(tmp_path):
    line = shlex.join([*COMMAND, "export", str(ORDERS), str(tmp_path / "out.jsonl")])
    assert run_in_shell(f"{line} >&- 2>&-").returncode == 0
    assert (tmp_path / "out.jsonl").stat().st_size
    line = shlex.join([*COMMAND, "verify", str(ORDERS), "--format", "json"])
    assert run_in_shell(f"{line} 2>&-").returncode == 0


def test_an_interrupt_ends_with_130(tmp_path):
    big = tmp_path / "big.log"
    with big.open("wb") as file:
        for offset in range(20):
            batch = kafkalog.RecordBatchBuilder(base_offset=offset)
            batch.append(None, b"x" * 100_000, timestamp=1)
            file.write(batch.build())
    process = subprocess.Popen(
        [*COMMAND, "cat", *[str(big)] * 50],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.read(1)  # it runs, and soon waits for its output to be read
    process.send_signal(signal.SIGINT)
    _, text = process.communicate()
    assert process.returncode == 130
    assert b"Traceback" not in text


def test_python_m_is_the_command_line():
    assert run("ls", ORDERS).stdout.decode() == call("ls", ORDERS).stdout


def test_the_help_names_every_column_in_order():
    text = " ".join(call("cat", "--help").output.split())
    names = text.partition("separated by commas: ")[2].partition(". --isolation")[0]
    names = names.replace(" (the default)", "")
    assert tuple(names.split(". ")[0].rstrip(".").split(", ")) == COLUMNS


def test_data_is_utf8_in_any_locale():
    ran = run("cat", ORDERS, env={"LC_ALL": "C", "PYTHONUTF8": "0", "PATH": ""})
    assert ran.returncode == 0
    assert "ünïcödé" in ran.stdout.decode()


@pytest.mark.parametrize("name", golden_data.SETS)
def test_every_reading_command_succeeds_on_every_golden_directory(name):
    for command in READERS:
        ran = call(command, golden_data.logs(name), "--format", "table")
        assert (ran.exit_code, ran.stderr) == (0, "")


@pytest.mark.parametrize("command", READERS)
def test_an_unreadable_path_is_found_by_reading_it(command, monkeypatch):
    before = call(command, ORDERS).exit_code
    monkeypatch.setattr("os.access", lambda *_: False)  # root may read everything
    assert call(command, ORDERS).exit_code == before == 0


SECRET = "AKIAKEY:hunter2@bucket/logs"
LOCAL = ["compact", "dump", "preflight", "repair", "verify", "whatif", "why"]
URLS = [
    *([name, f"s3://{SECRET}"] for name in LOCAL),
    ["export", ORDERS, f"s3://{SECRET}/out.parquet"],
    ["restore", ORDERS, f"s3://{SECRET}/copy"],
    ["dump", "--files", f"{ORDERS},s3://{SECRET}"],
    ["dump", f"--files=s3://{SECRET}"],
    ["dump", f"-files=s3://{SECRET}", "--max-bytes", "1", "--max-bytes", "2"],
]


@pytest.mark.parametrize("arguments", URLS)
def test_a_url_for_a_local_path_is_rejected_and_not_shown(arguments):
    ran = run(*arguments)
    assert ran.returncode == 2
    shown = (ran.stdout + ran.stderr).decode()
    assert "s3:// URL, expected a local path" in shown
    assert not any(part in shown for part in ("AKIAKEY", "hunter2", "bucket"))


@pytest.mark.parametrize(
    "arguments",
    [
        [f"s3://{SECRET}"],
        ["import", ORDERS, "out", f"s3://{SECRET}"],
        ["ls", ORDERS, "--topic", f"s3://{SECRET}"],
        ["tail", ORDERS, "-n", f"s3://{SECRET}"],
        ["cat", ORDERS, f"--s3://{SECRET}"],
    ],
)
def test_a_url_in_any_argument_is_not_shown(arguments):
    ran = run(*arguments)
    assert ran.returncode in (2, 3)
    shown = (ran.stdout + ran.stderr).decode()
    assert "s3://..." in shown
    assert not any(part in shown for part in ("AKIAKEY", "hunter2", "bucket"))
