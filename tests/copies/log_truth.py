"""What of a damaged log is valid, by comparison with the undamaged original.

A slow reference, which knows the batches from the original and shares no code with the
package: a batch is lost if any of its bytes has changed.
"""

from pathlib import Path
from typing import NamedTuple

import kafkalog


class Batch(NamedTuple):
    """One batch of a `.log` file."""

    position: int
    end: int
    first: int
    last: int


def batches_of(data):
    """Return the batches of magic 2 of an undamaged file."""
    found, at = [], 0
    while at + 61 <= len(data) and any(data[at : at + 12]):
        end = at + 12 + int.from_bytes(data[at + 8 : at + 12], "big")
        first = int.from_bytes(data[at : at + 8], "big")
        delta = int.from_bytes(data[at + 23 : at + 27], "big")
        found.append(Batch(at, end, first, first + delta))
        at = end
    return found


class Truth:
    """The batches of an original directory that a damaged copy still has."""

    def __init__(self, original, damaged):
        self.kept, lost = {}, []
        self.unreadable = 0
        for path in sorted(Path(original).glob("*.log")):
            before = path.read_bytes()
            copy = Path(damaged, path.name)
            after = copy.read_bytes() if copy.exists() else b""
            kept = b""
            covered = bytearray(len(after))
            for batch in batches_of(before):
                data = before[batch.position : batch.end]
                if after[batch.position : batch.end] == data:
                    kept += data
                    covered[batch.position : batch.end] = bytes([1]) * len(data)
                else:
                    lost.append((batch.first, batch.last))
            self.kept[path.name] = kept
            end = max(len(after.rstrip(b"\0")), covered.rfind(1) + 1)
            self.unreadable += covered[:end].count(0)
        self.missing = merged(lost)


def merged(ranges):
    """Return ranges with those that follow one another as one."""
    found = []
    for first, last in sorted(ranges):
        if found and found[-1][1] + 1 == first:
            found[-1] = (found[-1][0], last)
        else:
            found.append((first, last))
    return found


def logs_of(directory):
    """Return the content of the `.log` files by name."""
    return {path.name: path.read_bytes() for path in Path(directory).glob("*.log")}


def write_log(
    directory, batches=40, seed=0, producer=7, codec="none", size=2000, salt=""
):
    """Write a log of several segments, with leader epochs, by an idempotent producer.

    Without a `producer` id its batches have none. Logs that differ in their `salt` have
    the same batches, with other values of the same size.
    """
    config = kafkalog.LogConfig(internal_segment_bytes=size, index_interval_bytes=500)
    sequence = 0
    with kafkalog.open(directory, "a", config) as log:
        for number in range(batches):
            count = 1 + (number * 7 + seed) % 5
            values = [
                f"{seed} {number} {i} {salt}".encode() * (3 + (number + seed) % 4)
                for i in range(count)
            ]
            options = {}
            if producer is not None:
                options = {
                    "producer_id": producer,
                    "producer_epoch": 0,
                    "base_sequence": sequence,
                }
            result = log.append_records(
                {"value": values, "timestamp": [1700000000000 + number] * count},
                codec=codec,
                leader_epoch=number // 15,
                **options,
            )
            assert not result.refused
            sequence += count
        log.update_high_watermark(log.log_end_offset)
    return Path(directory)
