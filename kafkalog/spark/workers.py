"""What a Python of Spark's does between two tasks, made short.

After each task it looks through all its objects for garbage: 70 to 120 ms, nearly all
for those of the modules it has imported, pandas and pyarrow among them, while Spark
waits to give it the next one.

Knows: the processes in which Spark runs Python. Does not know: what is done there.
Source: ``pyspark/daemon.py``.
"""

from __future__ import annotations

import gc
import os
from functools import cache
from typing import Final

KEPT: Final = "SPARK_REUSE_WORKER"
"""Set where Spark keeps a process for further tasks."""


@cache
def spare_the_collector() -> None:
    """Have the collector leave alone what there is now, once in a process of Spark's.

    What is made from now on it looks through as ever. Does nothing in a process that is
    not a worker which Spark keeps, such as the driver's own.
    """
    if os.environ.get(KEPT):
        gc.freeze()
