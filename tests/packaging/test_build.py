"""Each archive in ``dist/`` installs into an empty environment, and reads a segment."""

import os
import platform
import re
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from tests import golden_data
from tests.packaging.needs import GROUPS

pytestmark = pytest.mark.packaging

DIST = Path(__file__).parents[2] / "dist"
PACKAGES = (
    "kafkalog",
    "pyspark_kafkalog",
)  # Spark discovers data sources in the second
OWN = "cp{}{}".format(*sys.version_info)
WHEEL = f"*-{OWN}-{OWN}-*_{platform.machine()}.whl"
EMULATOR = ["qemu-aarch64", "-cpu", "max"]  # has the instructions for checksums
SEGMENT = "orders.zstd-0/00000000000000000000.log"
PROGRAM = """
import platform, sys, kafkalog, pyspark_kafkalog
chunks = kafkalog.scan(sys.argv[1], columns=["offset"]).chunks()
print(kafkalog.__file__, sum(map(len, chunks)), platform.machine())
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


def tag_of(wheel):
    """Return the tag of a wheel's Python, such as cp311."""
    return wheel.name.split("-")[2]


def pythons():
    """Return the Pythons of this machine by their tag, such as cp311."""
    listed = subprocess.run(
        ["sh", str(Path(__file__).with_name("pythons.sh"))],
        check=True,
        capture_output=True,
        text=True,
    )
    found = [line.split(" ", 1) for line in listed.stdout.splitlines()]
    tags = {"cp" + version.replace(".", ""): python for version, python in found}
    return tags | {OWN: sys.executable}


def install_in_emulator(wheel, home):
    """Install a wheel for ARM64; return the command and variables of its Python."""
    release = "3." + tag_of(wheel).removeprefix("cp3")
    platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in range(17, 37)]
    target = ["--target", str(home), "--python-version", release, *platforms]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
    subprocess.run([*pip, *target, str(wheel)], check=True, env=outside())
    root = DIST.parent / "build" / "arm64" / "root"
    python = [
        *EMULATOR,
        "-L",
        str(root),
        str(root / "usr" / "bin" / f"python{release}"),
    ]
    return python, outside() | {"PYTHONPATH": str(home)}


def install(file, home):
    """Install an archive; return the command and variables of a Python that has it."""
    if file.name.endswith("_aarch64.whl") and platform.machine() != "aarch64":
        return install_in_emulator(file, home)
    tag = tag_of(file) if file.suffix == ".whl" else OWN
    python = str(home / "bin" / "python")
    for command in (
        [pythons()[tag], "-m", "venv", str(home)],
        [python, "-m", "pip", "install", "--quiet", str(file)],
    ):
        subprocess.run(command, check=True, cwd=home.parent, env=outside())
    return [python], outside()


@pytest.mark.parametrize("name", sorted(path.name for path in DIST.glob("kafkalog-*")))
def test_an_archive_reads_a_segment_in_an_empty_environment(name, tmp_path):
    home = tmp_path / "environment"
    python, environment = install(DIST / name, home)
    path = golden_data.logs("k431-clean") / SEGMENT
    ran = subprocess.run(
        [*python, "-W", "error", "-c", PROGRAM, str(path)],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    origin, count, machine = ran.stdout.split()
    records = golden_data.truth("k431-clean", path.parent.name, "records")
    assert Path(origin).is_relative_to(home)
    assert int(count) == sum(record["file"] == path.name for record in records)
    assert name.endswith((f"_{machine}.whl", ".tar.gz"))


def test_archives_are_as_an_index_takes_them():
    files = sorted(map(str, DIST.iterdir()))
    subprocess.run(
        [sys.executable, "-m", "twine", "check", "--strict", *files], check=True
    )
    wheels = [file for file in files if file.endswith(".whl")]
    assert all("-manylinux_2_" in wheel for wheel in wheels)
    assert len(files) == len(wheels) + 1


def test_the_metadata_is_for_users_and_its_links_lead_to_this_version():
    with zipfile.ZipFile(archive(WHEEL)) as members:
        (name,) = [one for one in members.namelist() if one.endswith("/METADATA")]
        metadata = message_from_bytes(members.read(name))
    readme = metadata.get_payload()
    links = re.findall(r"\]\(([^)]*)\)", readme)
    here = f"https://github.com/kafkalog/kafkalog/blob/v{metadata['Version']}/"
    paths = [link.removeprefix(here).partition("#")[0] for link in links]
    assert len(paths) > 20
    assert [path for path in paths if not (DIST.parent / path).is_file()] == []
    assert metadata["Author"]
    assert {url.split(",")[0] for url in metadata.get_all("Project-URL")} == {
        "Changelog", "Documentation", "Issues", "Source",
    }  # fmt: skip
    assert not {*metadata.get_all("Provides-Extra")} & {*GROUPS}


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
    names = zipfile.ZipFile(archive(WHEEL)).namelist()
    kernels = list((DIST.parent / "kafkalog").rglob("*.pyx"))
    assert "kafkalog/py.typed" in names
    assert sum(name.endswith(".so") for name in names) == len(kernels)
    assert not [name for name in names if name.endswith((".c", ".pyx"))]
    assert {name.split("/")[0].split("-")[0] for name in names} == set(PACKAGES)
