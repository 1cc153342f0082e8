"""`scan` and `Scan`: a source and bounds, read as chunks of columns.

A `Scan` holds no file open and has read nothing: each of its methods starts the reading
anew. Parts are read one by one, each in order of offsets, in steps of about 4 MB;
with threads, steps are decoded side by side and given in their order.

Knows: what may be asked for. Does not know: files; Arrow, but where to fetch it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args, overload

from kafkalog.decoding.batch_decoder import Bounds
from kafkalog.formats.entry_headers import BytesLike
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.formats.timestamps import Time
from kafkalog.log.log import Isolation
from kafkalog.query import sources as plan
from kafkalog.query.part_reading import Problem, Request
from kafkalog.query.record_counts import count_records, counting
from kafkalog.query.records import Records, ViewColumn
from kafkalog.query.scan_columns import choose_columns
from kafkalog.query.scan_run import ScanRun
from kafkalog.storage.location import AnyPath

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Source: TypeAlias = "AnyPath | BytesLike | Sequence[Source]"
Progress = Callable[[int, int], object]
OnCorruption: TypeAlias = Literal["raise", "skip"]
ISOLATION: Final = get_args(Isolation)
ON_CORRUPTION: Final = get_args(OnCorruption)
MOST_BATCH_BYTES: Final = 1 << 30


def scan(
    source: Source,
    *,
    columns: Iterable[str] | None = None,
    start_offset: plan.Offset = None,
    end_offset: plan.Offset = None,
    start_timestamp: Time | None = None,
    end_timestamp: Time | None = None,
    isolation: Isolation = "read_uncommitted",
    control_records: bool = False,
    check_crcs: bool = True,
    on_corruption: OnCorruption = "raise",
    max_batch_bytes: int = MAX_BATCH_BYTES,
    threads: int = 1,
    progress: Progress | None = None,
) -> Scan:
    """Say what to read of Kafka's log, to be taken as columns.

    Parameters
    ----------
    source : path, URL, bytes-like, or list of such
        A ``.log`` or ``.checkpoint`` file, a partition's directory, a log directory of
        many partitions, local or behind a URL (``s3://``, ``hdfs://``, ...; with
        options by `kafkalog.storage.remote_source.as_path`); or whole batches in
        memory. A partition is read from its log start offset, unless `start_offset`
        says otherwise. One that is named twice is read once. A live broker's directory
        may be read; nothing is ever written.
    columns : iterable of str, optional
        Which columns, in which order; the first eight of `COLUMNS` if None.
    start_offset, end_offset : int or {(topic, partition): int}, optional
        Records with ``start <= offset < end``; of partitions that are there.
    start_timestamp, end_timestamp : int or aware datetime, optional
        Records with ``start <= timestamp < end``, in ms since 1970. One without a
        timestamp is outside.
    isolation : {"read_uncommitted", "read_committed"}
        With the latter, records of aborted transactions, and everything from the first
        undecided one on, are left out, as a consumer would see it.
    control_records : bool
        Whether transaction markers and the like are given as records.
    check_crcs : bool
        Whether checksums are looked at. They cost little: reading is what takes time.
        Without, nothing is unpacked where `columns` are such that headers of batches
        tell: all but key, value, headers and timestamp.
    on_corruption : {"raise", "skip"}
        With the latter, what is damaged is left out, and listed in `Scan.problems`.
    max_batch_bytes : int
        How large a batch may be once decompressed; beyond it is damage.
    threads : int
        How many steps are decoded at once.
    progress : callable, optional
        Called with the bytes read so far, and those of all files.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError
        If there is nothing to read there.
    TypeError, ValueError
        If the source is none of these, or a bound or name is wrong.
    CorruptRecordError
        While reading, at damage: with file and byte.

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
    ):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}, not {value!r}")
    if threads < 1:
        raise ValueError(f"threads must be 1 or more, not {threads}")
    if not 1 <= max_batch_bytes <= MOST_BATCH_BYTES:
        raise ValueError(f"max_batch_bytes must be in 1..2**30, not {max_batch_bytes}")
    plan.check_offset("start_offset", start_offset)
    plan.check_offset("end_offset", end_offset)
    times = (start_timestamp, end_timestamp)
    parts = plan.find_parts(source)
    plan.check_known("start_offset", start_offset, parts)
    plan.check_known("end_offset", end_offset, parts)
    return Scan(
        parts=tuple(
            (part, plan.bounds_of(part, start_offset, end_offset, times))
            for part in parts
        ),
        columns=choose_columns(columns),
        request=Request(
            read_committed=isolation == "read_committed",
            control_records=control_records,
            check_crcs=check_crcs,
            by_headers=not check_crcs,
            skip=on_corruption == "skip",
            max_batch_bytes=max_batch_bytes,
        ),
        threads=threads,
        progress=progress,
    )


@dataclass(kw_only=True)
class Scan:
    """What is to be read, and the ways to take it; made by `scan`.

    `problems` lists what the last reading left out, with ``on_corruption="skip"``.
    """

    parts: tuple[tuple[plan.Part, Bounds], ...]
    columns: tuple[str, ...]
    request: Request
    threads: int = 1
    progress: Progress | None = None
    problems: list[Problem] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<Scan of {len(self.parts)} parts: {', '.join(self.columns)}>"

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
        """Read, and yield `Records`: NumPy columns of a megabyte or two at a time.

        With `reuse` a chunk's arrays are valid only until the next is taken. With
        `views` nothing is copied: keys and values are places in the bytes read; these
        stay as they are, whatever becomes of the file, until `reuse` uses them again.
        """
        self.problems = []
        run = ScanRun(self, reuse=reuse, views=views)
        return run.side_by_side() if self.threads > 1 else run.one_by_one()

    def count(self) -> int:
        """Count the records, from the headers of batches alone where that is right.

        Checksums are looked at only in batches that must be decoded for it: those that
        a bound cuts, and messages of magic 0 and 1.
        """
        self.problems = []
        tell = self.progress
        readings = [counting(*one, self.request) for one in self.parts]
        sizes = [0 if tell is None else one.size() for one in readings]
        *before, total = accumulate(sizes, initial=0)
        records = 0
        for done, reading in zip(before, readings, strict=True):
            for more in count_records(reading, self.problems):
                records += more
                if tell is not None:
                    tell(min(done + reading.bytes_done, total), total)
        if tell is not None:
            tell(total, total)
        return records

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the columns asked for; needs pyarrow."""
        from kafkalog.export import arrow

        return arrow.schema_of(self.columns)

    def to_arrow(self) -> pa.Table:
        """Read all into a ``pyarrow.Table``."""
        from kafkalog.export import arrow

        return arrow.to_table(self)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Hand the reading over as a stream, to whoever knows Arrow's C interface."""
        from kafkalog.export import arrow

        return arrow.to_reader(self).__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> pd.DataFrame:
        """Read all into a ``pandas.DataFrame``."""
        from kafkalog.export import dataframes

        return dataframes.to_pandas(self)

    def to_polars(self) -> pl.DataFrame:
        """Read all into a ``polars.DataFrame``."""
        from kafkalog.export import dataframes

        return dataframes.to_polars(self)
