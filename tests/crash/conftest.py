"""Directories for crash states."""

import pytest


def make_roots(path):
    """Make two empty directories: to record a workload, and to check states."""
    roots = path / "recorded", path / "left"
    for root in roots:
        root.mkdir()
    return roots


@pytest.fixture
def roots(memory_path):
    """Return the directories of `make_roots`, in memory."""
    return make_roots(memory_path)
