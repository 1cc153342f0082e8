"""The page on durability names a test for each claim."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "durability.md"
TEST = re.compile(r"`(test_\w+)`")


def names_of_tests():
    return {
        node.name
        for folder in (HERE, HERE.parent / "sink", HERE.parent / "export")
        for path in folder.glob("test_*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef)
    }


def test_each_test_named_by_the_page_exists():
    named = TEST.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 10
    assert set(named) <= names_of_tests()


def test_each_claim_of_the_table_names_a_test():
    section = PAGE.read_text(encoding="utf-8").split("\n## ")[2]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 10
    assert all(TEST.search(row) for row in rows)
