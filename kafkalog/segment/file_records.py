"""Reading of the entries of a ``.log``, verified, in steps of about four megabytes.

A step is read, and its headers, offsets and CRCs are checked, before anything in it is
decoded. Damage raises an error, or is skipped with `skip`. Reading then continues after
the damaged entry, or at the next valid entry if its size is wrong.

The CRCs of uncompressed batches may be left to the decoder, which checks each right
before its records, while the bytes are in the cache.

Offsets ascend along a segment. The CRC does not cover them, so this module checks that
they ascend, and are below those of the next segment.

Source: ``FileRecords.java``, ``FileLogInputStream.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog._speedups import Status
from kafkalog.array_types import Bools, Bytes
from kafkalog.decoding.read_policy import LARGE_BATCH_BYTES, STRICT, ReadPolicy
from kafkalog.errors import BatchTooLargeError, CorruptRecordError, LocatedError
from kafkalog.formats.batch_headers import (
    BatchHeaders,
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
from kafkalog.integer_limits import MIN_INT64
from kafkalog.segment.entry_order import Limits, find_out_of_order
from kafkalog.segment.entry_search import (
    find_being_written,
    find_valid_entry,
    has_plausible_offsets,
    is_size_confirmed,
    read_valid_entry,
    tail_error,
)
from kafkalog.storage.buffers import KeptBuffer, Take
from kafkalog.storage.byte_source import ByteSource

STEP_BYTES: Final = 4 << 20
FIRST_STEP_BYTES: Final = 64 << 10
STEP_GROWTH: Final = 8
STEP_ROWS: Final = 1024
"""Headers scanned at a time; steps of very small entries have more."""

NO_ROWS: Final = np.empty(0, BATCH)

Select = Callable[[BatchHeaders], tuple[Bools | None, bool]]
"""Function that returns the selected rows (None: all), and whether no more follow."""


class RowSelection(NamedTuple):
    """Rows that are selected, rows out of order, and whether the rest is not selected.

    `selected` is None if all rows are selected, `out_of_order` None if no row is.
    """

    selected: Bools | None
    out_of_order: Bools | None
    done: bool


@dataclass(frozen=True, slots=True)
class Step:
    """Valid entries: their headers `rows`, and `data`, which begins at `origin`.

    `before` is the last offset before them; None if offsets need not ascend. With
    `crcs_deferred` the decoder must check their CRCs.
    """

    data: Bytes
    origin: int
    rows: BatchHeaders
    before: int | None = None
    crcs_deferred: bool = False


@dataclass(frozen=True, slots=True)
class Skipped:
    """The error for which bytes were skipped, and the offsets lost, if known."""

    error: LocatedError
    first_offset: int | None
    last_offset: int | None


FindLost = Callable[[int, int], Skipped | None]
"""Function that returns the records lost at the end of a segment, or None.

