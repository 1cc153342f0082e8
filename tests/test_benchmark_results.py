"""The results of benchmarks have each comparison once."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks/results.py"


@pytest.fixture(scope="module")
def results():
    """Return the module that collects results; benchmarks are not a package."""
    spec = importlib.util.spec_from_file_location("results", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def benchmark(name, peer, ours, **more):
    """Return the part of pytest-benchmark's output that is read."""
    sides = {"peer": peer, "ratio": 1 / ours, "ours": ours, "theirs": 1, "unit": "s"}
    params = {"shape": "log100", "size": "16k", "codec": "zstd"}
    return {"name": name, "params": params, "extra_info": sides | more}


def measured(folder, *benchmarks):
    path = folder / "measured.json"
    path.write_text(json.dumps({"benchmarks": benchmarks}))
    return path


def run(*paths):
    subprocess.run([sys.executable, SCRIPT, *paths], check=True, capture_output=True)
    return json.loads(paths[-1].read_text())


def test_a_comparison_has_the_members_that_scripts_read(tmp_path):
    measurement = benchmark("bench_read[a]", "aiokafka", 0.5, theirs_processor=2)
    assert run(measured(tmp_path, measurement), tmp_path / "results.json") == [
        {
            "name": "bench_read[a]",
            "corpus": "log100-16k",
            "codec": "zstd",
            "peer": "aiokafka",
            "ratio": 2,
            "ours": 0.5,
            "theirs": 1,
            "unit": "s",
            "theirs_processor": 2,
        }
    ]


def test_a_new_measurement_replaces_the_former_one(tmp_path):
    target = tmp_path / "results.json"
    first = [benchmark("bench_read[a]", peer, 1) for peer in ("aiokafka", "limit")]
    run(measured(tmp_path, *first), target)
    again = benchmark("bench_read[a]", "aiokafka", 0.25)
    other = benchmark("bench_read[b]", "aiokafka", 0.5)
    found = run(measured(tmp_path, again, other), target)
    assert [(row["name"], row["peer"], row["ours"]) for row in found] == [
        ("bench_read[a]", "aiokafka", 0.25),
        ("bench_read[a]", "limit", 1),
        ("bench_read[b]", "aiokafka", 0.5),
    ]


def test_a_benchmark_without_a_peer_is_no_comparison(results):
    alone = benchmark("bench_ways", "kafkalog", 1)
    nothing = {"name": "bench_count", "params": None, "extra_info": {}}
    assert results.results_of({"benchmarks": [alone, nothing]}) == []
