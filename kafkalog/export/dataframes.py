"""Records as pandas and Polars data frames, by way of Arrow.

This is not part of `kafkalog.export.arrow`, so that a missing pyarrow is reported with
the extra that the caller needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.optional_packages import require

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from kafkalog.query.scan import Scan


def to_pandas(scan: Scan) -> pd.DataFrame:
    """Return all records of a scan as a ``pandas.DataFrame``; null is None or NaT."""
    require("pandas", "pandas")
    frame: pd.DataFrame = _to_table(scan, "pandas").to_pandas()
    return frame


def to_polars(scan: Scan) -> pl.DataFrame:
    """Return all records of a scan as a ``polars.DataFrame``."""
    polars = require("polars", "polars")
    frame: pl.DataFrame = polars.DataFrame(_to_table(scan, "polars"))
    return frame


def _to_table(scan: Scan, extra: str) -> pa.Table:
    """Return all records as a table; without pyarrow, the error names the extra."""
    require("pyarrow", extra)
    from kafkalog.export import arrow

    return arrow.to_table(scan)
