"""A source tree without compiled kernels says so when its kernels are imported."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog

PACKAGE = Path(kafkalog.__file__).parent
USES = (
    "import kafkalog; kafkalog.scan",
    "from kafkalog import open",
    "import kafkalog._speedups.crc32c",
    "import kafkalog.log.log",
)


def copied(root, *endings):
    """Copy the package into `root`, its files of some endings aside."""
    ignored = shutil.ignore_patterns("__pycache__", *endings)
    shutil.copytree(PACKAGE, root / "kafkalog", ignore=ignored)
    return root


def run(program, tree):
    """Run `program` where somebody stands who has changed into `tree`."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("program", USES)
def test_an_uncompiled_source_tree_says_what_to_do(program, tmp_path):
    tree = copied(tmp_path, "*.so")
    ran = run(program, tree)
    *_, message = ran.stderr.splitlines()
    assert ran.returncode == 1
    assert message.startswith("ImportError: the kernels are not compiled for Python ")
    assert f"in this source tree, {tree}: run `make compile`" in message
    assert "or start Python in another directory" in message
    assert "missing: _cursor, batches, " in message


def test_a_kernel_that_alone_is_not_compiled_is_named(tmp_path):
    ran = run(USES[0], copied(tmp_path, "crc32c.*.so"))
    assert ran.stderr.endswith("missing: crc32c\n")


def test_a_compiled_source_tree_is_imported(tmp_path):
    ran = run("import kafkalog; print(kafkalog.Scan.__name__)", copied(tmp_path))
    assert (ran.stdout, ran.stderr) == ("Scan\n", "")


def test_of_an_installed_package_no_source_tree_is_named(tmp_path):
    ran = run(USES[0], copied(tmp_path, "*.so", "*.pyx"))
    *_, message = ran.stderr.splitlines()
    assert message == (
        "ModuleNotFoundError: No module named 'kafkalog._speedups._cursor'"
    )


def test_what_needs_no_kernel_is_there_without_them(tmp_path):
    ran = run("import kafkalog; print(kafkalog.__version__)", copied(tmp_path, "*.so"))
    assert ran.stdout == f"{kafkalog.__version__}\n"
