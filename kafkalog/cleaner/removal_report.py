"""The reports of `whatif` and `why`.

The rules are closed lists, described in ``docs/howto/shrink-a-topic.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar

from kafkalog.formats.timestamps import as_text
from kafkalog.reports import Int32, ReportBase, ReportRow, columns_of, counted

if TYPE_CHECKING:
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
class Removal(ReportRow):
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

    IMPORTANCE: ClassVar = (
        "topic",
        "partition",
        "removed_by",
        "bytes",
        "segment",
        "at",
        "records",
    )

    topic: str
    partition: Int32
    segment: str
    records: int
    bytes: int
    removed_by: RemovalCause
    at: int


@dataclass(frozen=True, slots=True)
class UnchangedLog(ReportRow):
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
class SettingsUsed(ReportRow):
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
class RemovalReport(ReportBase):
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

    ROWS: ClassVar = "removals"
    NOUN: ClassVar = "removal"
    RENAMED: ClassVar = {"as_rows": "rows"}

    removals: tuple[Removal, ...]
    settings: tuple[SettingsUsed, ...]
    at: int
    unchanged: tuple[UnchangedLog, ...] = ()

    @property
    def due(self) -> tuple[Removal, ...]:
        """The removals that are due at the time of the report."""
        return tuple(removal for removal in self.removals if removal.at <= self.at)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as they are printed in JSON Lines and CSV.

        Yields
        ------
        dict
            The attributes of a removal. A partition without a removal has a row with
            `unchanged_because`, the reasons, without a segment.

        Examples
        --------
        >>> log = UnchangedLog("state", 0, ("retention.ms -1",))
        >>> [row] = RemovalReport((), (), 17, (log,)).rows()
        >>> row["segment"], row["records"], row["unchanged_because"]
        (None, 0, ['retention.ms -1'])
        """
        for removal in self.removals:
            yield {**removal.as_dict(), "unchanged_because": []}
        nothing = {**dict.fromkeys(self._columns()), "records": 0, "bytes": 0}
        for log in self.unchanged:
            yield nothing | log.as_dict()

    @classmethod
    def _columns(cls) -> dict[str, Any]:
        """Return the columns: those of a removal, and `unchanged_because`."""
        return columns_of(Removal) | {"unchanged_because": tuple[str, ...]}

    def __str__(self) -> str:
        due = self.due
        later = [removal for removal in self.removals if removal.at > self.at]
        lines = [f"{_sum_of(due)}; {_sum_of(later)} later"]
        for log in self.unchanged:
            reasons = "; ".join(log.unchanged_because)
            lines.append(f"{log.topic}-{log.partition} unchanged: {reasons}")
        return "\n".join(lines)


def _sum_of(removals: Sequence[Removal]) -> str:
    records = sum(removal.records for removal in removals)
    size = sum(removal.bytes for removal in removals)
    return f"{counted(records, 'record')}, {counted(size, 'byte')}"


@dataclass(frozen=True, slots=True)
class Reason(ReportRow):
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

    IMPORTANCE: ClassVar = ("rule", "value", "until")

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


@dataclass(frozen=True, slots=True, repr=False)
class KeepReport(ReportBase):
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

    Examples
    --------
    >>> reason = Reason(KeepRule.SIZE, "retention.bytes", -1)
    >>> KeepReport("0.log", True, (reason,), SettingsUsed("state", "defaults"))
    <KeepReport: 0.log is kept: retention.bytes -1>
    """

    ROWS: ClassVar = "because"
    NOUN: ClassVar = "rule"

    segment: str
    kept: bool
    because: tuple[Reason, ...]
    settings: SettingsUsed = field(repr=False)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield the rules as they are printed in CSV; values are text.

        Yields
        ------
        dict
            The segment, and whether it is kept, then the attributes of a rule.

        Examples
        --------
        >>> reason = Reason(KeepRule.SIZE, "retention.bytes", -1)
        >>> settings = SettingsUsed("state", "defaults")
        >>> [row] = KeepReport("0.log", True, (reason,), settings).rows()
        >>> row["segment"], row["rule"], row["value"]
        ('0.log', 'retention.bytes', '-1')
        """
        for reason in self.because:
            value = None if reason.value is None else str(reason.value)
            of_segment = {"segment": self.segment, "kept": self.kept}
            yield of_segment | reason.as_dict() | {"value": value}

    @classmethod
    def _columns(cls) -> dict[str, Any]:
        """Return the columns: segment, kept, and those of a rule."""
        return {"segment": str, "kept": bool, **columns_of(Reason), "value": str}

    def __str__(self) -> str:
        outcome = "kept" if self.kept else "removed"
        return f"{self.segment} is {outcome}: {'; '.join(map(str, self.because))}"
