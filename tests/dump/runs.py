"""Runs of Kafka's own tool with flags that the golden runs do not use.

``tests/interop/record_dumps.py`` made them.
"""

from __future__ import annotations

import json
import lzma
from pathlib import Path
from typing import Any, Final

RUNS: Final = Path(__file__).with_name("runs.jsonl.xz")


def kept_runs() -> list[dict[str, Any]]:
    """Return a dict per run: set_name, arguments, stdout, stderr, exit_code."""
    return [
        json.loads(line) for line in lzma.decompress(RUNS.read_bytes()).splitlines()
    ]
