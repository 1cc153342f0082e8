"""Snapshots of the metadata log: ``<end offset>-<epoch>.checkpoint``.

A snapshot has batches of magic 2, one after another, as a segment has:

    | header: control records | data batches ... | footer: control record |

The header is a SNAPSHOT_HEADER and, with KRaft version 1 and above, the version and
the voters. A snapshot without the footer was not finished. Offsets begin at 0 in every
snapshot and are unrelated to those of the log. The leader epoch of each batch is the
epoch of the snapshot. No batch has a producer. This module opens no files.

Source: ``RecordsSnapshotWriter.java``, ``RecordsSnapshotReader.java``,
``BatchFileWriter.java``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from kafkalog.decoding.record_batch import Record, RecordBatch
from kafkalog.errors import CorruptRecordError
from kafkalog.formats.batch_headers import crc_error, scan_headers
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import (
    ControlRecord,
    control_record,
    parse_control,
)

VERSION: Final = 0
Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataSnapshot:
    """The contents of a snapshot; times are ms since 1970.

    `last_contained_log_timestamp` is the append time of the last record covered.
    `written` is the time of the header, `finished` that of the footer, None without a
    footer. `batches` are the data records of each batch. `kraft_version` and `voters`
    are None if the header does not have them.
    """

    epoch: int
    last_contained_log_timestamp: int
    written: int
    finished: int | None
    batches: tuple[tuple[Record, ...], ...] = ()
    kraft_version: int | None = None
    voters: Message | None = None

    @classmethod
    def parse(cls, data: bytes) -> MetadataSnapshot:
        """Parse a whole file.

        Raises `CorruptRecordError` at the byte where the batch begins that is corrupt,
        of another epoch, or misplaced.
        """
        header: Message | None = None
        header_records: dict[ControlRecordType, Message] = {}
        batches: list[tuple[Record, ...]] = []
        epoch = written = 0
        finished: int | None = None
        for position, batch in _valid_batches(data):
            if finished is not None:
                raise _misplaced("a batch after the footer", position)
            controls = _controls(batch, position)
            if header is None:
                header = controls.get(ControlRecordType.SNAPSHOT_HEADER)
                if header is None:
                    raise _misplaced("no snapshot header", position)
                epoch, written = batch.leader_epoch, batch.max_timestamp
                header_records = controls
            elif ControlRecordType.SNAPSHOT_FOOTER in controls:
                finished = batch.max_timestamp
            elif batch.is_control:
                raise _misplaced("control records among the data", position)
            else:
                batches.append(tuple(batch))
            if batch.leader_epoch != epoch:
                reason = f"leader epoch {batch.leader_epoch}, expected {epoch}"
                raise _misplaced(reason, position)
        if header is None:
            raise _misplaced("no snapshot header", 0)
        version = header_records.get(ControlRecordType.KRAFT_VERSION)
        return cls(
            epoch=epoch,
            last_contained_log_timestamp=int(header["lastContainedLogTimestamp"]),
            written=written,
            finished=finished,
            batches=tuple(batches),
            kraft_version=None if version is None else int(version["kRaftVersion"]),
            voters=header_records.get(ControlRecordType.KRAFT_VOTERS),
        )

    def format(self) -> bytes:
        """Return the bytes of the file, as Kafka writes them."""
        from kafkalog.encoding.batch_builder import RecordBatchBuilder  # not to read

        header: list[tuple[ControlRecordType, Message]] = [
            (
                ControlRecordType.SNAPSHOT_HEADER,
                {
                    "version": VERSION,
                    "lastContainedLogTimestamp": self.last_contained_log_timestamp,
                },
            )
        ]
        if self.kraft_version is not None:
            version = {"version": VERSION, "kRaftVersion": self.kraft_version}
            header.append((ControlRecordType.KRAFT_VERSION, version))
        if self.voters is not None:
            header.append((ControlRecordType.KRAFT_VOTERS, self.voters))
        parts = [self._control(header, 0, self.written)]
        offset = len(header)
        for records in self.batches:
            builder = RecordBatchBuilder(base_offset=offset, leader_epoch=self.epoch)
            for record in records:
                builder.append(record.key, record.value, timestamp=record.timestamp)
            parts.append(builder.build())
            offset += len(records)
        if self.finished is not None:
            footer = (ControlRecordType.SNAPSHOT_FOOTER, {"version": VERSION})
            parts.append(self._control([footer], offset, self.finished))
        return b"".join(parts)

    def _control(
        self,
        records: Sequence[tuple[ControlRecordType, Message]],
        offset: int,
        timestamp: int,
    ) -> bytes:
        from kafkalog.encoding.batch_builder import RecordBatchBuilder  # not to read

        builder = RecordBatchBuilder(
            base_offset=offset, leader_epoch=self.epoch, is_control=True
        )
        for kind, message in records:
            builder.append(*control_record(kind, message), timestamp=timestamp)
        return builder.build()


def _misplaced(reason: str, position: int) -> CorruptRecordError:
    return CorruptRecordError(reason, position=position, cause="control")


def _valid_batches(data: bytes) -> Iterator[tuple[int, RecordBatch]]:
    """Yield the batches with their positions; check that offsets count up from 0."""
    position, offset = 0, 0
    while position < len(data):
        batch = RecordBatch(data, position)
        if not batch.is_valid:
            array = np.frombuffer(data, np.uint8)
            raise crc_error(array, 0, scan_headers(array, position)[0][0])
        if batch.base_offset != offset:
            reason = f"base offset {batch.base_offset}, expected {offset}"
            raise CorruptRecordError(reason, position=position, cause="offset")
        yield position, batch
        offset = batch.last_offset + 1
        position += batch.size_in_bytes


def _controls(batch: RecordBatch, position: int) -> dict[ControlRecordType, Message]:
    """Return the messages of a control batch by type, empty for a data batch."""
    if not batch.is_control:
        return {}
    try:
        controls: list[ControlRecord] = [
            parse_control(record.key, record.value) for record in batch
        ]
    except CorruptRecordError as error:
        raise _misplaced(error.reason, position) from None
    return {
        record.type: record.message for record in controls if record.message is not None
    }
