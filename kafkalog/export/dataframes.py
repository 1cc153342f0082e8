"""Records as data frames, by way of Arrow.

Knows: pandas and Polars. Does not know: where records are from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.export.optional_packages import require

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from kafkalog.query.scan import Scan


def to_pandas(scan: Scan) -> pd.DataFrame:
    """Read all into a ``pandas.DataFrame``: bytes as objects, null as None or NaT."""
    require("pandas", "pandas")
    frame: pd.DataFrame = _to_table(scan, "pandas").to_pandas()
    return frame


def to_polars(scan: Scan) -> pl.DataFrame:
    """Read all into a ``polars.DataFrame``."""
    polars = require("polars", "polars")
    frame: pl.DataFrame = polars.DataFrame(_to_table(scan, "polars"))
    return frame


def _to_table(scan: Scan, extra: str) -> pa.Table:
    """Read all into a ``pyarrow.Table``; without pyarrow, `extra` is what brings it."""
    require("pyarrow", extra)
    from kafkalog.export import arrow

    return arrow.to_table(scan)
