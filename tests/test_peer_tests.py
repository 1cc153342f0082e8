"""The page of Kafka's own tests: what it names is there, and is run."""

import re
from pathlib import Path

import pytest

from tests import oracle_data

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "peer-tests.md").read_text(encoding="utf-8")
LINES = re.findall(r"^\| `(\w+)` \| .* \| (.*) \|$", PAGE, re.MULTILINE)
NOT_APPLICABLE = re.findall(r"^Not applicable: .*\n\n(.*)$", PAGE, re.MULTILINE)
STARRED = 158


def is_there(reference):
    """Whether a reference is that of a test, or of a scenario that is played."""
    path, colons, name = reference.partition("::")
    if colons:
        return f"\ndef {name}(" in (TESTS / path).read_text(encoding="utf-8")
    steps = oracle_data.steps(reference) if reference in oracle_data.NAMES else ()
    return bool(steps) and all(step.get("op") != "compact" for step in steps)


@pytest.mark.parametrize(("theirs", "ours"), LINES)
def test_what_covers_a_test_of_kafkas_is_there(theirs, ours):
    references = re.findall(r"`([^`]+)`", ours)
    assert references
    assert [one for one in references if not is_there(one)] == []


def test_none_is_left_out():
    others = re.findall(r"`\w+`", " ".join(NOT_APPLICABLE))
    assert len(LINES) + len(others) == STARRED


def test_what_is_not_there_is_told():
    assert not is_there("log/test_log.py::test_nothing")
    assert not is_there("no-scenario")
    assert not is_there("compaction-tombstones")
