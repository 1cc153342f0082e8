"""The page of rules that are broken on purpose: what it names is there, and is run."""

import re
from collections import Counter
from inspect import getdoc
from pathlib import Path

import pytest

from tests.oracle.sabotages.register import SABOTAGES
from tests.oracle.test_scenarios_bite import PARTS
from tests.test_peer_tests import is_there

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "broken-on-purpose.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| (?!the rule)([^|]+) \| ([^|]+) \| ([^|]*`) \|$", PAGE, re.MULTILINE
)
SABOTAGE = "sabotage: "
LINES = sum(line.startswith("| ") for line in PAGE.splitlines())
TABLES = PAGE.count("\n## ")


def test_every_line_of_a_table_is_read():
    assert len(ROWS) == LINES - TABLES


def test_every_part_has_sabotages():
    entered = {one.take_out.__module__ for one in SABOTAGES}
    assert entered == {part.__name__ for part in PARTS}


@pytest.mark.parametrize(("rule", "tests"), [(row[0], row[2]) for row in ROWS])
def test_what_finds_out_is_there(rule, tests):
    references = re.findall(r"`([^`]+)`", tests)
    assert references
    assert [one for one in references if not is_there(one)] == []


def test_a_rule_stands_once():
    assert Counter(rule for rule, _, _ in ROWS).most_common(1)[0][1] == 1


def test_the_page_has_every_sabotage_and_no_other():
    told = [row for row in ROWS if row[2].startswith(SABOTAGE)]
    done = [
        (one.rule, getdoc(one.take_out), f"{SABOTAGE}`{one.finder}`")
        for one in SABOTAGES
    ]
    assert sorted(told) == sorted(done)


def test_the_test_of_sabotages_is_named():
    name = re.search(r"`(oracle/test_scenarios_bite.py::\w+)`", PAGE)[1]
    assert is_there(name)
