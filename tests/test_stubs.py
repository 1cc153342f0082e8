"""Each kernel has a stub, and the stub says what was built."""

import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog

CELLAR = Path(kafkalog.__file__).parent / "_speedups"
SETTINGS = Path(__file__).parents[1] / "pyproject.toml"
KERNELS = sorted(CELLAR.glob("*.pyx"))

# What Cython adds to every module, for itself and for other kernels.
ALLOWED = r"""
kafkalog\._speedups\..*\.__pyx_capi__
kafkalog\._speedups\..*\.__test__
kafkalog\._speedups\..*\.__reduce_cython__
kafkalog\._speedups\..*\.__setstate_cython__
"""


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.stem)
def test_a_kernel_has_a_stub_and_a_build(path):
    assert path.with_suffix(".pyi").exists()
    assert list(CELLAR.glob(f"{path.stem}.*.so"))


def test_the_stubs_agree_with_the_build(tmp_path):
    allowed = tmp_path / "allowed.txt"
    allowed.write_text(ALLOWED)
    stubtest = [sys.executable, "-m", "mypy.stubtest", "kafkalog._speedups"]
    options = ["--concise", "--ignore-unused-allowlist", "--allowlist", str(allowed)]
    options += ["--mypy-config-file", str(SETTINGS)]
    run = subprocess.run(
        [*stubtest, *options],
        cwd=CELLAR.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
