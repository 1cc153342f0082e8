"""A source as a ``pyarrow.dataset.Dataset``, which engines query as they do Parquet.

DuckDB, DataFusion and Polars call `LogDataset.scanner` or `LogDataset.get_fragments`
with the columns and the filter of a query. The filter is used twice: what it states
about partitions, offsets, times and batch headers decides what is read at all, and
Arrow evaluates it on what was read. So a result is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Final, Unpack

from kafkalog.export.arrow import to_batches
from kafkalog.export.batch_streams import stream_of
from kafkalog.export.filter_terms import read_filter
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.optional_packages import require
from kafkalog.query.narrowing import narrow
from kafkalog.query.scan import Scan, ScanArguments, Source, scan
from kafkalog.query.scan_columns import COLUMNS, check_names
from kafkalog.query.splits import TARGET_BYTES, Split, divide_scan

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.dataset as ds
else:
    pa = require("pyarrow", "arrow")
    pc = require("pyarrow.compute", "arrow")
    ds = require("pyarrow.dataset", "arrow")

BATCH_SIZE: Final = 1 << 17
"""Default maximum of rows in a batch, as Arrow's."""

NOT_A_FILE: Final = "no file: a kafkalog dataset is read by its scanner method"


def dataset(source: Source, **as_scan: Unpack[ScanArguments]) -> LogDataset:
    """Return a source as a ``pyarrow.dataset.Dataset``; needs pyarrow.

    Nothing is read yet. Engines pass the columns and the filter of a query to it.
    Conditions on ``topic``, ``partition``, ``offset``, ``timestamp``, ``producer_id``,
    ``producer_epoch``, ``leader_epoch``, ``is_control``, ``is_transactional``,
    ``codec``, ``magic``, ``segment`` and ``position`` skip partitions, segments and
    batches; all other conditions are evaluated on the records.

    Parameters
    ----------
    source : path, URL, bytes-like, or list of these
        As for `scan`.
    **as_scan : ScanArguments
        The options of `scan`, but `limit`. By default the dataset has all columns.

    Returns
    -------
    LogDataset
        The dataset.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError, TypeError, ValueError
        As `scan` does.

    Examples
    --------
    >>> import kafkalog
    >>> import pyarrow.compute as pc
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> for value in (b"one", b"two", b"three"):
    ...     batch.append(None, value, timestamp=1)
    >>> log = kafkalog.dataset(batch.build())
    >>> log.to_table(["value"], filter=pc.field("offset") > 7).to_pylist()
    [{'value': b'two'}, {'value': b'three'}]
    """
    if as_scan.get("columns") is None:
        as_scan["columns"] = COLUMNS
    if "limit" in as_scan:
        raise TypeError("dataset of a scan with limit")
    request = scan(source, **as_scan)
    # Headers suffice for a count, once their CRCs are checked.
    policy = replace(request.policy, needs="headers")
    return LogDataset(replace(request, policy=policy))


