"""`scan` and `Scan`: a source and bounds, read as chunks of columns.

A `Scan` holds no file open and has read nothing: each of its methods starts the reading
anew. Parts are read one by one, each in order of offsets, in steps of about 2 MB;
with threads, steps are decoded side by side and given in their order.

Knows: how a reading is run. Does not know: files; Arrow, but where to fetch it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kafkalog.errors import LocatedError
from kafkalog.files.reading import Rooms, Take
from kafkalog.formats.decoding import Bounds, decode
from kafkalog.formats.gathering import Buffers, GatheringWorkspace
from kafkalog.formats.headers import Bytes
from kafkalog.formats.layout import MAX_BATCH_BYTES
from kafkalog.formats.workspace import Room, Workspace
from kafkalog.query import plan
from kafkalog.query.columns import choose_columns
from kafkalog.query.counting import count_records
from kafkalog.query.reading import PartReading, Piece, Problem, Request, left_out
from kafkalog.query.records import Origin, Records, make_records, make_views

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

Progress = Callable[[int, int], object]
ISOLATION: Final = ("read_uncommitted", "read_committed")
ON_CORRUPTION: Final = ("raise", "skip")
MOST_BATCH_BYTES: Final = 1 << 30
Made = list[Records | Problem | Exception]
Work = Future[Made]
AHEAD: Final = 2
"""Steps in work or waiting, for each thread."""


def scan(
    source: Any,
    *,
    columns: Iterable[str] | None = None,
    start_offset: plan.Offset = None,
    end_offset: plan.Offset = None,
    start_timestamp: plan.Time = None,
    end_timestamp: plan.Time = None,
    isolation: str = "read_uncommitted",
    control_records: bool = False,
    check_crcs: bool = True,
    on_corruption: str = "raise",
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
        options by `kafkalog.files.remote.as_path`); or whole batches in memory. A
        partition is read from its log start offset, unless `start_offset` says
        otherwise. A live broker's directory may be read; nothing is ever written.
    columns : iterable of str, optional
        Which columns, in which order; the first eight of `COLUMNS` if None.
    start_offset, end_offset : int or {(topic, partition): int}, optional
        Records with ``start <= offset < end``.
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
    times = (plan.as_ms(start_timestamp), plan.as_ms(end_timestamp))
    parts = plan.find_parts(source)
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

    def chunks(self, reuse: bool = False, views: bool = False) -> Iterator[Records]:
        """Read, and yield `Records`: NumPy columns of a megabyte or two at a time.

        With `reuse` a chunk's arrays are valid only until the next is taken. With
        `views` nothing is copied: keys and values are places in the bytes read; these
        stay as they are, whatever becomes of the file, until `reuse` uses them again.
        """
        self.problems = []
        run = _Run(self, reuse=reuse, views=views)
        return run.side_by_side() if self.threads > 1 else run.one_by_one()

    def count(self) -> int:
        """Count the records, from the headers of batches alone where that is right.

        Checksums are looked at only in batches that must be decoded for it: those that
        a bound cuts, and messages of magic 0 and 1.
        """
        self.problems = []
        return sum(
            count_records(part, bounds, self.request, self.problems)
            for part, bounds in self.parts
        )

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
        from kafkalog.export import dataframe

        return dataframe.to_pandas(self)

    def to_polars(self) -> pl.DataFrame:
        """Read all into a ``polars.DataFrame``."""
        from kafkalog.export import dataframe

        return dataframe.to_polars(self)


@dataclass(slots=True)
class _Run:
    """One reading of a scan, chunk by chunk."""

    scan: Scan
    reuse: bool
    views: bool

    def _pieces(self, take: Take | None) -> Iterator[tuple[Piece, Origin] | Problem]:
        """Yield what there is to decode and what is left out; say how far it is."""
        tell = self.scan.progress
        readings = [
            PartReading(part=part, bounds=bounds, request=self.scan.request, take=take)
            for part, bounds in self.scan.parts
        ]
        done, total = 0, 0 if tell is None else sum(map(PartReading.size, readings))
        for reading in readings:
            part = reading.part
            for piece in reading.pieces():
                if isinstance(piece, Problem):
                    yield piece
                else:
                    yield piece, Origin(part.topic, part.partition, (piece.segment,))
                if tell is not None:
                    tell(min(done + reading.bytes_done, total), total)
            done += reading.bytes_done
        if tell is not None:
            tell(total, total)

    def _decode(
        self, piece: Piece, origin: Origin, room: Room[Any], buffers: Buffers
    ) -> Iterator[Records | Problem]:
        """Decode one step: columns, run by run."""
        scan = self.scan
        found = decode(
            piece.step.data,
            piece.step.origin,
            piece.step.rows,
            bounds=piece.bounds,
            limit=scan.request.max_batch_bytes,
            workspace=room,
            before=piece.step.before,
            in_pieces=True,
        )
        make = make_views if self.views else make_records
        for run in found:
            if isinstance(run, LocatedError):
                yield left_out(run, piece, scan.request)
            else:
                yield make(run, origin, scan.columns, buffers)

    def _room(self, buffers: Buffers, *, stays: bool) -> Room[Any]:
        """Make room for what is found; unpacked bytes are of use to views alone."""
        if self.views:
            return Workspace(keeps_bytes=not stays)
        return GatheringWorkspace(self.scan.columns, buffers)

    def one_by_one(self) -> Iterator[Records]:
        """Decode each step when it is asked for."""
        stays = self.views and not self.reuse
        buffers = Buffers(kept=self.reuse)
        room = self._room(buffers, stays=stays)
        for found in self._pieces(None if stays else Rooms().take):
            if isinstance(found, Problem):
                self.scan.problems.append(found)
            else:
                yield from self._given(self._decode(*found, room, buffers))

    def side_by_side(self) -> Iterator[Records]:
        """Decode some steps ahead, in threads; give them in their order."""
        threads, rooms = self.scan.threads, Rooms()
        line, work, failure = _Line(rooms), self._worker(), None
        pieces = self._pieces(None if self.views else rooms.take)
        with ThreadPoolExecutor(threads) as pool:
            try:
                while True:
                    try:
                        found = next(pieces)
                    except StopIteration:
                        break
                    except (LocatedError, OSError) as error:
                        failure = error  # once those before it are given
                        break
                    if isinstance(found, Problem):
                        line.join(_done([found]))
                    else:
                        line.join(pool.submit(work, *found), found[0].step.data)
                    yield from self._left(line, AHEAD * threads - 1)
                yield from self._left(line, 0)
            finally:
                line.give_up()
        if failure is not None:
            raise failure

    def _left(self, line: _Line, most: int) -> Iterator[Records]:
        """Give what comes out at the head of the line, until `most` are left in it."""
        for made in line.leave(most):
            yield from self._given(made)

    def _worker(self) -> Callable[[Piece, Origin], Made]:
        """Make what a thread does with a step: all of it, into memory of its own."""
        kept = threading.local()

        def work(piece: Piece, origin: Origin) -> Made:
            if not hasattr(kept, "room"):
                kept.buffers = Buffers(kept=False)
                kept.room = self._room(kept.buffers, stays=True)
            made: Made = []
            try:
                for one in self._decode(piece, origin, kept.room, kept.buffers):
                    made.append(one)
            except LocatedError as error:
                made.append(error)
            return made

        return work

    def _given(
        self, made: Iterable[Records | Problem | Exception]
    ) -> Iterator[Records]:
        for one in made:
            if isinstance(one, Exception):
                raise one
            if isinstance(one, Problem):
                self.scan.problems.append(one)
            else:
                yield one


@dataclass(slots=True)
class _Line:
    """Steps in work, in their order, and the rooms their bytes lie in."""

    rooms: Rooms
    waiting: deque[tuple[Work, Bytes | None]] = field(default_factory=deque)

    def join(self, work: Work, data: Bytes | None = None) -> None:
        """Put work at the end of the line; its `data` is held until it is done."""
        if data is not None:
            self.rooms.hold(data)
        self.waiting.append((work, data))

    def leave(self, most: int) -> Iterator[Made]:
        """Wait for the first in line, until there are `most` left."""
        while len(self.waiting) > most:
            work, data = self.waiting.popleft()
            made = work.result()
            if data is not None:
                self.rooms.let_go(data)
            yield made

    def give_up(self) -> None:
        """Let go of work that nobody waits for any more."""
        for work, _ in self.waiting:
            work.cancel()


def _done(made: Made) -> Work:
    """Return work that has its result already, to wait in line with the rest."""
    work: Work = Future()
    work.set_result(made)
    return work