It is called with the offset that follows there, and the position of a partial entry."""


def select_all(_rows: BatchHeaders) -> tuple[None, bool]:
    """Select all entries."""
    return None, False


def headers_always_suffice(_rows: BatchHeaders) -> bool:
    """Return True: the headers of any rows suffice."""
    return True


def nothing_lost(_following: int, _position: int) -> None:
    """Return None: nothing is lost by a partial entry."""


class ReadOptions(TypedDict, total=False):
    """The options of `FileRecords` that do not depend on the segment."""

    before: int
    select: Select
    headers_suffice: Callable[[BatchHeaders], bool]
    policy: ReadPolicy
    take: Take
    first_bytes: int
    step_bytes: int


@dataclass(slots=True, kw_only=True)
class FileRecords:
    """An iterator over the entries of `source`, from `start` to its end.

    `before` is the last offset before the next entry. `select` is called with the
    headers of each step, and returns which entries are selected, and whether the rest
    of the file is not; other entries are neither verified nor returned. The bytes of a
    step are in a buffer from `take`. By default there is one buffer, so that they are
    valid until the next step.

    The policy states what is read. If it trusts headers, and `headers_suffice` returns
    True for the rows of a step, only the headers in `data` are valid, and no CRC is
    checked. With ``while_decoding`` the CRCs of uncompressed batches, none of them very
    large, are left to the decoder. If one does not match, the caller must read again
    with ``before``, to skip the damage.

    At a partial last entry `find_lost` is called. What it returns is damage, too.
    """

    source: ByteSource
    start: int = 0
    before: int = MIN_INT64
    select: Select = select_all
    headers_suffice: Callable[[BatchHeaders], bool] = headers_always_suffice
    limits: Limits = field(default_factory=Limits)
    policy: ReadPolicy = STRICT
    take: Take = field(default_factory=lambda: KeptBuffer().take)
    first_bytes: int = FIRST_STEP_BYTES
    step_bytes: int = STEP_BYTES
    find_lost: FindLost = nothing_lost
    end: int = 0
    """Position after the last complete entry, so far."""
    has_tail: bool = False
    """Whether the file ends with a partial entry, or with zeros."""
    _read_again: int = -1

    def __iter__(self) -> Iterator[Step | Skipped]:
        """Yield steps; raise at damage, or with `skip` yield `Skipped`."""
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
            origin, step = self.end, length
            length = max(length, min(length * STEP_GROWTH, self.step_bytes))
            if self.policy.trusts_headers and (yield from self._headers_only(step)):
                return
            # The headers of this step sufficed, so its records are not read.
            if self.end > origin:
                continue
            data = self.source.read(origin, step, self.take)
            status, moved, rows = int(Status.OK), False, NO_ROWS
            before = self.before
            while status == Status.OK and origin <= self.end < origin + len(data):
                before = self.before
                status, rows, place = self._scan(data, origin)
                if self._is_out_of_order(rows, data, origin, place):
                    # The entries after the two show which of them is wrong.
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
            continues = cut and origin + len(data) < self.source.size >= self.end + size
            too_large = size > self.policy.max_batch_bytes + RECORD_BATCH_OVERHEAD
            at_end = self.end >= self.source.size and not moved
            # No entry is known to follow `rows`: the size of the last may be wrong.
            if too_large or at_end or not (continues or status == Status.OK):
                damaged = self._find_damage_before(rows, before)
                if damaged is not None:
                    if not self._is_valid_when_read_again(int(damaged["position"])):
                        yield self._skip(damaged, out_of_order=False)
                    continue
            if continues:
                # The next step has all of the entry that this one cuts.
                length = max(length, size)
                if too_large:
                    yield self._too_large(size)
            elif status != Status.OK:
                offsets = self.limits.of_a_tail
                error = tail_error(self.source, self.end, status, offsets)
                if error is None:
                    self.has_tail = True
                    lost = self.find_lost(self.before + 1, self.end)
                    if lost is not None and not self.policy.skips:
                        raise lost.error
                    if lost is not None:
                        yield lost
                    return
                if self._is_valid_when_read_again(self.end):
                    continue
                yield self._resume(error, self.end + 1)

    def _find_damage_before(self, rows: BatchHeaders, before: int) -> np.void | None:
        """Return the first of the damaged entries that `rows` end with, if any.

        No entry follows `rows`. The reason may be a wrong size of the last one, whose
        CRC is not checked yet if it is not selected.
        """
        if not len(rows):
            return None
        selected, _ = self.select(rows[-1:])
        if not self.policy.checks_steps or selected is None or selected.all():
            return None
        count = len(rows)
        while count and self._is_damaged(rows[count - 1 : count]):
            count -= 1
        if count == len(rows):
            return None
        self.before = max([before, *rows["last_offset"][:count].tolist()])
        first: np.void = rows[count]
        return first

    def _is_damaged(self, row: BatchHeaders) -> bool:
        position, size = int(row["position"][0]), int(row["size_in_bytes"][0])
        data = self.source.read(position, size)
        return len(find_crc_mismatches(data, position, row)) > 0

    def _scan(self, data: Bytes, origin: int) -> tuple[int, BatchHeaders, int]:
        """Read headers from `end` on; return status, rows, and the place after them."""
        rows = np.empty(STEP_ROWS, BATCH)  # faster than copying rows
        start = self.end - origin
        status, count, place = _speedups.scan_batches(data, start, origin, rows)
        return status, rows[:count], place

    def _headers_only(self, length: int) -> Generator[Step, None, bool]:
        """Yield a step of headers, and move `end` after it, where headers suffice.

        Returns whether the rest of the file is not requested. Damage is left in place.
        """
        origin = self.end
        data = self.source.read_headers(origin, length, self.take)
        if data is None:
            return False
        _, rows, place = self._scan(data, origin)
        if not self._in_order(rows) or self._is_out_of_order(rows, data, origin, place):
            return False
        selected, done = self.select(rows)
        chosen = rows if selected is None else rows[selected]
        if not self.headers_suffice(chosen):
            return False
        yield from self._step(data, origin, rows, chosen)
        self.end = origin + place
        return done

    def _entry_bytes(self, data: Bytes, origin: int) -> int:
        """Return the size of the entry at `end`, or 0 if `data` ends before it."""
        place = self.end - origin
        complete = len(data) >= place + LOG_OVERHEAD
        return LOG_OVERHEAD + size_field(data, place) if complete else 0

    def _too_large(self, size: int) -> Skipped:
        """Skip an entry above the size limit, if its size field is right, or resume."""
        position = self.end
        if not is_size_confirmed(self.source, position, position + size):
            reason = f"entry size {size}, expected one that ends at an entry"
            error = CorruptRecordError(reason, position=position, cause="size")
            return self._resume(error, position + 1)
        reason = (
            f"batch of {size} bytes, expected at most {self.policy.max_batch_bytes}"
        )
        too_large = BatchTooLargeError(reason, position=position)
        if not self.policy.skips:
            raise too_large
        self.end += size
        return Skipped(self._located(too_large), None, None)

    def _is_out_of_order(
        self, rows: BatchHeaders, data: Bytes, origin: int, place: int
    ) -> bool:
        """Return whether the entry at `place` begins at or below the last of `rows`."""
        at_end = origin + place >= self.source.size
        if not self.limits.ordered or len(rows) < 2 or at_end:
            return False
        offset = data[place : place + 8].tobytes()
        if len(offset) < 8:
            offset = self.source.read(origin + place, 8).tobytes()
        if len(offset) < 8 or int.from_bytes(offset) > rows["last_offset"][-1]:
            return False
        return read_valid_entry(self.source, origin + place) is not None

    def _entries(
        self, data: Bytes, origin: int, rows: BatchHeaders
    ) -> Generator[Step | Skipped, None, tuple[bool, bool]]:
        """Yield the valid ones of `rows` that are selected.

        Returns whether the rest of the file is not selected, and whether `end` was
        moved to where reading continues.
        """
        selection = self._select(data, origin, rows)
        if selection.done and selection.selected is not None:
            self._distrust_end(data, origin, rows, selection.selected)
        chosen = rows if selection.selected is None else rows[selection.selected]
        if selection.out_of_order is None and self._defers(chosen):
            yield from self._step(data, origin, rows, chosen, crcs_deferred=True)
            return selection.done, False
        if self.policy.checks_steps:
            invalid = find_crc_mismatches(data, origin, chosen)
        else:
            invalid = find_being_written(self.source, data, origin, rows, chosen)
        if selection.out_of_order is None and not len(invalid):
            yield from self._step(data, origin, rows, chosen)
            return selection.done, False
        return (yield from self._around_damage(data, origin, rows, selection, invalid))

    def _distrust_end(
        self, data: Bytes, origin: int, rows: BatchHeaders, selected: Bools
    ) -> None:
        """Select the first entry after the selected ones, if its CRC does not match.

        Its offset is why reading ends there, and may be damaged, too. The last entry of
        the file may be being written.
        """
        if not self.policy.checks_steps:
            return
        chosen = np.flatnonzero(selected)
        i = int(chosen[-1]) + 1 if len(chosen) else 0
        if not len(find_crc_mismatches(data, origin, rows[i : i + 1])):
            return
        end = int(rows["position"][i] + rows["size_in_bytes"][i])
        selected[i] = self.source.read(end, LOG_OVERHEAD).any()

    def _defers(self, rows: BatchHeaders) -> bool:
        most = min(LARGE_BATCH_BYTES, self.policy.max_batch_bytes)
        deferring = self.policy.check_crcs == "while_decoding"
        deferring &= self.policy.needs == "records"
        return deferring and _speedups.all_uncompressed(rows, most)

    def _around_damage(
        self,
        data: Bytes,
        origin: int,
        rows: BatchHeaders,
        selection: RowSelection,
        invalid: npt.NDArray[np.intp],
    ) -> Generator[Step | Skipped, None, tuple[bool, bool]]:
        """Yield the entries around damaged ones; return the same as `_entries`.

        `invalid` are the indexes, among the selected rows, whose CRC does not match.
        """
        selected, out_of_order, done = selection
        selected = np.ones(len(rows), np.bool_) if selected is None else selected
        if out_of_order is None:
            out_of_order = np.zeros(len(rows), np.bool_)
        bad = out_of_order.copy()
        bad[np.flatnonzero(selected)[invalid]] = True
        done = done and not bad[-1]  # the offsets of a damaged entry are unknown
        first, read = 0, np.ones(len(rows), np.bool_)
        for i in np.flatnonzero(bad).tolist():
            if i < first:
                continue
            if done and not selected[i:].any():
                break
            before = rows[first:i]
            yield from self._step(data, origin, before, before[selected[first:i]])
            row = rows[i]
            if not out_of_order[i] and self._is_valid_when_read_again(
                int(row["position"])
            ):
                return False, True
            yield self._skip(row, out_of_order=bool(out_of_order[i]))
            first = int(np.searchsorted(rows["position"], self.end))
            if first == len(rows) or rows["position"][first] != self.end:
                return False, True  # none of the rows from here on is an entry
            read[i:first] = False
        after = rows[first:]
        yield from self._step(data, origin, after, after[selected[first:]])
        return done and self.select(rows[read])[1], False

    def _select(self, data: Bytes, origin: int, rows: BatchHeaders) -> RowSelection:
        """Select among `rows` by their offsets, and by `select`."""
        limits = self.limits
        if self._in_order(rows):
            selected, done = self.select(rows)
            return RowSelection(selected, None, done)
        out_of_order = find_out_of_order(
            data,
            origin,
            rows,
            least=limits.least,
            most=limits.most,
            before=self.before if limits.ordered else None,
            max_batch_bytes=self.policy.max_batch_bytes,
        )
        kept = ~out_of_order
        selected, done = self.select(rows[kept])
        if selected is not None:
            kept[kept] = selected
        return RowSelection(kept, out_of_order, done)

    def _in_order(self, rows: BatchHeaders) -> bool:
        limits = self.limits
        return _speedups.offsets_in_order(
            rows, limits.least, limits.most, self.before, limits.ordered
        )

    def _step(
        self,
        data: Bytes,
        origin: int,
        rows: BatchHeaders,
        chosen: BatchHeaders,
        *,
        crcs_deferred: bool = False,
    ) -> Iterator[Step]:
        """Yield a step of the `chosen` ones of `rows`, all of which are valid."""
        ordered = self.limits.ordered
        if len(chosen):
            before = self.before if ordered else None
            yield Step(data, origin, chosen, before, crcs_deferred)
        if ordered and len(rows):
            self.before = max(self.before, int(rows["last_offset"].max()))

    def _is_valid_when_read_again(self, position: int) -> bool:
        """Return whether an entry that was being written when read is valid now."""
        if position == self._read_again:
            return False
        self.source.discard_read_ahead()
        if read_valid_entry(self.source, position) is None:
            return False
        self.end = self._read_again = position
        return True

    def _skip(self, row: np.void, *, out_of_order: bool) -> Skipped:
        """Return the error of an entry, and move `end` to where reading continues."""
        position, size = int(row["position"]), int(row["size_in_bytes"])
        base, last = int(row["base_offset"]), int(row["last_offset"])
        if out_of_order:
            error = misplaced_error(row)
        else:
            data = self.source.read(position, size)
            error = crc_error(data, position, row)
        if self.policy.skips and is_size_confirmed(
            self.source, position, position + size
        ):
            self.end = position + size
            return Skipped(self._located(error), base if base >= 0 else None, last)
        return self._resume(error, position + 1)

    def _resume(self, error: LocatedError, position: int) -> Skipped:
        """Move `end` to the next valid entry, or to the end of the file."""
        if not self.policy.skips:
            raise error
        following = find_valid_entry(self.source, position)
        least = max(self.before, self.limits.least - 1)
        before = least if self.limits.ordered else None
        while following is not None and not has_plausible_offsets(
            self.source, following, before, self.limits.most
        ):
            following = find_valid_entry(self.source, following + 1)
        self.end = self.source.size if following is None else following
        return Skipped(self._located(error), None, None)
