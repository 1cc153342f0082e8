"""The part of the demo that needs Spark: SQL over log directories, files read back.

``demo/run.py`` runs it in a process of its own: ``on_spark.py LAKE SHOWN LOGS...``.
"""

from __future__ import annotations

import os
import sys

from kafkalog.spark.job import start_spark

MOST = """
select topic, count(*) records, count(distinct partition) partitions,
    sum(length(value)) bytes, count_if(value is null) tombstones
from shown group by topic order by records desc, topic limit 4
"""
LINE = "  {:<22} {:>8} {:>11} {:>8} {:>11}"


def main(lake: str, shown: str, *others: str) -> int:
    """Count every log directory, query one in SQL, and compare it with its Parquet."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = start_spark("local[2]", {"spark.ui.enabled": "false"})
    reader = spark.read.format("kafkalog").option("includeHeaders", True)
    counts = [reader.load(logs).count() for logs in others]
    print("  rows, each set:", *counts)
    logs = reader.load(shown)
    logs.createOrReplaceTempView("shown")
    rows = spark.sql(MOST).collect()
    print(LINE.format(*rows[0].asDict()))
    for row in rows:
        print(LINE.format(*row))
    back = spark.read.parquet(lake).select(*logs.columns)
    differing = logs.exceptAll(back).count() + back.exceptAll(logs).count()
    print(
        f"  Parquet read back: {back.count()} rows, {differing} differ from the logs'"
    )
    return int(differing > 0)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
