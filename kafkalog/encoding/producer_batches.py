"""Batches made of columns as a producer sends them, and taken as a leader takes them.

Some megabytes are encoded at a time, into memory that is kept; while they are written,
a thread encodes those that follow. Nothing needs to be read again of what was just
encoded: whether a leader takes it as it is, and only gives it offsets, its columns and
headers tell.

    cut_batches      columns -> where batches begin, what their headers say
    Sending.parcels  the batches, some megabytes at a time, each with its
    take_parcel      parcel -> appends, judged; None: they are to be judged one by one

Knows: what a batch of ours says. Does not know: logs; why something is refused.
Source: ``ProducerBatch.java``, ``LogValidator.java``.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import Final, NamedTuple

import numpy as np

from kafkalog import _speedups
from kafkalog.codecs.compression import Codec
from kafkalog.encoding.batch_builder import BatchSettings, head_batches
from kafkalog.encoding.batch_encoder import (
    BatchSplit,
    encode_measured,
    split_into_batches,
)
from kafkalog.encoding.record_columns import Int64s, RecordColumns
from kafkalog.errors import InvalidRecordError
from kafkalog.formats.batch_headers import BatchHeaders, Bytes
from kafkalog.formats.layout import (
    CODEC_MASK,
    LOG_OVERHEAD,
    NO_LEADER_EPOCH,
    NO_TIMESTAMP,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.validation.append_policy import Leadership
from kafkalog.validation.appends import APPEND, Appends, as_bytes

PARCEL_BYTES: Final = 2 << 20
"""So much is encoded at a time, before compression, and then written."""

_OFFSET_0: Final = bytes(8)
_MOST_PAYLOAD: Final = 2**31 - 1 + LOG_OVERHEAD - RECORD_BATCH_OVERHEAD


class Parcel(NamedTuple):
    """Batches one behind another in `data`, their headers, records and payloads.

    `payloads` are the bytes of each one's records before compression.
    """

    data: Bytes
    rows: BatchHeaders
    columns: RecordColumns
    payloads: Int64s

    def pieces(self) -> list[bytes]:
        """Return each batch by itself, as it is sent: its offsets begin with 0."""
        start = self.rows["position"].tolist()
        size = self.rows["size_in_bytes"].tolist()
        return [
            _OFFSET_0 + self.data[a + len(_OFFSET_0) : a + n].tobytes()
            for a, n in zip(start, size, strict=True)
        ]


@dataclass(frozen=True, slots=True)
class Sending:
    """Batches that are to be sent: `cut` says which records each has."""

    columns: RecordColumns
    cut: BatchSplit
    rows: BatchHeaders
    settings: BatchSettings

    def parcels(
        self, rooms: tuple[Bytes, Bytes], as_leader: Leadership
    ) -> Generator[tuple[Parcel, Appends | None]]:
        """Encode them, about as many at a time as fit one of `rooms`, of one size.

        Each parcel comes with what `take_parcel` makes of it. It may lie in one of the
        rooms, until the next one is taken: meanwhile, that is encoded into the other.
        Close what this gives, if not all is taken: it waits for the thread.
        """

        def made(first: int, last: int, out: Bytes) -> tuple[Parcel, Appends | None]:
            parcel = self._parcel(first, last, out)
            return parcel, take_parcel(parcel, as_leader)

        bounds = self._bounds(rooms[0].size)
        if len(bounds) <= 2:
            yield from (made(*one, rooms[0]) for one in pairwise(bounds))
            return
        with ThreadPoolExecutor(1, "kafkalog-encode") as encoder:
            parts = zip(pairwise(bounds), cycle(rooms), strict=False)
            (first, last), out = next(parts)
            coming = encoder.submit(made, first, last, out)
            for (first, last), out in parts:
                ready = coming.result()
                coming = encoder.submit(made, first, last, out)
                yield ready
            yield coming.result()

    def _bounds(self, size: int) -> list[int]:
        """Say before which batches parcels of about `size` bytes begin, and end."""
        ends = np.cumsum(self.cut.payloads + RECORD_BATCH_OVERHEAD)
        bounds, done = [0], 0
        while bounds[-1] < len(ends):
            last = int(np.searchsorted(ends, done + size, side="right"))
            bounds.append(max(last, bounds[-1] + 1))
            done = int(ends[bounds[-1] - 1])
        return bounds

    def _parcel(self, first: int, last: int, out: Bytes) -> Parcel:
        bounds = self.cut.bounds[first : last + 1]
        columns = self.columns.between(int(bounds[0]), int(bounds[-1]))
        payloads = self.cut.payloads[first:last]
        rows = self.rows[first:last]
        cut = BatchSplit(bounds - bounds[0], payloads)
        data = encode_measured(columns, rows, cut, level=self.settings.level, out=out)
        return Parcel(np.frombuffer(data, np.uint8), rows, columns, payloads)


def cut_batches(
    columns: RecordColumns, settings: BatchSettings, batch_bytes: int
) -> Sending:
    """Cut records into batches of `batch_bytes`, before compression, or one record.

    Offsets of `columns` rise by 1. `settings` are those of a client's batches.

    Raises `InvalidRecordError` where a record or a batch cannot be written.
    """
    cut = split_into_batches(columns, batch_bytes=batch_bytes)
    if cut.payloads.max(initial=0) > _MOST_PAYLOAD:
        raise InvalidRecordError("a record takes more than a batch may")
    return Sending(columns, cut, head_batches(columns, cut.bounds, settings), settings)


def take_parcel(parcel: Parcel, as_leader: Leadership) -> Appends | None:
    """Take batches for appends of one each, as `validation.lead_appends` takes them.

    None where there may be something to say against one, or to be built anew.
    """
    if not _is_plain(parcel, as_leader):
        return None
    rows, count = parcel.rows, len(parcel.rows)
    info = np.zeros(count, APPEND)
    info["last_offset"] = info["last_offset_of_first_batch"] = rows["count"] - 1
    info["max_timestamp"] = rows["max_timestamp"]
    info["log_append_time"] = NO_TIMESTAMP
    info["valid_bytes"] = rows["size_in_bytes"]
    info["last_leader_epoch"] = NO_LEADER_EPOCH
    info["records"] = rows["count"]
    info["source_codec"] = rows["attributes"] & CODEC_MASK
    _speedups.stamp_batches(
        as_bytes(rows),
        as_bytes(info),
        as_leader.at_append,
        as_leader.now_ms,
        as_leader.leader_epoch,
        parcel.data,
    )
    byte_bounds = np.append(rows["position"], len(parcel.data))
    return Appends(parcel.data, rows, np.arange(count + 1), byte_bounds, info, {})


def _is_plain(parcel: Parcel, as_leader: Leadership) -> bool:
    """Whether all are what the rules ask for, and no record is out of range.

    What every batch here is anyway (whole, sound, a client's) is not asked.
    """
    rules, rows, columns = as_leader.rules, parcel.rows, parcel.columns
    _, keyed, codec, least, greatest = as_leader.as_tuple()
    packed = int(rows["attributes"][0]) & CODEC_MASK
    return bool(
        codec in (-1, packed)
        and rows["size_in_bytes"].max() <= rules.max_message_bytes
        and (packed == Codec.NONE or parcel.payloads.max() <= rules.max_unpacked_bytes)
        and (not keyed or columns.key.length.min() >= 0)
        and columns.timestamp.min() >= least
        and rows["max_timestamp"].max() <= greatest
    )
