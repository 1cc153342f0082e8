"""Valid batches and files of every kind, which campaigns damage."""

from __future__ import annotations

from functools import cache

import numpy as np

from kafkalog.formats.batch_headers import scan_headers
from tests import golden_data
from tests.query.batches import KINDS, build

MOST_BYTES = 3_000  # of a batch; larger ones have no other fields
ENTRIES_OF_BROKERS = 400  # at most twice as many


@cache
def made(magic: int, codec: str) -> tuple[bytes, ...]:
    """Return the entries of a small segment."""
    return tuple(
        build(magic, codec, 3 * i, 1 if magic < 2 and codec == "none" else 3)
        for i in range(6)
    )


@cache
def of_brokers(pattern: str = "*.log") -> tuple[bytes, ...]:
    """Return entries that brokers wrote, some of each size and codec."""
    found: dict[tuple[int, ...], bytes] = {}
    for name in golden_data.SETS:
        for path in sorted(golden_data.logs(name).rglob(pattern)):
            if not path.is_file():
                continue
            data = path.read_bytes()
            for row in scan_headers(np.frombuffer(data, np.uint8))[0]:
                start, size = int(row["position"]), int(row["size_in_bytes"])
                kind = (size, int(row["magic"]), int(row["attributes"]))
                if size <= MOST_BYTES:
                    found.setdefault(kind, data[start : start + size])
    step = max(1, len(found) // ENTRIES_OF_BROKERS)
    return tuple(found[kind] for kind in sorted(found)[::step])


@cache
def all_entries() -> tuple[bytes, ...]:
    """Return entries of each magic and codec, made and written by brokers."""
    own = [entry for magic, codec in KINDS for entry in made(magic, codec)]
    return (*own, *of_brokers(), *of_brokers("*.checkpoint"))


@cache
def files(pattern: str, most_bytes: int = 4_000) -> tuple[bytes, ...]:
    """Return the contents of brokers' files whose names match, each once."""
    found = {
        path.read_bytes()
        for name in golden_data.SETS
        for path in golden_data.logs(name).rglob(pattern)
        if path.is_file() and 0 < path.stat().st_size <= most_bytes
    }
    return tuple(sorted(found))
