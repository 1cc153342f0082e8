"""The offset ranges that a batch or micro-batch reads, and their division into parts.

`OffsetLimit`s of the options are resolved to offsets by an `OffsetReader`. Spark's
executors notice missing offsets when they read; here they are found before reading.

Source: ``KafkaOffsetReaderAdmin.scala``, ``KafkaSourceRDD.scala``,
``KafkaMicroBatchStream.scala``, ``KafkaDataConsumer.scala`` and
``KafkaOffsetRangeCalculator.scala``.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Protocol

from kafkalog.errors import ConfigError, DataLossError
from kafkalog.query.task_planning import OffsetRange
from kafkalog.spark.offset_json import (
    TopicPartition,
    format_partition,
    format_partitions,
)
from kafkalog.spark.offset_limits import (
    EARLIEST,
    LATEST,
    Edge,
    GlobalTimestamp,
    OffsetLimit,
    SpecificOffsets,
    SpecificTimestamps,
)
from kafkalog.spark.read_options import SourceOptions

LOGGER: Final = logging.getLogger(__name__)

Warn = Callable[[str], None]
"""Function called with a line for each loss of data that does not fail the query."""

Offsets = Mapping[TopicPartition, int]


class OffsetReader(Protocol):
    """Reads offsets of partitions; `topic_partitions` lists the only valid ones."""

    def topic_partitions(self) -> list[TopicPartition]:
        """Return the partitions, sorted."""

    def earliest_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the first readable offset of each partition."""

    def latest_offsets(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """Return the offset after the last readable one of each partition."""

    def offsets_for_times(
        self, times_ms: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        """Return the first offset at or after each timestamp; None where none is."""


def starting_offsets(
    options: SourceOptions, reader: OffsetReader
) -> dict[TopicPartition, int]:
    """Return the first offset to read of each selected partition.

    Raises `ConfigError` if the options name other partitions than are selected, if a
    topic is missing, or if no record is at or after a timestamp.
    """
    selected = options.topics.select(reader.topic_partitions())
    offsets = _find(options, options.starting, selected, reader, start=True)
    return _resolve_edges(offsets, reader)


def ending_offsets(
    options: SourceOptions, reader: OffsetReader
) -> dict[TopicPartition, int]:
    """Return the offset at which to stop, exclusive, in each selected partition.

    It is the latest where no record is at or after a timestamp. Raises `ConfigError` as
    `starting_offsets` does otherwise.
    """
    selected = options.topics.select(reader.topic_partitions())
    offsets = _find(options, options.ending, selected, reader, start=False)
    return _resolve_edges(offsets, reader)


def latest_offsets(
    options: SourceOptions, reader: OffsetReader
) -> dict[TopicPartition, int]:
    """Return the latest offset of each selected partition."""
    return reader.latest_offsets(options.topics.select(reader.topic_partitions()))


def batch_ranges(
    options: SourceOptions, reader: OffsetReader, warn: Warn = LOGGER.warning
) -> list[OffsetRange]:
    """Return the nonempty ranges that a batch reads, by partition.

    Raises `ConfigError` as `starting_offsets` does, and if a start exceeds its end;
    `DataLossError` if requested offsets are missing.
    """
    starts = starting_offsets(options, reader)
    ends = ending_offsets(options, reader)
    for tp in sorted(starts):
        if starts[tp] > ends[tp]:
            raise ConfigError(
                f"the start offset {starts[tp]} is greater than the end offset "
                f"{ends[tp]} for {format_partition(tp)}; a missing offset is "
                "an end of the log"
            )
    ranges = [OffsetRange(*tp, starts[tp], ends[tp]) for tp in sorted(starts)]
    return _check_readable(options, reader, ranges, warn)


def new_partition_starts(
    reader: OffsetReader, start: Offsets, end: Offsets
) -> dict[TopicPartition, int]:
    """Return the earliest offsets of existing partitions that `start` does not have.

    A stream reads new partitions from there.
    """
    new = (end.keys() - start.keys()) & set(reader.topic_partitions())
    return reader.earliest_offsets(sorted(new))


def stream_ranges(
    options: SourceOptions,
    reader: OffsetReader,
    start: Offsets,
    end: Offsets,
    warn: Warn = LOGGER.warning,
) -> list[OffsetRange]:
    """Return the nonempty ranges of a micro-batch from `start` to `end`, by partition.

    Raises `DataLossError` if a partition was deleted, a new one does not begin at
    offset 0, an end precedes its start, or requested offsets are missing.
    """
    new = new_partition_starts(reader, start, end)
    if missing := end.keys() - start.keys() - new.keys():
        loss = f"no first offset found of new partitions {format_partitions(missing)}"
        _report_loss(options, loss, warn)
    for tp, offset in new.items():
        if offset != 0:
            loss = f"new partition {format_partition(tp)} begins at {offset}"
            _report_loss(options, loss, warn)
    if deleted := start.keys() - end.keys():
        loss = f"partitions {format_partitions(deleted)} have been deleted"
        _report_loss(options, loss, warn)
    starts = {**start, **new}
    ranges = []
    for tp in sorted(starts.keys() & end.keys()):
        if end[tp] < starts[tp]:
            loss = (
                f"the offset of {format_partition(tp)} decreased from {starts[tp]} to "
                f"{end[tp]}"
            )
            _report_loss(options, loss, warn)
        ranges.append(OffsetRange(*tp, starts[tp], end[tp]))
    return _check_readable(options, reader, ranges, warn)


def split_ranges(
    ranges: Iterable[OffsetRange],
    min_partitions: int | None = None,
    max_records: int | None = None,
) -> list[OffsetRange]:
    """Divide ranges into as many parts as Spark's source would; skip empty ones.

    No part has more than `max_records` offsets. Large ranges are then divided until
    there are about `min_partitions` parts.

    >>> split_ranges([OffsetRange("orders", 0, 0, 10)], max_records=4)
    [OffsetRange(topic='orders', partition=0, start=0, end=3), ...]
    >>> [part.length for part in split_ranges([OffsetRange("orders", 0, 0, 10)], 3)]
    [3, 3, 4]
    """
    parts = [offset_range for offset_range in ranges if offset_range.length > 0]
    if max_records is not None:
        parts = [
            part
            for offset_range in parts
            for part in _divide(
                offset_range, math.ceil(offset_range.length / max_records)
            )
        ]
    if min_partitions is None or min_partitions <= len(parts):
        return parts
    return _divide_large(parts, min_partitions)


def _find(
    options: SourceOptions,
    limit: OffsetLimit,
    selected: list[TopicPartition],
    reader: OffsetReader,
    *,
    start: bool,
) -> dict[TopicPartition, int]:
    """Return each partition's offset, or -1 or -2 for an edge."""
    match limit:
        case Edge():
            return dict.fromkeys(selected, limit)
        case SpecificOffsets(offsets):
            _check_partitions("offsets", offsets, selected)
            return dict(offsets)
        case SpecificTimestamps(times_ms):
            _check_partitions("timestamps", times_ms, selected)
        case GlobalTimestamp(time_ms):
            times_ms = dict.fromkeys(selected, time_ms)
    strict = start and options.on_missing_time == "error"
    return _find_timestamps(times_ms, reader, strict)


def _find_timestamps(
    times_ms: Offsets, reader: OffsetReader, strict: bool
) -> dict[TopicPartition, int]:
    offsets = reader.offsets_for_times(times_ms)
    missing = [tp for tp in sorted(times_ms) if offsets[tp] is None]
    if strict and missing:
        raise ConfigError(
            f"no record of {format_partition(missing[0])} is at or after timestamp "
            f"{times_ms[missing[0]]} (startingOffsetsByTimestampStrategy=latest starts "
            "at the latest offset then)"
        )
    return {tp: LATEST if offset is None else offset for tp, offset in offsets.items()}


def _resolve_edges(offsets: Offsets, reader: OffsetReader) -> dict[TopicPartition, int]:
    """Replace -1 and -2 by the latest and earliest offset."""
    edges = reader.latest_offsets([tp for tp, at in offsets.items() if at == LATEST])
    edges |= reader.earliest_offsets(
        [tp for tp, at in offsets.items() if at == EARLIEST]
    )
    return {tp: edges.get(tp, offsets[tp]) for tp in sorted(offsets)}


def _check_partitions(
    noun: str, found: Offsets, selected: list[TopicPartition]
) -> None:
    if found.keys() != set(selected):
        raise ConfigError(
            f"expected {noun} for exactly the selected partitions, "
            f"{format_partitions(selected)}, got them for {format_partitions(found)}"
        )


def _check_readable(
    options: SourceOptions,
    reader: OffsetReader,
    ranges: list[OffsetRange],
    warn: Warn,
) -> list[OffsetRange]:
    """Return the nonempty ranges, reduced to the offsets that exist.

    Offsets that do not exist are reported as lost.
    """
    ranges = [offset_range for offset_range in ranges if offset_range.length > 0]
    existing = set(reader.topic_partitions())
    selected = [
        offset_range.topic_partition
        for offset_range in ranges
        if offset_range.topic_partition in existing
    ]
    earliest = reader.earliest_offsets(selected)
    latest = reader.latest_offsets(selected)
    readable = []
    for offset_range in ranges:
        first = earliest.get(offset_range.topic_partition, 0)
        end = latest.get(offset_range.topic_partition, 0)
        if offset_range.start < first or offset_range.end > end:
            loss = (
                f"requested offsets [{offset_range.start}, {offset_range.end}) of "
                f"{format_partition(offset_range.topic_partition)}, "
                f"found [{first}, {end})"
            )
            _report_loss(options, loss, warn)
        readable.append(
            offset_range._replace(
                start=max(offset_range.start, first), end=min(offset_range.end, end)
            )
        )
    return [offset_range for offset_range in readable if offset_range.length > 0]


def _report_loss(options: SourceOptions, found: str, warn: Warn) -> None:
    """Raise `DataLossError`, or warn if ``failOnDataLoss`` is false."""
    text = f"some data may have been lost, aged out or deleted with its topic: {found}"
    if options.fail_on_data_loss:
        # Not a note: of an error in a stream Spark shows the message only.
        raise DataLossError(f"{text} (failOnDataLoss=false reads what exists)")
    warn(text)


def _divide_large(ranges: list[OffsetRange], min_partitions: int) -> list[OffsetRange]:
    """Divide ranges in proportion to their length.

    Ranges whose share is one part are not divided, and are not counted in the lengths
    of the others.
    """
    total = sum(offset_range.length for offset_range in ranges)
    small = [
        offset_range
        for offset_range in ranges
        if _share(offset_range.length, total, min_partitions) == 1
    ]
    small_partitions = {offset_range.topic_partition for offset_range in small}
    large_total = total - sum(offset_range.length for offset_range in small)
    large_parts = max(min_partitions - len(small), 1)
    return [
        part
        for offset_range in ranges
        for part in _divide(
            offset_range,
            1
            if offset_range.topic_partition in small_partitions
            else _share(offset_range.length, large_total, large_parts),
        )
    ]


def _share(length: int, total: int, parts: int) -> int:
    """Return a range's share of `parts`, at least 1, rounded half up as Java does."""
    share = float(length) / float(total) * parts
    below = math.floor(share)
    return max(below + (share - below >= 0.5), 1)


def _divide(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Divide a range evenly into nonempty parts, the longer ones last."""
    divided = []
    start = whole.start
    for remaining in range(parts, 0, -1):
        end = start + (whole.end - start) // remaining
        if end > start:
            divided.append(whole._replace(start=start, end=end))
        start = end
    return divided
