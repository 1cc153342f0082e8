"""Where nothing is found or done, standard error says so."""

import pytest

import kafkalog

from . import golden
from .shell import call

LOGS = golden.CLEAN
ORDERS = LOGS / "orders.zstd-0"
NONE = "no record found, partitions and files searched: 1"


@pytest.fixture(scope="module")
def empty(tmp_path_factory):
    """Return a log directory with a partition that has no record."""
    place = tmp_path_factory.mktemp("silence") / "logs"
    with kafkalog.open(place / "t-0", "a"):
        pass
    return place


CASES = [
    (("cat", "empty"), NONE),
    (("head", "empty"), NONE),
    (("tail", "empty"), NONE),
    (("find", "empty", "--offset", "1"), NONE),
    (("cat", ORDERS, "--start-offset", "9999"), NONE),
    (("head", ORDERS, "--start-timestamp", "2030-01-01T00:00Z"), NONE),
    (("cat", LOGS, "--exclude-topic", "*"), "partitions and files searched: 0"),
    (("stats", "empty"), "0 groups by topic: 0 records, 0 bytes"),
    (("txns", ORDERS), "no transaction found"),
    (("txns", LOGS, "--state", "hanging"), "no transaction found: hanging"),
    (("ls", LOGS, "--exclude-topic", "*"), "logs: 0 partitions, 0 B"),
    (("verify", ORDERS), "212 records: 0 errors, 0 warnings"),
    (("restore", LOGS, "--prove", "--exclude-key", "absent"), "0 found in "),
    (
        ("groups", LOGS, "--group", "readers-txm"),
        "no committed offset of group readers-txm; did you mean readers-txn?",
    ),
    (
        ("lag", LOGS, "--topic", "zzz*"),
        "no committed offset of topic zzz*; there are orders.gzip, orders.none",
    ),
    (("groups", LOGS, "--at", "2020-01-01T00:00Z"), "no committed offset"),
    (("repair", ORDERS), "nothing changed: no problem found"),
    (("export", "empty", "new.csv"), "0 records, 1 file"),
]


@pytest.mark.parametrize("form", ["jsonl", "csv"])
@pytest.mark.parametrize(("command", "message"), CASES)
def test_it_is_said_that_nothing_was_found(command, message, form, empty, tmp_path):
    places = {"empty": empty, "new.csv": tmp_path / "new.csv"}
    arguments = [places.get(each, each) for each in command]
    if command[0] != "export":
        arguments += ["--format", form]
    ran = call(*arguments)
    assert ran.exit_code == 0
    assert len(ran.stdout.splitlines()) <= (form == "csv")
    assert message in ran.stderr


@pytest.mark.parametrize(
    "command",
    [
        ("verify", ORDERS, "--quiet"),
        ("head", ORDERS),
        ("head", ORDERS, "--limit", "0"),
        ("ls", LOGS),
        ("groups", LOGS, "--group", "readers-txn"),
        ("txns", LOGS),
    ],
)
def test_nothing_else_is_said(command):
    assert call(*command).stderr == ""


def test_one_of_several_groups_that_is_missing_is_named():
    ran = call("lag", LOGS, "--group", "readers-txn", "--group", "raeders-last")
    assert len(ran.stdout.splitlines()) == 1
    assert "of group raeders-last; did you mean readers-last?" in ran.stderr
