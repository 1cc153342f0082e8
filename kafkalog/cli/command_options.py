"""Options that several commands share, and their shell completion.

Completion of ``--topic`` and ``--partition`` reads only directory names: those at and
below the paths that are on the command line already.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from functools import wraps
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

import click

if TYPE_CHECKING:
    from kafkalog.cli.value_cells import ValueCells
    from kafkalog.config import BrokerConfig
    from kafkalog.decoding.read_policy import Isolation, OnCorruption
    from kafkalog.progress import Progress
    from kafkalog.query.sampling import SampleBy
    from kafkalog.query.scan import Scan
    from kafkalog.query.tailing import SourceBounds
    from kafkalog.storage.file_names import PartitionDir
    from kafkalog.storage.location import Location

T = TypeVar("T")
Function = TypeVar("Function", bound=Callable[..., Any])
FORMATS: Final = ("table", "jsonl", "json", "csv")
URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
BASE64: Final = "base64:"


class NamedPath(click.Path):
    """A path; empty text is rejected, which `Path` takes for the current directory."""

    def __init__(self) -> None:
        super().__init__(readable=False, path_type=Path)

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path. Raise `click.UsageError` for empty text."""
        if value == "":
            self.fail("the path is empty", param, ctx)
        return super().convert(value, param, ctx)


class LocalPath(NamedPath):
    """A path on this machine. A URL is rejected, and not shown: it may be secret."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path. Raise `click.UsageError` for a URL, or empty text."""
        refuse_url(str(value))
        return super().convert(value, param, ctx)


class SourcePath(NamedPath):
    """A path on this machine, or a URL, which stays text."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Any:
        """Return the path or the URL. Raise `click.UsageError` for empty text."""
        return value if URL.match(str(value)) else super().convert(value, param, ctx)


def read_storage_option(text: str) -> tuple[str, str]:
    """Read NAME=VALUE. The value may be secret, so no message shows it.

    >>> read_storage_option("region=eu-west-1")
    ('region', 'eu-west-1')
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter("expected NAME=VALUE")
    return name, value


def read_setting(text: str) -> tuple[str, str]:
    """Read NAME=VALUE.

    >>> read_setting("retention.ms=-1")
    ('retention.ms', '-1')
    """
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{text!r}, expected NAME=VALUE")
    return name, value


def refuse_url(text: str) -> None:
    """Raise `click.UsageError` for a URL; the message shows only its scheme."""
    if match := URL.match(text):
        raise click.UsageError(f"{match[1]}:// URL, expected a local path")


def examples(*commands: str) -> str:
    """Return the examples at the end of a command's ``--help``."""
    return "\n".join(("\b", "Examples:", *(f"  {command}" for command in commands)))


