"""Records as data frames, by way of Arrow.

Knows: pandas and Polars. Does not know: where records are from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog.export import arrow
from kafkalog.export.missing import require

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

    from kafkalog.query.scan import Scan


def to_pandas(scan: Scan) -> pd.DataFrame:
    """Read all into a ``pandas.DataFrame``: bytes as objects, null as None or NaT."""
    require("pandas", "pandas")
    frame: pd.DataFrame = arrow.to_table(scan).to_pandas()
    return frame


def to_polars(scan: Scan) -> pl.DataFrame:
    """Read all into a ``polars.DataFrame``."""
    frame: pl.DataFrame = require("polars", "polars").DataFrame(arrow.to_table(scan))
    return frame
