"""The leader epochs of a log, each with its start offset.

    epoch 0: [0, 1500)    epoch 5: [1500, 1620)    epoch 6: [1620, log end)

Both increase strictly. An epoch is in the file, forced to disk, before a record is
written with it. So the file may list epochs that were truncated from the log, but it
never lacks one. A truncation writes the file later. After a crash, opening the log
removes the epochs that begin at or above its end. That requires that nothing was
appended there, so `flush` is called before an append.

Source: ``LeaderEpochFileCache.java``, ``LeaderEpochCheckpointFile.java``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafkalog.errors import CorruptCheckpointError, LogArgumentError
from kafkalog.formats.checkpoint import EpochEntry, format_epochs, parse_epochs
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.checkpoint_file import LEADER_EPOCHS
from kafkalog.storage.durable_file import DISK, Disk

UNDEFINED_EPOCH: Final = -1
_EPOCH: Final = attrgetter("epoch")
_START: Final = attrgetter("start_offset")

Later = Callable[[str, Callable[[], None]], Any]
"""A function that schedules a task by its name, to run soon."""


class EpochEnd(NamedTuple):
    """An epoch, and the first offset after it."""

    epoch: int
    end_offset: int


def read_epochs(path: Path) -> list[EpochEntry]:
    """Return the entries of a ``leader-epoch-checkpoint``, none if it is missing.

    Raises `CorruptCheckpointError` for a corrupt file, `LogArgumentError` for a
    negative number.
    """
    entries: list[EpochEntry] = []
    try:
        with suppress(FileNotFoundError):
            entries = parse_epochs(read_regular(path))
    except CorruptCheckpointError as error:
        raise error.located(path) from None
    for entry in entries:
        _check(entry, path)
    return entries


def _check(entry: EpochEntry, path: Path) -> None:
    if entry.epoch < 0 or entry.start_offset < 0:
        reason = f"epoch {entry.epoch} with start offset {entry.start_offset}"
        raise LogArgumentError(f"{reason}, expected at least 0: {path}")


def end_offset_for(
    entries: Sequence[EpochEntry], epoch: int, log_end_offset: int
) -> EpochEnd | None:
    """Return the greatest epoch up to `epoch`, and its end offset; None if unknown.

    If `epoch` is before all entries, the result is `epoch` itself and the start offset
    of the first entry: its data was deleted. After all entries, and for -1, nothing is
    known.
    """
    if epoch == UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
        return None
    if epoch == entries[-1].epoch:
        return EpochEnd(epoch, log_end_offset)
    higher = bisect_right(entries, epoch, key=_EPOCH)
    greatest = entries[higher - 1].epoch if higher else epoch
    return EpochEnd(greatest, entries[higher].start_offset)


def epoch_for_offset(entries: Sequence[EpochEntry], offset: int) -> int | None:
    """Return the epoch with which an offset was, or would be, written; None if unknown.

    >>> epoch_for_offset([EpochEntry(0, 0), EpochEntry(5, 1500)], 1499)
    0
    """
    slot = bisect_right(entries, offset, key=_START) - 1
    return entries[slot].epoch if slot >= 0 else None


def certain_epoch(least: int, most: int | None, stated: int | None) -> int | None:
    """Return the leader epoch that a batch must have; None if several are possible.

    Epochs never fall along a log: that of a batch is between `least`, of the batch
    before it, and `most`, of the one after it, None if there is none. `stated` is the
    epoch of its offset by the checkpoint; an epoch that is not between them is ignored.

    >>> certain_epoch(3, 3, None), certain_epoch(3, 5, 4), certain_epoch(3, 5, 6)
    (3, 4, None)
    """
    if least == most:
        return least
    if stated is None or stated < least or (most is not None and stated > most):
        return None
    return stated


class LeaderEpochs:
    r"""The leader epochs of one log, stored in its ``leader-epoch-checkpoint``.

    A missing file is created, without entries. Raises `CorruptCheckpointError` for a
    corrupt file, `LogArgumentError` for a negative number. One thread may change the
    epochs while others read them. `latest` is the last epoch, or None.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     epochs = LeaderEpochs(Path(directory, "leader-epoch-checkpoint"))
    ...     epochs.assign(0, 0)
    ...     epochs.assign(5, 1500)
    ...     epochs.path.read_text()
    '0\n2\n0 0\n5 1500\n'
    >>> epochs.end_offset_for(3, log_end_offset=1620), epochs.epoch_for_offset(1499)
    (EpochEnd(epoch=0, end_offset=1500), 0)
    """

    def __init__(
        self, path: Path, disk: Disk = DISK, later: Later | None = None
    ) -> None:
        self.path = path
        self._disk = disk
        self._later = later
        self._is_outdated = False
        self._keep(())
        disk.create_if_missing(path)
        for entry in read_epochs(path):
            self._take(entry)

    @property
    def entries(self) -> list[EpochEntry]:
        """All epochs, in ascending order."""
        return list(self._entries)

    @property
    def earliest(self) -> EpochEntry | None:
        """The first epoch, or None."""
        entries = self._entries
        return entries[0] if entries else None

    @property
    def latest_epoch(self) -> int | None:
        """Number of the last epoch, or None."""
        latest = self.latest
        return None if latest is None else latest.epoch

    def assign(self, epoch: int, start_offset: int) -> None:
        """Start an epoch at an offset, and force that to disk.

        Nothing is done if it is the last epoch and began there or before. Epochs with
        the same or a higher number or start offset are dropped. Raises
        `LogArgumentError` for negative numbers.
        """
        if self._take(EpochEntry(epoch, start_offset)):
            self._write()

    def truncate_from_end(self, offset: int) -> None:
        """Drop the epochs that begin at or above `offset`; write the file later.

        A negative offset is ignored.
        """
        kept = bisect_left(self._entries, offset, key=_START)
        if offset >= 0 and kept < len(self._entries):
            self._keep(self._entries[:kept])
            self._is_outdated = True
            self._write_later()

    def truncate_from_start(self, offset: int) -> None:
        """Move the start of the epoch of `offset` to it, and drop the earlier epochs.

        If an epoch begins at or below `offset`, the file is written later, even if
        nothing has changed.
        """
        following = bisect_right(self._entries, offset, key=_START)
        if following:
            first = EpochEntry(self._entries[following - 1].epoch, offset)
            self._keep((first, *self._entries[following:]))
            self._write_later()

    def flush(self) -> None:
        """Write the file if it still has epochs that were dropped from the end."""
        if self._is_outdated:
            self._write()

    def clear(self) -> None:
        """Drop all epochs in memory, and leave the file as it is."""
        self._keep(())

    def clear_and_flush(self) -> None:
        """Drop all epochs, and force that to disk."""
        self.clear()
        self._write()

    def move_to(self, directory: Path) -> None:
        """Update the path after the directory was renamed."""
        self.path = directory / LEADER_EPOCHS
        self._disk.create_if_missing(self.path)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd | None:
        """Return the greatest epoch up to `epoch` and its end; see `end_offset_for`."""
        return end_offset_for(self._entries, epoch, log_end_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch of an offset; see `epoch_for_offset`."""
        return epoch_for_offset(self._entries, offset)

    def _take(self, entry: EpochEntry) -> bool:
        """Add an epoch in memory; return whether that changed anything."""
        _check(entry, self.path)
        epoch, start = entry
        entries = self._entries
        if entries and entries[-1].epoch == epoch and start >= entries[-1].start_offset:
            return False
        kept = min(
            bisect_left(entries, epoch, key=_EPOCH),
            bisect_left(entries, start, key=_START),
        )
        self._keep((*entries[:kept], entry))
        return True

    def _keep(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.latest = entries[-1] if entries else None

    def _write(self) -> None:
        self._disk.replace(self.path, format_epochs(self._entries))
        self._is_outdated = False

    def _write_later(self) -> None:
        if self._later is None:
            self._write()
        else:
            name = f"leader-epoch-cache-flush-{self.path.parent.name}"
            self._later(name, self._write_if_there)

    def _write_if_there(self) -> None:
        """Write the present epochs, unless the log was deleted meanwhile."""
        try:
            self._write()
        except FileNotFoundError:
            return
