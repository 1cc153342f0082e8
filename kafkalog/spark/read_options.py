"""The options of the Spark source.

`parse_options` reads them all and reports every wrong option in one error. It differs
from Spark's Kafka source in these points: none of assign, subscribe and
subscribePattern is required, and all topics are read without one; unknown options,
endingTimestamp in a stream, invalid trigger options in a batch and times before 1970
are errors.

The `ReadPolicy` of a query is made from these options in `kafkalog.spark.task_reader`:
this module, which Spark also imports for a schema alone, does not import NumPy.

Source: ``KafkaSourceProvider.scala``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_json import partitions_from_json
from kafkalog.spark.offset_limits import (
    EARLIEST,
    LATEST,
    OffsetLimit,
    check_batch_end,
    check_batch_start,
    check_order,
    parse_offsets,
    parse_timestamp,
    parse_timestamps,
)
from kafkalog.spark.option_reader import OptionReader
from kafkalog.spark.option_values import (
    parse_boolean,
    parse_duration_ms,
    parse_integer,
    parse_names,
    parse_paths,
    parse_positive_int,
    parse_size,
)
from kafkalog.spark.spark_columns import COLUMNS, canonical_name, default_columns
from kafkalog.spark.topic_selection import (
    ALL_TOPICS,
    Assign,
    Subscribe,
    SubscribePattern,
    Topics,
    compile_java_pattern,
)
from kafkalog.text.close_matches import with_close_matches

REJECTED: Final = {
    "kafka.auto.offset.reset": "not supported, set startingOffsets instead",
    "kafka.key.deserializer": "not supported, keys are read as bytes",
    "kafka.value.deserializer": "not supported, values are read as bytes",
    "kafka.enable.auto.commit": "not supported, offsets are not committed to Kafka",
    "kafka.interceptor.classes": "not supported, there is no consumer",
}
IGNORED_PREFIXES: Final = ("kafka.", "kafkaconsumer.", "fetchoffset.", "groupidprefix")
PER_TRIGGER: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
STORAGE: Final = "storage."
MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
TARGET_PARTITION_BYTES: Final = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The parsed options of one read; the defaults are those of a batch.

    `storage` has credentials, under names without ``storage.``, and `paths` may have
    some; neither is in the repr. `ignored` are names of options that have no effect
    here.
    """

    paths: tuple[str, ...] = field(repr=False)
    topics: Topics = ALL_TOPICS
    starting: OffsetLimit = EARLIEST
    ending: OffsetLimit = LATEST
    on_missing_time: str = "error"
    include_headers: bool = False
    fail_on_data_loss: bool = True
    min_partitions: int | None = None
    max_records_per_partition: int | None = None
    max_offsets_per_trigger: int | None = None
    min_offsets_per_trigger: int | None = None
    max_trigger_delay_ms: int = MAX_TRIGGER_DELAY_MS
    read_committed: bool = False
    check_crcs: bool = True
    on_corruption: str = "raise"
    columns: tuple[str, ...] | None = None
    target_partition_bytes: int = TARGET_PARTITION_BYTES
    control_records: bool = False
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    ignored: tuple[str, ...] = ()


def parse_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Parse the options of ``spark.read`` or ``spark.readStream``.

    Raises one `ConfigError` with what was expected and found, for each invalid option.

    >>> options = {"path": "/data", "subscribe": "orders", "includeHeaders": "true"}
    >>> parse_options(options, streaming=False).topics
    Subscribe(topics=('orders',))
    >>> parse_options({"path": "/data", "minPartitions": "0"}, streaming=False)
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: option minPartitions: expected an integer of...
    """
    reader = _SourceOptionReader(options)
    starting, ending = _read_limits(reader, streaming)
    take = reader.take
    parsed = SourceOptions(
        paths=_read_paths(reader),
        topics=_read_topics(reader),
        starting=starting,
        ending=ending,
        on_missing_time=take(
            "startingOffsetsByTimestampStrategy", _error_or_latest, "error"
        ),
        include_headers=take("includeHeaders", parse_boolean, False),
        fail_on_data_loss=take("failOnDataLoss", parse_boolean, True),
        min_partitions=_read_min_partitions(reader),
        max_records_per_partition=take("maxRecordsPerPartition", _positive, None),
        max_offsets_per_trigger=take("maxOffsetsPerTrigger", _positive, None),
        min_offsets_per_trigger=take("minOffsetsPerTrigger", _nonnegative, None),
        max_trigger_delay_ms=take(
            "maxTriggerDelay", parse_duration_ms, MAX_TRIGGER_DELAY_MS
        ),
        read_committed=take("kafka.isolation.level", _parse_isolation, False),
        check_crcs=take("kafka.check.crcs", parse_boolean, True),
        on_corruption=_read_on_corruption(reader),
        columns=take("columns", parse_columns, None),
        target_partition_bytes=take(
            "targetPartitionBytes", parse_size, TARGET_PARTITION_BYTES
        ),
        control_records=take("controlRecords", parse_boolean, False),
        storage=reader.take_all(STORAGE),
        ignored=reader.take_ignored(streaming),
    )
    _check_trigger(reader, parsed)
    reader.finish()
    return parsed


def parse_columns(text: str) -> tuple[str, ...]:
    """Parse names of the source's columns, in any case, and keep their order.

    >>> parse_columns("key, offset, leaderepoch")
    ('key', 'offset', 'leaderEpoch')
    """
    names = tuple(canonical_name(name) or name for name in parse_names(text))
    unknown = [
        with_close_matches(name, COLUMNS) for name in names if name not in COLUMNS
    ]
    if unknown:
        raise ConfigError(
            f"expected columns of {', '.join(COLUMNS)}, got {', '.join(unknown)}"
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigError(f"expected each column once, got {', '.join(repeated)} twice")
    return names


def requested_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Return the columns of a read whose user states no schema.

    Invalid options are ignored here; `parse_options` reports them with all others.

    >>> requested_columns({"includeHeaders": "true"})[-1]
    'headers'
    """
    reader = _SourceOptionReader(options)
    chosen = reader.take("columns", parse_columns, None)
    headers = reader.take("includeHeaders", parse_boolean, False)
    return default_columns(include_headers=headers) if chosen is None else chosen


