"""Log directories on Spark: a source, a stream, functions and a job.

``spark.read.format("kafkalog")`` needs nothing imported; the functions are here, and
fetched when they are first asked for, so that naming this package costs no PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kafkalog.export.optional_packages import require

if TYPE_CHECKING:
    from kafkalog.spark.binary_columns import batch_headers, decode_batches
    from kafkalog.spark.functions import (
        count_records,
        list_problems,
        list_splits,
        map_batches,
        read,
        read_split,
    )
    from kafkalog.spark.index_functions import list_segments, offsets_for_times

__all__ = [
    "batch_headers",
    "count_records",
    "decode_batches",
    "list_problems",
    "list_segments",
    "list_splits",
    "map_batches",
    "offsets_for_times",
    "read",
    "read_split",
]

_HOMES: Final = {
    "batch_headers": "binary_columns",
    "count_records": "functions",
    "decode_batches": "binary_columns",
    "list_problems": "functions",
    "list_segments": "index_functions",
    "list_splits": "functions",
    "map_batches": "functions",
    "offsets_for_times": "index_functions",
    "read": "functions",
    "read_split": "functions",
}
"""Rooms of the functions."""

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        require("pyarrow", "spark")
        found = getattr(import_module(f"kafkalog.spark.{_HOMES[name]}"), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
