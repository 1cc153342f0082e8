"""Every recorded scenario, played here, gives what Kafka's own engine gave.

Scenarios with a round of compaction are left out: there is no cleaner yet.
"""

import ast
import json
from argparse import Namespace
from pathlib import Path

import pytest

from tests import oracle_data
from tests.oracle import play
from tests.oracle.compare_dirs import compare_tree
from tests.oracle.compare_results import compare_appends, compare_results
from tests.oracle.report import Report

EXPECTED = Path(__file__).parent / "expected"
NAMES = [
    name
    for name in oracle_data.NAMES
    if not any(step.get("op") == "compact" for step in oracle_data.steps(name))
]


def options_for(name):
    """Compare all there is, but for what depends on the compressor's choices."""
    content = oracle_data.steps(name)[0]["compare"] == "content"
    strict = not content
    return Namespace(
        content=content, strict=strict, tasks=True, mtimes=strict, decompress=None
    )


def played(name, root, **how):
    scenario = oracle_data.SCENARIOS / f"{name}.jsonl"
    lines = play.play(scenario, root / name, **how)
    results = root / f"{name}.results.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return results


@pytest.mark.parametrize("name", NAMES)
def test_a_scenario_ends_as_in_kafka_step_by_step_and_byte_by_byte(name, tmp_path):
    results, options, report = played(name, tmp_path), options_for(name), Report(10)
    compare_results(EXPECTED / f"{name}.results.jsonl", results, options, report)
    compare_tree(EXPECTED / f"{name}.tree.json", tmp_path / name, options, report)
    assert not report.count


@pytest.mark.parametrize("name", NAMES)
def test_appends_in_one_call_end_as_one_by_one(name, tmp_path):
    results, options, report = (
        played(name, tmp_path, chunked=True),
        options_for(name),
        Report(10),
    )
    compare_tree(EXPECTED / f"{name}.tree.json", tmp_path / name, options, report)
    compare_appends(EXPECTED / f"{name}.results.jsonl", results, report)
    assert not report.count


def test_the_player_uses_no_private_name():
    for name in ("play", "steps", "files"):
        tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom):
                private = [one.name for one in node.names if one.name.startswith("_")]
                assert not private
                assert "._" not in (node.module or "")


def test_the_player_is_small():
    assert len((Path(__file__).parent / "play.py").read_text().splitlines()) < 350
