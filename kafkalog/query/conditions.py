"""Conditions on the columns of a scan, by which partitions to batches are skipped.

A `BatchCondition` is the part of a query's filter that partitions, segments and
batches can be tested for without decoding records. `may_match` is called with the
ranges of the values of some columns, and returns False only where no record can satisfy
the condition. So a filter's term that has no such condition becomes `Anything`, and the
filter itself is still evaluated on the records that are read.

As in SQL, a comparison with null is not true. The opposite of a test for one of several
values is "!=" to each, which may match null here: Arrow's ``is_in`` is false for null.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import CODEC_MASK, CODECS
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.query.header_columns import batch_values, timestamp_ranges

Value: TypeAlias = "int | str | bool"
Mask: TypeAlias = "np.bool_ | npt.NDArray[np.bool_]"
Interval = tuple[int, int]
"""The least and greatest integer, both inclusive; the least is greater if empty."""

ALL: Final[Interval] = (MIN_INT64, MAX_INT64)

MAX_DEPTH: Final = 100
"""Maximum depth of a condition: a deeper one becomes `Anything`."""

NEGATED: Final = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The operators of comparisons, and the one that is true where each is false."""

MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The operator that compares the same with sides exchanged."""

OF_BATCHES: Final = (
    "timestamp_type",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "is_transactional",
    "is_control",
    "magic",
    "position",
)
"""Columns that have one value in a batch, in the form in which they are compared."""


class ValueRange(NamedTuple):
    """The least and greatest value that is not null, and whether some may be null.

    Each is a scalar, or an array with an item for each partition, segment or batch.
    Where all values are null, the least is greater than the greatest.
    """

    least: Any
    greatest: Any
    nulls: Any = False


Ranges = Mapping[str, ValueRange]


class BatchCondition(Protocol):
    """A condition on the values of a record."""

    @property
    def depth(self) -> int:
        """The number of conjunctions and disjunctions one within another."""

    def may_match(self, ranges: Ranges) -> Mask:
        """Return where records within `ranges` may satisfy the condition."""

    def negated(self) -> BatchCondition:
        """Return the condition that is true where this one is false."""

    def interval(self, column: str) -> Interval:
        """Return an interval that has each value of a column that satisfies this.

        Where it is smaller than `ALL`, null does not satisfy it either.
        """


@dataclass(frozen=True, slots=True)
class Anything:
    """The condition that every record may satisfy."""

    depth: ClassVar[int] = 0

    def may_match(self, ranges: Ranges) -> Mask:
        """Return True."""
        return np.True_

    def negated(self) -> BatchCondition:
        """Return this condition: nothing is known of its opposite either."""
        return self

    def interval(self, column: str) -> Interval:
        """Return `ALL`."""
        return ALL


ANYTHING: Final = Anything()


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of a column with a value.

    >>> Comparison("offset", "<", 5).may_match({"offset": ValueRange(3, 9)})
    np.True_
    >>> Comparison("offset", "<", 5).negated().interval("offset")[0]
    5
    """

    depth: ClassVar[int] = 0
    column: str
    sign: str
    value: Value

    def may_match(self, ranges: Ranges) -> Mask:
        """Return where a value of the column's range compares as stated."""
        if self.column not in ranges:
            return np.True_
        least, greatest, nulls = ranges[self.column]
        value: Any = self.value
        if isinstance(value, str):  # NumPy's own strings have no zeros at the end
            value = np.array(value, object)
        match self.sign:
            case "==":
                found = (least <= value) & (value <= greatest)
            case "!=":
                found = (least != value) | (greatest != value) | nulls
            case "<" | "<=":
                found = _OPERATORS[self.sign](least, value)
            case _:
                found = _OPERATORS[self.sign](greatest, value)
        return _mask(found)

    def negated(self) -> Comparison:
        """Return the opposite comparison."""
        return Comparison(self.column, NEGATED[self.sign], self.value)

    def interval(self, column: str) -> Interval:
        """Return the values that compare as stated."""
        if column != self.column or isinstance(self.value, str):
            return ALL
        value = int(self.value)
        match self.sign:
            case "==":
                return value, value
            case "<" | "<=":
                return MIN_INT64, value - (self.sign == "<")
            case ">" | ">=":
                return value + (self.sign == ">"), MAX_INT64
        return ALL


