"""A dataset for DuckDB, which knows about how many rows it has.

DuckDB takes any other Arrow dataset for one row. So when it joins a log with a small
table, it holds all of the log in memory. DuckDB reads an estimate only from a class of
its own, which 2.0.1 has first, and which its documentation does not mention.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Unpack

from kafkalog.errors import MissingDependencyError
from kafkalog.export.log_dataset import dataset
from kafkalog.optional_packages import require
from kafkalog.query.scan import ScanArguments, Source
from kafkalog.query.splits import estimate_records

if TYPE_CHECKING:
    from duckdb._sources.pyarrow import PyArrowDatasetSource
else:
    require("duckdb", "duckdb")
    try:
        from duckdb._sources.pyarrow import PyArrowDatasetSource
    except ImportError:
        raise MissingDependencyError("duckdb>=2.0.1", "duckdb") from None


def duckdb_source(source: Source, **as_scan: Unpack[ScanArguments]) -> DuckDBSource:
    """Return a source as a table for DuckDB, with an estimate of its rows.

    Needs DuckDB 2.0.1 or later. It is read as a `dataset` is, with the same rows. With
    the estimate DuckDB orders joins so that the smaller side is held in memory.

    Parameters
    ----------
    source : path, URL, bytes-like, or list of these
        As for `dataset`.
    **as_scan : ScanArguments
        As for `dataset`.

    Returns
    -------
    DuckDBSource
        An object to name in a query, or to pass to ``register`` of a connection.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError, TypeError, ValueError
        As `dataset` does.

    Examples
    --------
    >>> import duckdb
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> for value in (b"one", b"two", b"three"):
    ...     batch.append(None, value, timestamp=1)
    >>> log = kafkalog.duckdb_source(batch.build())
    >>> duckdb.sql('select value from log where "offset" > 8').fetchall()
    [(b'three',)]
    """
    return DuckDBSource(dataset(source, **as_scan))


class DuckDBSource(PyArrowDatasetSource):
    """A `LogDataset` as a table for DuckDB; made by `duckdb_source`."""

    def __repr__(self) -> str:
        return f"<DuckDBSource of {self.obj.request!r}>"

    def rows(self) -> int:
        """Return about how many rows the table has."""
        return self._estimate

    @cached_property
    def _estimate(self) -> int:
        return estimate_records(self.obj.request)

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        """Return all records as an Arrow stream; DuckDB calls `stream` instead."""
        return self.obj.scanner().to_reader().__arrow_c_stream__(requested_schema)
