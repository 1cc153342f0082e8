"""The table of ratios: how ``benchmarks/page.py`` labels and groups results."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]
BENCHMARKS = ROOT / "benchmarks"
SVG = "http://www.w3.org/2000/svg"


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


def test_a_cell_of_the_summary_is_of_one_codec_and_size(page):
    case = "bench_append[{}-16k-words100]"
    none = result(case.format("none"), "none", 0.5, "words100-16k", "kafka-engine")
    zstd = result(case.format("zstd"), "zstd", 0.6, "words100-16k", "kafka-engine")
    large = result("bench_append[none-1m-words100]", "none", 2, "words100-1m")
    summary = page.summary([none, zstd, large | {"peer": "kafka-engine"}])
    assert summary == {
        ("Kafka's storage engine", "append"): {
            "lines of 100 bytes, none": [0.5],
            "lines, zstd": [0.6],
        }
    }


def test_the_page_and_the_readme_have_the_ratios_of_the_results(page):
    results = json.loads((BENCHMARKS / "results.json").read_text("utf-8"))
    table = (ROOT / "docs" / "performance.md").read_text("utf-8")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert page.summary(results).keys() == set(page.SUMMARY)
    assert table == page.with_ratios(results, table)
    assert readme == page.with_summary(results, readme)
    assert readme.count("lines of 100 bytes, none") == 1


def test_the_plot_has_a_bar_with_a_label_for_each_ratio_of_the_summary(page):
    results = json.loads((BENCHMARKS / "results.json").read_text("utf-8"))
    drawing = ElementTree.parse(ROOT / "docs" / page.PLOT)
    texts = [
        "".join(text.itertext()).strip() for text in drawing.iter(f"{{{SVG}}}text")
    ]
    for (peer, label), cells in page.summary(results).items():
        assert f"{label}: {peer}" in texts
        for title in cells.keys() & set(page.PLOTTED):
            assert page.span(cells[title]) in texts


def test_results_have_the_members_that_scripts_read():
    results = json.loads((BENCHMARKS / "results.json").read_text())
    members = {"name", "corpus", "codec", "peer", "ratio", "ours", "theirs", "unit"}
    assert results
    assert all(members <= result.keys() for result in results)
