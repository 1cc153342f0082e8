"""`scan` and `Scan`: records of a source within bounds, as chunks of columns.

A `Scan` holds no open file and has read nothing: each of its methods starts a reading.
Partitions are read one by one, each in order of offsets, in steps of about 4 MB. With
threads, steps are decoded in parallel and returned in order.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from itertools import accumulate
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    TypeAlias,
    TypedDict,
    get_args,
    overload,
)

import numpy as np

from kafkalog.decoding.read_policy import Bounds, Isolation, OnCorruption, ReadPolicy
from kafkalog.errors import InternalTopicsWarning
from kafkalog.formats.batch_headers import BytesLike
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.formats.timestamps import Time, as_ms_or_none
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.progress import Progress
from kafkalog.query.conditions import ANYTHING, BatchCondition
from kafkalog.query.header_counts import count_records, counting_reader
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.readable_offsets import warn_of_missing_offsets
from kafkalog.query.record_filter import EVERY_RECORD, Headers, Key, RecordFilter
from kafkalog.query.sampling import RecordSample, SampleBy
from kafkalog.query.scan_columns import TEXTS, Text, choose_columns
from kafkalog.query.sources import (
    Offset,
    PartitionSource,
    bounds_of,
    check_count,
    check_known,
    check_offset,
    find_sources,
)
from kafkalog.reports import counted, html_table
from kafkalog.storage.location import AnyPath, locate_all
from kafkalog.storage.log_directory import Numbers, PartitionSelection, Topics

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from kafkalog.query.chunk_columns import ViewColumn
    from kafkalog.query.records import Records

Source: TypeAlias = "AnyPath | BytesLike | Sequence[Source]"
ISOLATION: Final = get_args(Isolation)
ON_CORRUPTION: Final = get_args(OnCorruption)
LIMIT_OF_BATCH_BYTES: Final = 1 << 30
SHOWN: Final = 20
"""Maximum number of partitions in the HTML of a scan."""


class ScanArguments(TypedDict, total=False):
    """The options of `scan` that parts of a scan have too."""

    columns: Iterable[str] | None
    topics: Topics
    exclude_topics: Topics
    partitions: Numbers
    start_offset: Offset
    end_offset: Offset
    start_timestamp: Time | None
    end_timestamp: Time | None
    isolation: Isolation
    keys: Iterable[Key] | bytes | str | None
    headers: Headers | None
    producer_ids: Iterable[int] | int | None
    sample: float | None
    sample_by: SampleBy
    seed: int
    control_records: bool
    check_crcs: bool
    on_corruption: OnCorruption
    max_batch_bytes: int
    memory_map: bool
    text: Text
    threads: int
    filesystem: object
    storage_options: Mapping[str, str] | None


def scan(
    source: Source,
    *,
    columns: Iterable[str] | None = None,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    limit: int | None = None,
    start_offset: Offset = None,
    end_offset: Offset = None,
    start_timestamp: Time | None = None,
    end_timestamp: Time | None = None,
    keys: Iterable[Key] | bytes | str | None = None,
    headers: Headers | None = None,
    producer_ids: Iterable[int] | int | None = None,
    sample: float | None = None,
    sample_by: SampleBy = "record",
    seed: int = 0,
    isolation: Isolation = "read_uncommitted",
    control_records: bool = False,
    check_crcs: bool = True,
    on_corruption: OnCorruption = "raise",
    max_batch_bytes: int = MAX_BATCH_BYTES,
    memory_map: bool = False,
    text: Text = False,
    threads: int = 1,
    progress: Progress | None = None,
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> Scan:
    """Return a `Scan` of the records of a log, a log directory, or batches in memory.

    Nothing is read before a method of the `Scan` is called, and nothing is written. The
    directory of a running broker may be read.

    Parameters
    ----------
    source : path, URL, bytes-like, or list of these
        A ``.log`` or ``.checkpoint`` file, a partition's directory, a log directory of
        many partitions, local, behind a URL (``s3://``, ``hdfs://``, ...) or in a
        `filesystem`; or whole batches in memory. A source that is listed twice is read
        once. A partition is read from its log start offset, unless `start_offset` is
        given.
    columns : iterable of str, optional
        The columns, in this order; by default the first eight of `COLUMNS`.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers.
    limit : int, optional
        Maximum number of records in total. No more is read than they need.
    start_offset, end_offset : int or {(topic, partition): int}, optional
        Records with ``start <= offset < end``. The partitions of a mapping have to be
        in the source.
    start_timestamp, end_timestamp : int, aware datetime or str, optional
        Records with ``start <= timestamp < end``, in ms since 1970. A text is ISO 8601
        with a zone, a date, which begins in UTC, ``now``, or a duration before now:
        ``-90m``, ``-2d``, ``-1w``. A record without a timestamp is outside of any
        bound.
    keys : bytes, str, or iterable of bytes, str or None, optional
        Only records with one of these keys. Text is UTF-8, and None the null key.
    headers : mapping of str to bytes, str or None, or iterable of pairs, optional
        Only records that have each of these headers, by key and value. With a value of
        None, or with a key in place of a pair, the header may have any value.
    producer_ids : int or iterable of int, optional
        Only records of these producers; -1 stands for none.
    sample : float, optional
        The share of the records to read, from 0 to 1, chosen at random but the same
        each time: it depends on partition, offset and `seed`, and on nothing else.
    sample_by : {"record", "batch"}
        What is chosen: each record by itself (a Bernoulli sample), or whole batches,
        which is faster, as the others are not decompressed. Records of a batch may be
        alike.
    seed : int
        Another number chooses another sample.
    isolation : {"read_uncommitted", "read_committed"}
        With the latter, as for a consumer, records of aborted transactions are missing,
        and so is everything from the first undecided transaction on.
    control_records : bool
        Whether control records, such as transaction markers, are returned. Markers of
        aborted transactions are, with any `isolation`.
    check_crcs : bool
        Whether CRCs are checked, which costs little. Without it, batches are not
        decoded either if `columns` needs only their headers, as all columns do but
        ``key``, ``value``, ``headers`` and ``timestamp``.
    on_corruption : {"raise", "skip"}
        With the latter, damage is skipped, and listed in `Scan.problems`.
    max_batch_bytes : int
        Size of a decompressed batch above which it counts as damage.
    memory_map : bool
        Whether local files are mapped, which saves a copy of all bytes. It is safe for
        backups and other files that nobody truncates: if a file becomes shorter while
        it is read, the operating system kills the process (``SIGBUS``).
    text : bool or {"key", "value"}
        Whether keys and values, or only one of these, are strings in Arrow, pandas,
        Polars and DuckDB, instead of bytes. One that is not UTF-8 raises
        `InvalidTextError`, with its topic, partition and offset. Kafka's internal
        topics are then read only if they are named. `Scan.chunks` always has bytes.
    threads : int
        Number of threads that read and decode. They are named ``kafkalog-scan`` and end
        with each reading.
    progress : callable, optional
        Called with the bytes read so far, and the bytes of all files.
    filesystem : pyarrow.fs.FileSystem or fsspec.AbstractFileSystem, optional
        The file system that the paths are in, such as ``bucket/logs`` in S3.
    storage_options : mapping of str to str, optional
        Options of the file system of a URL: for ``s3:`` ``access_key``, ``region``,
        ``endpoint_override`` and so on, as pyarrow names them; for schemes that pyarrow
        does not have, those of fsspec. No message shows their values.

    Returns
    -------
    Scan
        The request, with methods that read.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError
        If there is nothing to read at a path, or no partition matches a topic, a
        pattern or a number.
    TypeError, ValueError
        If the source is none of these, or a bound or a name is invalid.

    Warns
    -----
    TieredLogWarning
        If requested offsets of a partition are in remote storage, or lost.
    InternalTopicsWarning
        If a log directory has internal topics that are not read as text.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> kafkalog.scan(batch.build()).to_arrow().select(["offset", "value"]).to_pylist()
    [{'offset': 7, 'value': b'v'}]
    """
    for name, value, known in (
        ("isolation", isolation, ISOLATION),
        ("on_corruption", on_corruption, ON_CORRUPTION),
        ("text", text, TEXTS),
    ):
        if value not in known:
            expected = ", ".join(map(str, known))
            raise ValueError(f"{name} {value!r}, expected one of {expected}")
    if threads < 1:
        raise ValueError(f"threads {threads}, expected 1 or more")
    if not 1 <= max_batch_bytes <= LIMIT_OF_BATCH_BYTES:
        expected = f"1 to {LIMIT_OF_BATCH_BYTES}"
        raise ValueError(f"max_batch_bytes {max_batch_bytes}, expected {expected}")
    if limit is not None:
        check_count("limit", limit)
    check_offset("start_offset", start_offset)
    check_offset("end_offset", end_offset)
    record_filter = RecordFilter.of(
        keys, headers, producer_ids, RecordSample.of(sample, sample_by, seed)
    )
    times = as_ms_or_none(start_timestamp), as_ms_or_none(end_timestamp)
    places = locate_all(source, filesystem, storage_options)
    sources = _selected(find_sources(places), topics, partitions, exclude_topics)
    check_known("start_offset", start_offset, sources)
    check_known("end_offset", end_offset, sources)
    bounded = tuple(
        (place, bounds_of(place, start_offset, end_offset, times)) for place in sources
    )
    warn_of_missing_offsets((place, bounds.start_offset) for place, bounds in bounded)
    found = Scan(
        sources=bounded,
        columns=choose_columns(columns),
        policy=ReadPolicy(
            needs="records" if check_crcs else "headers",
            check_crcs="while_decoding" if check_crcs else "never",
            on_corruption=on_corruption,
            max_batch_bytes=max_batch_bytes,
            isolation=isolation,
            control_records=control_records,
            memory_map=memory_map,
        ),
        text=text,
        threads=threads,
        progress=progress,
        limit=limit,
        filter=record_filter,
    )
    if not text:
        return found
    found, left_out = without_internal(found)
    warn_of_internal(left_out)
    return found


def _selected(
    sources: list[PartitionSource],
    topics: Topics,
    partitions: Numbers,
    exclude_topics: Topics,
) -> list[PartitionSource]:
    """Return the sources of these topics and partitions; None stands for all."""
    selection = PartitionSelection.of(topics, partitions, exclude_topics)
    for name, given, chosen in (
        ("topics", topics, selection.topics),
        ("partitions", partitions, selection.partitions),
    ):
        if given is not None and not chosen:
            raise ValueError(
                f"{name} {given!r}, expected at least one, or None for all"
            )
    available = [(source.topic, source.partition) for source in sources]
    found = [sources[i] for i in selection.choose(available)]
    if topics is None:
        return found
    return [replace(source, is_named=True) for source in found]


def without_internal(scan: Scan) -> tuple[Scan, list[str]]:
    """Return a scan without Kafka's internal topics, and the topics left out.

    A topic that the caller named stays.
    """
    from kafkalog.messages.internal_records import INTERNAL_TOPICS

    def is_kept(source: PartitionSource) -> bool:
        return source.is_named or source.topic not in INTERNAL_TOPICS

    kept = tuple(part for part in scan.sources if is_kept(part[0]))
    left_out = {part.topic for part, _ in scan.sources if not is_kept(part)}
    return replace(scan, sources=kept, problems=[]), sorted(left_out)


def warn_of_internal(topics: Iterable[str]) -> None:
    """Warn of internal topics that are not read, if there are any."""
    if names := ", ".join(topics):
        warnings.warn(
            f"internal topics are read only if they are named: {names}",
            InternalTopicsWarning,
            stacklevel=3,
        )


@dataclass(kw_only=True)
class Scan:
    """A request for records, and the methods that read them; made by `scan`.

    Each method starts a new reading.

    Attributes
    ----------
    columns : tuple of str
        The requested columns, in order.
    problems : list of ScanProblem
        What the last reading skipped, with ``on_corruption="skip"``: ``path``,
        ``position``, ``first_offset``, ``last_offset`` and ``reason``.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> scan = kafkalog.scan(batch.build(), columns=["offset", "key"])
    >>> scan
    <Scan of 1 source: offset, key>
    >>> scan.count()
    1
    """

    sources: tuple[tuple[PartitionSource, Bounds], ...]
    columns: tuple[str, ...]
    policy: ReadPolicy
    text: Text = False
    threads: int = 1
    progress: Progress | None = None
    problems: list[ScanProblem] = field(default_factory=list)
    limit: int | None = None
    condition: BatchCondition = ANYTHING
    filter: RecordFilter = EVERY_RECORD

    def __repr__(self) -> str:
        sources = counted(len(self.sources), "source")
        sample = self.filter.sample
        sampled = "" if sample is None else f", sample of {sample}"
        if self.filter.latest is not None:
            sampled = ", latest of each key"
        return f"<Scan of {sources}{sampled}: {', '.join(self.columns)}>"

    def _repr_html_(self) -> str:
        """Return sources, bounds and columns as HTML, for notebooks."""
        rows = [
            (str(source), *_bound_labels(bounds))
            for source, bounds in self.sources[:SHOWN]
        ]
        more = len(self.sources) - len(rows)
        hidden = f"{counted(more, 'more source')}." if more else ""
        return html_table(
            "Scan",
            ("source", "offsets", "timestamps"),
            rows,
            hidden,
            *([] if self.filter.sample is None else [f"Sample: {self.filter.sample}"]),
            f"Columns: {', '.join(self.columns)}",
        )

    @overload
    def chunks(
        self, reuse: bool = False, views: Literal[False] = False
    ) -> Iterator[Records]: ...
    @overload
    def chunks(
        self, reuse: bool = False, *, views: Literal[True]
    ) -> Iterator[Records[ViewColumn]]: ...
    @overload
    def chunks(
        self, reuse: bool, views: Literal[True]
    ) -> Iterator[Records[ViewColumn]]: ...

    def chunks(
        self, reuse: bool = False, views: bool = False
    ) -> Iterator[Records[Any]]:
        """Read the records, as NumPy columns of a megabyte or two at a time.

        Parameters
        ----------
        reuse : bool
            Whether the arrays of a chunk are valid only until the next one is taken:
            their memory is then used again.
        views : bool
            Whether keys, values and headers are views of the bytes read, instead of
            copies. The bytes do not change, even if the file does, except with
            ``memory_map``.

        Returns
        -------
        iterator of Records
            Chunks, each of one partition, in order of offsets. No chunk is empty.

        Raises
        ------
        CorruptRecordError
            At damage, with file and byte, unless it is skipped.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> [records] = kafkalog.scan(batch.build()).chunks()
        >>> records.offset, records.key.to_list()
        (array([7]), [b'k'])
        """
        from kafkalog.query.scan_run import ScanRun  # a count decodes nothing

        self.problems = []
        run = ScanRun(
            sources=self.sources,
            columns=self.columns,
            policy=self.policy,
            problems=self.problems,
            condition=self.condition,
            filter=self.filter,
            progress=self.progress,
            reuse=reuse,
            views=views,
        )
        chunks = run.in_threads(self.threads) if self.threads > 1 else run.in_order()
        return chunks if self.limit is None else _first(chunks, self.limit)

    def count(self) -> int:
        """Return the number of records, from the headers of batches where they suffice.

        CRCs are checked only of batches that have to be decoded: those that a bound
        divides, messages of magic 0 and 1, and all batches if keys or headers are
        requested.

        Returns
        -------
        int
            The number of records that `chunks` returns.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder()
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> kafkalog.scan(batch.build()).count()
        1
        """
        if self.filter.of_records:
            found = replace(self, columns=())
            self.problems = found.problems
            return sum(len(records) for records in found.chunks(reuse=True))
        self.problems = []
        progress = self.progress
        readers = [
            counting_reader(*source, self.policy, self.filter)
            for source in self.sources
        ]
        sizes = [0 if progress is None else reader.size() for reader in readers]
        *before, total = accumulate(sizes, initial=0)
        records = 0
        for done, reader in zip(before, readers, strict=True):
            for more in count_records(reader, self.problems):
                records += more
                if self.limit is not None and records >= self.limit:
                    return self.limit
                if progress is not None:
                    progress(min(done + reader.bytes_done, total), total)
        if progress is not None:
            progress(total, total)
        return records

    def head(self, count: int = 10) -> pa.Table:
        """Read the first records into an Arrow table; needs pyarrow.

        Parameters
        ----------
        count : int
            Maximum number of records.

        Returns
        -------
        pyarrow.Table
            The records, in the order of `chunks`. No more is read than they need.

        Raises
        ------
        TypeError, ValueError
            If the count is not an integer, or negative.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> for value in (b"one", b"two", b"three"):
        ...     batch.append(None, value, timestamp=1)
        >>> scan = kafkalog.scan(batch.build(), columns=["offset", "value"])
        >>> scan.head(2).to_pylist()
        [{'offset': 7, 'value': b'one'}, {'offset': 8, 'value': b'two'}]
        """
        check_count("count", count)
        return limited(self, count).to_arrow()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the requested columns; needs pyarrow."""
        schema: pa.Schema = _export("arrow").schema_of(self.columns, text=self.text)
        return schema

    def to_arrow(self) -> pa.Table:
        """Read all records into an Arrow table; needs pyarrow.

        Returns
        -------
        pyarrow.Table
            A table whose columns have a chunk for each chunk read.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> kafkalog.scan(batch.build(), columns=["offset"]).to_arrow().to_pydict()
        {'offset': [7]}
        """
        table: pa.Table = _export("arrow").to_table(self)
        return table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the records as a stream of Arrow's C interface.

        So ``polars.DataFrame(scan)`` and ``duckdb.sql("from scan")`` work.
        """
        stream: object = (
            _export("arrow").to_reader(self).__arrow_c_stream__(requested_schema)
        )
        return stream

    def to_pandas(self) -> pd.DataFrame:
        """Read all records into a pandas data frame; needs pandas and pyarrow.

        Returns
        -------
        pandas.DataFrame
            A frame with bytes as objects, null as None or NaT.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> kafkalog.scan(batch.build(), columns=["offset", "key"]).to_pandas()
           offset   key
        0       7  b'k'
        """
        frame: pd.DataFrame = _export("dataframes").to_pandas(self)
        return frame

    def to_polars(self) -> pl.DataFrame:
        """Read all records into a Polars data frame; needs polars and pyarrow.

        Returns
        -------
        polars.DataFrame
            A frame with the columns of `to_arrow`.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> kafkalog.scan(batch.build(), columns=["offset"]).to_polars().shape
        (1, 1)
        """
        frame: pl.DataFrame = _export("dataframes").to_polars(self)
        return frame

    def lazy(self) -> pl.LazyFrame:
        """Return the records as a Polars query, which reads when it is collected.

        Polars passes on which columns, rows and how many of them a query needs: what a
        condition on offsets, times, partitions or other fields of batches excludes is
        not decoded. Needs polars and pyarrow.

        Returns
        -------
        polars.LazyFrame
            A frame with the columns of `to_polars`.

        Examples
        --------
        >>> import kafkalog, polars
        >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
        >>> for value in (b"one", b"two", b"three"):
        ...     batch.append(None, value, timestamp=1)
        >>> lazy = kafkalog.scan(batch.build()).lazy()
        >>> lazy.filter(polars.col("offset") > 8).select("value").collect().rows()
        [(b'three',)]
        """
        frame: pl.LazyFrame = _export("polars_source").to_lazy(self)
        return frame


def _export(module: Literal["arrow", "dataframes", "polars_source"]) -> Any:
    """Import a module of `kafkalog.export`, which converts a scan to other tables.

    It is imported here because it needs packages that may be missing.
    """
    return import_module(f"kafkalog.export.{module}")


def limited(scan: Scan, count: int) -> Scan:
    """Return a scan of the first `count` records of a scan."""
    most = count if scan.limit is None else min(count, scan.limit)
    return replace(scan, limit=most, problems=[])


def _first(chunks: Iterator[Records[Any]], limit: int) -> Iterator[Records[Any]]:
    """Yield chunks until they have `limit` records."""
    left = limit
    while left and (records := next(chunks, None)) is not None:
        yield records.head(left)
        left -= min(left, len(records))


def _bound_labels(bounds: Bounds) -> tuple[str, str]:
    """Return the bounds on offsets and timestamps as text."""
    start = "" if bounds.start_offset == MIN_INT64 else str(bounds.start_offset)
    end = "" if bounds.end_offset == MAX_INT64 else str(bounds.end_offset)
    earliest, latest = (
        "" if time is None else str(np.datetime64(time, "ms"))
        for time in (bounds.start_timestamp, bounds.end_timestamp)
    )
    return _interval(start, end), _interval(earliest, latest)


def _interval(start: str, end: str) -> str:
    return f"{start} \u2013 {end}" if start or end else "all"