class _SourceOptionReader(OptionReader):
    """The options of a source."""

    def check(
        self, name: str, check: Callable[..., None], *limits: OffsetLimit
    ) -> None:
        try:
            check(*limits)
        except ConfigError as error:
            self.reject(name, str(error))

    def take_ignored(self, streaming: bool) -> tuple[str, ...]:
        """Return the options without effect; report rejected ones."""
        for name, reason in REJECTED.items():
            if self.has(name):
                self.reject(name, reason)
        names = {name for name in self.remaining if name.startswith(IGNORED_PREFIXES)}
        self.remaining -= names
        if not streaming:
            names |= {name.lower() for name in PER_TRIGGER if self.has(name)}
        return tuple(sorted(self.names[name] for name in names))


def _read_paths(reader: _SourceOptionReader) -> tuple[str, ...]:
    path = reader.take("path", _single_path, ())
    paths = reader.take("paths", parse_paths, ())
    if not reader.has("path") and not reader.has("paths"):
        reader.reject("path", "expected log directories, got none")
    return path + paths


def _single_path(text: str) -> tuple[str, ...]:
    if not text:
        raise ConfigError("expected a log directory, got none")
    return (text,)


def _read_topics(reader: _SourceOptionReader) -> Topics:
    parsers: dict[str, Callable[[str], Topics]] = {
        "assign": _assign,
        "subscribe": lambda text: Subscribe(parse_names(text)),
        "subscribePattern": _subscribe_pattern,
        "topic": _single_topic,
    }
    default: Topics = ALL_TOPICS
    return reader.take_one_of(parsers, default)


def _read_min_partitions(reader: _SourceOptionReader) -> int | None:
    parsers: dict[str, Callable[[str], int | None]] = {
        "minPartitions": parse_positive_int,
        "splits": parse_positive_int,
    }
    return reader.take_one_of(parsers, None)


def _single_topic(text: str) -> Topics:
    names = parse_names(text)
    if len(names) != 1:
        raise ConfigError(f"expected one topic, got {text!r}")
    return Subscribe(names)


def _assign(text: str) -> Topics:
    return Assign(tuple(partitions_from_json(text.strip())))


def _subscribe_pattern(text: str) -> Topics:
    pattern = text.strip()
    if not pattern:
        raise ConfigError("expected a pattern, got none")
    compile_java_pattern(pattern)
    return SubscribePattern(pattern)


def _read_limits(
    reader: _SourceOptionReader, streaming: bool
) -> tuple[OffsetLimit, OffsetLimit]:
    """Parse where to start and end, with the precedence of Spark's source."""
    start = _read_limit(reader, "starting", LATEST if streaming else EARLIEST)
    if streaming:
        for kind in ("Timestamp", "OffsetsByTimestamp", "Offsets"):
            if reader.has(f"ending{kind}"):
                reader.reject(f"ending{kind}", "a stream has no end")
        return start, LATEST
    end = _read_limit(reader, "ending", LATEST)
    reader.check("startingOffsets", check_batch_start, start)
    reader.check("endingOffsets", check_batch_end, end)
    reader.check("endingOffsets", check_order, start, end)
    return start, end


def _read_limit(
    reader: _SourceOptionReader, which: str, default: OffsetLimit
) -> OffsetLimit:
    """Parse the first present of the three forms; the others are not validated."""
    forms: dict[str, Callable[[str], OffsetLimit]] = {
        f"{which}Timestamp": parse_timestamp,
        f"{which}OffsetsByTimestamp": parse_timestamps,
        f"{which}Offsets": parse_offsets,
    }
    reader.known.update(forms)
    present = [name for name in forms if reader.has(name)]
    reader.remaining -= {name.lower() for name in present}
    return reader.take(present[0], forms[present[0]], default) if present else default


def _read_on_corruption(reader: _SourceOptionReader) -> str:
    if reader.has("onCorruption") and reader.has("on_corruption"):
        reader.reject("onCorruption", "set twice, as on_corruption too")
    alias = reader.take("on_corruption", _raise_or_skip, "raise")
    return reader.take("onCorruption", _raise_or_skip, alias)


def _check_trigger(reader: _SourceOptionReader, parsed: SourceOptions) -> None:
    minimum, maximum = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if minimum is not None and maximum is not None and minimum > maximum:
        reader.reject(
            "minOffsetsPerTrigger",
            f"expected at most maxOffsetsPerTrigger, {maximum}, got {minimum}",
        )


def _positive(text: str) -> int:
    return parse_integer(text, minimum=1)


def _nonnegative(text: str) -> int:
    return parse_integer(text, minimum=0)


def _one_of(text: str, *values: str) -> str:
    if text not in values:
        raise ConfigError(f"expected {' or '.join(values)}, got {text}")
    return text


def _error_or_latest(text: str) -> str:
    return _one_of(text.lower(), "error", "latest")


def _raise_or_skip(text: str) -> str:
    return _one_of(text, "raise", "skip")


def _parse_isolation(text: str) -> bool:
    return _one_of(text, "read_committed", "read_uncommitted") == "read_committed"
