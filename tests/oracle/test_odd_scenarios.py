"""Recorded scenarios with unusual faults, each of which once revealed a bug.

Nearly all were drawn at random, by `wild_scenarios`: unusual file names, complete
swaps, damaged indexes and checkpoints, patched batches, settings that change. Kafka's
own engine played them.
"""

import json
from argparse import Namespace
from pathlib import Path

import pytest

from tests.oracle import play
from tests.oracle.compare_dirs import compare_tree
from tests.oracle.compare_results import compare_appends, compare_results
from tests.oracle.report import Report

ODD = Path(__file__).parent / "odd"
NAMES = sorted(path.stem for path in (ODD / "scenarios").glob("*.jsonl"))
OPTIONS = Namespace(
    content=False, strict=True, tasks=True, mtimes=True, decompress=None
)


@pytest.mark.parametrize("chunked", [False, True])
@pytest.mark.parametrize("name", NAMES)
def test_an_odd_scenario_ends_as_in_kafka(name, chunked, tmp_path):
    scenario, report = ODD / "scenarios" / f"{name}.jsonl", Report(10)
    lines = play.play(scenario, tmp_path / name, chunked=chunked)
    results = tmp_path / "results.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = ODD / "expected" / f"{name}.results.jsonl"
    if chunked:
        compare_appends(expected, results, report)
    else:
        compare_results(expected, results, OPTIONS, report)
    tree = ODD / "expected" / f"{name}.tree.json"
    compare_tree(tree, tmp_path / name, OPTIONS, report)
    assert not report.count
