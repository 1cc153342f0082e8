"""Other Python packages that read a segment's records; each verifies every checksum.

    python -m benchmarks.python_readers WAY SEGMENT

reads a segment by one of `WAYS` and prints the peak of resident memory, less that after
the import.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np


def _aiokafka(data: bytes) -> Iterator[Any]:
    """Yield the batches, as aiokafka's consumer reads fetched bytes."""
    from aiokafka.record._crecords.memory_records import MemoryRecords

    records = MemoryRecords(data)
    while (batch := records.next_batch()) is not None:
        if not batch.validate_crc():
            raise ValueError("a checksum differs")
        yield batch


def aiokafka(data: bytes) -> int:
    """Visit each record, and drop it."""
    count = 0
    for batch in _aiokafka(data):
        for _record in batch:
            count += 1
    return count


def aiokafka_columns(data: bytes) -> int:
    """Collect the records into columns, in the fastest way of the package."""
    gc.disable()
    offset, timestamp, headers = [], [], []
    key: list[bytes | None] = []
    value: list[bytes | None] = []
    try:
        for batch in _aiokafka(data):
            for record in batch:
                offset.append(record.offset)
                timestamp.append(record.timestamp)
                key.append(record.key)
                value.append(record.value)
                if found := record.headers:
                    headers.append((len(offset), found))
        columns = [np.array(offset, np.int64), np.array(timestamp, np.int64)]
        for strings in (key, value):
            lengths = (-1 if one is None else len(one) for one in strings)
            columns.append(np.fromiter(lengths, np.int32, len(strings)))
            columns.append(np.frombuffer(b"".join(filter(None, strings)), np.uint8))
        return len(columns[0])
    finally:
        gc.enable()


def kafka_python(data: bytes) -> int:
    """Visit each record, and drop it."""
    from kafka.record.memory_records import MemoryRecords

    count = 0
    for batch in MemoryRecords(data):
        if not batch.validate_crc():
            raise ValueError("a checksum differs")
        for _record in batch:
            count += 1
    return count


def kafkalog_columns(data: bytes) -> int:
    """Hold all columns of all records at once, as the peer does."""
    import kafkalog

    names = ["offset", "timestamp", "key", "value", "headers"]
    return sum(map(len, list(kafkalog.scan(data, columns=names).chunks())))


WAYS: dict[str, Callable[[bytes], int]] = {
    "aiokafka": aiokafka,
    "aiokafka-columns": aiokafka_columns,
    "kafka-python": kafka_python,
    "kafkalog-columns": kafkalog_columns,
}


def resident(field: str) -> int:
    """Return the resident memory of this process, in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if field in line)


if __name__ == "__main__":
    read, data = WAYS[sys.argv[1]], Path(sys.argv[2]).read_bytes()
    start = data[: 12 + int.from_bytes(data[8:12])]
    read(start)  # imports the package
    before = resident("VmRSS")
    read(data)
    print(resident("VmHWM") - before)
