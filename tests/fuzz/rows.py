"""The result of any read of bytes: rows, and perhaps a typed error."""

from __future__ import annotations

from typing import Any

import kafkalog
from kafkalog.errors import KafkaLogError, LocatedError
from kafkalog.query.scan_columns import COLUMNS

LIMIT = 1 << 20
Row = tuple[Any, ...]


def rows_of(chunk: Any) -> list[Row]:
    """Return the rows of one chunk, header keys as bytes."""
    columns: list[list[Any]] = []
    for column in COLUMNS:
        if column == "topic":
            columns.append([chunk.topic] * len(chunk))
            continue
        values = getattr(chunk, column)
        columns.append(
            values.to_list() if hasattr(values, "to_list") else values.tolist()
        )
    return list(zip(*columns, strict=True))


def read(
    source: Any, taking: dict[str, bool] | None = None, **options: Any
) -> tuple[list[Row], LocatedError | None, list[Any]]:
    """Read all rows; return them, the error that ended the read, and the problems.

    Only a `LocatedError` may end a read; any other error fails the target.
    """
    rows: list[Row] = []
    options = {"control_records": True, "max_batch_bytes": LIMIT, **options}
    scan = kafkalog.scan(source, columns=COLUMNS, **options)
    try:
        for chunk in scan.chunks(**taking or {}):
            rows += rows_of(chunk)
    except LocatedError as error:
        check_place(error, source)
        return rows, error, scan.problems
    return rows, None, scan.problems


def check_place(error: LocatedError, source: Any) -> None:
    """Check that an error has one line, and a position within bytes in memory."""
    assert "\n" not in str(error), error
    assert error.cause, error
    if isinstance(source, bytes):
        assert error.path is None, error
        assert error.position is None or 0 <= error.position <= len(source), error


def typed(call: Any, *arguments: Any, **options: Any) -> Any:
    """Return the result of a call, or None if it raises a typed error."""
    try:
        return call(*arguments, **options)
    except KafkaLogError as error:
        assert "\n" not in str(error), error
        return None
