"""Play a recorded scenario, and compare the results with those of Kafka's engine."""

import json
from argparse import Namespace
from pathlib import Path

from tests import oracle_data
from tests.oracle import play
from tests.oracle.compare_dirs import compare_tree
from tests.oracle.compare_results import compare_results
from tests.oracle.report import Report

EXPECTED = Path(__file__).parent / "expected"
NAMES = oracle_data.NAMES


def options_for(name):
    """Return options that compare everything but the output of compressors."""
    content = oracle_data.steps(name)[0]["compare"] == "content"
    strict = not content
    return Namespace(
        content=content, strict=strict, tasks=True, mtimes=strict, decompress=None
    )


def played(name, root, **options):
    scenario = oracle_data.SCENARIOS / f"{name}.jsonl"
    lines = play.play(scenario, root / name, **options)
    results = root / f"{name}.results.jsonl"
    results.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return results


def differences(name, root):
    """Play a scenario step by step, and report the differences from Kafka."""
    results, options, report = played(name, root), options_for(name), Report(10)
    compare_results(EXPECTED / f"{name}.results.jsonl", results, options, report)
    compare_tree(EXPECTED / f"{name}.tree.json", root / name, options, report)
    return report
