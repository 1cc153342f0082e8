"""The report of `verify`: problems, each with its cause, its place and its severity.

Causes are a closed list, described in ``docs/verify.md``. An *error* would mislead a
reader or a broker, or costs records. A *warning* is a state that a crash may leave, or
that Kafka repairs by itself without loss.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Final

from kafkalog.errors import LocatedError
from kafkalog.reports import ReportBase, ReportRow, counted

_NUMBERS: Final = re.compile(r"(\d+)")


class Cause(StrEnum):
    """The kind of a problem; ``docs/verify.md`` has the meaning of each."""

    SIZE = "size"
    MAGIC = "magic"
    OFFSET = "offset"
    CRC = "crc"
    COMPRESSION = "compression"
    RECORDS = "records"
    TOO_LARGE = "too_large"
    TIMESTAMP = "timestamp"
    LEADER_EPOCH = "leader_epoch"
    CONTROL = "control"
    INCOMPLETE = "incomplete"
    PREALLOCATED = "preallocated"
    SEGMENT_SIZE = "segment_size"
    TRUNCATED = "truncated"
    ORDER = "order"
    OFFSET_INDEX = "offset_index"
    TIME_INDEX = "time_index"
    TXN_INDEX = "txn_index"
    MISSING = "missing"
    ORPHAN = "orphan"
    VERSION = "version"
    COUNT = "count"
    PRODUCER_STATE = "producer_state"
    FORMAT = "format"
    LOG_END = "log_end"
    GAP = "gap"
    SWAP = "swap"
    TIERED = "tiered"
    FOREIGN = "foreign"
    TOPIC_ID = "topic_id"
    DIRECTORY_ID = "directory_id"
    UNREADABLE = "unreadable"


class Severity(StrEnum):
    """Severity of a problem: an error misleads a reader, a warning does not."""

    ERROR = "error"
    WARNING = "warning"


class Recovery(StrEnum):
    """The action of a broker that starts with a problem; see ``docs/verify.md``."""

    NOTHING = "nothing"
    TRUNCATE = "truncate"
    REBUILD = "rebuild"
    DELETE = "delete"
    DELETE_LOG = "delete_log"
    RESET = "reset"
    SPLIT = "split"
    OVERWRITE = "overwrite"
    REPLACE = "replace"
    EXPIRE = "expire"
    STRAY = "stray"
    UNSERVED = "unserved"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem(ReportRow):
    """One problem that `verify` found.

    Attributes
    ----------
    path : str
        The file, relative to the path verified.
    position : int or None
        The byte of the file at which the problem begins; None if it has no position.
    offset : int or None
        The first offset that the problem affects; None if it affects none.
    cause : Cause
        The kind of problem, one of a closed list.
    severity : Severity
        ``error`` if it would mislead a reader or costs records, else ``warning``.
    message : str
        Description of the problem, with what was expected and what was found.
    recovery : Recovery
        The action of a broker on the problem when it starts.
    recovery_position : int or None
        The byte at which a broker truncates the file, if it does.
    last_offset : int or None
        The last offset affected: that of a corrupt batch by its header, at most the one
        before the next batch; None if it is unknown, or if the problem affects one
        place only.
    lost_from, lost_to : int or None
        The first and last of the offsets that can be read now and are lost when a
        broker starts; None where none are.
    lost_records, lost_segments : int
        Number of records, and of whole segments after this one, that are lost with
        them.
    reason : str
        The message without the loss of records.
    topic_partition : (str, int) or None
        The topic and partition of the line, if the problem is one of a line of an
        offset checkpoint.

    Examples
    --------
    >>> problem = Problem(
    ...     path="orders-0/00000000000000000000.log",
    ...     position=61,
    ...     offset=7,
    ...     cause=Cause.CRC,
    ...     severity=Severity.ERROR,
    ...     message="CRC mismatch",
    ... )
    >>> problem.cause == "crc", str(problem.recovery)
    (True, 'nothing')
    """

    IMPORTANCE: ClassVar = (
        "severity",
        "path",
        "message",
        "position",
        "cause",
        "offset",
        "recovery",
    )

    path: str
    position: int | None
    offset: int | None
    cause: Cause
    severity: Severity
    message: str
    recovery: Recovery = Recovery.NOTHING
    recovery_position: int | None = None
    last_offset: int | None = None
    lost_from: int | None = None
    lost_to: int | None = None
    lost_records: int = 0
    lost_segments: int = 0
    reason: str = field(default="", repr=False)
    topic_partition: tuple[str, int] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Set the reason of a problem without a loss, which is its message."""
        if not self.reason:
            object.__setattr__(self, "reason", self.message)

    @property
    def order(self) -> tuple[list[str | int], int, str, list[str | int]]:
        """Sort key: path, position, cause, message."""
        at = -1 if self.position is None else self.position
        return _numeric(self.path), at, self.cause, _numeric(self.message)


