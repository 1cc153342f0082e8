"""Segments that repeat a shape's batches, with consecutive offsets.

Those as large as Kafka's are made once and kept in ``build/benchmarks``.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from struct import pack_into

from shapes import BATCH_BYTES, SEED, columns_of

from kafkalog.encoding.batch_builder import BatchSettings, encode_batches
from kafkalog.formats.batch_headers import scan_headers

FOLDER = Path(__file__).parents[1] / "build" / "benchmarks"


def large_segment(shape: str, codec: str, size: str, least_bytes: int) -> Path:
    """Write a segment that repeats a shape's batches, unless it exists.

    The name has all that the bytes depend on; offsets are not part of the checksums.
    """
    name = f"{shape}-{size}-{codec}-{least_bytes}-{SEED}"
    path = FOLDER / name / f"{20 * '0'}.log"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    write_repeated(
        partial, shape, codec, size, lambda times, each: times * each < least_bytes
    )
    partial.rename(path)
    return path


def write_repeated(
    path: Path, shape: str, codec: str, size: str, more: Callable[[int, int], bool]
) -> int:
    """Write a shape's batches while `more` returns true; return the number of records.

    `more` is called with the number of repetitions and the size of the batches.
    """
    columns, settings = columns_of(shape), BatchSettings(codec=codec)
    data = bytearray(encode_batches(columns, BATCH_BYTES[size], settings=settings))
    rows, _, _ = scan_headers(data, 0, 0, 1 << 20)
    times, records = 0, len(columns.offset)
    with path.open("wb") as file:
        while more(times, len(data)):
            for row in rows:
                offset = int(row["base_offset"]) + times * records
                pack_into(">q", data, int(row["position"]), offset)
            file.write(data)
            times += 1
    return times * records
