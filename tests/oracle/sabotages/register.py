"""The list of sabotages, each of which removes one rule from the engine.

A sabotage names the scenario or test that must then fail. Its docstring states the
behaviour without the rule.
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


@dataclass(frozen=True)
class Built:
    """An argument of a test that is built from its empty directory."""

    build: Callable[[Path], Any]


@dataclass(frozen=True)
class Sabotage:
    """One rule, in words, and a function that removes it.

    `found_by` is the name of a scenario, or a test. `arguments` are those of the test,
    without the fixtures of pytest.
    """

    rule: str
    remove_rule: Callable[[Patch], None]
    found_by: str | Callable[..., None]
    arguments: dict[str, Any]

    def run_test(self, tmp_path, monkeypatch):
        """Run the test that must fail."""
        parameters = signature(self.found_by).parameters
        fixtures = {"tmp_path": tmp_path, "monkeypatch": monkeypatch}
        arguments = {
            name: value.build(tmp_path) if isinstance(value, Built) else value
            for name, value in self.arguments.items()
        }
        passed = {name: fixtures[name] for name in fixtures if name in parameters}
        self.found_by(**passed, **arguments)


SABOTAGES: list[Sabotage] = []


def sabotage(rule, found_by, **arguments):
    """Add the decorated function to the list as the one that removes a rule."""

    def add(remove_rule):
        SABOTAGES.append(Sabotage(rule, remove_rule, found_by, arguments))
        return remove_rule

    return add


def disable_fast_path(patch):
    """Make each append take the general step, and validate it in Python.

    Otherwise kernels validate and plan ordinary appends together, with equal results.
    """
    patch.setattr(appending, "write_run", lambda log, appends, first, terms: first)
    patch.setattr(append_analysis, "accept_all", lambda *_: None)
    patch.setattr(leader_validation, "accept_all", lambda *_: None)
    patch.setattr(leader_validation, "_accepts_records", lambda *_: False)


def do_nothing(*_, **__):
    """Replace a function that has an effect."""
