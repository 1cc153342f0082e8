"""Write the results of the comparisons with peers into ``results.json``.

    python benchmarks/results.py MEASURED... RESULTS

``MEASURED`` is a file of pytest-benchmark's ``--benchmark-json``. Its results replace
those in ``RESULTS``, if that exists, of the same name, corpus, codec and peer; the
others stay. A ratio above 1 is always better for us. Benchmarks that compare kafkalog
with itself have no peer, and no result. If several processes work together, the
processor seconds of all of them are included.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path


def results_of(measured: dict) -> list[dict]:
    """Return one result for each benchmark with a peer."""
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
    """Return the name of the data, as ``log100-16k``; None if it has no name.

    Of data that grows it is how much it has grown to.
    """
    if "grown_to" in params:
        return str(params["grown_to"])
    return (
        f"{params['shape']}-{params['size']}"
        if {"shape", "size"} <= set(params)
        else None
    )


def merged(known: list[dict], measured: list[dict]) -> list[dict]:
    """Return the known results, replaced by those measured."""
    return list({identity(result): result for result in known + measured}.values())


def identity(result: dict) -> tuple:
    """Return the identity of a result's comparison."""
    return tuple(result[key] for key in ("name", "corpus", "codec", "peer"))


KEYS = ("peer", "ratio", "ours", "theirs", "unit")
PROCESSOR_KEYS = ("ours_processor", "theirs_processor")

if __name__ == "__main__":
    *sources, target = map(Path, sys.argv[1:])
    measured = [
        result
        for source in sources
        for result in results_of(json.loads(source.read_text()))
    ]
    known = json.loads(target.read_text()) if target.exists() else []
    results = merged(known, measured)
    target.write_text(json.dumps(results, indent=1) + "\n")
    print(f"{len(measured)} comparisons measured, {len(results)} in {target}")
