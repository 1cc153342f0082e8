"""The examples in docstrings that need a Spark session, which doctest alone skips."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

import kafkalog
from kafkalog.spark import functions, index_functions
from tests import golden_data

pytestmark = pytest.mark.spark
DIRECTORY = '"/mnt/kafka"'
LOGS = golden_data.logs("k431-clean")


def examples_of(module):
    """Return the examples of a module's functions that are marked to be skipped."""
    found = doctest.DocTestFinder().find(module, globs={**vars(module)})
    return {
        each.name.rpartition(".")[2]: each
        for each in found
        if any(doctest.SKIP in example.options for example in each.examples)
    }


EXAMPLES = examples_of(functions) | examples_of(index_functions)


def test_no_example_is_skipped_but_those_of_spark():
    package = Path(kafkalog.__file__).parent
    skipping = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if "doctest: +SKIP" in path.read_text("utf-8")
    }
    assert skipping == {"spark/functions.py", "spark/index_functions.py"}
    assert len(EXAMPLES) == 8


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_function_runs(name, spark):
    case = EXAMPLES[name]
    case.globs["spark"] = spark
    for example in case.examples:
        example.options.pop(doctest.SKIP, None)
        example.source = example.source.replace(DIRECTORY, repr(str(LOGS)))
    report = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.DocTestRunner(optionflags=flags).run(case, out=report.append)
    assert result.attempted == len(case.examples) > 0
    assert not result.failed, "".join(report)
