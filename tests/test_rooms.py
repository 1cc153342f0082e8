"""Rooms are small, say what they are, and none is a lumber room."""

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
PACKAGE = [path for path in SOURCES if path.is_relative_to(ROOT / "kafkalog")]
MODULES = [path for path in SOURCES if path.suffix == ".py"]

MODULE_LINES = 400
FUNCTION_LINES = 40
LUMBER_ROOMS = {"common", "helper", "helpers", "misc", "util", "utils"}


def name_of(path):
    return str(path.relative_to(ROOT))


def body_lines(function):
    """Count the lines of a function's body, its docstring aside."""
    first = 1 if ast.get_docstring(function) is not None else 0
    statements = function.body[first:]
    if not statements:
        return 0
    return statements[-1].end_lineno - statements[0].lineno + 1


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_room_can_be_read_at_one_sitting(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MODULE_LINES


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_room_is_named_for_what_it_holds(path):
    assert path.stem.strip("_") not in LUMBER_ROOMS


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_says_what_it_is(path):
    source = path.read_text(encoding="utf-8")
    assert not source or ast.get_docstring(ast.parse(source))


@pytest.mark.parametrize(
    "path", [path for path in PACKAGE if path.suffix == ".pyx"], ids=name_of
)
def test_a_kernel_says_what_it_is(path):
    assert path.read_text(encoding="utf-8").startswith(('"""', "# cython:"))


@pytest.mark.parametrize(
    "path", [path for path in PACKAGE if path.suffix == ".py"], ids=name_of
)
def test_a_function_fits_a_screen(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    long = {
        node.name: body_lines(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and body_lines(node) > FUNCTION_LINES
    }
    assert not long
