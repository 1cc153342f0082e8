"""Put what the benchmarks measured beside a peer into ``results.json``.

    python benchmarks/results.py MEASURED... RESULTS

``MEASURED`` is what pytest-benchmark wrote with ``--benchmark-json``. What it measured
takes the place of what ``RESULTS``, if there is such a file, has of the same name,
corpus, codec and peer; all else in there stays. A ratio above 1 is better for us,
always. Where kafkalog is compared with itself, there is no peer, and no result. Where
several processes work on a thing, there are also the seconds that all their processors
took.
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


def merged(known: list[dict], measured: list[dict]) -> list[dict]:
    """Put results among known ones, in the places of those that they replace."""
    return list({identity(one): one for one in known + measured}.values())


def identity(result: dict) -> tuple:
    """Tell which comparison a result is of."""
    return tuple(result[key] for key in ("name", "corpus", "codec", "peer"))


KEYS = ("peer", "ratio", "ours", "theirs", "unit")
PROCESSOR_KEYS = ("ours_processor", "theirs_processor")

if __name__ == "__main__":
    *sources, target = map(Path, sys.argv[1:])
    measured = [
        one for source in sources for one in results_of(json.loads(source.read_text()))
    ]
    known = json.loads(target.read_text()) if target.exists() else []
    results = merged(known, measured)
    target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{len(measured)} comparisons measured, {len(results)} in {target}")
