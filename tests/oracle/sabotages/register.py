"""What a sabotage is, and where each is entered.

A sabotage takes one rule out of the engine, and says what has to find that out. Its
docstring says what is done in place of the rule.

Knows: how a rule is taken out. Does not know: which rules there are.
"""

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from kafkalog.log import appending
from kafkalog.validation import append_analysis, leader_validation

Patch = pytest.MonkeyPatch
TESTS = Path(__file__).parents[2]


@dataclass(frozen=True)
class Made:
    """What a test is given that is made of its empty directory."""

    make: Callable[[Path], Any]


@dataclass(frozen=True)
class Sabotage:
    """One rule, in words, and how to take it out.

    `found_by` is the name of a scenario, or a test. What a test asks for is `given`,
    but for fixtures of pytest's own.
    """

    rule: str
    take_out: Callable[[Patch], None]
    found_by: str | Callable[..., None]
    given: dict[str, Any]

    @property
    def finder(self):
        """Name the scenario, or the test as ``room/test_x.py::test_y``."""
        if isinstance(self.found_by, str):
            return self.found_by
        path = Path(self.found_by.__code__.co_filename).relative_to(TESTS)
        return f"{path.as_posix()}::{self.found_by.__name__}"

    def run_test(self, tmp_path, monkeypatch):
        """Run the test that has to find this out."""
        asked = signature(self.found_by).parameters
        fixtures = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
        made = {
            name: one.make(tmp_path) if isinstance(one, Made) else one
            for name, one in self.given.items()
        }
        passed = {name: one for name, one in fixtures.items() if name in asked}
        self.found_by(**passed, **made)


SABOTAGES: list[Sabotage] = []


def sabotage(rule, found_by, **given):
    """Enter the function below as what takes a rule out."""

    def enter(take_out):
        SABOTAGES.append(Sabotage(rule, take_out, found_by, given))
        return take_out

    return enter


def one_by_one(patch):
    """Let each append take the general step, and be validated in Python.

    Kernels validate and plan ordinary appends together; what is left is the same.
    """
    patch.setattr(appending, "write_run", lambda log, appends, first, terms: first)
    patch.setattr(append_analysis, "accept_all", lambda *_: None)
    patch.setattr(leader_validation, "accept_all", lambda *_: None)
    patch.setattr(leader_validation, "_accepts_records", lambda *_: False)


def nothing(*_, **__):
    """Stand for what would have been done."""
