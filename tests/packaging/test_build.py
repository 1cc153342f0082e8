"""Each archive in ``dist/`` installs into an empty environment, and reads a segment."""

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests import golden_data

pytestmark = pytest.mark.packaging

DIST = Path(__file__).parents[2] / "dist"
PACKAGES = (
    "kafkalog",
    "pyspark_kafkalog",
)  # Spark discovers data sources in the second
SEGMENT = "orders.zstd-0/00000000000000000000.log"
PROGRAM = """
import sys, kafkalog, pyspark_kafkalog
chunks = kafkalog.scan(sys.argv[1], columns=["offset"]).chunks()
print(kafkalog.__file__, sum(len(records) for records in chunks))
"""


def archive(pattern):
    found = list(DIST.glob(pattern))
    assert len(found) == 1, f"{pattern} in {DIST}: {found}; make build makes them"
    return found[0]


def outside():
    """Return an environment in which nothing of this checkout is importable.

    Kernels are compiled without optimization, which takes a quarter of the time.
    """
    environment = os.environ | {"CFLAGS": "-O0"}
    environment.pop("PYTHONPATH", None)
    return environment


@pytest.mark.parametrize("pattern", ["*.whl", "*.tar.gz"])
def test_an_archive_reads_a_segment_in_an_empty_environment(pattern, tmp_path):
    home = tmp_path / "environment"
    python = str(home / "bin" / "python")
    for command in (
        [sys.executable, "-m", "venv", str(home)],
        [python, "-m", "pip", "install", "--quiet", str(archive(pattern))],
    ):
        subprocess.run(command, check=True, cwd=tmp_path, env=outside())
    path = golden_data.logs("k431-clean") / SEGMENT
    ran = subprocess.run(
        [python, "-W", "error", "-c", PROGRAM, str(path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=outside(),
    )
    origin, count = ran.stdout.split()
    records = golden_data.truth("k431-clean", path.parent.name, "records")
    assert Path(origin).is_relative_to(home)
    assert int(count) == sum(record["file"] == path.name for record in records)


def test_the_source_archive_has_all_that_compiles():
    with tarfile.open(archive("*.tar.gz")) as members:
        names = {name.split("/", 1)[-1] for name in members.getnames()}
    sources = [
        path.relative_to(DIST.parent).as_posix()
        for package in PACKAGES
        for suffix in ("py", "pyi", "pyx", "pxd", "h", "json")
        for path in (DIST.parent / package).rglob(f"*.{suffix}")
    ]
    assert "pyspark_kafkalog/__init__.py" in sources
    assert {*sources, "LICENSE", "README.md", "setup.py"} <= names
    assert not [name for name in names if name.endswith((".so", ".c"))]


def test_the_wheel_has_kernels_types_and_no_generated_source():
    names = zipfile.ZipFile(archive("*.whl")).namelist()
    kernels = list((DIST.parent / "kafkalog").rglob("*.pyx"))
    assert "kafkalog/py.typed" in names
    assert sum(name.endswith(".so") for name in names) == len(kernels)
    assert not [name for name in names if name.endswith((".c", ".pyx"))]
    assert {name.split("/")[0].split("-")[0] for name in names} == set(PACKAGES)
