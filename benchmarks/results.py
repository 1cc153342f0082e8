"""Make ``results.json`` of what the benchmarks measured beside a peer.

    python benchmarks/results.py MEASURED... RESULTS

``MEASURED`` is what pytest-benchmark wrote with ``--benchmark-json``. A ratio above 1
is better for us, always. Where kafkalog is compared with itself, doing more or with
fewer threads, there is no peer, and no result. Where several processes work on a thing,
there are also the seconds that all their processors took.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def results_of(measured: dict) -> list[dict]:
    """Give one result for each benchmark that compared itself with a peer."""
    return [
        {
            "name": benchmark["name"],
            "corpus": corpus_of(benchmark["params"] or {}),
            "codec": (benchmark["params"] or {}).get("codec"),
            **{key: benchmark["extra_info"][key] for key in KEYS},
            **{
                key: benchmark["extra_info"][key]
                for key in PROCESSOR_KEYS
                if key in benchmark["extra_info"]
            },
        }
        for benchmark in measured["benchmarks"]
        if benchmark["extra_info"].get("peer", "kafkalog") != "kafkalog"
    ]


def corpus_of(params: dict) -> str | None:
    """Name what was read or written, as ``log100-16k``; None where it has no name."""
    return (
        f"{params['shape']}-{params['size']}"
        if {"shape", "size"} <= set(params)
        else None
    )


KEYS = ("peer", "ratio", "ours", "theirs", "unit")
PROCESSOR_KEYS = ("ours_processor", "theirs_processor")

if __name__ == "__main__":
    *sources, target = map(Path, sys.argv[1:])
    results = [
        one for source in sources for one in results_of(json.loads(source.read_text()))
    ]
    target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{len(results)} comparisons in {target}")
