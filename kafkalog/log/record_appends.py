"""Appending records rather than batches: what a producer does, and then a leader.

    records -> columns     formats.record_input     whatever holds records
    columns -> batches     formats.sent_batches     cut, encoded, compressed
    batches -> the log     appending                as `append_many` would

The batches are appended as those of any producer are.

Knows: what may be said of records that are appended. Does not know: any rule of a log.
Source: ``KafkaProducer.java``, ``RecordAccumulator.java``.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from kafkalog.codecs.compression import Codec, check_level
from kafkalog.encoding.batch_builder import BatchSettings
from kafkalog.encoding.batch_encoder import DEFAULT_BATCH_BYTES
from kafkalog.encoding.producer_batches import (
    BUFFER_BYTES,
    ProducerBatches,
    cut_batches,
)
from kafkalog.encoding.record_columns import Int64s
from kafkalog.encoding.record_input import RecordsLike, record_columns
from kafkalog.errors import KafkaLogError
from kafkalog.formats.batch_headers import Bytes
from kafkalog.formats.layout import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    CodecName,
)
from kafkalog.log.appending import Appender, Outcome
from kafkalog.log.producers.producer_append import TV_UNKNOWN
from kafkalog.log.producers.producer_entry import NO_GUARD
from kafkalog.log.runtime import Runtime, guarded
from kafkalog.log.state import LogState

NO_OFFSET: Final = -1


class Refusal(NamedTuple):
    """Records ``[first, end)`` of those given, refused together, and why.

    The records that `error` may name are counted from `first`.
    """

    first: int
    end: int
    error: KafkaLogError


@dataclass(frozen=True, slots=True)
class AppendedRecords:
    """What became of records: batch i held those from ``bounds[i]`` to the next.

    `outcomes` has of each batch its `AppendResult`, or the error it was refused with.
    """

    outcomes: list[Outcome]
    bounds: Int64s

    @property
    def offsets(self) -> Int64s:
        """The offset of each record, -1 of one that was refused (n,)."""
        firsts = [
            NO_OFFSET if isinstance(one, KafkaLogError) else one.first_offset
            for one in self.outcomes
        ]
        counts = np.diff(self.bounds)
        first = np.repeat(np.array(firsts, np.int64), counts)
        within = np.arange(len(first)) - np.repeat(self.bounds[:-1], counts)
        return np.where(first < 0, NO_OFFSET, first + within)

    @property
    def refused(self) -> list[Refusal]:
        """The batches that were refused, their records, and why."""
        bounds = self.bounds.tolist()
        return [
            Refusal(bounds[i], bounds[i + 1], one)
            for i, one in enumerate(self.outcomes)
            if isinstance(one, KafkaLogError)
        ]


class RecordAppends:
    """The part of a log that is written to which takes records."""

    _log: LogState
    _appender: Appender
    _buffers: tuple[Bytes, Bytes] | None = None
    runtime: Runtime

    def append_records(
        self,
        records: RecordsLike,
        *,
        codec: CodecName | None = None,
        level: int | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        producer_id: int = NO_PRODUCER_ID,
        producer_epoch: int = NO_PRODUCER_EPOCH,
        base_sequence: int = NO_SEQUENCE,
        is_transactional: bool = False,
        leader_epoch: int | None = None,
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
    ) -> AppendedRecords:
        """Append records as a leader, in batches such as a producer sends.

        `records` is columns: a table of Arrow, pandas or Polars, a mapping of arrays or
        lists, a `Scan` or its `Records`; or rows: mappings, or objects with attributes,
        such as `Record`. Columns are ``key``, ``value`` (bytes or text, one of both at
        least), ``headers`` (lists of pairs), and ``timestamp`` (ms, ``datetime64`` or a
        time of Arrow's; -1 or null for none). Without timestamps it is now. What else a
        scan gives, the offsets for one, is left aside.

        A batch takes records up to `batch_bytes` before compression, at least one.
        `codec` and `level` are by default those of ``compression.type``, or none.
        Sequences run on from `base_sequence`. The rest is as for `append`. All is in
        memory at once: of what is large, append ``scan.chunks()`` one by one. Of more
        than 2 MB, a thread named ``kafkalog-encode`` encodes the batches that follow
        while others are written; it ends with the call.

        A batch that is refused does not keep the others from being appended, as with
        `append_many`: look at `refused` of what comes back.

        Raises `UnfitRecordsError`, naming all that is wrong with `records`,
        `InvalidRecordError` and `ConfigError`, before anything is appended.

        >>> import tempfile, kafkalog
        >>> from pathlib import Path
        >>> root = tempfile.TemporaryDirectory()
        >>> with kafkalog.open(Path(root.name, "t-0"), mode="a") as log:
        ...     done = log.append_records({"key": [b"a", None], "value": [b"1", b"2"]})
        ...     done.offsets, done.refused
        (array([0, 1]), [])
        >>> root.cleanup()
        """
        columns = record_columns(records, self.runtime.now_ms())
        producer = {
            "producer_id": producer_id,
            "producer_epoch": producer_epoch,
            "base_sequence": base_sequence,
            "is_transactional": is_transactional,
        }
        settings = self._settings(codec, level, producer)
        batches = cut_batches(columns, settings, batch_bytes)
        terms = (leader_epoch, guard, transaction_version)
        return self._append_batches(batches, terms)

    def _settings(
        self, codec: CodecName | None, level: int | None, producer: dict[str, Any]
    ) -> BatchSettings:
        """Say what the batches are to be, the topic's codec where none is named."""
        config = self._log.config
        kind = config.compression_type
        if codec is None and kind != "producer" and kind != "uncompressed":
            codec = kind
            level = config.compression_level if level is None else level
        settings = BatchSettings(
            codec="none" if codec is None else codec, level=level, **producer
        )
        check_level(Codec(int(settings.codec)), level)
        return settings

    @guarded
    def _append_batches(
        self, batches: ProducerBatches, asked: tuple[int | None, int, int]
    ) -> AppendedRecords:
        appender = self._appender
        terms = appender.terms("client", *asked)
        if self._buffers is None:
            self._buffers = (
                np.empty(BUFFER_BYTES, np.uint8),
                np.empty(BUFFER_BYTES, np.uint8),
            )
        outcomes: list[Outcome] = []
        with closing(batches.encode(self._buffers)) as encoded:
            for some in encoded:
                outcomes += appender.append(some, terms)
        return AppendedRecords(outcomes, batches.cut.bounds)
