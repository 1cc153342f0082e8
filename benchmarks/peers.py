"""Peers that may not be installed: what needs them is left out, by name."""

from __future__ import annotations

import importlib.util

import pytest


def needs(module: str, package: str | None = None) -> pytest.MarkDecorator:
    """Leave a benchmark out, saying why, where `module` is not there."""
    there = importlib.util.find_spec(module) is not None
    return pytest.mark.skipif(not there, reason=f"{package or module} is not installed")
