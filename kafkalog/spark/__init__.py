"""Log directories on Spark: a source, a stream, functions and a job.

``spark.read.format("kafkalog")`` needs nothing imported; the functions are here, and
fetched when they are first asked for, so that naming this package costs no PySpark.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from kafkalog.export.missing import require

if TYPE_CHECKING:
    from kafkalog.spark.bytes_columns import batch_headers, decode_batches
    from kafkalog.spark.counting import count_records
    from kafkalog.spark.functions import list_splits, map_batches, read, read_split
    from kafkalog.spark.index_frames import list_segments, offsets_for_times
    from kafkalog.spark.problem_frames import list_problems

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
    "batch_headers": "bytes_columns",
    "count_records": "counting",
    "decode_batches": "bytes_columns",
    "list_problems": "problem_frames",
    "list_segments": "index_frames",
    "list_splits": "functions",
    "map_batches": "functions",
    "offsets_for_times": "index_frames",
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
