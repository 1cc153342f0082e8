"""Where crash states are built."""

import shutil
import tempfile
from pathlib import Path

import pytest

MEMORY = Path("/dev/shm")


@pytest.fixture
def memory_path(tmp_path):
    """A directory that costs no disk, where there is such a one."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="kafkalog-crash-", dir=MEMORY))
    yield path
    shutil.rmtree(path)


@pytest.fixture
def roots(memory_path):
    """Two empty directories: of what is told, and of what is left of it."""
    roots = memory_path / "told", memory_path / "left"
    for root in roots:
        root.mkdir()
    return roots
