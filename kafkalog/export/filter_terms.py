"""Arrow expressions as conditions: what a filter states about partitions and batches.

A ``pyarrow.compute.Expression`` has no accessors. Pickled, it is an Arrow IPC file: the
metadata of the schema lists calls, fields and literals in the order of Polish notation,
and the columns have the values of the literals. That form is read here. A part that is
not known becomes `Anything`, which skips nothing: the filter is evaluated by Arrow on
what is read.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np

from kafkalog.optional_packages import require
from kafkalog.query.conditions import (
    ANYTHING,
    MIRRORED,
    NOTHING,
    BatchCondition,
    Comparison,
    Membership,
    NullTest,
    Value,
    either,
    every,
)
from kafkalog.query.scan_columns import FIXED

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
else:
    pa = require("pyarrow", "arrow")

ENTRY: Final = re.compile(
    r"(call|field_ref|nested_field_ref|literal|options|end): '(.*)'"
)
METADATA: Final = "-- schema metadata --\n"

SIGNS: Final = {
    "equal": "==",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
MATCH: Final = 0
"""Arrow's ``SetLookupOptions::MATCH``: null is in a set that has null."""

TEXTS: Final = frozenset({"topic", "codec", "segment"})
FLAGS: Final = frozenset(name for name, dtype in FIXED.items() if dtype == np.bool_)
INTEGERS: Final = FIXED.keys() - TEXTS - FLAGS - {"timestamp"}
MAX_EXACT_FLOAT: Final = 1 << 53
"""The least float that integers may equal which are rounded to compare with it."""

MS_PER_UNIT: Final = {
    "s": Fraction(1000),
    "ms": Fraction(1),
    "us": Fraction(1, 1000),
    "ns": Fraction(1, 1_000_000),
}


@dataclass(frozen=True, slots=True)
class ColumnRef:
    """A reference to a column, or to a field within it."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A call, whose arguments are being read."""

    function: str = ""
    arguments: list[Node] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)


Node: TypeAlias = "ColumnRef | pa.Scalar | BatchCondition"
"""An argument: a column, a literal, or a call's result."""


@dataclass(frozen=True, slots=True)
class Filter:
    """The terms of an expression.

    Every record for which the expression is true satisfies `condition`. `columns` are
    those it refers to; None if they are not known.
    """

    condition: BatchCondition
    columns: frozenset[str] | None


def read_filter(expression: pc.Expression) -> Filter:
    """Return the terms of an expression.

    >>> import pyarrow.compute as pc
    >>> read_filter(pc.field("offset") > 4).condition
    Comparison(column='offset', sign='>', value=4)
    """
    try:
        _, (serialized,) = expression.__reduce__()
        batch = pa.ipc.open_file(serialized).get_batch(0)
    except (pa.ArrowInvalid, NotImplementedError):
        # Arrow cannot serialize all expressions, for example run-end encoded values.
        return Filter(ANYTHING, None)
    text = batch.schema.to_string(truncate_metadata=False)
    entries = list(map(ENTRY.fullmatch, text.split(METADATA)[1].splitlines()))
    if not all(entries):
        return Filter(ANYTHING, None)
    return _fold(iter([(entry[1], entry[2]) for entry in entries if entry]), batch)


def _fold(entries: Iterator[tuple[str, str]], batch: pa.RecordBatch) -> Filter:
    """Reduce the calls of an expression to a condition, the innermost first."""
    columns, calls = set[str](), [Call()]
    for kind, value in entries:
        call = calls[-1]
        match kind:
            case "call":
                calls.append(Call(value))
            case "end":
                calls.pop()
                calls[-1].arguments.append(_result(call))
            case "options":
                call.options.update(batch.column(int(value))[0].items())
            case "literal":
                call.arguments.append(batch.column(int(value))[0])
            case "field_ref":
                columns.add(value)
                call.arguments.append(ColumnRef((value,)))
            case _:
                path = tuple(next(entries)[1] for _ in range(int(value)))
                columns.add(path[0])
                call.arguments.append(ColumnRef(path))
    return Filter(_condition(calls[0].arguments[0]), frozenset(columns))


