"""The options of the Spark source: read, checked, and told all at once when wrong.

Knows: every option, its form, its default. Does not know: files, logs or Spark.
Source: KafkaSourceProvider of Spark's Kafka source, for the options that are Kafka's.
It demands one of assign, subscribe and subscribePattern, this one reads all topics
where there is none. It takes no notice of options that nobody has, of endingTimestamp
in a stream, and in a batch of what is wrong in the options of triggers: these are
errors here, and so are times before 1970, which to Kafka mean other things than times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeVar

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_json import INT_MAX, places_from_json
from kafkalog.spark.offset_limits import (
    EARLIEST,
    LATEST,
    Limit,
    check_batch_end,
    check_batch_start,
    check_order,
    parse_offsets,
    parse_timestamp,
    parse_timestamps,
)
from kafkalog.spark.option_values import (
    parse_duration_ms,
    parse_names,
    parse_paths,
    parse_size,
    parse_truth,
    parse_whole,
)
from kafkalog.spark.spark_columns import COLUMNS, default_columns, spelled
from kafkalog.spark.topic_selection import (
    EVERYTHING,
    Assign,
    Subscribe,
    SubscribePattern,
    Topics,
    compile_java,
)

T = TypeVar("T")
D = TypeVar("D")

REFUSED: Final = {
    "kafka.auto.offset.reset": "not supported, set startingOffsets instead",
    "kafka.key.deserializer": "not supported, keys are given as bytes",
    "kafka.value.deserializer": "not supported, values are given as bytes",
    "kafka.enable.auto.commit": "not supported, offsets are not committed to Kafka",
    "kafka.interceptor.classes": "not supported, no consumer is at work",
}
IGNORED_PREFIXES: Final = ("kafka.", "kafkaconsumer.", "fetchoffset.", "groupidprefix")
OF_SPARK: Final = {"checkpointlocation"}
PER_TRIGGER: Final = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
STORAGE: Final = "storage."
MAX_TRIGGER_DELAY_MS: Final = 15 * 60 * 1000
TARGET_PARTITION_BYTES: Final = 128 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What a reading was asked for; the defaults are a batch's.

    `storage` holds credentials under their names without ``storage.``, and `paths` may
    hold some, so neither shows in any text. `ignored` names the options that were given
    and mean nothing here.
    """

    paths: tuple[str, ...] = field(repr=False)
    topics: Topics = EVERYTHING
    starting: Limit = EARLIEST
    ending: Limit = LATEST
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
    """Read the options of ``spark.read`` or ``spark.readStream``.

    Raises one `ConfigError` that names every wrong option, what was expected of it and
    what was found.

    >>> options = {"path": "/data", "subscribe": "orders", "includeHeaders": "true"}
    >>> parse_options(options, streaming=False).topics
    Subscribe(topics=('orders',))
    >>> parse_options({"path": "/data", "minPartitions": "0"}, streaming=False)
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: option minPartitions: expected a whole number of...
    """
    given = _Given(options)
    starting, ending = _read_limits(given, streaming)
    take = given.take
    parsed = SourceOptions(
        paths=_read_paths(given),
        topics=_read_topics(given),
        starting=starting,
        ending=ending,
        on_missing_time=take(
            "startingOffsetsByTimestampStrategy", _error_or_latest, "error"
        ),
        include_headers=take("includeHeaders", parse_truth, False),
        fail_on_data_loss=take("failOnDataLoss", parse_truth, True),
        min_partitions=_read_min_partitions(given),
        max_records_per_partition=take("maxRecordsPerPartition", _positive, None),
        max_offsets_per_trigger=take("maxOffsetsPerTrigger", _positive, None),
        min_offsets_per_trigger=take("minOffsetsPerTrigger", _natural, None),
        max_trigger_delay_ms=take(
            "maxTriggerDelay", parse_duration_ms, MAX_TRIGGER_DELAY_MS
        ),
        read_committed=take("kafka.isolation.level", _is_committed, False),
        check_crcs=take("kafka.check.crcs", parse_truth, True),
        on_corruption=_read_on_corruption(given),
        columns=take("columns", parse_columns, None),
        target_partition_bytes=take(
            "targetPartitionBytes", parse_size, TARGET_PARTITION_BYTES
        ),
        control_records=take("controlRecords", parse_truth, False),
        storage=given.take_storage(),
        ignored=given.take_ignored(streaming),
    )
    _check_trigger(given, parsed)
    given.finish()
    return parsed


