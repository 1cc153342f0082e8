"""The page about performance tells what the benchmarks' results are."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[1]
RESULTS = HOUSE / "benchmarks/results.json"
PAGE = HOUSE / "docs/performance.md"


@pytest.fixture(scope="module")
def maker():
    """The script that makes the page; benchmarks are no package."""
    spec = importlib.util.spec_from_file_location("page", HOUSE / "benchmarks/page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def results():
    return json.loads(RESULTS.read_text())


def test_the_page_is_made_of_the_results_beside_the_benchmarks(maker, results):
    assert PAGE.read_text().partition(maker.MARK)[2] == maker.sections(results)


def test_each_peer_has_its_plot(maker, results):
    plots = {plot.stem for plot in PAGE.with_suffix("").glob("*.svg")}
    assert plots == set(maker.by_peer(results))


def test_results_have_the_members_that_scripts_read(results):
    members = {"name", "corpus", "codec", "peer", "ratio", "ours", "theirs", "unit"}
    assert results
    assert all(members <= one.keys() for one in results)


def test_a_result_is_told_in_words_with_units_that_suit(maker):
    result = {
        "name": "bench_scan_reads_columns[log100-16k-zstd-views]",
        "corpus": "log100-16k",
        "codec": "zstd",
        "peer": "aiokafka",
        "ratio": 2.345,
        "ours": 4.2e-7,
        "theirs": 9.85e-7,
        "unit": "s",
    }
    [row] = maker.table([result]).splitlines()[2:]
    said = "scan reads columns: log100-16k, zstd, views"
    assert row == f"| {said} | 420 ns | 985 ns | 2.3 |"
