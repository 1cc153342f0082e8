"""The reports of `whatif` and `why`.

The rules are closed lists, described in ``docs/howto/shrink-a-topic.md``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from kafkalog.formats.timestamps import as_text
from kafkalog.reports import counted
from kafkalog.text.html_text import html_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.log.topic_settings import SettingsSource


class RemovalCause(StrEnum):
    """The rule that removes records."""

    LOG_START = "log_start_offset"
    SIZE = "retention.bytes"
    TIME = "retention.ms"
    COMPACT = "compact"
    TOMBSTONE = "delete.retention.ms"
    NULL_KEY = "null_key"
    ABORTED = "aborted_transaction"


class KeepRule(StrEnum):
    """The rule that keeps a segment, or its records."""

    TIME = "retention.ms"
    SIZE = "retention.bytes"
    POLICY = "cleanup.policy"
    ACTIVE = "active"
    OLDER_SEGMENT = "older_segment"
    HIGH_WATERMARK = "high_watermark"
    TRANSACTION = "transaction"
    LAG = "min.compaction.lag.ms"
    DIRTY_RATIO = "min.cleanable.dirty.ratio"
    CLEANED = "cleaner_checkpoint"
    UNCLEANABLE = "uncleanable"
    DELETE_DELAY = "file.delete.delay.ms"


@dataclass(frozen=True, slots=True)
class Removal:
    """Records of one segment that one rule removes.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    segment : str
        The file that has the records now.
    records : int
        Number of records, control records included.
    bytes : int
        The bytes by which the ``.log`` files become smaller; negative if compaction
        makes a segment larger.
    removed_by : RemovalCause
        The rule, one of a closed list.
    at : int
        The time of the removal, in ms since 1970: the time of the report, or later.
    """

    topic: str
    partition: int
    segment: str
    records: int
    bytes: int
    removed_by: RemovalCause
    at: int

    def as_dict(self) -> dict[str, Any]:
        """Return the removal as it is printed in JSON.

        Examples
        --------
        >>> file = "00000000000000000000.log"
        >>> removal = Removal("state", 0, file, 1, 9, RemovalCause.COMPACT, 17)
        >>> removal.as_dict()["removed_by"] == "compact"
        True
        """
        return asdict(self)


@dataclass(frozen=True, slots=True)
class UnchangedLog:
    """A partition from which nothing is removed, and the reasons.

    Attributes
    ----------
    topic, partition : str, int
        The partition.
    unchanged_because : tuple of str
        The reasons. Each begins with the setting, or the offset, that keeps records.
    """

    topic: str
    partition: int
    unchanged_because: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SettingsUsed:
    """The origin of a topic's settings.

    `source` is ``cluster``, ``broker``, ``defaults`` or ``unknown``. `unknown` is the
    reason for which some or all settings are unknown; unknown settings remove nothing.
    With ``broker``, the settings are those in ``server.properties``, and overrides of
    the topic are unknown.
    """

    topic: str
    source: SettingsSource
    unknown: str | None = None


@dataclass(frozen=True, slots=True, repr=False)
class RemovalReport:
    """The result of `whatif`.

    Attributes
    ----------
    removals : tuple of Removal
        The removals, by partition, time and segment.
    settings : tuple of SettingsUsed
        The origin of the settings of each topic.
    at : int
        The time for which the report was made, in ms since 1970.
    unchanged : tuple of UnchangedLog
        The partitions without a removal.

    Examples
    --------
    >>> file = "00000000000000000000.log"
    >>> removal = Removal("state", 0, file, 1, 9, RemovalCause.COMPACT, 17)
    >>> report = RemovalReport((removal,), (), 17)
    >>> report
    <RemovalReport: 1 record, 9 bytes; 0 records, 0 bytes later>
    """

    removals: tuple[Removal, ...]
    settings: tuple[SettingsUsed, ...]
    at: int
    unchanged: tuple[UnchangedLog, ...] = ()

    @property
    def due(self) -> tuple[Removal, ...]:
        """The removals that are due at the time of the report."""
        return tuple(removal for removal in self.removals if removal.at <= self.at)

    def as_rows(self) -> list[dict[str, Any]]:
        """Return the report as it is printed in JSON: a row for each removal.

        A partition without a removal has a row with `unchanged_because`, the reasons,
        without a segment.

        Examples
        --------
        >>> log = UnchangedLog("state", 0, ("retention.ms -1",))
        >>> [row] = RemovalReport((), (), 17, (log,)).as_rows()
        >>> row["segment"], row["records"], row["unchanged_because"]
        (None, 0, ['retention.ms -1'])
        """
        removed = [
            {**removal.as_dict(), "unchanged_because": []} for removal in self.removals
        ]
        names = Removal.__dataclass_fields__
        unchanged = [
            {
                **dict.fromkeys(names),
                "topic": log.topic,
                "partition": log.partition,
                "records": 0,
                "bytes": 0,
                "unchanged_because": list(log.unchanged_because),
            }
            for log in self.unchanged
        ]
        return [*removed, *unchanged]

    def to_arrow(self) -> pa.Table:
        """Return the report as a table with the rows of `as_rows`.

        Returns
        -------
        pyarrow.Table
            A column for each attribute of `Removal`, in their order, and
            unchanged_because.

        Raises
        ------
        MissingDependencyError
            If pyarrow is not installed.

        Examples
        --------
        >>> RemovalReport((), (), 17).to_arrow().column_names[:3]
        ['topic', 'partition', 'segment']
        """
        from kafkalog.export.report_table import report_table

        types = {
            **dict.fromkeys(("topic", "segment", "removed_by"), "string"),
            "partition": "int32",
            "unchanged_because": "texts",
        }
        names = [*Removal.__dataclass_fields__, "unchanged_because"]
        return report_table(self.as_rows(), names, types)

    def __str__(self) -> str:
        due = self.due
        later = [removal for removal in self.removals if removal.at > self.at]
        lines = [f"{_sum_of(due)}; {_sum_of(later)} later"]
        for log in self.unchanged:
            reasons = "; ".join(log.unchanged_because)
            lines.append(f"{log.topic}-{log.partition} unchanged: {reasons}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<RemovalReport: {self}>"

    def _repr_html_(self) -> str:
        """Return the first removals as HTML, for notebooks."""
        names = [member.name for member in fields(Removal)]
        return html_rows(f"RemovalReport: {self}", names, self.removals, "removal")


def _sum_of(removals: Sequence[Removal]) -> str:
    records = sum(removal.records for removal in removals)
    size = sum(removal.bytes for removal in removals)
    return f"{counted(records, 'record')}, {counted(size, 'byte')}"


@dataclass(frozen=True, slots=True)
class Reason:
    """A rule that keeps, or removes, a segment.

    Attributes
    ----------
    rule : KeepRule or RemovalCause
        The rule, one of a closed list.
    setting : str or None
        The setting of the topic that the rule depends on, by Kafka's name.
    value : int, str or None
        The value of the setting, None if it is unknown. If there is no setting, the
        offset, the segment or the error that the rule depends on.
    until : int or None
        The time up to which the rule keeps the segment, in ms since 1970; None if there
        is no such time, or if it is unknown.
    """

    rule: KeepRule | RemovalCause
    setting: str | None
    value: int | str | None
    until: int | None = None

    def __str__(self) -> str:
        """Return the rule, its value and time on one line.

        >>> str(Reason(KeepRule.TIME, "retention.ms", 60000, 1_700_000_000_000))
        'retention.ms 60000, until 2023-11-14T22:13:20.000Z'
        """
        text = self.setting or str(self.rule)
        if self.value is not None:
            text += f" {self.value}"
        if self.until is not None:
            text += f", until {as_text(self.until)}"
        return text


@dataclass(frozen=True, slots=True)
class KeepReport:
    """The result of `why`.

    Attributes
    ----------
    segment : str
        The file.
    kept : bool
        Whether a broker keeps the segment at the time of the report.
    because : tuple of Reason
        The rules that keep the segment, or those that remove it.
    settings : SettingsUsed
        The origin of the topic's settings.
    """

    segment: str
    kept: bool
    because: tuple[Reason, ...]
    settings: SettingsUsed

    def as_dict(self) -> dict[str, Any]:
        """Return the report as it is printed in JSON.

        Examples
        --------
        >>> used = SettingsUsed("state", "defaults")
        >>> reason = Reason(KeepRule.SIZE, "retention.bytes", -1)
        >>> list(KeepReport("0.log", True, (reason,), used).as_dict())
        ['segment', 'kept', 'because']
        """
        return {
            "segment": self.segment,
            "kept": self.kept,
            "because": [asdict(reason) for reason in self.because],
        }

    def to_arrow(self) -> pa.Table:
        """Return the rules as a table, one row each; values are text.

        Returns
        -------
        pyarrow.Table
            The columns segment, kept, rule, setting, value and until.

        Raises
        ------
        MissingDependencyError
            If pyarrow is not installed.

        Examples
        --------
        >>> used = SettingsUsed("state", "defaults")
        >>> KeepReport("0.log", True, (), used).to_arrow().column_names[:3]
        ['segment', 'kept', 'rule']
        """
        from kafkalog.export.report_table import report_table

        names = ("segment", "kept", "rule", "setting", "value", "until")
        types = {
            **dict.fromkeys(("segment", "rule", "setting", "value"), "string"),
            "kept": "bool",
        }
        rows = [
            {
                **asdict(reason),
                "segment": self.segment,
                "kept": self.kept,
                "value": None if reason.value is None else str(reason.value),
            }
            for reason in self.because
        ]
        return report_table(rows, names, types)
