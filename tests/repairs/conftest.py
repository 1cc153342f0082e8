"""A directory in memory, where flushes take no time."""

import tempfile
from pathlib import Path

import pytest

from tests import golden_data

MEMORY = Path("/dev/shm")


@pytest.fixture
def memory(monkeypatch, tmp_path):
    """Return an empty directory in memory; temporary files are there as well."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    for name in golden_data.SETS:
        golden_data.logs(name)  # unpacked before, as the directory is removed
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        inside = Path(place, "place")
        inside.mkdir()
        yield inside