@dataclass(frozen=True, slots=True, eq=False)
class Membership:
    """The test whether a column has one of some values, or with `inverted` none.

    The values are sorted and distinct. The values between which a partition, segment or
    batch lies are found by binary search, so that there may be a million.

    >>> either = Membership.of("offset", [9, 4])
    >>> either.may_match({"offset": ValueRange([3, 5], [4, 8])})
    array([ True, False])
    """

    depth: ClassVar[int] = 0
    column: str
    values: npt.NDArray[Any]
    inverted: bool = False

    @classmethod
    def of(cls, column: str, values: Iterable[Value]) -> Membership:
        """Return the test for values of one type."""
        # An integer that does not fit is no value of a column.
        listed = [
            v for v in values if isinstance(v, str) or MIN_INT64 <= v <= MAX_INT64
        ]
        is_text = bool(listed) and isinstance(listed[0], str)
        return cls(column, np.unique(np.array(listed, object if is_text else np.int64)))

    def may_match(self, ranges: Ranges) -> Mask:
        """Return where a value of the column's range may be one, or another."""
        if self.column not in ranges:
            return np.True_
        least, greatest, nulls = ranges[self.column]
        first = np.searchsorted(self.values, least, "left")
        end = np.searchsorted(self.values, greatest, "right")
        if self.inverted:
            return _mask((least != greatest) | (first == end) | nulls)
        return _mask(first < end)

    def negated(self) -> Membership:
        """Return the opposite test, which may match null."""
        return replace(self, inverted=not self.inverted)

    def interval(self, column: str) -> Interval:
        """Return the least and the greatest value."""
        is_text = self.values.dtype == object
        if column != self.column or self.inverted or is_text:
            return ALL
        if not len(self.values):
            return MAX_INT64, MIN_INT64
        return int(self.values[0]), int(self.values[-1])


@dataclass(frozen=True, slots=True)
class NullTest:
    """The test whether a column is null, or with `inverted` whether it is not."""

    depth: ClassVar[int] = 0
    column: str
    inverted: bool = False

    def may_match(self, ranges: Ranges) -> Mask:
        """Return where a null, or another value, may be."""
        if self.column not in ranges:
            return np.True_
        least, greatest, nulls = ranges[self.column]
        return _mask(least <= greatest if self.inverted else nulls)

    def negated(self) -> NullTest:
        """Return the opposite test."""
        return NullTest(self.column, not self.inverted)

    def interval(self, column: str) -> Interval:
        """Return `ALL`."""
        return ALL


@dataclass(frozen=True, slots=True)
class Every:
    """The conjunction of conditions."""

    parts: tuple[BatchCondition, ...]
    depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Set the depth."""
        object.__setattr__(self, "depth", _depth_of(self.parts))

    def may_match(self, ranges: Ranges) -> Mask:
        """Return where each part may match."""
        masks = (part.may_match(ranges) for part in self.parts)
        return _mask(reduce(operator.and_, masks, np.True_))

    def negated(self) -> BatchCondition:
        """Return the disjunction of the opposites."""
        return either(part.negated() for part in self.parts)

    def interval(self, column: str) -> Interval:
        """Return the intersection of the parts' intervals."""
        found = [ALL, *(part.interval(column) for part in self.parts)]
        return max(low for low, _ in found), min(high for _, high in found)


