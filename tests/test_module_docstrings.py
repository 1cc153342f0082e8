"""Modules have docstrings, and none is a collection of unrelated functions."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(
    path
    for folder in ("kafkalog", "pyspark_kafkalog", "tests", "benchmarks", "demo")
    for suffix in ("py", "pyx", "pxd", "pyi")
    for path in (ROOT / folder).rglob(f"*.{suffix}")
)
MODULES = [path for path in SOURCES if path.suffix == ".py"]
KERNELS = [path for path in SOURCES if path.suffix == ".pyx"]
UNSPECIFIC = {"common", "helper", "helpers", "misc", "util", "utils"}


def name_of(path):
    return str(path.relative_to(ROOT))


def test_no_module_has_a_name_for_unrelated_functions():
    assert not [path for path in SOURCES if path.stem.strip("_") in UNSPECIFIC]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_has_a_docstring(path):
    source = path.read_text(encoding="utf-8")
    assert not source or ast.get_docstring(ast.parse(source))


@pytest.mark.parametrize("path", KERNELS, ids=name_of)
def test_a_kernel_has_a_docstring(path):
    assert path.read_text(encoding="utf-8").startswith(('"""', "# cython:"))
