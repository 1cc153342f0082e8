"""Importing from a source tree that is not compiled raises an error about that."""

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


def copied(root, *patterns):
    """Copy the package into `root`, except files that match `patterns`."""
    ignored = shutil.ignore_patterns("__pycache__", *patterns)
    shutil.copytree(PACKAGE, root / "kafkalog", ignore=ignored)
    return root


def run(program, tree):
    """Run `program` with `tree` as the working directory."""
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=tree,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("program", USES)
def test_the_error_states_how_to_compile_the_source_tree(program, tmp_path):
    tree = copied(tmp_path, "*.so")
    ran = run(program, tree)
    *_, message = ran.stderr.splitlines()
    assert ran.returncode == 1
    assert message.startswith("ImportError: the kernels are not compiled for Python ")
    assert f"in this source tree, {tree}: run `make compile`" in message
    assert "or start Python in another directory" in message
    assert "missing: _cursor, batches, " in message


@pytest.mark.parametrize("module", ["crc32c", "system_calls"])
def test_the_error_names_the_modules_that_are_not_compiled(module, tmp_path):
    ran = run(USES[0], copied(tmp_path, f"{module}.*.so"))
    assert ran.stderr.endswith(f"missing: {module}\n")


def test_a_compiled_source_tree_can_be_imported(tmp_path):
    ran = run("import kafkalog; print(kafkalog.Scan.__name__)", copied(tmp_path))
    assert (ran.stdout, ran.stderr) == ("Scan\n", "")


def test_an_installed_package_without_kernels_raises_the_usual_error(tmp_path):
    ran = run(USES[0], copied(tmp_path, "*.so", "*.pyx"))
    *_, message = ran.stderr.splitlines()
    assert message == (
        "ModuleNotFoundError: No module named 'kafkalog._speedups._cursor'"
    )


def test_the_version_is_available_without_compiled_modules(tmp_path):
    ran = run("import kafkalog; print(kafkalog.__version__)", copied(tmp_path, "*.so"))
    assert ran.stdout == f"{kafkalog.__version__}\n"
