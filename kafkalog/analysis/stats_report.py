"""The report of `stats`: a row for each group, and their total."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.analysis.group_totals import FUNCTIONS, IDENTITIES, GroupTotals
from kafkalog.export.arrow import TYPES, bytes_array
from kafkalog.formats.layout import CODECS
from kafkalog.integer_limits import MIN_INT64
from kafkalog.optional_packages import require
from kafkalog.query.log_contents import UNKNOWN_CODEC
from kafkalog.reports import SHOWN, ReportBase, counted, html_table
from kafkalog.text.bytes_text import bytes_as_data

if TYPE_CHECKING:
    import os

    import pyarrow as pa
    import pyarrow.compute as pc

    from kafkalog.query.partition_reader import ScanProblem
else:
    pa = require("pyarrow", "arrow")
    pc = require("pyarrow.compute", "arrow")

IN_ORDER: Final = ("hour", "day", "size", "batch_size")
"""Groups that are reported in their order, if they are the first, and not by bytes."""

TIME: Final = TYPES["timestamp"]
GROUP_TYPES: Final = {"partition": pa.int32(), "hour": TIME, "day": TIME}
"""The types of the columns of groups that are neither text, bytes nor int64."""

RATIOS: Final = {
    "records_per_batch": ("records", "batches"),
    "compression_ratio": ("uncompressed_bytes", "bytes"),
}
"""The columns that are ratios of two measures."""

Values = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class StatsReport(ReportBase):
    """The result of `stats`.

    Attributes
    ----------
    by : tuple of str
        The columns that records are grouped by.
    total : dict
        The measures of all records.
    other : dict or None
        The measures of the groups without a row; None if all have one.
    distinct_groups : int or None
        The number of groups; None if there were too many to count.
    error_bytes : int
        The greatest number of bytes that may be missing in a row. 0 unless there are
        more than twice ``max_groups`` groups.
    problems : tuple of ScanProblem
        What was skipped, with ``on_corruption="skip"``.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder()
    >>> batch.append(b"k", b"v", timestamp=1700000000000)
    >>> kafkalog.stats(batch.build(), by=["producer", "codec"])
    <StatsReport: 1 group by producer, codec: 1 record, 70 bytes>
    """

    by: tuple[str, ...]
    total: Values
    other: Values | None
    distinct_groups: int | None
    error_bytes: int
    problems: tuple[ScanProblem, ...]
    _rows: pa.Table

    @property
    def ok(self) -> bool:
        """Whether nothing was skipped."""
        return not self.problems

    def to_arrow(self) -> pa.Table:
        """Return the groups as a table, those with the most bytes first.

        Groups by hour, day or size are in their order.

        Returns
        -------
        pyarrow.Table
            A column for each group, then for each measure.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder()
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> kafkalog.stats(batch.build(), by="size").to_arrow()["size"].to_pylist()
        [2]
        """
        return self._rows

    def rows(self) -> Iterator[Values]:
        """Yield the groups as they are printed in JSON.

        Yields
        ------
        dict
            The columns of `to_arrow`, with times in ms since 1970. A key that is not
            UTF-8 is an object with base64.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder()
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> [row] = kafkalog.stats(batch.build(), by="hour").rows()
        >>> row["hour"], row["records"]
        (1699999200000, 1)
        """
        plain = pa.schema(
            [
                field.with_type(pa.int64()) if field.type == TIME else field
                for field in self._rows.schema
            ]
        )
        for batch in self._rows.cast(plain).to_batches():
            for row in batch.to_pylist():
                if row.get("key") is not None:
                    row["key"] = bytes_as_data(row["key"])
                yield row

    def as_dict(self) -> Values:
        """Return the report as it is printed in JSON.

        Returns
        -------
        dict
            The attributes, and ``groups``, a list of `rows`.

        Examples
        --------
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder()
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> list(kafkalog.stats(batch.build()).as_dict())[:4]
        ['schema', 'by', 'groups', 'other']
        """
        return {
            "schema": self.schema,
            "by": list(self.by),
            "groups": list(self.rows()),
            "other": self.other,
            "total": self.total,
            "distinct_groups": self.distinct_groups,
            "error_bytes": self.error_bytes,
        }

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Write a picture of the bytes and records of the groups; needs matplotlib.

        Parameters
        ----------
        path : str or path-like
            The file, whose ending states its format: ``.png``, ``.svg``, ``.pdf``.

        Raises
        ------
        MissingDependencyError
            If matplotlib is not installed.
        ValueError
            If the ending is not that of a format.

        Examples
        --------
        >>> import tempfile
        >>> import kafkalog
        >>> batch = kafkalog.RecordBatchBuilder()
        >>> batch.append(b"k", b"v", timestamp=1700000000000)
        >>> with tempfile.TemporaryDirectory() as root:
        ...     kafkalog.stats(batch.build()).plot(f"{root}/topics.svg")
        """
        from kafkalog.analysis.stats_plot import write_plot

        write_plot(self, path)

    def __str__(self) -> str:
        groups = f"{counted(len(self._rows), 'group')} by {', '.join(self.by)}"
        records = counted(self.total["records"], "record")
        size = counted(self.total["bytes"], "byte")
        return f"{groups}: {records}, {size}"

    def _repr_html_(self) -> str:
        """Return the text and the first groups as HTML, for notebooks."""
        rows = [[*row.values()] for row in islice(self.rows(), SHOWN)]
        more = len(self._rows) - len(rows)
        note = f"{counted(more, 'more group')}." if more else ""
        title = f"StatsReport: {self}"
        return html_table(title, self._rows.column_names, rows, note)


