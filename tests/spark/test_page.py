"""The Spark examples of the documentation print the output that follows them."""

from __future__ import annotations

import doctest
import io
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "docs/spark.md")
EXAMPLE = re.compile(
    r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.M | re.S
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_their_output(spark, page, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    known = {"spark": spark, "checkpoint": str(tmp_path)}
    examples = EXAMPLE.findall((ROOT / page).read_text(encoding="utf-8"))
    assert examples
    for code, promised in examples:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, known)
        right = doctest.OutputChecker().check_output(
            promised, printed.getvalue(), FLAGS
        )
        assert right, f"{code}\n{printed.getvalue()}"
