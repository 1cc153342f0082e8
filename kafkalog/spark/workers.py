"""Garbage collection in the Python worker processes of Spark.

After each task Spark calls ``gc.collect`` in a worker process that it keeps. That takes
70 to 120 ms, nearly all of it to traverse imported modules such as pandas and pyarrow,
and the process gets its next task only then.

Source: ``pyspark/worker.py``, ``PythonRunner.scala``.
"""

from __future__ import annotations

import gc
import os
from functools import cache
from typing import Final

REUSED: Final = "SPARK_REUSE_WORKER"
"""The variable that Spark sets in a worker process that runs more than one task."""


@cache
def freeze_imports() -> None:
    """Exclude the objects that exist now from garbage collection, once a process.

    Does so only in a worker process that Spark keeps, never in the driver. Objects made
    later are collected as usual.
    """
    if os.environ.get(REUSED):
        gc.freeze()
