"""The rows of a report as a table of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafkalog.export.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa


def report_table(
    rows: Iterable[Mapping[str, Any]], names: Iterable[str], types: Mapping[str, str]
) -> pa.Table:
    """Return a table with a column for each name; int64 where no type is given.

    >>> report_table(
    ...     [{"path": "a", "records": 3}], ["path", "records"], {"path": "string"}
    ... ).schema.types
    [DataType(string), DataType(int64)]
    """
    arrow = require("pyarrow", "arrow")
    schema = arrow.schema([(name, types.get(name, "int64")) for name in names])
    return arrow.Table.from_pylist(list(rows), schema)
