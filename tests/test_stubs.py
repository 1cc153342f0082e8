"""Each extension module has a stub that agrees with its build."""

import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog

PACKAGE = Path(kafkalog.__file__).parent
SOURCES = sorted(PACKAGE.rglob("*.pyx"))
MODULES = ["kafkalog._speedups", "kafkalog.storage.system_calls"]

# Names that Cython adds to every module.
ALLOWED = r"""
kafkalog\..*\.__pyx_capi__
kafkalog\..*\.__test__
kafkalog\..*\.__reduce_cython__
kafkalog\..*\.__setstate_cython__
"""

# The stubs alone are checked: they import no other module of the package.
SETTINGS = """
[mypy]
strict = True
[mypy-kafkalog.*]
follow_imports = skip
[mypy-kafkalog._speedups.*]
follow_imports = normal
"""


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_an_extension_module_has_a_stub_and_a_build(path):
    assert path.with_suffix(".pyi").exists()
    assert list(path.parent.glob(f"{path.stem}.*.so"))


def test_every_extension_module_is_compared_with_its_stub():
    names = [
        ".".join(("kafkalog", *path.relative_to(PACKAGE).with_suffix("").parts))
        for path in SOURCES
    ]
    assert all(name.startswith(tuple(MODULES)) for name in names)


def test_the_stubs_agree_with_the_build(tmp_path):
    allowed = tmp_path / "allowed.txt"
    allowed.write_text(ALLOWED)
    settings = tmp_path / "mypy.ini"
    settings.write_text(SETTINGS)
    stubtest = [sys.executable, "-m", "mypy.stubtest", *MODULES]
    options = ["--concise", "--ignore-unused-allowlist", "--allowlist", str(allowed)]
    options += ["--mypy-config-file", str(settings)]
    run = subprocess.run(
        [*stubtest, *options],
        cwd=PACKAGE.parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
