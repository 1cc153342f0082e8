"""The list of settings: Kafka's, and that of the documentation."""

import re
from pathlib import Path

import pytest

from kafkalog import BrokerConfig, LogConfig
from kafkalog.codecs.compression import LEVELS, Codec
from kafkalog.config.broker_config import SYNONYMS
from kafkalog.config.settings import settings_of
from tests.config import recorded

PAGE = Path(__file__).parents[2] / "docs" / "config.md"
ROW = re.compile(
    r"^\| `([a-z0-9.]+)` \| (boolean|int|long|double|string|list) \| (.*) \|$"
)
TOPIC, BROKER = settings_of(LogConfig), settings_of(BrokerConfig)


def table(owner):
    """Return the rows of the page's table: cells after the name, no backticks."""
    section = PAGE.read_text(encoding="utf-8").split(f"## A {owner}'s settings")[1]
    section = section.split("\n## ")[0]
    rows = [match for line in section.splitlines() if (match := ROW.match(line))]
    return {
        name: [kind, *(cell.strip().replace("`", "") for cell in cells.split(" | "))]
        for name, kind, cells in (row.groups() for row in rows)
    }


def written(each):
    """Return what the page states about a setting: type, default, valid values."""
    default = "unset" if each.default is None else each.text(each.default) or "empty"
    return [each.kind.value, default, str(each.valid) if each.valid else ""]


def same_double(one, other):
    return None not in (one, other) and float(one) == float(other)


@pytest.mark.parametrize(
    ("owner", "ours"), [("topic", TOPIC), ("broker", BROKER)], ids=["topic", "broker"]
)
def test_names_types_defaults_and_checks_are_kafkas(owner, ours):
    theirs = recorded.definitions_of(owner)
    assert ours.keys() == theirs.keys()
    for name, each in ours.items():
        their = theirs[name]
        text = None if each.default is None else each.text(each.default)
        assert each.kind.name == their["type"]
        assert text == their["default"] or (
            their["type"] == "DOUBLE" and same_double(text, their["default"])
        ), name
        assert (str(each.valid) if each.valid else None) == their["valid"], name
        assert each.internal == their["internal"], name


def test_the_brokers_names_for_topic_settings_are_kafkas():
    theirs = recorded.definitions_of("synonyms")
    assert {name: tuple(each["names"]) for name, each in theirs.items()} == SYNONYMS


def test_a_default_is_equal_to_its_parsed_text():
    for each in [*TOPIC.values(), *BROKER.values()]:
        assert each.parse(each.default) == each.default
        if each.default is not None:
            assert each.parse(each.text(each.default)) == each.default


def test_the_levels_of_codecs_match_their_settings():
    for codec, (least, most) in LEVELS.items():
        valid = TOPIC[f"compression.{codec.name.lower()}.level"].valid
        lowest = valid.apart if codec == Codec.GZIP else valid.least
        assert (lowest, valid.most) == (least, most)


def test_the_page_lists_a_topics_settings_with_the_brokers_names():
    rows = table("topic")
    assert list(rows) == list(TOPIC)
    for name, each in TOPIC.items():
        assert rows[name][:-1] == [*written(each), ", ".join(SYNONYMS.get(name, ()))]


def test_the_page_lists_a_brokers_settings():
    rows = table("broker")
    assert list(rows) == list(BROKER)
    for name, each in BROKER.items():
        assert rows[name][:-1] == written(each)


def test_each_setting_of_the_page_has_a_meaning():
    rows = [*table("topic").values(), *table("broker").values()]
    assert all(len(row[-1]) > 8 for row in rows)
