"""The entries of a ``.log``, in order, in steps of about four megabytes.

A step is read, its headers scanned, its order looked at and its checksums, before
anything in it is decoded. What is damaged comes as an error in its place: raised, or
left out when `skip` is set, in which case reading goes on at the next entry, or, where
the damaged one's size does not lead to a sound one, at the next sound one there is.

Checksums of plain batches may be left to whoever decodes them, who looks at each right
before its records: so its bytes are fetched from memory once, not twice.

Offsets rise along a segment. The checksum does not cover them, so that they rise, and
stay below the next segment's, is looked at here.

Knows: entries of one file. Does not know: indexes, isolation, which columns are wanted.
Source: ``FileRecords.java``, ``FileLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.decoding.read_policy import LARGE_BATCH_BYTES, STRICT, ReadPolicy
from kafkalog.errors import BatchTooLargeError, CorruptRecordError, LocatedError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
    Bytes,
    crc_error,
    find_crc_mismatches,
    size_field,
)
from kafkalog.formats.layout import (
    BATCH,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.formats.offset_order import misplaced_error
from kafkalog.segment.resync import (
    belongs,
    find_half_written,
    find_sound_entry,
    leads_on,
    sound_entry,
    tail_error,
)
from kafkalog.segment.strays import Limits, find_strays
from kafkalog.storage.byte_source import ByteSource, Rooms, Take

STEP_BYTES: Final = 4 << 20
FIRST_STEP_BYTES: Final = 64 << 10
STEP_GROWTH: Final = 8
STEP_ROWS: Final = 1024
"""Entries are rarely so small; where they are, a step takes several goes."""

Bools = npt.NDArray[np.bool_]
Select = Callable[[BatchHeaders], tuple[Bools | None, bool]]
"""Says which rows are wanted, None for all, and whether the file's rest is not."""


class Choice(NamedTuple):
    """Which are wanted, None for all; which offsets cannot be; is the rest unwanted."""

    wanted: Bools | None
    stray: Bools | None
    done: bool


@dataclass(frozen=True, slots=True)
class Step:
    """Entries wanted and found sound: `rows`, in the bytes `data` from `origin` on.

    `before` is the last offset of what precedes them; None where offsets need not rise.
    With `crcs_deferred`, whoever decodes them has to check their CRCs.
    """

    data: Bytes
    origin: int
    rows: BatchHeaders
    before: int | None = None
    crcs_deferred: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """What was left out, why, and the offsets that went with it, where known."""

    error: LocatedError
    first_offset: int | None
    last_offset: int | None


def everything(_rows: BatchHeaders) -> tuple[None, bool]:
    """Select every entry, to the end."""
    return None, False


def headers_always_suffice(_rows: BatchHeaders) -> bool:
    """Return True: the headers of any rows suffice."""
    return True


