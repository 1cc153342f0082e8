"""Peers that may not be installed: benchmarks that need them are skipped."""

from __future__ import annotations

import importlib.util

import pytest


def needs(module: str, package: str | None = None) -> pytest.MarkDecorator:
    """Skip a benchmark, with the reason, if `module` is not installed."""
    there = importlib.util.find_spec(module) is not None
    return pytest.mark.skipif(not there, reason=f"{package or module} is not installed")