def parse_columns(text: str) -> tuple[str, ...]:
    """Read names of the source's columns, in the order given, of whatever case.

    >>> parse_columns("key, offset, leaderepoch")
    ('key', 'offset', 'leaderEpoch')
    """
    names = tuple(spelled(name) or name for name in parse_names(text))
    unknown = [name for name in names if name not in COLUMNS]
    if unknown:
        raise ConfigError(
            f"expected columns out of {', '.join(COLUMNS)}, got {', '.join(unknown)}"
        )
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ConfigError(f"expected each column once, got {', '.join(repeated)} twice")
    return names


def asked_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """Say which columns a reading gives whose user names no schema.

    What is wrong is not said here but by `parse_options`, with all else that is.

    >>> asked_columns({"includeHeaders": "true"})[-1]
    'headers'
    """
    given = _Given(options)
    chosen = given.take("columns", parse_columns, None)
    headers = given.take("includeHeaders", parse_truth, False)
    return default_columns(include_headers=headers) if chosen is None else chosen


class _Given:
    """The options given: which of them are still to be read, and what was wrong."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.names = {name.lower(): name for name in options}
        self.values = {name.lower(): value for name, value in options.items()}
        self.left = set(self.values) - OF_SPARK
        self.problems: list[str] = []

    def has(self, name: str) -> bool:
        return name.lower() in self.values

    def take(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        """Read one option; `default` where it is not given, or wrong."""
        self.left.discard(name.lower())
        if not self.has(name):
            return default
        try:
            return parse(self.values[name.lower()])
        except ConfigError as error:
            self.refuse(name, str(error))
            return default

    def take_one_of(self, ways: Mapping[str, Callable[[str], D]], default: D) -> D:
        """Read the one that is given of options that mean the same; one at most is."""
        named = [name for name in ways if self.has(name)]
        if len(named) > 1:
            self.problems.append(f"expected only one of the options {', '.join(named)}")
        chosen = [self.take(name, ways[name], default) for name in named]
        return chosen[0] if chosen else default

    def refuse(self, name: str, reason: str) -> None:
        self.left.discard(name.lower())
        self.problems.append(f"option {name}: {reason}")

    def check(self, name: str, check: Callable[..., None], *limits: Limit) -> None:
        try:
            check(*limits)
        except ConfigError as error:
            self.refuse(name, str(error))

    def take_storage(self) -> dict[str, str]:
        names = {name for name in self.left if name.startswith(STORAGE)}
        self.left -= names
        return {name.removeprefix(STORAGE): self.values[name] for name in names}

    def take_ignored(self, streaming: bool) -> tuple[str, ...]:
        """Name the options that mean nothing here, and refuse those Spark refuses."""
        for name, reason in REFUSED.items():
            if self.has(name):
                self.refuse(name, reason)
        names = {name for name in self.left if name.startswith(IGNORED_PREFIXES)}
        self.left -= names
        if not streaming:
            names |= {name.lower() for name in PER_TRIGGER if self.has(name)}
        return tuple(sorted(self.names[name] for name in names))

    def finish(self) -> None:
        for name in sorted(self.left):
            self.refuse(self.names[name], "there is no such option")
        if self.problems:
            raise ConfigError("; ".join(self.problems))


def _read_paths(given: _Given) -> tuple[str, ...]:
    path = given.take("path", _only_path, ())
    paths = given.take("paths", parse_paths, ())
    if not given.has("path") and not given.has("paths"):
        given.refuse("path", "expected log directories, found none")
    return path + paths


def _only_path(text: str) -> tuple[str, ...]:
    if not text:
        raise ConfigError("expected a log directory, found none")
    return (text,)


def _read_topics(given: _Given) -> Topics:
    ways: dict[str, Callable[[str], Topics]] = {
        "assign": _assign,
        "subscribe": lambda text: Subscribe(parse_names(text)),
        "subscribePattern": _subscribe_pattern,
        "topic": _only_topic,
    }
    everything: Topics = EVERYTHING
    return given.take_one_of(ways, everything)


def _read_min_partitions(given: _Given) -> int | None:
    ways: dict[str, Callable[[str], int | None]] = {
        "minPartitions": _positive_int,
        "splits": _positive_int,
    }
    return given.take_one_of(ways, None)


def _only_topic(text: str) -> Topics:
    names = parse_names(text)
    if len(names) != 1:
        raise ConfigError(f"expected one topic, got {text!r}")
    return Subscribe(names)


def _assign(text: str) -> Topics:
    return Assign(tuple(places_from_json(text.strip())))


def _subscribe_pattern(text: str) -> Topics:
    pattern = text.strip()
    if not pattern:
        raise ConfigError("expected a pattern, found none")
    compile_java(pattern)
    return SubscribePattern(pattern)


def _read_limits(given: _Given, streaming: bool) -> tuple[Limit, Limit]:
    """Read where to start and end; what Spark would look at, and no more."""
    start = _read_limit(given, "starting", LATEST if streaming else EARLIEST)
    if streaming:
        for kind in ("Timestamp", "OffsetsByTimestamp", "Offsets"):
            if given.has(f"ending{kind}"):
                given.refuse(f"ending{kind}", "a stream has no end")
        return start, LATEST
    end = _read_limit(given, "ending", LATEST)
    given.check("startingOffsets", check_batch_start, start)
    given.check("endingOffsets", check_batch_end, end)
    given.check("endingOffsets", check_order, start, end)
    return start, end


def _read_limit(given: _Given, which: str, default: Limit) -> Limit:
    """Read the first there is of the three forms, the others unseen."""
    forms: dict[str, Callable[[str], Limit]] = {
        f"{which}Timestamp": parse_timestamp,
        f"{which}OffsetsByTimestamp": parse_timestamps,
        f"{which}Offsets": parse_offsets,
    }
    named = [name for name in forms if given.has(name)]
    given.left -= {name.lower() for name in named}
    return given.take(named[0], forms[named[0]], default) if named else default


def _read_on_corruption(given: _Given) -> str:
    if given.has("onCorruption") and given.has("on_corruption"):
        given.refuse("onCorruption", "given twice, as on_corruption too")
    former = given.take("on_corruption", _raise_or_skip, "raise")
    return given.take("onCorruption", _raise_or_skip, former)


def _check_trigger(given: _Given, parsed: SourceOptions) -> None:
    least, most = parsed.min_offsets_per_trigger, parsed.max_offsets_per_trigger
    if least is not None and most is not None and least > most:
        given.refuse(
            "minOffsetsPerTrigger",
            f"expected no more than maxOffsetsPerTrigger, {most}, got {least}",
        )


def _positive(text: str) -> int:
    return parse_whole(text, least=1)


def _positive_int(text: str) -> int:
    return parse_whole(text, least=1, greatest=INT_MAX)


def _natural(text: str) -> int:
    return parse_whole(text, least=0)


def _choose(text: str, *words: str) -> str:
    if text not in words:
        raise ConfigError(f"expected {' or '.join(words)}, got {text}")
    return text


def _error_or_latest(text: str) -> str:
    return _choose(text.lower(), "error", "latest")


def _raise_or_skip(text: str) -> str:
    return _choose(text, "raise", "skip")


def _is_committed(text: str) -> bool:
    return _choose(text, "read_committed", "read_uncommitted") == "read_committed"
