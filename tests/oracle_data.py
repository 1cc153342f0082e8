"""Scenarios for Kafka's storage engine, with the bytes of each append.

``tests/oracle/README.md`` describes scenarios and their sources.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

SCENARIOS: Final = Path(__file__).parent / "oracle" / "scenarios"
NAMES: Final = tuple(sorted(path.stem for path in SCENARIOS.glob("*.jsonl")))

Step = dict[str, Any]


def steps(name: str) -> list[Step]:
    """Return the lines of a scenario: the heading, then a step each."""
    return list(_parsed(name))


def appends(name: str) -> Iterator[tuple[list[dict[str, Any]], bytes]]:
    """Yield each append of a scenario: its batches, and their bytes."""
    for step in steps(name):
        if "bytes" in step and "batches" in step:
            yield step["batches"], base64.b64decode(step["bytes"])


@cache
def _parsed(name: str) -> tuple[Step, ...]:
    lines = (SCENARIOS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    return tuple(json.loads(line) for line in lines)
