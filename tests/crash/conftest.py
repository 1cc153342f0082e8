"""Directories for crash states."""

import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def memory_path(tmp_path):
    """Return a directory in memory, if there is a file system in memory."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="kafkalog-crash-", dir=MEMORY))
    yield path
    shutil.rmtree(path)


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
