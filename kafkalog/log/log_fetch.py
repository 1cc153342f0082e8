"""What a reader of a writable log is given, as far as it may see.

Knows: isolation levels. Does not know: how bytes are found.
Source: ``UnifiedLog.read``, ``FetchIsolation.java``, ``FetchDataInfo.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kafkalog._speedups import Status
from kafkalog.decoding.record_batch import RecordBatch
from kafkalog.errors import OffsetOutOfRangeError
from kafkalog.formats.batch_headers import scan_headers, size_field
from kafkalog.formats.layout import LOG_OVERHEAD
from kafkalog.log.fetch_data import fetch
from kafkalog.log.log import LogRead
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.state import LogState
from kafkalog.log.watermarks import LogIsolation, sight_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFetch(LogRead):
    """What a read of a writable log gives: bytes, and where they lie.

    The last batch may not be whole. `place` is the first batch's; without one, that of
    the end that the reader had come to. `lists_aborted` says whether `aborted` was
    looked for.
    """

    place: OffsetMetadata
    first_entry_incomplete: bool = False
    lists_aborted: bool = False

    def batches(self) -> Iterator[RecordBatch]:
        """Yield the whole batches one by one, and nothing of a part at the end.

        No checksum covers a batch's magic: as in Kafka one above 2 does not end them.
        """
        position = 0
        while _is_whole(self.data, position):
            batch = RecordBatch(self.data, position, any_magic=True)
            yield batch
            position += batch.size_in_bytes


def _is_whole(data: bytes, position: int) -> bool:
    """Whether the entry at `position`, if there is one, does not lead past the end."""
    rest = len(data) - position
    return rest >= LOG_OVERHEAD and rest >= LOG_OVERHEAD + size_field(data, position)


def read_log(
    log: LogState,
    offset: int,
    max_bytes: int,
    isolation: LogIsolation,
    *,
    min_one_batch: bool,
) -> LogFetch:
    """Read from the batch on that holds `offset`, as far as `isolation` lets see."""
    if offset < log.log_start_offset:
        raise OffsetOutOfRangeError(
            f"offset {offset} is before the log's start, {log.log_start_offset}"
        )
    fetched = fetch(
        log,
        offset,
        max_bytes,
        sight_of(isolation).place(log),
        min_one_batch=min_one_batch,
        aborted=isolation == "read_committed",
    )
    data = fetched.data()
    aborted = fetched.aborted or ()
    return LogFetch(
        data=data,
        next_offset=_end_of(data, offset),
        aborted=tuple((one.producer_id, one.first_offset) for one in aborted),
        place=fetched.place,
        first_entry_incomplete=fetched.first_entry_incomplete,
        lists_aborted=fetched.aborted is not None,
    )


def _end_of(data: bytes, offset: int) -> int:
    """Return one past the last offset of the whole batches, or `offset` without any."""
    place, status = 0, int(Status.OK)
    while status == Status.OK and place < len(data):
        rows, status, place = scan_headers(
            np.frombuffer(data, np.uint8), place, any_magic=True
        )
        if len(rows):
            offset = int(rows["last_offset"][-1]) + 1
    return offset