@dataclass(slots=True, kw_only=True)
class FileRecords:
    """One reading of the entries of `source`, from `start` to its end.

    `before` is the last offset of what precedes the next entry, so far.
    `select` is asked of each step's headers which entries are wanted, and whether the
    rest of the file is not; the others are neither checked nor given. A step's
    bytes lie in room that `take` gives, fresh if it is None; by default in one buffer,
    so that they are valid only until the next step.

    The policy states what is read. Where it trusts headers, and `headers_suffice` holds
    for the rows of a step, its `data` has their headers, and perhaps nothing else; no
    CRC is checked then. With ``while_decoding`` the CRCs of a step of ordinary batches,
    none of which is very large, are left to the decoder. One that finds a mismatch
    reads again, with ``before``: only here it is known what follows damage.
    """

    source: ByteSource
    start: int = 0
    before: int = -(2**63)
    select: Select = everything
    headers_suffice: Callable[[BatchHeaders], bool] = headers_always_suffice
    limits: Limits = field(default_factory=Limits)
    policy: ReadPolicy = STRICT
    take: Take | None = field(default_factory=lambda: Rooms().take)
    first_bytes: int = FIRST_STEP_BYTES
    step_bytes: int = STEP_BYTES
    end: int = 0
    """Position behind the last whole entry, so far."""
    has_tail: bool = False
    """Whether it ended at part of an entry, or at zeros."""
    _read_again: int = -1

    def __iter__(self) -> Iterator[Step | Skipped]:
        """Yield steps; raise at damage, or, with `skip`, yield what was left out."""
        try:
            yield from self._read()
        except LocatedError as error:
            raise self._located(error) from None

    def _located(self, error: LocatedError) -> LocatedError:
        return error if self.source.path is None else error.located(self.source.path)

    def _read(self) -> Iterator[Step | Skipped]:
        self.end = self.start
        length = self.first_bytes
        while self.end < self.source.size:
            origin, asked = self.end, length
            length = max(length, min(length * STEP_GROWTH, self.step_bytes))
            if self.policy.trusts_headers and (yield from self._headers_only(asked)):
                return
            if self.end > origin:
                continue
            data = self.source.read(origin, asked, self.take)
            status = int(Status.OK)
            while status == Status.OK and origin <= self.end < origin + len(data):
                status, rows, place = self._scan(data, origin)
                if self._contradicted(rows, data, origin, place):
                    # Which of the two is wrong shows with those behind at hand.
                    rows, place = rows[:-1], int(rows["position"][-1]) - origin
                    status = int(Status.ENTRY_INCOMPLETE)
                done, moved = yield from self._entries(data, origin, rows)
                if done:
                    return
                if moved:
                    status = int(Status.OK)
                    break
                self.end = origin + place
            cut = status == Status.ENTRY_INCOMPLETE
            size = self._entry_bytes(data, origin) if cut else 0
            if cut and origin + len(data) < self.source.size >= self.end + size:
                length = max(length, size)
                if size > self.policy.max_batch_bytes + RECORD_BATCH_OVERHEAD:
                    yield self._too_large(size)
            elif status != Status.OK:
                offsets = self.limits.of_a_tail
                error = tail_error(self.source, self.end, status, offsets)
                if error is None:
                    self.has_tail = True
                    return
                if self._sound_when_read_again(self.end):
                    continue
                yield self._resume(error, self.end + 1)

    def _scan(self, data: Bytes, origin: int) -> tuple[int, BatchHeaders, int]:
        """Read headers from `end` on: status, rows, and the place behind them."""
        room = np.empty(STEP_ROWS, BATCH)  # a copy of rows costs more
        start = self.end - origin
        status, count, place = _speedups.scan_batches(data, start, origin, room)
        return status, room[:count], place

    def _headers_only(self, length: int) -> Generator[Step, None, bool]:
        """Yield a step of headers, and move `end` after it, where headers suffice.

        Returns whether the rest of the file is not requested. Damage is left in place.
        """
        origin = self.end
        data = self.source.read_headers(origin, length, self.take)
        if data is None:
            return False
        _, rows, place = self._scan(data, origin)
        if not self._in_order(rows) or self._contradicted(rows, data, origin, place):
            return False
        wanted, done = self.select(rows)
        chosen = rows if wanted is None else rows[wanted]
        if not self.headers_suffice(chosen):
            return False
        yield from self._sound(data, origin, rows, chosen)
        self.end = origin + place
        return done

    def _entry_bytes(self, data: Bytes, origin: int) -> int:
        """Size of the entry at `end`, or 0 where the window cuts its size field."""
        place = self.end - origin
        is_there = len(data) >= place + LOG_OVERHEAD
        return LOG_OVERHEAD + size_field(data, place) if is_there else 0

    def _too_large(self, size: int) -> Skipped:
        """Pass over an entry that exceeds the limit as it is, or only says so."""
        position = self.end
        if not leads_on(self.source, position, position + size):
            reason = f"no entry lies where a size of {size} leads"
            error = CorruptRecordError(reason, position=position, cause="size")
            return self._resume(error, position + 1)
        reason = f"a batch of {size} bytes exceeds {self.policy.max_batch_bytes}"
        too_large = BatchTooLargeError(reason, position=position)
        if not self.policy.skips:
            raise too_large
        self.end += size
        return Skipped(self._located(too_large), None, None)

    def _contradicted(
        self, rows: BatchHeaders, data: Bytes, origin: int, place: int
    ) -> bool:
        """Whether the entry at `place` begins at or below the last of several."""
        if not self.limits.ordered or len(rows) < 2:
            return False
        behind = data[place : place + 8].tobytes()
        if len(behind) < 8:
            behind = self.source.read(origin + place, 8).tobytes()
        if len(behind) < 8 or int.from_bytes(behind) > rows["last_offset"][-1]:
            return False
        return sound_entry(self.source, origin + place) is not None

    def _entries(
        self, data: Bytes, origin: int, rows: BatchHeaders
    ) -> Generator[Step | Skipped, None, tuple[bool, bool]]:
        """Give the sound ones of `rows` that are wanted.

        Answers whether the rest of the file is not wanted, and whether `end` was moved
        to go on from there.
        """
        choice = self._choose(data, origin, rows)
        chosen = rows if choice.wanted is None else rows[choice.wanted]
        if choice.stray is None and self._defers(chosen):
            yield from self._sound(data, origin, rows, chosen, crcs_deferred=True)
            return choice.done, False
        if self.policy.check_crcs != "never" and not self.policy.trusts_headers:
            unsound = find_crc_mismatches(data, origin, chosen)
        else:
            unsound = find_half_written(self.source, data, origin, rows, chosen)
        if choice.stray is None and not len(unsound):
            yield from self._sound(data, origin, rows, chosen)
            return choice.done, False
        return (yield from self._around_bad(data, origin, rows, choice, unsound))

    def _defers(self, rows: BatchHeaders) -> bool:
        most = min(LARGE_BATCH_BYTES, self.policy.max_batch_bytes)
        deferring = self.policy.check_crcs == "while_decoding"
        deferring &= self.policy.needs == "records"
        return deferring and _speedups.all_uncompressed(rows, most)

    def _around_bad(
        self,
        data: Bytes,
        origin: int,
        rows: BatchHeaders,
        choice: Choice,
        unsound: npt.NDArray[np.intp],
    ) -> Generator[Step | Skipped, None, tuple[bool, bool]]:
        """Give what lies before, between and behind bad ones, and answer likewise.

        `unsound` are the places, among those wanted, where checksums differ.
        """
        wanted, stray, done = choice
        wanted = np.ones(len(rows), np.bool_) if wanted is None else wanted
        stray = np.zeros(len(rows), np.bool_) if stray is None else stray
        bad = stray.copy()
        bad[np.flatnonzero(wanted)[unsound]] = True
        done = done and not bad[-1]  # else nobody knows how far it reaches
        first = 0
        for i in np.flatnonzero(bad).tolist():
            if i < first:
                continue
            if done and not wanted[i:].any():
                break
            before = rows[first:i]
            yield from self._sound(data, origin, before, before[wanted[first:i]])
            row = rows[i]
            if not stray[i] and self._sound_when_read_again(int(row["position"])):
                return False, True
            yield self._leave_out(row, stray=bool(stray[i]))
            first = int(np.searchsorted(rows["position"], self.end))
            if first == len(rows) or rows["position"][first] != self.end:
                return done, True
        behind = rows[first:]
        yield from self._sound(data, origin, behind, behind[wanted[first:]])
        return done, False

    def _choose(self, data: Bytes, origin: int, rows: BatchHeaders) -> Choice:
        """Choose among `rows` by their offsets, and by what is asked for."""
        limits = self.limits
        if self._in_order(rows):
            wanted, done = self.select(rows)
            return Choice(wanted, None, done)
        stray = find_strays(
            data,
            origin,
            rows,
            least=limits.least,
            most=limits.most,
            before=self.before if limits.ordered else None,
            max_batch_bytes=self.policy.max_batch_bytes,
        )
        kept = ~stray
        wanted, done = self.select(rows[kept])
        if wanted is not None:
            kept[kept] = wanted
        return Choice(kept, stray, done)

    def _in_order(self, rows: BatchHeaders) -> bool:
        limits = self.limits
        return _speedups.offsets_in_order(
            rows, limits.least, limits.most, self.before, limits.ordered
        )

    def _sound(
        self,
        data: Bytes,
        origin: int,
        rows: BatchHeaders,
        chosen: BatchHeaders,
        *,
        crcs_deferred: bool = False,
    ) -> Iterator[Step]:
        """Give those `chosen` of `rows`, none of which is known to be bad."""
        ordered = self.limits.ordered
        if len(chosen):
            before = self.before if ordered else None
            yield Step(data, origin, chosen, before, crcs_deferred)
        if ordered and len(rows):
            self.before = max(self.before, int(rows["last_offset"].max()))

    def _sound_when_read_again(self, position: int) -> bool:
        """Whether a broker was writing the entry when its window was read."""
        if position == self._read_again:
            return False
        self.source.read_anew()
        if sound_entry(self.source, position) is None:
            return False
        self.end = self._read_again = position
        return True

    def _leave_out(self, row: np.void, *, stray: bool) -> Skipped:
        """Say what is wrong with an entry, and move `end` to where to go on."""
        position, size = int(row["position"]), int(row["size_in_bytes"])
        base, last = int(row["base_offset"]), int(row["last_offset"])
        if stray:
            error = misplaced_error(row)
        else:
            data = self.source.read(position, size)
            error = crc_error(data, position, row)
        if self.policy.skips and leads_on(self.source, position, position + size):
            self.end = position + size
            return Skipped(self._located(error), base if base >= 0 else None, last)
        return self._resume(error, position + 1)

    def _resume(self, error: LocatedError, position: int) -> Skipped:
        """Move `end` to the next sound entry, or to the file's end."""
        if not self.policy.skips:
            raise error
        found = find_sound_entry(self.source, position)
        least = max(self.before, self.limits.least - 1)
        before = least if self.limits.ordered else None
        while found is not None and not belongs(
            self.source, found, before, self.limits.most
        ):
            found = find_sound_entry(self.source, found + 1)
        self.end = self.source.size if found is None else found
        return Skipped(self._located(error), None, None)
