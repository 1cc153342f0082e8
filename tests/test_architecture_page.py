"""The page on the architecture names modules and functions that exist.

The table of layers in each page is that of `tests.layers`.
"""

import ast
import re
from pathlib import Path

import pytest

import kafkalog
from tests.layers import PAGES, with_diagram

PACKAGE = Path(kafkalog.__file__).parent
PAGE = (PACKAGE.parent / "docs" / "architecture.md").read_text(encoding="utf-8")
MODULE = re.compile(r"`([\w/]+\.(?:pyx|pxd|py))`")
STOP = re.compile(r"^\| \d+ \| `([\w/.]+)` \| `([\w.]+)` \|", re.MULTILINE)


def names_of(module):
    """Return the functions, classes and methods that a module defines."""
    source = (PACKAGE / module).read_text(encoding="utf-8")
    if module.endswith(".pyx"):
        return set(re.findall(r"^(?:cp)?def (?:\w+ )?(\w+)\(", source, re.MULTILINE))
    names = set()
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {
                f"{node.name}.{method.name}"
                for method in node.body
                if isinstance(method, ast.FunctionDef)
            }
    return names


def test_every_module_on_the_page_exists():
    modules = {name for name in MODULE.findall(PAGE) if "/" in name}
    modules = {name for name in modules if not name.startswith("tests/")}
    assert len(modules) > 50
    assert [name for name in sorted(modules) if not (PACKAGE / name).exists()] == []


@pytest.mark.parametrize(("module", "function"), STOP.findall(PAGE))
def test_every_function_on_a_path_exists(module, function):
    assert function in names_of(module)


def test_the_paths_have_their_stops():
    assert len(STOP.findall(PAGE)) == 32


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_shows_the_present_layers(page):
    text = page.read_text(encoding="utf-8")
    assert with_diagram(text) == text, "run `python -m tests.layers`"
