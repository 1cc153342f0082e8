"""Segments as large as Kafka makes them, made once and kept in ``build/benchmarks``."""

from __future__ import annotations

from pathlib import Path

from shapes import BATCH_BYTES, SEED, columns_of

from kafkalog.formats.builder import BatchSettings, encode_batches
from kafkalog.formats.headers import scan_headers

FOLDER = Path(__file__).parents[1] / "build" / "benchmarks"


def large_segment(shape: str, codec: str, size: str, least_bytes: int) -> Path:
    """Write a shape's batches again and again, with offsets that go on, if not there.

    A name says all that the bytes depend on; offsets lie outside of the checksums.
    """
    name = f"{shape}-{size}-{codec}-{least_bytes}-{SEED}"
    path = FOLDER / name / f"{20 * '0'}.log"
    if path.exists():
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    columns, settings = columns_of(shape), BatchSettings(codec=codec)
    data = bytearray(encode_batches(columns, BATCH_BYTES[size], settings=settings))
    rows, _, _ = scan_headers(data, 0, 0, 1 << 20)
    partial, done = path.with_suffix(".partial"), 0
    with partial.open("wb") as file:
        while file.tell() < least_bytes:
            for row in rows:
                at, offset = int(row["position"]), int(row["base_offset"]) + done
                data[at : at + 8] = offset.to_bytes(8, "big")
            file.write(data)
            done += len(columns.offset)
    partial.rename(path)
    return path