@dataclass(frozen=True, slots=True)
class Either:
    """The disjunction of conditions.

    >>> ends = Either((Comparison("offset", "<", 5), Comparison("offset", "==", 9)))
    >>> ends.may_match({"offset": ValueRange(6, 8)})
    np.False_
    """

    parts: tuple[BatchCondition, ...]
    depth: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Set the depth."""
        object.__setattr__(self, "depth", _depth_of(self.parts))

    def may_match(self, ranges: Ranges) -> Mask:
        """Return where one of the parts may match."""
        masks = (part.may_match(ranges) for part in self.parts)
        return _mask(reduce(operator.or_, masks, np.False_))

    def negated(self) -> BatchCondition:
        """Return the conjunction of the opposites."""
        return every(part.negated() for part in self.parts)

    def interval(self, column: str) -> Interval:
        """Return an interval around those of the parts that are not empty."""
        found = [part.interval(column) for part in self.parts]
        filled = [(low, high) for low, high in found if low <= high]
        if not filled:
            return MAX_INT64, MIN_INT64
        return min(low for low, _ in filled), max(high for _, high in filled)


def _depth_of(parts: tuple[BatchCondition, ...]) -> int:
    return 1 + max((part.depth for part in parts), default=0)


_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def every(parts: Iterable[BatchCondition]) -> BatchCondition:
    """Return the conjunction of conditions, without nesting.

    `Anything` is kept once, last, as the opposite of the conjunction depends on it too.

    >>> below = Comparison("offset", "<", 5)
    >>> every([ANYTHING, below]).negated() == ANYTHING
    True
    """
    joined = _joined(Every, parts)
    if not isinstance(joined, Every) or ANYTHING not in joined.parts:
        return ANYTHING if joined == Every(()) else joined
    known = tuple(part for part in joined.parts if part != ANYTHING)
    return Every((*known, ANYTHING)) if known else ANYTHING


def either(parts: Iterable[BatchCondition]) -> BatchCondition:
    """Return the disjunction of conditions, without nesting; `Anything` if one is that.

    >>> below, above = Comparison("offset", "<", 5), Comparison("offset", ">", 9)
    >>> either([below, either([above])]) == Either((below, above))
    True
    """
    joined = _joined(Either, parts)
    has_any = isinstance(joined, Either) and ANYTHING in joined.parts
    return ANYTHING if has_any else joined


def unproven(condition: BatchCondition, ranges: Ranges) -> BatchCondition:
    """Return the parts of a condition that a record within `ranges` may fail.

    >>> below, value = Comparison("offset", "<", 5), Comparison("magic", "==", 2)
    >>> unproven(every([below, value]), {"offset": ValueRange(0, 4)}) == value
    True
    """
    parts = condition.parts if isinstance(condition, Every) else (condition,)
    return every(part for part in parts if part.negated().may_match(ranges))


def _joined(
    kind: type[Every | Either], parts: Iterable[BatchCondition]
) -> BatchCondition:
    flat = list[BatchCondition]()
    for part in parts:
        flat += part.parts if isinstance(part, kind) else (part,)
    joined = flat[0] if len(flat) == 1 else kind(tuple(flat))
    return joined if joined.depth <= MAX_DEPTH else ANYTHING


NOTHING: Final = Either(())
"""The condition that no record satisfies."""

_UNKNOWN: Final = CODEC_MASK + 1 - len(CODECS)
# A batch of an unknown codec is read, so that it is reported.
_LEAST_CODEC: Final = np.array([*CODECS, *[""] * _UNKNOWN], object)
_GREATEST_CODEC: Final = np.array([*CODECS, *[chr(0x10FFFF)] * _UNKNOWN], object)


def _mask(found: Any) -> Mask:
    return found if isinstance(found, np.ndarray) else np.bool_(found)


def constant(value: Value) -> ValueRange:
    """Return the range of a column with one value."""
    return ValueRange(value, value)


def partition_ranges(topic: str, partition: int) -> dict[str, ValueRange]:
    """Return the ranges of the columns with one value in a partition."""
    return {"topic": constant(topic), "partition": constant(partition)}


def batch_ranges(rows: BatchHeaders) -> dict[str, ValueRange]:
    """Return the ranges of the values in batches, from headers that were checked.

    The first offset of a wrapper message is not in its header.
    """
    columns = {name: batch_values(name, rows) for name in OF_BATCHES}
    ranges = {name: ValueRange(values, values) for name, values in columns.items()}
    codecs = batch_values("codec", rows)
    ranges["codec"] = ValueRange(_LEAST_CODEC[codecs], _GREATEST_CODEC[codecs])
    base, last = rows["base_offset"], rows["last_offset"]
    ranges["offset"] = ValueRange(np.where(base < 0, MIN_INT64, base), last)
    ranges["timestamp"] = ValueRange(*timestamp_ranges(rows))
    return ranges
