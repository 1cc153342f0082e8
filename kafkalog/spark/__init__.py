"""Log directories on Spark: a data source, a stream, functions and a job.

``spark.read.format("kafkalog")`` needs no import. The functions of this package are
imported on first use, so that importing the package does not import PySpark.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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

if not TYPE_CHECKING:

    def __getattr__(name):
        from importlib import import_module

        from kafkalog.optional_packages import require

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        require("pyarrow", "spark")
        module = {
            "batch_headers": "binary_columns",
            "decode_batches": "binary_columns",
            "list_segments": "index_functions",
            "offsets_for_times": "index_functions",
        }.get(name, "functions")
        function = getattr(import_module(f"kafkalog.spark.{module}"), name)
        globals()[name] = function
        return function

    def __dir__():
        return list(__all__)
