"""A scan as a ``polars.LazyFrame``, by Polars' interface for sources of its users.

Polars passes the columns, the predicate and the number of rows that a query needs. The
predicate is evaluated by Polars on what is read. What it states about partitions,
offsets, times and batch headers is found in its JSON form, and decides what is read; a
part that is not known there skips nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkalog.export.batch_streams import until_exit
from kafkalog.export.filter_terms import FLAGS, MS_PER_UNIT, compare_value, one_of
from kafkalog.export.log_dataset import BATCH_SIZE, sized_batches
from kafkalog.optional_packages import require
from kafkalog.query.conditions import (
    ANYTHING,
    MIRRORED,
    BatchCondition,
    Comparison,
    NullTest,
    either,
    every,
)
from kafkalog.query.narrowing import narrow
from kafkalog.query.scan import Scan, limited

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa
else:
    pa = require("pyarrow", "polars")
    pl = require("polars", "polars")

SIGNS: Final = {
    "Eq": "==",
    "EqValidity": "==",
    "NotEq": "!=",
    "NotEqValidity": "!=",
    "Lt": "<",
    "LtEq": "<=",
    "Gt": ">",
    "GtEq": ">=",
}
CLOSED: Final = {
    "Both": (">=", "<="),
    "Left": (">=", "<"),
    "Right": (">", "<="),
    "None": (">", "<"),
}
UNITS: Final = {"Milliseconds": "ms", "Microseconds": "us", "Nanoseconds": "ns"}


def to_lazy(scan: Scan) -> pl.LazyFrame:
    """Return a scan as a ``polars.LazyFrame``."""
    from polars.io.plugins import register_io_source

    schema = pl.DataFrame(scan.schema.empty_table()).schema
    return register_io_source(partial(_read, scan), schema=schema)


def _read(scan: Scan, *request: Any) -> Iterator[pl.DataFrame]:
    """Return what `_frames` yields, for any thread of Polars to read."""
    return until_exit(_frames(scan, *request))


def _frames(
    scan: Scan,
    columns: list[str] | None,
    predicate: pl.Expr | None,
    limit: int | None,
    batch_size: int | None,
) -> Iterator[pl.DataFrame]:
    """Yield frames of the first `limit` records for which a predicate is true.

    As Polars wants it, the limit comes before the predicate.
    """
    columns = list(scan.columns) if columns is None else columns
    if limit is not None:
        scan = limited(scan, limit)
    needed = set(columns or scan.columns[:1])
    if predicate is not None:
        needed.update(predicate.meta.root_names())
        scan = narrow(scan, read_predicate(predicate))
    kept = tuple(name for name in scan.columns if name in needed)
    for batch in sized_batches(replace(scan, columns=kept), batch_size or BATCH_SIZE):
        frame = pl.DataFrame(batch)
        if predicate is not None:
            frame = frame.filter(predicate)
        # A frame without columns has its rows only if they are dropped.
        yield frame.select(columns) if columns else frame.drop(frame.columns)


def read_predicate(predicate: pl.Expr) -> BatchCondition:
    """Return a condition that every record has for which a predicate is true.

    >>> import polars as pl
    >>> read_predicate(pl.col("offset") > 4)
    Comparison(column='offset', sign='>', value=4)
    """
    try:
        return _condition_of(json.loads(predicate.meta.serialize(format="json")))
    except RecursionError:  # terms within terms, a thousand deep
        return ANYTHING


def _condition_of(tree: Any) -> BatchCondition:
    """Return the condition of a predicate in JSON, as Polars serializes it."""
    match tree:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return every((_condition_of(left), _condition_of(right)))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return either((_condition_of(left), _condition_of(right)))
        case {"BinaryExpr": {"left": left, "op": sign, "right": right}}:
            return _comparison(SIGNS.get(sign), left, right)
        case {"Function": {"input": inputs, "function": {"Boolean": function}}}:
            return _of_function(function, inputs)
        case {"Column": str(column)} if column in FLAGS:
            return Comparison(column, "==", True)
    return ANYTHING


def _of_function(function: Any, inputs: list[Any]) -> BatchCondition:
    match function, inputs:
        case "Not", [argument]:
            return _condition_of(argument).negated()
        case "IsNull", [{"Column": str(column)}]:
            return NullTest(column)
        case "IsNotNull", [{"Column": str(column)}]:
            return NullTest(column, inverted=True)
        case {"IsBetween": {"closed": closed}}, [column, least, greatest]:
            above, below = CLOSED[closed]
            return every(
                (
                    _comparison(above, column, least),
                    _comparison(below, column, greatest),
                )
            )
        case {"IsIn": _}, [tested, {"Literal": {"Scalar": {"List": items}}}]:
            if (column := _column_of(tested)) is not None:
                values = pl.read_ipc_stream(bytes(items)).to_series().to_arrow()
                return one_of(column, values)
    return ANYTHING


def _comparison(sign: str | None, left: Any, right: Any) -> BatchCondition:
    if sign is None:
        return ANYTHING
    match left, right:
        case tested, {"Literal": literal} if column := _column_of(tested):
            return _compare(column, sign, literal)
        case {"Literal": literal}, tested if column := _column_of(tested):
            return _compare(column, MIRRORED[sign], literal)
    return ANYTHING


def _column_of(tree: Any) -> str | None:
    """Return the column whose values a term has; None if it is another term.

    A cast of numbers to floats, or of categories to text, has the values of its column:
    `compare_value` accepts no float to which integers are rounded.
    """
    match tree:
        case {"Column": str(column)}:
            return column
        case {
            "Cast": {
                "expr": {"Column": str(column)},
                "dtype": {"Literal": "Float64" | "String"},
            }
        }:
            return column
    return None


def _compare(column: str, sign: str, literal: Any) -> BatchCondition:
    match literal:
        case {"Scalar": {"Datetime": [int(value), str(unit), _]}} if unit in UNITS:
            milliseconds = value * MS_PER_UNIT[UNITS[unit]]
            return compare_value(column, sign, milliseconds)
        case {"Dyn": {"Int": int(value)} | {"Float": float(value)}}:
            return compare_value(column, sign, value)
        case {"Scalar": dict(scalar)}:
            [value] = scalar.values()
            return compare_value(column, sign, value)
    return ANYTHING
