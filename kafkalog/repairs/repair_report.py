"""The report of `repair`: what is changed, what that loses, and what is left."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from kafkalog.reports import Int32, ReportBase, ReportRow, counted
from kafkalog.verification.verification_report import Problem


class RepairKind(StrEnum):
    """What is done to a file."""

    REBUILD = "rebuild"
    CUT = "cut"
    SKIP = "skip"
    REMOVE = "remove"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairAction(ReportRow):
    """One change of a file.

    Attributes
    ----------
    path : str
        The file, relative to the path of the call.
    action : RepairKind
        ``rebuild`` a file from the log; ``cut`` a log from a byte on; ``skip`` the
        corrupt bytes inside a log; ``remove`` a file; ``rewrite`` single lines or
        fields of a file.
    position : int or None
        The byte at which the change begins; None for a whole file.
    reason : str
        The problem that is repaired.
    records_lost : int
        The number of records that cannot be read afterwards, by the headers of batches.
        For corrupt bytes without such headers it is the number of offsets between their
        neighbours, which is the most that they can have.
    topic, partition : str, int or None
        The partition; None for a file of the log directory.
    first_offset, last_offset : int or None
        The offsets that are lost; None if nothing is, or for an unknown end.
    bytes_lost : int
        Bytes of a ``.log`` that are taken out.
    needs_data_loss : bool
        Whether the change is made only if the loss of data is allowed.
    """

    IMPORTANCE: ClassVar = (
        "path",
        "action",
        "reason",
        "records_lost",
        "first_offset",
        "last_offset",
        "position",
    )

    path: str
    action: RepairKind
    position: int | None = None
    reason: str
    records_lost: int = 0
    topic: str | None = None
    partition: Int32 | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    bytes_lost: int = 0
    needs_data_loss: bool = False


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RepairReport(ReportBase):
    """The result of `repair`.

    Attributes
    ----------
    applied : bool
        Whether the files were changed: by a repair, or by undoing one.
    undone : bool
        Whether the changes were undone.
    actions : tuple of RepairAction
        The changes: those to make, or those that were made or undone.
    skipped : tuple of RepairAction
        The changes that were not made because they lose data.
    unrepaired : tuple of Problem
        The errors that no change repairs.
    failures : tuple of str
        The errors with which the log of a partition would not load after a repair. That
        repair was not made.
    left_to_broker : tuple of Problem
        The problems of files that are read as they are, and by which a broker loses
        nothing when it starts: a segment with offsets too far apart, which it splits if
        it recovers it, and a ``.swap``, which it gives the name of a segment.
    backup : str or None
        The directory with the originals. They hold the records that were taken out, and
        go on holding what is erased from the log later.
    unchanged_because : tuple of str
        If no file was changed, why not, by setting.

    Examples
    --------
    >>> RepairReport()
    <RepairReport: nothing to repair>
    """

    ROWS: ClassVar = "actions"
    NOUN: ClassVar = "change"
    HTML_COLUMNS: ClassVar = ("path", "action", "position", "records_lost", "reason")

    applied: bool = False
    undone: bool = False
    actions: tuple[RepairAction, ...] = ()
    skipped: tuple[RepairAction, ...] = ()
    unrepaired: tuple[Problem, ...] = ()
    failures: tuple[str, ...] = ()
    left_to_broker: tuple[Problem, ...] = ()
    backup: str | None = None
    unchanged_because: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether nothing is left to repair."""
        left = self.unrepaired or self.skipped
        return not left and (self.applied or not self.actions)

    @property
    def records_lost(self) -> int:
        """The number of records that the changes lose."""
        return sum(action.records_lost for action in self.actions)

    def notes(self) -> Iterator[str]:
        """Yield the errors that are left, the place of the originals, and reasons.

        Examples
        --------
        >>> list(RepairReport(backup="originals").notes())
        ['originals: originals; they keep also what is erased from the log later']
        """
        for problem in self.unrepaired:
            yield f"no repair: {problem.path}: {problem.cause}: {problem.message}"
        for problem in self.left_to_broker:
            left = f"{problem.path}: {problem.cause}: {problem.message}"
            yield f"left to a broker: {left}"
        for failure in self.failures:
            yield f"a repair was rejected, because the log would not load: {failure}"
        if self.backup is not None:
            keeps = "they keep also what is erased from the log later"
            yield f"originals: {self.backup}; {keeps}"
        if not self.actions and not self.skipped:
            for reason in self.unchanged_because:
                yield f"nothing changed: {reason}"

    def __str__(self) -> str:
        kinds = [action.action for action in self.actions]
        counts = ", ".join(
            f"{kinds.count(kind)} {kind}" for kind in RepairKind if kind in kinds
        )
        done = "undone" if self.undone else "made" if self.applied else "planned"
        losing = sum(action.needs_data_loss for action in self.actions)
        only = f", {losing:,} of them only if data may be lost" if losing else ""
        number = counted(len(kinds), "change")
        parts = [f"{number} {done}{only}: {counts}"] if kinds else []
        if self.records_lost and not self.undone:
            parts.append(f"{counted(self.records_lost, 'record')} lost")
        if self.skipped:
            count = counted(len(self.skipped), "change")
            parts.append(f"{count} not made, as data would be lost")
        if self.unrepaired:
            parts.append(f"{counted(len(self.unrepaired), 'error')} without a repair")
        if self.left_to_broker:
            count = counted(len(self.left_to_broker), "problem")
            parts.append(f"{count} left to a broker's start")
        return "; ".join(parts) or "nothing to repair"
