"""One reading of a scan: steps decoded one by one, or side by side in threads.

Checksums of plain batches are looked at as they are decoded. Where one is wrong, all
that is ahead is let go of, and the reading goes on anew from that batch, with checksums
looked at first: what lies behind damage is for those to find who read the file.

Knows: how a reading is run. Does not know: files, columns.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkalog.decoding.batch_decoder import Bounds, decode
from kafkalog.decoding.column_gathering import Buffers, GatheringWorkspace
from kafkalog.decoding.workspace import Room, Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.entry_headers import Bytes, Rows
from kafkalog.query.header_columns import (
    TOLD_COLUMNS,
    Bools,
    runs_of_offsets,
    stretches,
    tell_offsets,
)
from kafkalog.query.part_reading import PartReading, Piece, Problem, left_out
from kafkalog.query.records import Origin, Records, make_records, make_views
from kafkalog.segment.file_records import Step
from kafkalog.storage.byte_source import Rooms, Take

if TYPE_CHECKING:
    from kafkalog.query.scan import Scan

AHEAD: Final = 2
"""Steps in work or waiting, for each thread."""


class Again(NamedTuple):
    """Where the reading is to go on anew: a batch whose checksum was found wrong."""

    part: int
    piece: Piece
    position: int


class Task(NamedTuple):
    """A step to decode, whose it is, and the number of its part."""

    piece: Piece
    origin: Origin
    part: int


Made = list[Records | Problem | Exception | Again]
Work = Future[Made]


@dataclass(slots=True)
class ScanRun:
    """One reading of a scan, chunk by chunk."""

    scan: Scan
    reuse: bool
    views: bool
    by_headers: bool = field(init=False)
    """Whether records are told by headers, where these suffice."""

    def __post_init__(self) -> None:
        request = self.scan.request
        asked = request.by_headers and TOLD_COLUMNS.issuperset(self.scan.columns)
        self.by_headers = asked and not (request.skip or self.views)

    def _reading(self, part: int, take: Take | None) -> PartReading:
        """Begin the reading of a part; what is decoded has its checksums checked then.

        Where headers tell the rest, they are checked before, or are not asked for.
        """
        which, bounds = self.scan.parts[part]
        request = self.scan.request
        alone = self.by_headers and not request.check_crcs
        return PartReading(
            part=which,
            bounds=bounds,
            request=request,
            take=take,
            told=self._told if alone else None,
            defers=not self.by_headers,
        )

    def _told(self, rows: Rows, bounds: Bounds) -> Bools:
        return tell_offsets(rows, bounds, self.scan.request.max_batch_bytes)

    def _tasks(
        self, take: Take | None, again: Again | None
    ) -> Iterator[Task | Problem]:
        """Yield what there is to decode and what is left out; say how far it is."""
        tell, parts = self.scan.progress, range(len(self.scan.parts))
        sizes = [0 if tell is None else self._reading(i, None).size() for i in parts]
        *before, total = accumulate(sizes, initial=0)
        for i in parts[0 if again is None else again.part :]:
            reading, part = self._reading(i, take), self.scan.parts[i][0]
            if again is not None and again.part == i:
                reading = reading.behind(again.piece, again.position)
            for piece in reading.pieces():
                if isinstance(piece, Problem):
                    yield piece
                else:
                    origin = Origin(part.topic, part.partition, (piece.segment,))
                    yield Task(piece, origin, i)
                if tell is not None:
                    tell(min(before[i] + reading.bytes_done, total), total)
        if tell is not None:
            tell(total, total)

    def _decode(
        self, task: Task, room: Room[Any], buffers: Buffers
    ) -> Iterator[Records | Problem | Again]:
        """Decode one step: columns, run by run, until a checksum is found wrong."""
        step = task.piece.step
        if not self.by_headers:
            yield from self._unpack(task, step, room, buffers)
            return
        told = self._told(step.rows, task.piece.bounds)
        for part, is_told in stretches(step, told):
            if not is_told:
                yield from self._unpack(task, part, room, buffers)
                continue
            for run in runs_of_offsets(part.data, part.rows):
                yield make_records(run, task.origin, self.scan.columns, buffers)

    def _unpack(
        self, task: Task, step: Step, room: Room[Any], buffers: Buffers
    ) -> Iterator[Records[Any] | Problem | Again]:
        """Decode what headers do not tell, until a checksum is found wrong."""
        scan, piece = self.scan, task.piece
        found = decode(
            step.data,
            step.origin,
            step.rows,
            bounds=piece.bounds,
            limit=scan.request.max_batch_bytes,
            workspace=room,
            before=step.before,
            in_pieces=True,
            check=not step.checked,
        )
        make = make_views if self.views else make_records
        for run in found:
            if not isinstance(run, LocatedError):
                yield make(run, task.origin, scan.columns, buffers)
            elif run.cause == "crc":
                assert run.position is not None  # as of every batch
                yield Again(task.part, piece, run.position)
                return
            else:
                yield left_out(run, piece, scan.request)

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
        take = None if stays else Rooms().take
        tasks = self._tasks(take, None)
        while (task := next(tasks, None)) is not None:
            if isinstance(task, Problem):
                self.scan.problems.append(task)
                continue
            again = yield from self._given(self._decode(task, room, buffers))
            if again is not None:
                tasks = self._tasks(take, again)

    def side_by_side(self) -> Iterator[Records]:
        """Decode some steps ahead, in threads; give them in their order."""
        with ThreadPoolExecutor(self.scan.threads) as pool:
            again = yield from self._ahead(pool, None)
            while again is not None:
                again = yield from self._ahead(pool, again)

    def _ahead(
        self, pool: ThreadPoolExecutor, again: Again | None
    ) -> Generator[Records, None, Again | None]:
        """Decode steps until there are none, or one whose checksums are wrong."""
        most, rooms, failure = AHEAD * self.scan.threads - 1, Rooms(), None
        line, work = _Line(rooms), self._worker()
        tasks = self._tasks(None if self.views else rooms.take, again)
        try:
            while True:
                try:
                    task = next(tasks)
                except StopIteration:
                    break
                except (LocatedError, OSError) as error:
                    failure = error  # once those before it are given
                    break
                if isinstance(task, Problem):
                    line.join(_done([task]))
                else:
                    line.join(pool.submit(work, task), task.piece.step.data)
                again = yield from self._left(line, most)
                if again is not None:
                    return again
            again = yield from self._left(line, 0)
        finally:
            line.give_up()
        if failure is not None and again is None:
            raise failure
        return again

    def _left(self, line: _Line, most: int) -> Generator[Records, None, Again | None]:
        """Give what comes out at the head of the line, until `most` are left in it."""
        for made in line.leave(most):
            again = yield from self._given(made)
            if again is not None:
                return again
        return None

    def _worker(self) -> Callable[[Task], Made]:
        """Make what a thread does with a step: all of it, into memory of its own."""
        kept = threading.local()

        def work(task: Task) -> Made:
            if not hasattr(kept, "room"):
                kept.buffers = Buffers(kept=False)
                kept.room = self._room(kept.buffers, stays=True)
            made: Made = []
            try:
                for one in self._decode(task, kept.room, kept.buffers):
                    made.append(one)
            except LocatedError as error:
                made.append(error)
            return made

        return work

    def _given(
        self, made: Iterable[Records | Problem | Exception | Again]
    ) -> Generator[Records, None, Again | None]:
        """Give records, and note problems; answer whether to read anew, and where."""
        for one in made:
            if isinstance(one, Exception):
                raise one
            if isinstance(one, Again):
                return one
            if isinstance(one, Problem):
                self.scan.problems.append(one)
            else:
                yield one
        return None


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