def as_error(problem: Problem, reason: str) -> Problem:
    """Return a problem without a loss as an error, for another reason as well."""
    both = f"{problem.reason}; {reason}"
    return replace(problem, severity=Severity.ERROR, message=both, reason=both)


def _numeric(text: str) -> list[str | int]:
    """Return a sort key by which numbers in `text` compare by value.

    >>> sorted(["t-10/5.log", "t-2/9.log"], key=_numeric)
    ['t-2/9.log', 't-10/5.log']
    """
    parts = _NUMBERS.split(text)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Report(ReportBase):
    """The result of `verify`: counts, and the problems found.

    Attributes
    ----------
    files, bytes : int
        Number of files verified, and their total size.
    batches : int
        Number of valid record batches (of magic 0 and 1, messages and wrappers).
    records : int
        Number of records in them, control records included.
    problems : tuple of Problem
        The problems, by path and position.

    Examples
    --------
    >>> report = Report(files=1, bytes=0, batches=0, records=0, problems=())
    >>> report
    <Report: 1 file, 0 bytes, 0 batches, 0 records: 0 errors, 0 warnings>
    >>> report.ok
    True
    """

    ROWS: ClassVar = "problems"
    NOUN: ClassVar = "problem"
    HTML_COLUMNS: ClassVar = (
        "severity", "cause", "path", "position", "offset", "message",
    )  # fmt: skip

    files: int
    bytes: int
    batches: int
    records: int
    problems: tuple[Problem, ...]

    @property
    def ok(self) -> bool:
        """Whether no problem is an error."""
        return not self.errors

    @property
    def errors(self) -> int:
        """Number of problems that are errors."""
        return sum(problem.severity == Severity.ERROR for problem in self.problems)

    @property
    def warnings(self) -> int:
        """Number of problems that are warnings."""
        return len(self.problems) - self.errors

    def __str__(self) -> str:
        read = (
            counted(self.files, "file"),
            counted(self.bytes, "byte"),
            counted(self.batches, "batch", "batches"),
            counted(self.records, "record"),
        )
        found = counted(self.errors, "error"), counted(self.warnings, "warning")
        return f"{', '.join(read)}: {', '.join(found)}"


@dataclass(slots=True)
class Findings:
    """The problems found in one file; with `lenient`, none is more than a warning.

    >>> findings = Findings("a.log", lenient=True)
    >>> findings.add(Cause.CRC, "CRC mismatch", position=61)
    >>> findings.problems[0].severity
    <Severity.WARNING: 'warning'>
    """

    path: str
    lenient: bool = False
    problems: list[Problem] = field(default_factory=list)

    def add(
        self,
        cause: Cause,
        message: str,
        *,
        position: int | None = None,
        offset: int | None = None,
        severity: Severity = Severity.ERROR,
        last_offset: int | None = None,
        topic_partition: tuple[str, int] | None = None,
        recovery: Recovery = Recovery.NOTHING,
    ) -> None:
        """Add a problem; with `last_offset`, for an interval of offsets.

        `recovery` is the action of a broker that does not read the file's segment.
        """
        problem = Problem(
            path=self.path,
            position=position,
            offset=offset,
            cause=cause,
            severity=Severity.WARNING if self.lenient else severity,
            message=message,
            last_offset=last_offset,
            topic_partition=topic_partition,
            recovery=recovery,
        )
        self.problems.append(problem)

    def warn(
        self,
        cause: Cause,
        message: str,
        *,
        position: int | None = None,
        offset: int | None = None,
        last_offset: int | None = None,
        topic_partition: tuple[str, int] | None = None,
    ) -> None:
        """Add a warning."""
        self.add(
            cause,
            message,
            position=position,
            offset=offset,
            severity=Severity.WARNING,
            last_offset=last_offset,
            topic_partition=topic_partition,
        )

    def add_error(
        self,
        error: LocatedError,
        offset: int | None = None,
        recovery: Recovery = Recovery.NOTHING,
        last_offset: int | None = None,
    ) -> None:
        """Add the error that a parser raised."""
        self.add(
            Cause(error.cause),
            error.reason,
            position=error.position,
            offset=offset,
            recovery=recovery,
            last_offset=last_offset,
        )
