"""The options of the Spark sink.

Kafka's producer options have Kafka's names, also after ``kafka.``, as in Spark's Kafka
sink. Those with this prefix that have no meaning here, such as
``kafka.bootstrap.servers``, are ignored.

Source: ``KafkaSourceProvider.scala`` (``kafkaParamsForProducer``),
``ProducerConfig.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar, cast

from kafkalog.config import LogConfig
from kafkalog.errors import ConfigError
from kafkalog.formats.layout import CODECS, CodecName
from kafkalog.integer_limits import MAX_INT32
from kafkalog.sink.journal import Visibility
from kafkalog.spark.option_reader import OptionReader
from kafkalog.spark.option_values import parse_integer, parse_positive_int
from kafkalog.storage.remote_source import as_path

PRODUCER: Final = "kafka."
TOPIC: Final = "topic."
BATCH_BYTES: Final = 16 << 10
MAX_REQUEST_BYTES: Final = 1 << 20
BUFFER_BYTES: Final = 16 << 20

REJECTED: Final = {
    "kafka.key.serializer": "not supported, keys are bytes or text",
    "kafka.value.serializer": "not supported, values are bytes or text",
    "kafka.interceptor.classes": "not supported, there is no producer",
    "kafka.partitioner.class": "not supported, set the column partition instead",
    "kafka.transactional.id": "not supported, set visibility to transaction instead",
}
LEVELS: Final = tuple(f"compression.{codec}.level" for codec in ("gzip", "lz4", "zstd"))

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions:
    """The parsed options of one write.

    `path` is the log directory. `topic` is that of all rows; without it they have a
    column. `ignored` are names of options that have no effect here.
    """

    path: Path
    topic: str | None = None
    partitions: int | None = None
    visibility: Visibility = "record"
    batch_id: str | None = None
    codec: CodecName = "none"
    level: int | None = None
    batch_bytes: int = BATCH_BYTES
    max_request_bytes: int = MAX_REQUEST_BYTES
    buffer_bytes: int = BUFFER_BYTES
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()


def parse_sink_options(
    options: Mapping[str, str], *, streaming: bool = False
) -> SinkOptions:
    """Parse the options of ``df.write`` or ``df.writeStream``.

    Raises one `ConfigError` with what was expected and found, for each invalid option.

    >>> options = {"path": "/data", "topic": "orders", "compression.type": "zstd"}
    >>> parse_sink_options(options).codec
    'zstd'
    >>> parse_sink_options({"path": "s3://bucket/logs", "partitions": "0"})
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: option path: expected a local or mounted directory:...
    """
    reader = OptionReader(options)
    codec, level = _take_compression(reader)
    visibility: Visibility = "record"
    parsed = SinkOptions(
        path=_take_path(reader),
        topic=reader.take("topic", _name_of("a topic"), None),
        partitions=reader.take("partitions", parse_positive_int, None),
        visibility=reader.take("visibility", _parse_visibility, visibility),
        batch_id=reader.take("batchId", _name_of("a name of the batch"), None),
        codec=codec,
        level=level,
        batch_bytes=_take_of_producer(reader, "batch.size", _size, BATCH_BYTES),
        max_request_bytes=_take_of_producer(
            reader, "max.request.size", _size, MAX_REQUEST_BYTES
        ),
        buffer_bytes=_take_of_producer(reader, "buffer.memory", _size, BUFFER_BYTES),
        topic_settings=_take_topic_settings(reader),
        ignored=_take_ignored(reader),
    )
    if streaming and parsed.batch_id is not None:
        reader.reject("batchId", "a stream has the id of its checkpoint")
    reader.finish()
    return parsed


def _take_of_producer(
    reader: OptionReader, name: str, parse: Callable[[str], T], default: T
) -> T:
    """Take a producer option by Kafka's name, or by that with the prefix."""
    return reader.take_one_of({name: parse, PRODUCER + name: parse}, default)


def _take_compression(reader: OptionReader) -> tuple[CodecName, int | None]:
    """Return the codec, and its level."""
    none: CodecName = "none"
    codec = _take_of_producer(reader, "compression.type", _parse_codec, none)
    texts = {name: _take_of_producer(reader, name, str, "") for name in LEVELS}
    settings = {name: text for name, text in texts.items() if text}
    settings["compression.type"] = "uncompressed" if codec == "none" else codec
    try:
        return codec, LogConfig.from_properties(settings).compression_level
    except ConfigError as error:
        reader.errors.append(str(error))
        return codec, None


def _take_path(reader: OptionReader) -> Path:
    if not reader.has("path"):
        reader.reject("path", "expected a log directory, got none")
    return reader.take("path", _parse_path, Path())


def _parse_path(text: str) -> Path:
    path = as_path(text, {})
    if not isinstance(path, Path):
        reason = "expected a local or mounted directory: commits need its locks and"
        raise ConfigError(f"{reason} renames, got {path}")
    if not text:
        raise ConfigError("expected a log directory, got none")
    return path.absolute()


def _name_of(what: str) -> Callable[[str], str]:
    """Return a parser of a name, which may be shown in errors."""

    def parse(text: str) -> str:
        if not text:
            raise ConfigError(f"expected {what}, got none")
        return str(text)

    return parse


def _parse_visibility(text: str) -> Visibility:
    if text not in ("record", "transaction"):
        raise ConfigError(f"expected record or transaction, got {text}")
    return cast("Visibility", text)


def _parse_codec(text: str) -> CodecName:
    if text not in CODECS:
        raise ConfigError(f"expected one of {', '.join(CODECS)}, got {text}")
    return text


def _size(text: str) -> int:
    return parse_integer(text, minimum=0, maximum=MAX_INT32)


def _take_topic_settings(reader: OptionReader) -> dict[str, str]:
    settings = reader.take_all(TOPIC)
    try:
        LogConfig.from_properties(settings)
    except ConfigError as error:
        reader.errors.append(f"options {TOPIC}*: {error}")
    return settings


def _take_ignored(reader: OptionReader) -> tuple[str, ...]:
    """Return the producer options without effect; report rejected ones."""
    for name, reason in REJECTED.items():
        if reader.has(name):
            reader.reject(name, reason)
    return tuple(PRODUCER + name for name in reader.take_all(PRODUCER))
