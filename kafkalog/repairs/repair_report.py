"""The report of `repair`: what is changed, what that loses, and what is left."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from kafkalog.reports import counted
from kafkalog.text.html_text import html_rows
from kafkalog.verification.verification_report import Problem

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA: Final = 1
"""Version of the JSON form."""


class RepairKind(StrEnum):
    """What is done to a file."""

    REBUILD = "rebuild"
    CUT = "cut"
    SKIP = "skip"
    REMOVE = "remove"
    REWRITE = "rewrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairAction:
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

    path: str
    action: RepairKind
    position: int | None = None
    reason: str
    records_lost: int = 0
    topic: str | None = None
    partition: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    bytes_lost: int = 0
    needs_data_loss: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the action as it is printed in JSON.

        Returns
        -------
        dict
            A member for each attribute.

        Examples
        --------
        >>> action = RepairAction(
        ...     path="orders-0/00000000000000000000.index",
        ...     action=RepairKind.REBUILD,
        ...     reason="entry 3 does not point to a batch",
        ... )
        >>> action.as_dict()["action"], action.as_dict()["records_lost"]
        ('rebuild', 0)
        """
        return {**asdict(self), "action": str(self.action)}


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class RepairReport:
    """The result of `repair`.

    Attributes
    ----------
    applied : bool
        Whether the files were changed: by a repair, or by undoing one.
    undone : bool
        Whether the changes were undone.
    actions : tuple of RepairAction
        The changes: those to make, or those that were made or undone.
    unrepaired : tuple of Problem
        The errors that no change repairs.
    skipped : tuple of RepairAction
        The changes that were not made because they lose data.
    failures : tuple of str
        The errors of attempts to repair a partition.
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

    applied: bool = False
    undone: bool = False
    actions: tuple[RepairAction, ...] = ()
    unrepaired: tuple[Problem, ...] = ()
    skipped: tuple[RepairAction, ...] = ()
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

    def as_dict(self) -> dict[str, Any]:
        """Return the report as it is printed in JSON.

        Returns
        -------
        dict
            A member for each attribute; actions and problems are dictionaries.

        Examples
        --------
        >>> list(RepairReport().as_dict())[:3]
        ['schema', 'applied', 'undone']
        """
        return {
            "schema": SCHEMA,
            "applied": self.applied,
            "undone": self.undone,
            "actions": [action.as_dict() for action in self.actions],
            "skipped": [action.as_dict() for action in self.skipped],
            "unrepaired": [problem.as_dict() for problem in self.unrepaired],
            "failures": list(self.failures),
            "left_to_broker": [problem.as_dict() for problem in self.left_to_broker],
            "backup": self.backup,
            "unchanged_because": list(self.unchanged_because),
        }

    def to_arrow(self) -> pa.Table:
        """Return the actions as a table, one row each.

        Returns
        -------
        pyarrow.Table
            A column for each attribute of `RepairAction`, in their order.

        Raises
        ------
        MissingDependencyError
            If pyarrow is not installed.

        Examples
        --------
        >>> RepairReport().to_arrow().column_names[:4]
        ['path', 'action', 'position', 'reason']
        """
        from kafkalog.export.report_table import report_table

        types = {
            **dict.fromkeys(("path", "action", "reason", "topic"), "string"),
            "partition": "int32",
            "needs_data_loss": "bool",
        }
        rows = [action.as_dict() for action in self.actions]
        return report_table(rows, RepairAction.__dataclass_fields__, types)

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

    def __repr__(self) -> str:
        return f"<RepairReport: {self}>"

    def _repr_html_(self) -> str:
        """Return the first actions as HTML, for notebooks."""
        names = ("path", "action", "position", "records_lost", "reason")
        return html_rows(f"RepairReport: {self}", names, self.actions, "change")
