"""A mistyped name: the error suggests the nearest one, in Python and commands alike."""

import pytest

import kafkalog
from kafkalog.spark.read_options import parse_options
from kafkalog.spark.topic_selection import Subscribe
from tests.log.writing import batch

from . import golden
from .shell import call

LOGS = golden.CLEAN
ORDERS = LOGS / "orders.zstd-0"

MISTYPED = [
    (("hed", LOGS), None, "no such command: hed (did you mean head?)"),
    (("head", LOGS, "--topc", "x"), None, "Did you mean '--topic'?"),
    (
        ("head", LOGS, "--columns", "valeu"),
        lambda: kafkalog.scan(LOGS, columns=["valeu"]),
        "valeu (did you mean value?)",
    ),
    (
        ("stats", LOGS, "--by", "topc"),
        lambda: kafkalog.stats(LOGS, by="topc"),
        "topc (did you mean topic?)",
    ),
    (
        ("whatif", LOGS, "--set", "retention.mss=1"),
        lambda: kafkalog.whatif(LOGS, {"retention.mss": "1"}),
        "'retention.mss' (did you mean retention.ms?)",
    ),
    *(
        (
            (command, LOGS, "--topic", topic),
            lambda function=function, topic=topic: function(LOGS, topics=topic),
            "did you mean ledger?",
        )
        for command, function in {
            "cat": kafkalog.scan,
            "verify": kafkalog.verify,
            "compact": kafkalog.compact,
            "txns": kafkalog.txns,
            "stats": kafkalog.stats,
        }.items()
        for topic in ("leger", "Ledger", "legder*", "led[e]gr?")
    ),
    (
        ("restore", LOGS, "new", "--topic", "leger", "--dry-run"),
        lambda: kafkalog.restore(LOGS, "new", topics="leger", dry_run=True),
        "did you mean ledger?",
    ),
]


def described(error):
    return "\n".join((str(error), *getattr(error, "__notes__", ())))


@pytest.mark.parametrize(("command", "function", "message"), MISTYPED)
def test_the_nearest_name_is_suggested(command, function, message):
    ran = call(*command)
    assert ran.exit_code in (2, 3)
    assert message in ran.stderr
    if function is not None:
        with pytest.raises((ValueError, OSError, kafkalog.KafkaLogError)) as raised:
            function()
        assert message in described(raised.value)


def test_without_a_near_name_the_first_ones_are_listed(tmp_path):
    for name in ("a-0", "b-0", "b-2"):
        with kafkalog.open(tmp_path / name, "a") as log:
            log.append(batch())
    assert call("cat", tmp_path, "--topic", "zzz").stderr.splitlines() == [
        "kafkalog: No such topic: zzz",
        "kafkalog: there are a, b",
    ]
    assert call("cat", tmp_path, "--partition", "7").stderr.splitlines() == [
        "kafkalog: No such partition: 7",
        "kafkalog: there are 0, 2",
    ]


@pytest.mark.parametrize(
    ("option", "suggestion"),
    [
        ("topics", "topic"),
        ("startingOffset", "startingOffsets"),
        ("failondataloss_", "failOnDataLoss"),
    ],
)
def test_spark_suggests_the_nearest_option(option, suggestion):
    with pytest.raises(kafkalog.errors.ConfigError, match=f"did you mean {suggestion}"):
        parse_options({"path": "/logs", option: "1"}, streaming=False)


def test_spark_suggests_the_nearest_topic_and_column():
    with pytest.raises(kafkalog.errors.ConfigError, match=r"did you mean orders\?"):
        Subscribe(("ordesr",)).select([("orders", 0)])
    with pytest.raises(kafkalog.errors.ConfigError, match=r"did you mean value\?"):
        parse_options({"path": "/logs", "columns": "valeu"}, streaming=False)


@pytest.mark.parametrize("name", ["ordesr.zstd-0", "orders.zstd", "Orders.zstd-0"])
@pytest.mark.parametrize("command", ["ls", "info", "cat", "whatif", "compact"])
def test_a_path_that_does_not_exist_is_followed_by_a_similar_one(command, name):
    ran = call(command, LOGS / name)
    assert ran.exit_code == 3
    assert ran.stderr.splitlines() == [
        f"kafkalog: No such file or directory: {LOGS / name}",
        "kafkalog: did you mean orders.zstd-0?",
    ]
    with pytest.raises(FileNotFoundError) as raised:
        kafkalog.open(LOGS / name)
    assert raised.value.__notes__ == ["did you mean orders.zstd-0?"]


def test_a_path_in_a_directory_that_does_not_exist_has_no_advice():
    with pytest.raises(FileNotFoundError) as raised:
        kafkalog.scan(LOGS / "none" / "orders-0")
    assert not hasattr(raised.value, "__notes__")
