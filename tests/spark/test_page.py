"""The Spark examples of the documentation print the output that follows them."""

from __future__ import annotations

import doctest
import io
import re
from contextlib import redirect_stdout

import pytest

from tests.doc_pages import FILE_NAME, ROOT, PageRunner
from tests.spark import session

PAGES = ("README.md", "docs/spark.md")
EXAMPLE = re.compile(
    r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.M | re.S
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_of_a_page_print_their_output(spark, page, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    known = {
        "spark": spark,
        "checkpoint": str(tmp_path / "checkpoint"),
        "folder": str(tmp_path / "folder"),
    }
    blocks = EXAMPLE.findall((ROOT / page).read_text(encoding="utf-8"))
    examples = [block for block in blocks if not FILE_NAME.match(block[0])]
    assert examples
    for code, promised in examples:
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, known)
        right = doctest.OutputChecker().check_output(
            promised, printed.getvalue(), FLAGS
        )
        assert right, f"{code}\n{printed.getvalue()}"


@pytest.mark.slow
def test_the_page_about_lakes_prints_its_output(monkeypatch, tmp_path):
    page = ROOT / "docs" / "howto" / "load-into-a-lake.md"
    environment = session.environment() | {"SPARK_SUBMIT_OPTS": session.QUICK_START}
    runner = PageRunner(page, tmp_path, environment=environment)
    monkeypatch.chdir(tmp_path)
    report = runner.run(with_spark=True)
    assert not report, report


@pytest.mark.parametrize("page", ["write-a-topic.md", "change-data-capture.md"])
def test_a_page_with_spark_prints_its_output(spark, page, monkeypatch, tmp_path):
    runner = PageRunner(ROOT / "docs" / "howto" / page, tmp_path)
    monkeypatch.chdir(tmp_path)
    report = runner.run(with_spark=True)
    assert not report, report
