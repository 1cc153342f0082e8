"""What `verify` found: problems, each with its cause, its place and how bad it is.

Causes are a closed list, told one by one in ``docs/verify.md``. An *error* is what a
reader, or a broker, would be misled by; a *warning* is what is as it may be after a
crash, or what Kafka mends by itself and nothing is lost.

Knows: findings. Does not know: files.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Final

from kafkalog.errors import LocatedError

SCHEMA: Final = 1
_NUMBERS: Final = re.compile(r"(\d+)")


class Cause(StrEnum):
    """What is wrong, in a word; ``docs/verify.md`` has the meaning of each."""

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
    FOREIGN = "foreign"
    TOPIC_ID = "topic_id"
    UNREADABLE = "unreadable"


class Severity(StrEnum):
    """Whether a reader would be misled (error) or not (warning)."""

    ERROR = "error"
    WARNING = "warning"


class Recovery(StrEnum):
    """What a broker that starts on it does about a finding; told in the docs, too."""

    NOTHING = "nothing"
    TRUNCATE = "truncate"
    REBUILD = "rebuild"
    DELETE = "delete"
    DELETE_LOG = "delete_log"
    RESET = "reset"
    SPLIT = "split"
    OVERWRITE = "overwrite"
    STRAY = "stray"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One finding: byte `position` of `path`, and the first `offset` that it affects.

    `path` is relative to what was verified; `position` and `offset` are None where
    there is none. `recovery` is what a broker would do about it when it starts, and
    `recovery_position` the byte at which it would cut the file, if it does.

    A finding that stands for a range of like ones has the last offset of the range as
    `last_offset`. Where a start loses records that can be read now, `lost_from` and
    `lost_to` are their first and last offset, `lost_records` their number, and
    `lost_segments` the number of whole segments that go with them.
    """

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

    @property
    def order(self) -> tuple[list[str | int], int, str, list[str | int]]:
        """Return what findings are sorted by: their place, then what they say."""
        at = -1 if self.position is None else self.position
        return _numeric(self.path), at, self.cause, _numeric(self.message)

    def as_dict(self) -> dict[str, Any]:
        """Return the members that the command's JSON has, in its order."""
        return asdict(self)


def _numeric(text: str) -> list[str | int]:
    """Return what sorts `text` by the values of its numbers: t-2 before t-10.

    >>> sorted(["t-10/5.log", "t-2/9.log"], key=_numeric)
    ['t-2/9.log', 't-10/5.log']
    """
    parts = _NUMBERS.split(text)
    return [int(part) if i % 2 else part for i, part in enumerate(parts)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What was looked at, and what was found, in the order of paths and positions.

    `batches` counts sound entries of logs (of magic 0 and 1, messages and wrappers),
    `records` the records in them, control records among them.

    >>> Report(files=1, bytes=0, batches=0, records=0, problems=()).is_sound
    True
    """

    files: int
    bytes: int
    batches: int
    records: int
    problems: tuple[Problem, ...]

    @property
    def is_sound(self) -> bool:
        """Whether no problem is an error."""
        return not self.errors

    @property
    def errors(self) -> int:
        """How many problems are errors."""
        return sum(found.severity == Severity.ERROR for found in self.problems)

    @property
    def warnings(self) -> int:
        """How many problems are warnings."""
        return len(self.problems) - self.errors

    def as_dict(self) -> dict[str, Any]:
        """Return what ``kafkalog verify --format json`` prints."""
        return {
            "schema": SCHEMA,
            "files": self.files,
            "bytes": self.bytes,
            "batches": self.batches,
            "records": self.records,
            "problems": [found.as_dict() for found in self.problems],
        }


@dataclass(slots=True)
class Findings:
    """Collects the problems of one file; with `lenient`, no more than warnings.

    >>> findings = Findings("a.log", lenient=True)
    >>> findings.add(Cause.CRC, "the checksum differs", position=61)
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
    ) -> None:
        """Note one problem, or one for a range that ends at `last_offset`."""
        found = Problem(
            path=self.path,
            position=position,
            offset=offset,
            cause=cause,
            severity=Severity.WARNING if self.lenient else severity,
            message=message,
            last_offset=last_offset,
        )
        self.problems.append(found)

    def warn(
        self,
        cause: Cause,
        message: str,
        *,
        position: int | None = None,
        offset: int | None = None,
        last_offset: int | None = None,
    ) -> None:
        """Note one problem that misleads no reader."""
        self.add(
            cause,
            message,
            position=position,
            offset=offset,
            severity=Severity.WARNING,
            last_offset=last_offset,
        )

    def add_error(self, error: LocatedError, offset: int | None = None) -> None:
        """Note what a parser refused."""
        cause = Cause(error.cause)
        self.add(cause, error.reason, position=error.position, offset=offset)
