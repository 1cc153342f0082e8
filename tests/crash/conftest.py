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
