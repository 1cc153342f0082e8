"""Every test and scenario that a ledger names exists.

The ledgers are ``tests/peer-tests.md`` and ``tests/broken-on-purpose.md``.
"""

import re
from pathlib import Path

import pytest

from tests import oracle_data

TESTS = Path(__file__).parent
LEDGERS = ("peer-tests.md", "broken-on-purpose.md")
ROW = re.compile(r"^\|.*\| (`[^|]+`) \|$", re.MULTILINE)


def references(ledger):
    """Return the tests and scenarios in the last column of the ledger's tables."""
    text = (TESTS / ledger).read_text(encoding="utf-8")
    cells = [cell for cell in ROW.findall(text) if "pytest " not in cell]
    names = {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}
    return sorted(name for name in names if not name.startswith("test"))


def exists(reference):
    """Return whether a test has this path and name, or a scenario this name."""
    path, colons, name = reference.partition("::")
    if colons:
        return f"\ndef {name}(" in (TESTS / path).read_text(encoding="utf-8")
    return reference in oracle_data.NAMES


@pytest.mark.parametrize("ledger", LEDGERS)
def test_every_test_that_a_ledger_names_exists(ledger):
    named = references(ledger)
    assert len(named) > 50
    assert [name for name in named if not exists(name)] == []