def _condition(node: Node) -> BatchCondition:
    """Return a node as the condition that it is true."""
    match node:
        case ColumnRef((column,)) if column in FLAGS:
            return Comparison(column, "==", True)
        case ColumnRef():
            return ANYTHING
        case pa.Scalar():
            return ANYTHING if node.as_py() is True else NOTHING
    return node


def _result(call: Call) -> BatchCondition:
    """Return the condition that the result of a call is true."""
    match call.function, call.arguments:
        case "and_kleene" | "and", arguments:
            return every(map(_condition, arguments))
        case "or_kleene" | "or", arguments:
            return either(map(_condition, arguments))
        case "invert", [argument]:
            return _condition(argument).negated()
        case "if_else", [test, then, otherwise]:
            chosen = _condition(test)
            first = every((chosen, _condition(then)))
            return either((first, every((chosen.negated(), _condition(otherwise)))))
        case "is_null", [ColumnRef((column,))]:
            return NullTest(column)
        case "is_valid", [ColumnRef((column,))]:
            return NullTest(column, inverted=True)
        case "is_in", [ColumnRef((column,))]:
            values = call.options["value_set"].values
            matches_null = call.options["null_matching_behavior"].as_py() == MATCH
            return one_of(column, values if matches_null else values.drop_null())
        case function, [left, right] if function in SIGNS:
            return _comparison(SIGNS[function], left, right)
    return ANYTHING


def one_of(column: str, values: pa.Array) -> BatchCondition:
    """Return the condition that a column has one of `values`."""
    found = [compare(column, "==", value) for value in values.drop_null()]
    listed = [each.value for each in found if isinstance(each, Comparison)]
    if len(listed) < len(found):
        return ANYTHING
    is_listed = Membership.of(column, listed)
    return either((is_listed, NullTest(column))) if values.null_count else is_listed


def _comparison(sign: str, left: Node, right: Node) -> BatchCondition:
    match left, right:
        case ColumnRef((column,)), pa.Scalar():
            return compare(column, sign, right)
        case pa.Scalar(), ColumnRef((column,)):
            return compare(column, MIRRORED[sign], left)
    return ANYTHING


def compare(column: str, sign: str, literal: pa.Scalar) -> BatchCondition:
    """Return the comparison of a column with a literal, if its type allows it."""
    if not literal.is_valid:
        return NOTHING
    if column == "timestamp" and pa.types.is_timestamp(literal.type):
        milliseconds = literal.value * MS_PER_UNIT[literal.type.unit]
        return compare_value(column, sign, milliseconds)
    return compare_value(column, sign, literal.as_py())


def compare_value(column: str, sign: str, value: object) -> BatchCondition:
    """Return the comparison of a column with a value, if its type allows it.

    A timestamp is compared with a `Fraction`, of milliseconds.
    """
    found: Value | None = None
    if column in INTEGERS or (column == "timestamp" and isinstance(value, Fraction)):
        found = _integer(sign, value)
    elif (column in TEXTS and isinstance(value, str)) or (
        column in FLAGS and isinstance(value, bool)
    ):
        found = value
    return ANYTHING if found is None else Comparison(column, sign, found)


_ROUNDED: Final[dict[str, Callable[[Any], int]]] = {
    "<": math.ceil,
    ">=": math.ceil,
    "<=": math.floor,
    ">": math.floor,
}


def _integer(sign: str, value: object) -> int | None:
    """Return the integer with which integers compare as with `value`; else None."""
    if isinstance(value, bool) or not isinstance(
        value, int | float | Fraction | Decimal
    ):
        return None
    if isinstance(value, float) and not abs(value) < MAX_EXACT_FLOAT:
        return None
    if value == int(value):
        return int(value)
    return _ROUNDED[sign](value) if sign in _ROUNDED else None
