"""The table of ratios: how ``benchmarks/page.py`` labels and groups results."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture(scope="module")
def page():
    """Return the module of the script; benchmarks are not a package."""
    spec = importlib.util.spec_from_file_location("page", BENCHMARKS / "page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def result(name, codec, ratio, corpus="log100-16k", peer="aiokafka"):
    return {
        "name": name,
        "corpus": corpus,
        "codec": codec,
        "peer": peer,
        "ratio": ratio,
    }


def lines(page, *results):
    return page.table(page.by_row(results)).splitlines()[2:]


def test_a_row_has_a_column_for_each_codec(page):
    views = "bench_read[log100-16k-{}-views]"
    zstd = result(views.format("zstd"), "zstd", 2.345)
    none = result(views.format("none"), "none", 12.3)
    [row] = lines(page, zstd, none)
    assert row == "| aiokafka, record by record | read, views | 12 | | | | 2.3 |"


def test_a_cell_has_the_range_over_all_corpora(page):
    small = result("bench_read[log100-16k-lz4]", "lz4", 2.5)
    large = result("bench_read[json1k-1m-lz4]", "lz4", 0.875, corpus="json1k-1m")
    [row] = lines(page, small, large)
    assert row == "| aiokafka, record by record | read | | | | 0.88 to 2.5 | |"


def test_a_result_without_corpus_and_codec_counts_as_uncompressed(page):
    [row] = lines(page, result("bench_import", None, 0.914, corpus=None, peer="numpy"))
    assert row == "| NumPy | import kafkalog | 0.91 | | | | |"


def test_a_peer_without_a_title_keeps_its_name(page):
    [row] = lines(page, result("bench_read[log100-16k-none]", "none", 1.5, peer="kio"))
    assert row == "| kio | read | 1.5 | | | | |"


def test_results_have_the_members_that_scripts_read():
    results = json.loads((BENCHMARKS / "results.json").read_text())
    members = {"name", "corpus", "codec", "peer", "ratio", "ours", "theirs", "unit"}
    assert results
    assert all(members <= result.keys() for result in results)