def read_time(text: str) -> int:
    """Read a time, as `parse_time` does, in milliseconds since 1970.

    >>> read_time("1700000000000"), read_time("2023-11-14T22:13:20Z")
    (1700000000000, 1700000000000)
    """
    from kafkalog.formats.timestamps import as_ms

    try:
        return as_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def read_share(text: str) -> float:
    """Read a number from 0 to 1, or a percentage.

    >>> read_share("1%"), read_share("0.01")
    (0.01, 0.01)
    """
    number, percent = text.removesuffix("%"), text.endswith("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise click.BadParameter(f"{text!r}, expected 0 to 1, or 0% to 100%")
    return share


def read_key(text: str) -> list[bytes]:
    r"""Read a key, base64:TEXT, or @FILE with a key on each line.

    >>> read_key("ann"), read_key("base64:AAE=")
    ([b'ann'], [b'\x00\x01'])
    """
    if text.startswith("@"):
        lines = Path(text[1:]).read_text("utf-8").splitlines()
        return [_decoded(line) for line in lines if line]
    return [_decoded(text)]


def _decoded(text: str) -> bytes:
    if not text.startswith(BASE64):
        return text.encode("utf-8", "surrogateescape")
    try:
        return base64.b64decode(text.removeprefix(BASE64), validate=True)
    except (binascii.Error, ValueError):
        raise click.BadParameter(f"{text!r} is not base64") from None


def read_header(text: str) -> tuple[bytes, bytes | None]:
    """Read NAME, or NAME=VALUE.

    >>> read_header("user=ann"), read_header("user")
    ((b'user', b'ann'), (b'user', None))
    """
    name, equals, value = text.partition("=")
    key = name.encode("utf-8", "surrogateescape")
    return key, _decoded(value) if equals else None


def all_of(
    _context: click.Context, _parameter: click.Parameter, values: tuple[list[T], ...]
) -> tuple[T, ...] | None:
    """Return the values of an option of which each use has several; None if unused."""
    return tuple(chain.from_iterable(values)) if values else None


def read_columns(text: str) -> tuple[str, ...]:
    """Read column names separated by commas, in the order given."""
    from kafkalog.query.scan_columns import choose_columns

    try:
        return choose_columns(name.strip() for name in text.split(","))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def max_batch_bytes_option(most: int | None) -> Callable[[Function], Function]:
    """Return the option ``--max-batch-bytes``; `most` is its maximum, if any."""
    return click.option(
        "--max-batch-bytes",
        type=click.IntRange(1, most),
        default=64 << 20,
        show_default=True,
        help="Maximum size of a batch in bytes, uncompressed.",
    )


def complete_topics(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the topics below the paths given so far."""
    topics = {name.topic for name in _partitions(context)}
    return sorted(topic for topic in topics if topic.startswith(incomplete))


def complete_partitions(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the partition numbers below the paths given so far."""
    numbers = sorted({name.partition for name in _partitions(context)})
    return [str(number) for number in numbers if str(number).startswith(incomplete)]


def complete_columns(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[str]:
    """Return the columns that may follow the last comma."""
    from kafkalog.query.scan_columns import COLUMNS

    before, comma, begun = incomplete.rpartition(",")
    taken = before.split(",")
    return [
        f"{before}{comma}{name}"
        for name in COLUMNS
        if name.startswith(begun) and name not in taken
    ]


def _partitions(context: click.Context) -> Iterator[PartitionDir]:
    """Yield the partitions named by directories at and below the paths.

    While an option is being completed, click has not assigned the arguments to
    parameters yet: they are in `click.Context.args`.
    """
    from kafkalog.storage.file_names import parse_partition_dir

    for path in map(Path, context.args):
        names = [path.absolute().name]
        with suppress(OSError), os.scandir(path) as listing:
            names += [entry.name for entry in listing]
        for name in map(parse_partition_dir, names):
            if name is not None and name.state is None:
                yield name


class CorruptionChoice(click.Choice[str]):
    """What happens at corrupt data: ``stop`` stands for Python's ``"raise"``."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the value of `on_corruption`."""
        if value == "raise":
            self.fail("'raise' is 'stop' now", param, ctx)
        chosen = super().convert(value, param, ctx)
        return "raise" if chosen == "stop" else chosen


def on_corruption_option(text: str, *others: str) -> Callable[[Function], Function]:
    """Return the option ``--on-corruption`` with ``stop``, ``skip`` and `others`."""
    return click.option(
        "--on-corruption",
        type=CorruptionChoice(["stop", "skip", *others]),
        default="stop",
        show_default=True,
        help=text,
    )


def limit_option(
    text: str, *, least: int = 0, default: int | None = None
) -> Callable[[Function], Function]:
    """Return the option ``--limit``, of at least `least` rows."""
    return click.option(
        "-n",
        "--limit",
        type=click.IntRange(min=least),
        default=default,
        show_default=default is not None,
        help=text,
    )


def threads_option(text: str) -> Callable[[Function], Function]:
    """Return the option ``--threads``."""
    return click.option(
        "--threads",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help=text,
    )


def dry_run_option(function: Function) -> Function:
    """Add ``--dry-run``."""
    return click.option(
        "--dry-run", is_flag=True, help="Write nothing; print what would be written."
    )(function)


def quiet_option(function: Function) -> Function:
    """Add ``--quiet``."""
    return click.option(
        "-q",
        "--quiet",
        is_flag=True,
        help="Print no progress and no summary on standard error.",
    )(function)


def verbose_option(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--verbose``, which excludes ``--quiet``."""

    @wraps(function)
    def shown(*, verbose: bool, **parameters: Any) -> None:
        from kafkalog.cli.verbose_lines import verbose_lines

        if verbose and parameters.get("quiet"):
            raise click.UsageError("--quiet and --verbose exclude each other")
        with verbose_lines() if verbose else nullcontext():
            function(**parameters)

    return click.option(
        "-v",
        "--verbose",
        is_flag=True,
        help="Print each partition, file or connection on standard error as work on it "
        "begins.",
    )(shown)


TOPICS: Final = (
    click.option(
        "--topic",
        "topics",
        metavar="GLOB",
        multiple=True,
        shell_complete=complete_topics,
        help="Only this topic, or those that a pattern matches; may be repeated.",
    ),
    click.option(
        "--exclude-topic",
        "exclude_topics",
        metavar="GLOB",
        multiple=True,
        shell_complete=complete_topics,
        help="Not this topic, nor those that a pattern matches; may be repeated.",
    ),
)
SELECTION: Final = (
    *TOPICS,
    click.option(
        "--partition",
        "partitions",
        multiple=True,
        type=click.IntRange(min=0),
        shell_complete=complete_partitions,
        help="Only partitions with this number; may be repeated.",
    ),
)

TIME_HELP: Final = (
    "milliseconds since 1970, ISO 8601 with a time zone, a date in UTC, a duration "
    "before now such as -1h, -90m, -2d or -1w, or now."
)
BOUNDS: Final = (
    click.option(
        "--start-offset", type=int, help="First offset; default: the log start offset."
    ),
    click.option("--end-offset", type=int, help="Offset to stop before."),
    click.option(
        "--start-timestamp",
        type=read_time,
        metavar="TIME",
        help=f"Earliest timestamp: {TIME_HELP}",
    ),
    click.option(
        "--end-timestamp",
        type=read_time,
        metavar="TIME",
        help="Timestamp to stop before.",
    ),
)

KEY_HELP: Final = "a text, base64:TEXT, or @FILE with one a line; may be repeated."
FILTERS: Final = (
    click.option(
        "--key",
        "keys",
        multiple=True,
        type=read_key,
        callback=all_of,
        metavar="KEY",
        help=f"Only records with this key: {KEY_HELP}",
    ),
    click.option(
        "--header",
        "headers",
        multiple=True,
        type=read_header,
        metavar="NAME[=VALUE]",
        help="Only records with this header; may be repeated, to match all. VALUE is a "
        "text or base64:TEXT.",
    ),
    click.option(
        "--producer-id",
        "producer_ids",
        multiple=True,
        type=click.IntRange(min=-1),
        help="Only records of this producer; may be repeated.",
    ),
)

SAMPLE: Final = (
    click.option(
        "--sample",
        type=read_share,
        metavar="SHARE",
        help="Only a share of the records, such as 1% or 0.01, the same each time.",
    ),
    click.option(
        "--sample-by",
        type=click.Choice(["record", "batch"]),
        default="record",
        show_default=True,
        help="Whether single records are chosen, or whole batches, which is faster.",
    ),
    click.option(
        "--seed",
        type=int,
        default=0,
        show_default=True,
        help="A number for each sample.",
    ),
)

COLUMNS: Final = (
    click.option(
        "--columns",
        type=read_columns,
        metavar="NAMES",
        shell_complete=complete_columns,
        help="Columns to print, in this order, separated by commas: topic, partition, "
        "offset, timestamp, timestamp_type, key, value, headers (the default), "
        "leader_epoch, producer_id, producer_epoch, sequence, is_transactional, "
        "is_control, magic, codec, segment, position.",
    ),
)

READING: Final = (
    click.option(
        "--isolation-level",
        "--isolation",
        "isolation",
        type=click.Choice(["read_uncommitted", "read_committed"]),
        default="read_uncommitted",
        show_default=True,
        help="Whether records of aborted and open transactions are skipped.",
    ),
    on_corruption_option(
        "At corrupt data, stop or skip it and continue; the exit code is 1 either way."
    ),
)

LARGEST: Final = max_batch_bytes_option(1 << 30)

WHICH: Final = (
    *READING,
    click.option(
        "--control-records",
        is_flag=True,
        help="Include control records, such as transaction markers.",
    ),
    LARGEST,
)

THREADS: Final = (threads_option("Number of threads that read and decode."),)

STORAGE: Final = (
    click.option(
        "--storage-option",
        "storage_options",
        multiple=True,
        type=read_storage_option,
        metavar="NAME=VALUE",
        help="Option of the file system of a URL, such as region=eu-west-1; may be "
        "repeated. Credentials are better set in the environment, as other users can "
        "see a command line.",
    ),
)

MEMORY_MAP: Final = (
    click.option(
        "--memory-map",
        is_flag=True,
        help="Map local files instead of copying their bytes. Only for backups and "
        "other files that nobody truncates, as that would kill the command.",
    ),
)

SCAN: Final = (
    *SELECTION,
    *BOUNDS,
    *FILTERS,
    *SAMPLE,
    *COLUMNS,
    *WHICH,
    *THREADS,
    *MEMORY_MAP,
)
LATEST: Final = (
    *(*SELECTION, *BOUNDS, *FILTERS, *COLUMNS, *READING),
    *(LARGEST, *THREADS, *MEMORY_MAP),
)
FIND: Final = (*SELECTION, *BOUNDS, *FILTERS, *WHICH, *MEMORY_MAP)
TAIL: Final = (*SELECTION, *FILTERS, *COLUMNS, *WHICH)
STATS: Final = (
    *SELECTION,
    *BOUNDS,
    *READING,
    click.option(
        "--control-records/--no-control-records",
        default=True,
        show_default=True,
        help="Whether control records, such as transaction markers, are counted.",
    ),
    LARGEST,
    *THREADS,
)

COMPRESSION: Final = (
    click.option(
        "--compression",
        type=click.Choice(["zstd", "snappy", "gzip", "lz4", "none"]),
        default="zstd",
        show_default=True,
        help="Compression of Parquet's columns.",
    ),
)

COMMITS: Final = (
    click.option(
        "--group",
        "names",
        metavar="GROUP",
        multiple=True,
        help="Only this consumer group; may be repeated.",
    ),
    *TOPICS,
    click.option(
        "--at",
        type=read_time,
        metavar="TIME",
        help=f"Print the offsets at this time instead of the last ones: {TIME_HELP}",
    ),
)

SERVER_PROPERTIES: Final = click.option(
    "--server-properties",
    type=LocalPath(),
    metavar="FILE",
    help="The broker's server.properties, which may set what topics do not.",
)

RETENTION: Final = (
    click.option(
        "--set",
        "settings",
        type=read_setting,
        metavar="NAME=VALUE",
        multiple=True,
        help="Another value of a setting of the topics, such as retention.ms=3600000; "
        "may be repeated.",
    ),
    click.option(
        "--at",
        type=read_time,
        metavar="TIME",
        help=f"Report for this time instead of now: {TIME_HELP}",
    ),
    SERVER_PROPERTIES,
)

SPELLINGS: Final = ("text", "json", "base64")
TYPED: Final = ("avro", "protobuf")

SPELLING: Final = (
    click.option(
        "--key-format",
        type=click.Choice((*SPELLINGS, *TYPED)),
        help="Form of keys; see --value-format.",
    ),
    click.option(
        "--value-format",
        type=click.Choice((*SPELLINGS, *TYPED)),
        help="Form of values. text (printed by default): a string, or an object with "
        "base64 if it is not UTF-8. json: in JSON and JSON Lines, valid JSON as it is "
        "instead of as a string, anything else as text; in exported tables, typed "
        "columns. base64: always an object with base64. avro, protobuf: decoded with "
        "--schemas; internal topics are then read only if they are named.",
    ),
    click.option(
        "--schemas",
        metavar="SCHEMAS",
        help="For avro, a directory with a file ID.avsc for each schema, or the URL of "
        "a schema registry. For protobuf, the descriptor set that protoc writes.",
    ),
    click.option(
        "--schema",
        metavar="SCHEMA",
        help="For avro, a file with the schema to which values are resolved; default: "
        "the newest one. For protobuf, the name of the message type; default: that of "
        "the first value.",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """The options that state what keys and values are, and how they are printed."""

    key_format: str | None = None
    value_format: str | None = None
    schemas: str | None = None
    schema: str | None = None

    @property
    def formats(self) -> dict[str, str]:
        """The formats that are given, by column."""
        given = {"key": self.key_format, "value": self.value_format}
        return {name: form for name, form in given.items() if form is not None}

    def arguments(self) -> dict[str, Any]:
        """Return the schemas as arguments of `kafkalog.values.decode`."""
        schema: Any = self.schema
        if schema is not None and "protobuf" not in self.formats.values():
            schema = Path(schema)
        return {"schemas": self.schemas, "schema": schema}

    def prepare(self, scan: Scan, *, decode: bool) -> tuple[Scan, ValueCells | None]:
        """Return the scan to print, and what decodes its typed columns, if any are.

        Without `decode`, internal topics are then read only if they are named.
        """
        typed = {name: form for name, form in self.formats.items() if form in TYPED}
        if not typed:
            if self.schemas is not None or self.schema is not None:
                raise click.UsageError("--schemas, expected with avro or protobuf")
            return scan, None
        from kafkalog.cli.value_cells import ValueCells, named_only
        from kafkalog.values.value_decoding import DecodeOptions

        missing = [name for name in typed if name not in scan.columns]
        if missing:
            name = missing[0]
            raise click.UsageError(f"--{name}-format, expected {name} in --columns")
        kept = named_only(scan) if not decode else scan
        options = DecodeOptions(formats=typed, errors="column", **self.arguments())
        return kept, ValueCells(kept, options)


PRINTING: Final = (
    click.option(
        "--format",
        "form",
        type=click.Choice(FORMATS),
        help="Default: a table on a terminal, JSON Lines in a pipe.",
    ),
    click.option("--no-color", is_flag=True, help="No colour; the same as NO_COLOR=1."),
)


class TopicSelection(TypedDict, total=False):
    """The options that select topics."""

    topics: tuple[str, ...] | None
    exclude_topics: tuple[str, ...] | None


class Selection(TopicSelection, total=False):
    """The options that select topics and partitions."""

    partitions: tuple[int, ...] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanOptions:
    """The options that select what a command scans."""

    topics: tuple[str, ...]
    exclude_topics: tuple[str, ...]
    partitions: tuple[int, ...]
    start_offset: int | None = None
    end_offset: int | None = None
    start_timestamp: int | None = None
    end_timestamp: int | None = None
    keys: tuple[bytes, ...] | None = None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()
    producer_ids: tuple[int, ...] = ()
    sample: float | None = None
    sample_by: SampleBy = "record"
    seed: int = 0
    columns: tuple[str, ...] | None = None
    isolation: Isolation
    on_corruption: OnCorruption
    control_records: bool = False
    max_batch_bytes: int
    memory_map: bool = False
    threads: int = 1

    @property
    def has_filters(self) -> bool:
        """Whether records are selected by more than their topic, offset and time."""
        return self.keys is not None or bool(self.headers or self.producer_ids)

    def scan(self, paths: Sequence[Location], progress: Progress | None = None) -> Scan:
        """Return the scan of the selected partitions under `paths`.

        Raises `FileNotFoundError` if a selected topic or partition does not exist.
        """
        from kafkalog.query.scan import scan

        return scan(
            list(paths),
            columns=self.columns,
            topics=self.topics or None,
            exclude_topics=self.exclude_topics,
            partitions=self.partitions or None,
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            start_timestamp=self.start_timestamp,
            end_timestamp=self.end_timestamp,
            keys=self.keys,
            headers=self.headers,
            producer_ids=self.producer_ids or None,
            sample=self.sample,
            sample_by=self.sample_by,
            seed=self.seed,
            isolation=self.isolation,
            control_records=self.control_records,
            on_corruption=self.on_corruption,
            max_batch_bytes=self.max_batch_bytes,
            memory_map=self.memory_map,
            threads=self.threads,
            progress=progress,
        )

    def parts(self, paths: Sequence[Location]) -> list[SourceBounds]:
        """List the selected partitions under `paths` again, each from its start.

        A topic or partition that does not exist is no error.
        """
        from kafkalog.query.sources import bounds_of, find_sources
        from kafkalog.storage.log_directory import PartitionSelection

        selection = PartitionSelection(
            self.topics, self.partitions, self.exclude_topics
        )
        return [
            (part, bounds_of(part, None, None, (None, None)))
            for part in find_sources(list(paths))
            if selection.has(part.topic, part.partition)
        ]


def paths_argument(function: Function) -> Function:
    """Add the argument PATH..., one or more, as `paths`."""
    return click.argument(
        "paths", metavar="PATH...", nargs=-1, required=True, type=LocalPath()
    )(function)


def sources_argument(
    function: Callable[..., None], metavar: str = "PATH..."
) -> Callable[..., None]:
    """Add PATH..., one or more paths or URLs, as `paths`; and ``--storage-option``."""

    @wraps(function)
    def located(
        paths: tuple[Path | str, ...],
        storage_options: tuple[tuple[str, str], ...],
        **parameters: Any,
    ) -> None:
        function(paths=_locate(paths, dict(storage_options)), **parameters)

    return click.argument(
        "paths", metavar=metavar, nargs=-1, required=True, type=SourcePath()
    )(with_options(STORAGE, located))


def copied_argument(function: Callable[..., None]) -> Callable[..., None]:
    """Add SRC..., as `sources_argument` does."""
    return sources_argument(function, "SRC...")


def _locate(
    paths: Sequence[Path | str], storage_options: Mapping[str, str]
) -> tuple[Location, ...]:
    from kafkalog.storage.remote_source import as_path

    if storage_options and not any(isinstance(path, str) for path in paths):
        raise click.UsageError("--storage-option without a URL, expected one")
    return tuple(
        as_path(path, storage_options) if isinstance(path, str) else path
        for path in paths
    )


def selection_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--topic``, ``--exclude-topic`` and ``--partition``, as `selection`."""
    return with_options(SELECTION, _selecting(function))


def _selecting(function: Callable[..., None]) -> Callable[..., None]:
    names = {"topics", "exclude_topics", "partitions"}

    @wraps(function)
    def collecting(**parameters: Any) -> None:
        given = {
            name: parameters.pop(name) or None for name in names & parameters.keys()
        }
        function(selection=given, **parameters)

    return collecting


def retention_options(function: Function) -> Function:
    """Add ``--set``, ``--at`` and ``--server-properties``."""
    return with_options(RETENTION, function)


def topic_options(function: Function) -> Function:
    """Add ``--topic`` and ``--exclude-topic``."""
    return with_options(TOPICS, function)


def commit_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add ``--group`` as `names`, the options for topics as `selection`, and `at`."""
    return with_options(COMMITS, _selecting(function))


def read_broker(path: Path | None) -> BrokerConfig | None:
    """Return the settings in a ``server.properties``; None without a path."""
    from kafkalog.config import BrokerConfig
    from kafkalog.storage.properties_file import read_properties

    if path is None:
        return None
    return BrokerConfig.from_properties(read_properties(path), ignore_unknown=True)


def read_older_broker(path: Path | None) -> BrokerConfig | None:
    """Return the settings as `read_broker` does, also those of an older broker.

    Brokers before 4.0 allowed a ``log.segment.bytes`` below 1 MiB, which is read as
    that: how large a new segment gets removes no record.
    """
    from kafkalog.config import BrokerConfig
    from kafkalog.config.log_config import LEAST_SEGMENT_BYTES, is_older_segment_size
    from kafkalog.storage.properties_file import read_properties

    if path is None:
        return None
    properties = dict(read_properties(path))
    size = properties.get("log.segment.bytes", "").strip()
    if size.isascii() and size.isdigit() and is_older_segment_size(int(size)):
        properties["log.segment.bytes"] = str(LEAST_SEGMENT_BYTES)
    return BrokerConfig.from_properties(properties, ignore_unknown=True)


def format_options(function: Function) -> Function:
    """Add ``--format`` and ``--no-color``, as `form` and `no_color`."""
    return with_options(PRINTING, function)


def compression_option(function: Function) -> Function:
    """Add ``--compression``, for Parquet files."""
    return with_options(COMPRESSION, function)


def decode_option(function: Function) -> Function:
    """Add ``--decode``."""
    return click.option(
        "--decode",
        is_flag=True,
        help="Print records of internal topics decoded, instead of as bytes.",
    )(function)


def value_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of keys and values, as one parameter `values`."""

    @wraps(function)
    def collecting(**parameters: Any) -> None:
        names = [field.name for field in fields(ValueOptions)]
        given = {name: parameters.pop(name) for name in names}
        function(values=ValueOptions(**given), **parameters)

    return with_options(SPELLING, collecting)


def scan_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add all options of a scan, as one parameter `options`."""
    return _collecting(SCAN, function)


def latest_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a scan that ``latest`` has, as one parameter `options`."""
    return _collecting(LATEST, function)


def find_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a scan that ``find`` has, as one parameter `options`."""
    return _collecting(FIND, function)


def tail_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a scan that ``tail`` has, as one parameter `options`."""
    return _collecting(TAIL, function)


def stats_options(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a scan that ``stats`` has, as one parameter `options`."""
    return _collecting(STATS, function)


def _collecting(
    options: Sequence[Callable[..., Any]], function: Callable[..., None]
) -> Callable[..., None]:
    @wraps(function)
    def collecting(**parameters: Any) -> None:
        names = [
            field.name for field in fields(ScanOptions) if field.name in parameters
        ]
        selected = {name: parameters.pop(name) for name in names}
        function(options=ScanOptions(**selected), **parameters)

    return with_options(options, collecting)


def with_options(
    options: Sequence[Callable[[Function], Function]], to: Function
) -> Function:
    """Add options to a command, in their order."""
    for option in reversed(options):
        to = option(to)
    return to
