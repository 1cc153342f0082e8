"""Options of the release before: each ends with an error that names the new one."""

import pytest

from kafkalog.cli.main import group
from kafkalog.cli.renamed_options import RENAMED

from . import golden
from .shell import call

ORDERS = golden.CLEAN / "orders.zstd-0"
SEGMENT = ORDERS / "00000000000000000000.log"
OPTIONS = [
    (command, old, new)
    for command, names in RENAMED.items()
    for old, new in names.items()
]


@pytest.mark.parametrize(("command", "old", "new"), OPTIONS)
def test_an_old_option_names_the_new_one(command, old, new):
    ran = call(command, ORDERS, old, "x")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"Error: {old} of {command} is {new} now" in ran.stderr


@pytest.mark.parametrize(("command", "old", "new"), OPTIONS)
def test_the_new_option_of_an_old_one_exists(command, old, new):
    known = [
        name
        for option in group.get_command(None, command).params
        for name in (*option.opts, *option.secondary_opts, option.human_readable_name)
    ]
    words = new.replace(",", " ").split()
    assert {word for word in words if word.startswith("--")} <= {*known}
    assert old not in known


@pytest.mark.parametrize("command", ["whatif", "why"])
def test_a_setting_is_no_argument_any_more(command):
    path = SEGMENT if command == "why" else ORDERS
    ran = call(command, path, "retention.ms=1")
    assert ran.exit_code == 2
    assert "settings are --set NAME=VALUE now" in ran.stderr


@pytest.mark.parametrize("command", ["cat", "head", "tail", "export", "compact"])
def test_a_command_stops_at_corrupt_data_and_raises_nothing(command, tmp_path):
    more = [tmp_path / "out"] if command == "export" else []
    ran = call(command, ORDERS, *more, "--on-corruption", "raise")
    assert ran.exit_code == 2
    assert "'raise' is 'stop' now" in ran.stderr


def test_short_names_of_reading_commands_stay():
    options = ORDERS, "--isolation", "read_committed", "-n", 2
    assert call("cat", *options).stdout
    assert (
        call("cat", *options).stdout
        == call(
            "cat", ORDERS, "--isolation-level", "read_committed", "--limit", 2
        ).stdout
    )


def test_the_format_of_an_export_may_be_named_with_to(tmp_path):
    for option in ("--to", "--format"):
        out = tmp_path / option.strip("-")
        assert call("export", ORDERS, out, option, "jsonl").exit_code == 0
    [first], [second] = (sorted(tmp_path.glob(f"{n}/*/*/*")) for n in ("to", "format"))
    assert first.read_bytes() == second.read_bytes()
