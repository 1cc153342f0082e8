"""Which leader wrote what: the epochs of a log, each with its first offset.

    epoch 0: [0, 1500)    epoch 5: [1500, 1620)    epoch 6: [1620, log end)

Both rise strictly. An epoch that is assigned is in the file, forced to disk, before
anything is written under it, so the file may know of epochs that have been cut, never
the other way round. Cutting writes it later: what a crash leaves too much of is cut
again when the log is opened. That works as long as nothing was appended where those
epochs began, so `flush` is called before an append.

Knows: epochs and the file that keeps them. Does not know: records, who leads.
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
"""Takes the name of a task and what it is to do, soon."""


class EpochEnd(NamedTuple):
    """An epoch, and the first offset that is not its."""

    epoch: int
    end_offset: int


def read_epochs(path: Path) -> list[EpochEntry]:
    """Read a ``leader-epoch-checkpoint``; a missing one has no entries.

    Raises `CorruptCheckpointError` for one that cannot be read, `LogArgumentError` for
    one with a negative number.
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
        reason = f"no epoch {entry.epoch} begins at {entry.start_offset}"
        raise LogArgumentError(f"{reason}: {path}")


def end_offset_for(
    entries: Sequence[EpochEntry], epoch: int, log_end_offset: int
) -> EpochEnd | None:
    """Return the greatest epoch up to `epoch`, and where it ends; None if unknown.

    If `epoch` is before all entries, the result is `epoch` itself and the start offset
    of the first entry: its data was deleted. After all entries, and for -1, nothing is
    known.
    """
    if epoch == UNDEFINED_EPOCH or not entries or epoch > entries[-1].epoch:
        return None
    if epoch == entries[-1].epoch:
        return EpochEnd(epoch, log_end_offset)
    higher = bisect_right(entries, epoch, key=_EPOCH)
    found = entries[higher - 1].epoch if higher else epoch
    return EpochEnd(found, entries[higher].start_offset)


class LeaderEpochs:
    r"""The epochs of one log, kept in its ``leader-epoch-checkpoint``.

    Opening makes the file, empty, if it is missing. Raises `CorruptCheckpointError` for
    one that cannot be read, `LogArgumentError` for one with a negative number. One
    thread changes it at a time; others may read meanwhile. `latest` is the last epoch,
    or None.

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
        self._is_behind = False
        self._keep(())
        disk.create_if_missing(path)
        for entry in read_epochs(path):
            self._take(entry)

    @property
    def entries(self) -> list[EpochEntry]:
        """All epochs, ascending."""
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
        """Let an epoch begin at an offset; on disk once this returns.

        Nothing if it is the last one and began there or before. Epochs that are not
        before it, in number and in offset, are dropped. Raises `LogArgumentError` for
        negative numbers.
        """
        if self._take(EpochEntry(epoch, start_offset)):
            self._write()

    def truncate_from_end(self, offset: int) -> None:
        """Drop the epochs that begin at `offset` or behind; the file follows soon.

        Nothing for a negative offset, which is none.
        """
        kept = bisect_left(self._entries, offset, key=_START)
        if offset >= 0 and kept < len(self._entries):
            self._keep(self._entries[:kept])
            self._is_behind = True
            self._write_later()

    def truncate_from_start(self, offset: int) -> None:
        """Let the epoch of `offset` begin there, and drop those before it.

        The file follows soon, even if nothing has changed, as long as an epoch begins
        at or before `offset`.
        """
        behind = bisect_right(self._entries, offset, key=_START)
        if behind:
            first = EpochEntry(self._entries[behind - 1].epoch, offset)
            self._keep((first, *self._entries[behind:]))
            self._write_later()

    def flush(self) -> None:
        """Write the file, if it has epochs that were dropped from the end."""
        if self._is_behind:
            self._write()

    def clear(self) -> None:
        """Drop all epochs here, and leave the file as it is."""
        self._keep(())

    def clear_and_flush(self) -> None:
        """Drop all epochs, on disk once this returns."""
        self.clear()
        self._write()

    def move_to(self, directory: Path) -> None:
        """Take note that the directory of the file was renamed."""
        self.path = directory / LEADER_EPOCHS
        self._disk.create_if_missing(self.path)

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEnd | None:
        """Return the greatest epoch up to `epoch` and its end; see `end_offset_for`."""
        return end_offset_for(self._entries, epoch, log_end_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch that an offset was, or would be, written under."""
        entries = self._entries
        slot = bisect_right(entries, offset, key=_START) - 1
        return entries[slot].epoch if slot >= 0 else None

    def _take(self, entry: EpochEntry) -> bool:
        """Take an epoch into memory; whether that changed anything."""
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
        self._is_behind = False

    def _write_later(self) -> None:
        if self._later is None:
            self._write()
        else:
            name = f"leader-epoch-cache-flush-{self.path.parent.name}"
            self._later(name, self._write_if_there)

    def _write_if_there(self) -> None:
        """Write what is known now; nothing if the log has been removed meanwhile."""
        try:
            self._write()
        except FileNotFoundError:
            return
