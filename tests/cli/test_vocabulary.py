"""One word has one meaning: the tables in docs/cli.md, commands and functions."""

import inspect
import re
from pathlib import Path

import click
import pytest

import kafkalog
from kafkalog.cli.main import COMMANDS, group
from kafkalog.copies.log_import import import_logs
from kafkalog.copies.record_selection import RecordFilters
from kafkalog.export.delta_table import append_new
from kafkalog.export.file_export import write_files
from kafkalog.query.scan import ScanArguments
from kafkalog.values.value_decoding import DecodeArguments

PAGE = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
WORDS = PAGE.partition("\n## Words\n")[2].partition("\n## ")[0]
ROW = re.compile(r"^\| (?!option|in Python|-)(.*) \|$", re.MULTILINE)
ROWS = [row.split(" | ") for row in ROW.findall(WORDS)]
OPTIONS = [row for row in ROWS if len(row) == 4]
PYTHON_ONLY = [row for row in ROWS if len(row) == 2]
OF_KAFKA = "dump"
"""The command whose options are those of kafka-dump-log, but ``--format``."""

FUNCTIONS = {
    name: function
    for name in kafkalog.__all__
    if inspect.isfunction(function := getattr(kafkalog, name))
} | {
    "write_files": write_files,
    "append_new": append_new,
    "import_logs": import_logs,
}
KEYWORDS = {
    "ScanArguments": ScanArguments,
    "RecordFilters": RecordFilters,
    "DecodeArguments": DecodeArguments,
}
OTHER_DEFAULTS = {
    ("head", "--limit"),
    ("tail", "--limit"),
    ("stats", "--control-records"),
}
"""Commands in which an option has another default, which its help shows."""

ARE_DRY = {("compact", "--dry-run"), ("repair", "--dry-run")}
"""Commands that change nothing by default, and whose functions need no word for it."""


ARE_PRINTED = {
    ("latest", name)
    for name in ("--key-format", "--value-format", "--schemas", "--schema")
}
"""Options of how values are printed; in Python `kafkalog.values.decode` has them."""


def named_in(cell):
    return re.findall(r"`([^`]+)`", cell)


OPTIONS_OF = {
    name: row for row in OPTIONS for name in named_in(row[0]) if name.startswith("-")
}
PARAMETERS = {name: row for row in OPTIONS for name in named_in(row[2])} | {
    name: row for row in PYTHON_ONLY for name in named_in(row[0])
}


def _options():
    """Yield each option of each command."""
    for command in COMMANDS:
        for option in group.get_command(None, command).params:
            name = longest(option)
            is_ours = command != OF_KAFKA or name == "--format"
            if isinstance(option, click.Option) and is_ours:
                yield pytest.param(command, option, id=f"{command} {name}")


def longest(option):
    return max(option.opts, key=len)


OPTION_CASES = [*_options()]


def value_of(option):
    """Return the kind of an option's value, as the table names it."""
    if option.is_flag:
        return "flag"
    if isinstance(option.type, click.Choice):
        kind = "choice"
    elif option.metavar is not None:
        kind = f"`{option.metavar}`"
    else:
        numbers = (click.types.IntParamType, click.types.IntRange)
        kind = "`N`" if isinstance(option.type, numbers) else str(option.type)
    return f"{kind}, repeated" if option.multiple else kind


@pytest.mark.parametrize(("command", "option"), OPTION_CASES)
def test_an_option_has_the_names_and_the_value_of_the_table(command, option):
    row = OPTIONS_OF[longest(option)]
    of_others = [] if command == "export" else ["--to"]
    names = {name for name in named_in(row[0]) if name.startswith("-")}
    assert {*option.opts} == names.difference(of_others)
    assert value_of(option) == row[1]


def test_an_option_has_one_default():
    found = {}
    for command, option in (param.values for param in OPTION_CASES):
        name = longest(option)
        if (command, name) not in OTHER_DEFAULTS and not option.required:
            default = None if option.multiple else option.default
            found.setdefault(name, set()).add(str(default))
    assert {name: some for name, some in found.items() if len(some) > 1} == {}


def _parameters():
    """Yield each parameter of each public function, those of ``**options`` included."""
    for name, function in FUNCTIONS.items():
        for parameter in inspect.signature(function).parameters.values():
            options = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
            if options is None:
                yield name, parameter.name
            else:
                yield from ((name, key) for key in KEYWORDS[options[1]].__annotations__)


PARAMETER_CASES = [*_parameters()]


@pytest.mark.parametrize(("function", "parameter"), PARAMETER_CASES)
def test_a_parameter_is_in_the_table(function, parameter):
    assert parameter in PARAMETERS


def test_a_parameter_has_one_default():
    found = {}
    for function in FUNCTIONS.values():
        for parameter in inspect.signature(function).parameters.values():
            if parameter.default is not parameter.empty:
                found.setdefault(parameter.name, set()).add(repr(parameter.default))
    assert {name: some for name, some in found.items() if len(some) > 1} == {}


def test_an_option_of_a_command_is_a_parameter_of_its_function():
    missing = {
        (command, name)
        for command in COMMANDS
        if command in FUNCTIONS
        for name in map(longest, group.get_command(None, command).params)
        if name.startswith("--") and OPTIONS_OF[name][2].strip()
        if not {*named_in(OPTIONS_OF[name][2])}
        & {parameter for function, parameter in PARAMETER_CASES if function == command}
    }
    assert missing == ARE_DRY | ARE_PRINTED


def test_each_word_of_the_tables_is_used():
    used = {longest(option) for _, option in (param.values for param in OPTION_CASES)}
    assert {row[0] for row in OPTIONS if not used & {*named_in(row[0])}} == set()
    names = {parameter for _, parameter in PARAMETER_CASES}
    assert set(PARAMETERS) - names == set()
