"""The rows of a report as a table of Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafkalog.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa


def report_table(
    rows: Iterable[Mapping[str, Any]], names: Iterable[str], types: Mapping[str, str]
) -> pa.Table:
    """Return a table with a column for each name; int64 where no type is given.

    A type is a name that Arrow has for one, or ``texts`` for a list of texts,
    ``ranges`` for a list of pairs of numbers, ``text_by_number`` for a map.

    >>> report_table(
    ...     [{"path": "a", "missing": [(3, 4)]}],
    ...     ["path", "records", "missing"],
    ...     {"path": "string", "missing": "ranges"},
    ... ).to_pylist()
    [{'path': 'a', 'records': None, 'missing': [[3, 4]]}]
    """
    arrow = require("pyarrow", "arrow")
    nested = {
        "texts": arrow.list_(arrow.string()),
        "ranges": arrow.list_(arrow.list_(arrow.int64(), 2)),
        "text_by_number": arrow.map_(arrow.int64(), arrow.string()),
    }
    column_types = {name: types.get(name, "int64") for name in names}
    schema = arrow.schema(
        [(name, nested.get(kind, kind)) for name, kind in column_types.items()]
    )
    return arrow.Table.from_pylist(list(rows), schema)
