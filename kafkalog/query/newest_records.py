"""The newest record of each key in an internal topic, as its coordinator has it.

A coordinator reads its partition from the start and keeps the last record of each key.
A transactional record counts once its transaction is committed. Of two records, the one
with the higher offset is the newer, even if it was committed first. A transaction that
is open hides its own records only, and not those after it, as it would for a consumer
with ``read_committed``.

A partition may be in several log directories, each of another broker. Only the replica
with the highest offset is used: of a deleted key another one may have older records.

Source: ``CoordinatorLoaderImpl.java``, ``OffsetMetadataManager.java``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from kafkalog.errors import (
    CorruptMessageError,
    LocatedError,
    NotALogDirectoryError,
    UnsupportedFormatError,
)
from kafkalog.formats.control_keys import ControlRecordType, parse_control_key
from kafkalog.messages.internal_records import InternalRecord, record_type
from kafkalog.messages.schema import Message
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.records import Records
from kafkalog.query.scan import Scan
from kafkalog.text.close_matches import first_few

NEEDED: Final = (
    "offset",
    "key",
    "value",
    "producer_id",
    "is_transactional",
    "is_control",
)
"""Columns that the state of a coordinator is made from."""

CONSUMER_OFFSETS: Final = "__consumer_offsets"
OFFSET_COMMIT: Final = (0, 1)
"""Types of the keys of committed offsets; the fields are the same."""

TYPE_BYTES: Final = 2
"""Size of the type, at the start of a key."""


NewestRecord = tuple[int, bytes, bytes | None]
"""The offset, key and value of a record; a value of None deletes the key.

A plain tuple of numbers and bytes, unlike its subclasses, costs the garbage collector
nothing: there may be millions.
"""


@dataclass(slots=True)
class NewestRecords:
    """The newest records of one partition, by the part of the key after its type.

    Kafka has several types of keys for the same thing. `end` is the offset after the
    last record. `problems` are the batches and records that the scan skips.
    """

    scan: Scan
    end: int = -1
    committed: dict[bytes, NewestRecord] = field(default_factory=dict)
    pending: dict[int, dict[bytes, NewestRecord]] = field(default_factory=dict)
    problems: list[ScanProblem] = field(default_factory=list)

    @property
    def partition(self) -> int:
        """The number of the partition."""
        [(source, _)] = self.scan.sources
        return source.partition

    def add(self, records: Records, types: Collection[int]) -> None:
        """Add the records of these types; those of all other types are ignored."""
        rows = zip(
            records.offset.tolist(),
            records.key.to_list(),
            records.value.to_list(),
            records.producer_id.tolist(),
            records.is_transactional.tolist(),
            records.is_control.tolist(),
            strict=True,
        )
        committed = self.committed
        prefixes = {number.to_bytes(TYPE_BYTES, "big") for number in types}
        for offset, key, value, producer_id, is_transactional, is_control in rows:
            self.end = offset + 1
            try:
                if is_control:
                    self._end_transaction(producer_id, key)
                elif key is None or key[:TYPE_BYTES] not in prefixes:
                    record_type(key)  # a key without a type is damage
                elif is_transactional:
                    pending = self.pending.setdefault(producer_id, {})
                    pending[key[TYPE_BYTES:]] = (offset, key, value)
                else:
                    committed[key[TYPE_BYTES:]] = (offset, key, value)
            except LocatedError as error:
                self.skip(error, offset)

    def of_types(self, types: Collection[int]) -> NewestRecords:
        """Return the records of some of the types that were read."""
        prefixes = {number.to_bytes(TYPE_BYTES, "big") for number in types}

        def chosen(records: dict[bytes, NewestRecord]) -> dict[bytes, NewestRecord]:
            return {
                place: record
                for place, record in records.items()
                if record[1][:TYPE_BYTES] in prefixes
            }

        pending = {owner: chosen(records) for owner, records in self.pending.items()}
        return replace(self, committed=chosen(self.committed), pending=pending)

    def skip(self, error: LocatedError, offset: int) -> None:
        """Raise the error of the record at `offset`, or list it if the scan skips."""
        located = locate_record(error, self.scan, offset)
        if not self.scan.policy.skips:
            raise located from None
        self.problems.append(ScanProblem.of(located, offset, offset))

    def _end_transaction(self, producer_id: int, key: bytes | None) -> None:
        """Apply a transaction marker; ignore control records of other types."""
        kind = ControlRecordType(parse_control_key(key)[1])
        if not kind.is_marker:
            return
        ended = self.pending.pop(producer_id, {})
        if kind != ControlRecordType.COMMIT:
            return
        for place, record in ended.items():
            newest = self.committed.get(place)
            if newest is None or newest[0] < record[0]:
                self.committed[place] = record


def newest_records(
    scan: Scan, topic: str, types: Collection[int]
) -> list[NewestRecords]:
    """Return the newest records of each partition of `topic` in a scan.

    Raises `NotALogDirectoryError` if the scan has no partition of the topic.
    """
    found: dict[int, NewestRecords] = {}
    for part in partitions_of(scan, topic):
        newest = NewestRecords(part)
        with_markers = replace(
            part,
            columns=NEEDED,
            policy=replace(part.policy, control_records=True),
        )
        for records in with_markers.chunks(reuse=True):
            newest.add(records, types)
        newest.problems[:0] = with_markers.problems
        other = found.get(newest.partition)
        if other is None or other.end < newest.end:
            found[newest.partition] = newest
    return list(found.values())


def current_messages(
    of_partitions: Iterable[NewestRecords], topic: str
) -> Iterator[tuple[Message, Message]]:
    """Yield each key that is not deleted, and its newest value.

    Raises `CorruptMessageError` and `UnsupportedFormatError`, with file and byte; if
    the scan skips damage, they are added to the problems of the partition instead.
    """
    for newest in of_partitions:
        for offset, key, value in newest.committed.values():
            if value is None:
                continue
            try:
                record = InternalRecord.decode(topic, key, value)
            except (CorruptMessageError, UnsupportedFormatError) as error:
                newest.skip(error, offset)
                continue
            assert record.key is not None  # it is a coordinator's
            assert record.value is not None  # it is no tombstone
            yield record.key, record.value


def partitions_of(scan: Scan, topic: str) -> list[Scan]:
    """Return the scan of each partition of a topic.

    Raises `NotALogDirectoryError` if there is none.
    """
    parts = [
        replace(scan, sources=((source, bounds),))
        for source, bounds in scan.sources
        if source.topic == topic
    ]
    if not parts:
        found = {str(source) for source, _ in scan.sources}
        places = first_few(found) or "no partition"
        raise NotALogDirectoryError(f"no partition of {topic}, found {places}")
    return parts


def locate_record(error: LocatedError, scan: Scan, offset: int) -> LocatedError:
    """Return an error about the record at `offset`, with its file and batch."""
    [(source, bounds)] = scan.sources
    one = replace(
        scan,
        sources=(
            (source, replace(bounds, start_offset=offset, end_offset=offset + 1)),
        ),
        columns=("segment", "position"),
    )
    error.reason = f"{error.reason} (record at offset {offset})"
    directory, found = source.directory, next(one.chunks(), None)
    if found is None:
        return error.located(directory)
    error.position = int(found.position[0])
    name = found.segments[int(found.segment[0])]
    return error.located(source.file if directory is None else directory / name)
