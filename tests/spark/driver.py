"""A driver that a test can kill: a stream of a log directory to Parquet.

Run as ``python -m tests.spark.driver LOGS OUT CHECKPOINT SPARK``. It runs until it is
killed, or until the file ``OUT.stop`` exists: then it reads all records and ends.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from tests.spark import session

MOST_A_BATCH = 60


def main(logs, out, checkpoint, folder):
    spark = session.start(Path(folder))
    stream = (
        spark.readStream.format("kafkalog")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", MOST_A_BATCH)
        .load(logs)
    )
    query = (
        stream.writeStream.format("parquet")
        .option("path", out)
        .option("checkpointLocation", checkpoint)
        .start()
    )
    while not Path(f"{out}.stop").exists():
        if not query.isActive:
            raise SystemExit(f"the query ended: {query.exception()}")
        time.sleep(0.05)
    query.processAllAvailable()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