def report_of(
    by: tuple[str, ...],
    totals: GroupTotals,
    labels: Mapping[str, Sequence[str]],
    *,
    limit: int | None,
    problems: Sequence[ScanProblem],
) -> StatsReport:
    """Return the report of totals, of the `limit` groups with the most bytes.

    `labels` are the names of the codes of a group.
    """
    every = np.arange(totals.table.count)
    limit = len(every) if limit is None else min(limit, len(every))
    found = largest(totals.column("bytes"), limit)
    table = pa.table({name: _group_of(name, totals, labels, found) for name in by})
    table = table.append_column("bytes", pa.array(totals.column("bytes")[found]))
    order = [("bytes", "descending"), *((name, "ascending") for name in by)]
    ordered = pc.sort_indices(table, order).to_numpy()[:limit]
    shown = found[ordered]
    other = totals.dropped
    if limit < len(every):
        rest = np.delete(every, shown)
        other = totals.with_dropped(totals.sum_of(rest))
    columns = {name: table[name].take(ordered) for name in by}
    for name in totals.measures:
        columns[name] = _measure(name, totals.column(name)[shown])
    for name, (numerator, denominator) in RATIOS.items():
        if {numerator, denominator} <= columns.keys():
            divided = columns[numerator].cast(pa.float64())
            columns[name] = pc.divide(divided, columns[denominator])
    rows = pa.table(columns)
    if by[0] in IN_ORDER:
        rows = rows.sort_by([(name, "ascending") for name in by])
    return StatsReport(
        by=by,
        total=_values(totals.with_dropped(totals.sum_of(every))),
        other=None if other is None else _values(other),
        distinct_groups=len(every) if totals.dropped is None else None,
        error_bytes=totals.error_bytes,
        problems=tuple(problems),
        _rows=rows,
    )


def largest(sizes: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.intp]:
    """Return the indexes of the `count` largest sizes, and of those that equal them.

    >>> largest(np.array([5, 9, 7, 1, 7]), 2)
    array([1, 2, 4])
    """
    if not 0 < count < len(sizes):
        return np.arange(len(sizes))
    least = np.partition(sizes, len(sizes) - count)[len(sizes) - count]
    return np.flatnonzero(sizes >= least)


def _group_of(
    name: str,
    totals: GroupTotals,
    labels: Mapping[str, Sequence[str]],
    groups: npt.NDArray[np.intp],
) -> pa.Array:
    """Return the column of a group for some groups, with names instead of codes."""
    if name == "key":
        return bytes_array(totals.table.column(groups))
    codes = totals.table.codes[groups, totals.groups.index(name)]
    if name == "codec" or name in labels:
        names = labels.get(name, [*CODECS, *[UNKNOWN_CODEC] * 3])
        return pa.array(names, pa.string()).take(pa.array(codes))
    values = pa.array(codes, mask=codes == MIN_INT64)
    return values.cast(GROUP_TYPES.get(name, pa.int64()))


def _measure(name: str, values: npt.NDArray[np.int64]) -> pa.Array:
    """Return the column of a measure, null where no record has a value."""
    kind = TIME if name.endswith("timestamp") else pa.int64()
    none = np.zeros(len(values), np.bool_)
    if name in FUNCTIONS:
        none = values == IDENTITIES[FUNCTIONS[name]]
    return pa.array(values, mask=none).cast(kind)


def _values(totals: Mapping[str, int]) -> Values:
    """Return measures, None for a time or offset that no record has, and ratios."""
    values: Values = {
        name: None
        if name in FUNCTIONS and value == IDENTITIES[FUNCTIONS[name]]
        else value
        for name, value in totals.items()
    }
    for name, (numerator, denominator) in RATIOS.items():
        if {numerator, denominator} <= values.keys():
            divisor = values[denominator]
            values[name] = values[numerator] / divisor if divisor else None
    return values