class LogDataset(ds.UnionDataset):  # type: ignore[misc]
    """The records of a source as an Arrow dataset; made by `dataset`.

    It pickles. A scanner reads once; each call of `scanner` returns a new one.

    Arrow's own classes in C++ cannot read it. So its only child is a file that does not
    exist: what does not call `scanner` or `get_fragments` fails with that name.
    """

    def __init__(self, request: Scan) -> None:
        kind = ds.IpcFileFormat()
        missing = kind.make_fragment(NOT_A_FILE, pa.fs.LocalFileSystem())
        child = ds.FileSystemDataset([missing], request.schema, kind)
        super().__init__(request.schema, [child])
        self.request = request

    def __reduce__(self) -> tuple[Any, ...]:
        return LogDataset, (self.request,)

    def __repr__(self) -> str:
        return f"<LogDataset of {self.request!r}>"

    def scanner(
        self,
        columns: list[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_SIZE,
        **options: Any,
    ) -> ds.Scanner:
        """Return a scanner of the records for which a filter is true.

        Parameters
        ----------
        columns : list of str, or mapping of names to expressions, optional
            The columns of the result; by default all.
        filter : pyarrow.compute.Expression, optional
            A condition on any columns of the dataset.
        batch_size : int
            Maximum number of rows of a batch.
        **options
            The other options of ``pyarrow.dataset.Dataset.scanner``.

        Returns
        -------
        pyarrow.dataset.Scanner
            A scanner that can be used once.

        Raises
        ------
        ValueError
            If the dataset does not have a column.
        """
        return scanner_of(self.request, columns, filter, batch_size, options)

    def to_table(
        self,
        columns: list[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        **options: Any,
    ) -> pa.Table:
        """Return the table of a scanner with these options.

        All chunks of a column have one dictionary: Arrow groups and joins no others.
        """
        table: pa.Table = self.scanner(columns, filter, **options).to_table()
        return table.unify_dictionaries()

    def get_fragments(
        self, filter: pc.Expression | None = None
    ) -> Iterator[LogFragment]:
        """Return the parts of the dataset that may match a filter.

        Each has about 128 MiB of the log, and may be read by another thread or process.
        If nothing may match, the only one is empty.
        The last one of a log may have records that are appended before it is read.

        Raises
        ------
        pyarrow.ArrowInvalid, pyarrow.ArrowNotImplementedError
            If the filter has other columns, or compares values of other types.
        """
        request, condition = self.request, _as_expression(filter)
        if condition is not None:
            next(super().get_fragments(condition), None)  # checks columns and types
            request = narrow(request, read_filter(condition).condition)
        # DataFusion cannot sort a dataset without fragments: one may be empty.
        empty = Split(replace(request, sources=()), (), 0)
        found = divide_scan(request, TARGET_BYTES, grows=True)
        return map(LogFragment, found or [empty])

    def count_rows(self, **options: Any) -> int:
        """Return the number of records; without a filter, from headers of batches."""
        if options.get("filter") is None:
            return replace(self.request, problems=[]).count()
        return int(self.scanner(**options).count_rows())

    # The methods that raise are Arrow's own in C++, which would read the child.

    def filter(self, expression: pc.Expression) -> LogDataset:
        """Raise `NotImplementedError`: pass the filter to `scanner`."""
        raise NotImplementedError("filter of a LogDataset: pass it to scanner instead")

    def replace_schema(self, schema: pa.Schema) -> LogDataset:
        """Raise `NotImplementedError`: the columns have the types of a scan."""
        raise NotImplementedError("the schema of a LogDataset cannot be replaced")

    def sort_by(self, sorting: Any, **options: Any) -> ds.InMemoryDataset:
        """Read all records and sort them."""
        return ds.InMemoryDataset(self.to_table()).sort_by(sorting, **options)

    def join(self, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """Raise `NotImplementedError`: join the table of the columns you need."""
        raise NotImplementedError(
            "join of a LogDataset: join to_table(columns) instead"
        )

    def join_asof(self, *arguments: Any, **options: Any) -> ds.InMemoryDataset:
        """Raise `NotImplementedError`: join the table of the columns you need."""
        raise NotImplementedError(
            "join of a LogDataset: join to_table(columns) instead"
        )


class LogFragment:
    """A part of a `LogDataset`, with the methods of a ``pyarrow.dataset.Fragment``."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def __repr__(self) -> str:
        return f"<LogFragment of {self._split.request!r}>"

    @property
    def physical_schema(self) -> pa.Schema:
        """The schema of the dataset."""
        return self._split.request.schema

    @property
    def partition_expression(self) -> pc.Expression:
        """An expression that is true for each record of the fragment."""
        ranges = [_range_expression(*part) for part in self._split.offset_ranges]
        return reduce(or_, ranges) if ranges else pc.scalar(True)

    def scanner(
        self,
        schema: pa.Schema | None = None,
        columns: list[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,
        batch_size: int = BATCH_SIZE,
        **options: Any,
    ) -> ds.Scanner:
        """Return a scanner of the fragment's records, as `LogDataset.scanner` does.

        Raises `ValueError` for another schema than the dataset's.
        """
        if schema is not None and schema != self.physical_schema:
            raise ValueError("schema of a fragment, expected that of its dataset")
        return scanner_of(self._split.scan(), columns, filter, batch_size, options)

    def to_batches(
        self, schema: pa.Schema | None = None, **options: Any
    ) -> Iterator[pa.RecordBatch]:
        """Yield the record batches of a scanner with these options."""
        batches: Iterator[pa.RecordBatch] = self.scanner(schema, **options).to_batches()
        return batches

    def to_table(self, schema: pa.Schema | None = None, **options: Any) -> pa.Table:
        """Return the table of a scanner with these options."""
        table: pa.Table = self.scanner(schema, **options).to_table()
        return table.unify_dictionaries()

    def head(self, num_rows: int, **options: Any) -> pa.Table:
        """Return the first rows of a scanner with these options."""
        return self.scanner(**options).head(num_rows)

    def take(self, indices: Any, **options: Any) -> pa.Table:
        """Return rows of a scanner with these options by their numbers."""
        return self.scanner(**options).take(indices)

    def count_rows(self, **options: Any) -> int:
        """Return the number of records; without a filter, from headers of batches."""
        if options.get("filter") is None:
            return self._split.scan().count()
        return int(self.scanner(**options).count_rows())


def _range_expression(
    topic: str, partition: int, start: int, end: int
) -> pc.Expression:
    offset = pc.field("offset")
    within = (pc.field("topic") == topic) & (pc.field("partition") == partition)
    if start > MIN_INT64:
        within &= offset >= start
    return within & (offset < end) if end < MAX_INT64 else within


def scanner_of(
    request: Scan,
    columns: list[str] | Mapping[str, pc.Expression] | None,
    condition: pc.Expression | pa.Scalar | None,
    batch_size: int,
    options: dict[str, Any],
) -> ds.Scanner:
    """Return a scanner of a scan, which reads the columns that are needed."""
    needed = None if columns is None else _columns_in(columns)
    condition = _as_expression(condition)
    if condition is not None:
        terms = read_filter(condition)
        request = narrow(request, terms.condition)
        if needed is not None:
            needed = None if terms.columns is None else needed | terms.columns
    if columns is None:
        columns = list(request.columns)
    elif not isinstance(columns, Mapping):
        # Arrow's scanners have columns of their own, such as __filename.
        own = [name for name in columns if not name.startswith("__")]
        check_names(own, request.columns)
    if needed is not None:
        kept = tuple(name for name in request.columns if name in needed)
        request = replace(request, columns=kept)
    reader = stream_of(request.schema, sized_batches(request, batch_size))
    return ds.Scanner.from_batches(
        reader, columns=columns, filter=condition, batch_size=batch_size, **options
    )


def _as_expression(condition: pc.Expression | pa.Scalar | None) -> pc.Expression | None:
    """Return a filter as an expression: DataFusion's may be a constant's value."""
    return pc.scalar(condition) if isinstance(condition, pa.Scalar) else condition


def _columns_in(
    columns: Iterable[str] | Mapping[str, pc.Expression],
) -> set[str] | None:
    """Return the columns that are read for those of a result; None if not known."""
    if isinstance(columns, str):
        raise TypeError(f"columns {columns!r}, expected a list: [{columns!r}]")
    if not isinstance(columns, Mapping):
        return set(columns)
    needed = set[str]()
    for name, expression in columns.items():
        if not isinstance(expression, pc.Expression):
            kind = type(expression).__name__
            raise TypeError(f"column {name!r}: expected an expression, found {kind}")
        more = read_filter(expression).columns
        if more is None:
            return None
        needed |= more
    return needed


def sized_batches(request: Scan, batch_size: int) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a scan, none with more than `batch_size` rows."""
    for batch in to_batches(replace(request, problems=[])):
        for start in range(0, batch.num_rows, batch_size):
            yield batch.slice(start, batch_size)
