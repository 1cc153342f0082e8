"""Spark reading a log, compared with its own Parquet reader on the same rows.

Three million rows of log100 in four partitions, on two cores, in a warm session with a
heap of 1 GiB. A count of one column shows the effect of pruning, compared with reading
all; its limit is a source that reads nothing, as long as each record is a row of
Spark's: `count_records` makes none. A segment of 1 GiB shows that no segment is held as
a whole.
"""

import pytest
from spark_rounds import SETTINGS, SHAPE, SIZE, compare, noop, write_log

from kafkalog.spark import count_records
from tests.spark import session

PARTITIONS, TIMES = 4, 18
AS_WARM = 12
"""Counts before one is timed: about as many as reads of all columns before it."""
SEGMENT_BYTES = 1 << 30
TIMES_OF_A_GIB = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("spark")


@pytest.fixture(scope="module")
def spark(folder):
    if lacks := session.missing():
        pytest.skip(f"spark-parquet cannot be measured: {lacks}")
    running = session.start(folder, java_options="", **SETTINGS)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def rows(spark, folder):
    """Write, once for a codec, a log directory and Parquet with the same rows."""
    made = {}

    def make(codec):
        if codec not in made:
            logs = folder / codec
            for partition in range(PARTITIONS):
                times = (TIMES + partition) // PARTITIONS
                write_log(logs / f"rows-{partition}", codec, times, SEGMENT_BYTES)
            parquet = str(folder / f"{codec}.parquet")
            spark.read.format("kafkalog").load(str(logs)).write.parquet(parquet)
            made[codec] = str(logs), parquet
        return made[codec]

    return make


CASES = pytest.mark.parametrize(
    ("shape", "size", "codec"), [(SHAPE, SIZE, "none"), (SHAPE, SIZE, "zstd")]
)


def read(spark, logs, columns=None, **options):
    reader = spark.read.format("kafkalog").options(**options)
    return (reader.schema(columns) if columns else reader).load(logs)


@CASES
def bench_spark_reads_all_columns(benchmark, spark, rows, shape, size, codec):
    logs, parquet = rows(codec)
    count = read(spark, logs, "offset bigint").count()
    assert count == spark.read.parquet(parquet).count()
    benchmark.pedantic(noop, (read(spark, logs),))
    benchmark.extra_info |= compare(
        lambda: noop(read(spark, logs)),
        lambda: noop(spark.read.parquet(parquet)),
        peer="spark-parquet",
        of=count,
    )


def count_against_all_columns(benchmark, spark, logs, ours):
    count = benchmark.pedantic(ours, warmup_rounds=AS_WARM)
    benchmark.extra_info |= compare(
        ours,
        lambda: noop(read(spark, logs)),
        peer="kafkalog",
        of=count,
    )
    return count


@CASES
@pytest.mark.parametrize("checksums", ["true", "false"])
def bench_spark_counts_one_column(
    benchmark, spark, rows, shape, size, codec, checksums
):
    logs, _ = rows(codec)
    options = {"kafka.check.crcs": checksums}

    def ours():
        return read(spark, logs, "offset bigint", **options).count()

    count_against_all_columns(benchmark, spark, logs, ours)


@CASES
def bench_spark_counts_where_it_reads(benchmark, spark, rows, shape, size, codec):
    logs, _ = rows(codec)

    def ours():
        return sum(count_records(spark, logs).values())

    count = count_against_all_columns(benchmark, spark, logs, ours)
    assert count == read(spark, logs, "offset bigint").count()


def bench_spark_counts_rows(benchmark, spark, rows):
    logs, _ = rows("none")
    ours = read(spark, logs, "offset bigint")
    count = benchmark.pedantic(ours.count)
    spark.dataSource.register(source_at_hand())
    theirs = spark.read.format("at_hand").option("rows", count).load()
    assert theirs.count() == count
    benchmark.extra_info |= compare(ours.count, theirs.count, peer="limit", of=count)


def source_at_hand():
    """Return a source of one column in memory, which does the least work."""
    from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

    class Reader(DataSourceReader):
        def __init__(self, rows):
            self.rows = rows

        def partitions(self):
            return [InputPartition(self.rows // 2), InputPartition(-(-self.rows // 2))]

        def read(self, partition):
            import pyarrow as pa

            from kafkalog.spark.row_converter import MAX_ROWS
            from kafkalog.spark.workers import freeze_imports

            batch = pa.record_batch({"offset": pa.array(range(MAX_ROWS))})
            for start in range(0, partition.value, MAX_ROWS):
                yield batch.slice(0, min(MAX_ROWS, partition.value - start))
            freeze_imports()

    class AtHand(DataSource):
        @classmethod
        def name(cls):
            return "at_hand"

        def schema(self):
            return "offset bigint"

        def reader(self, schema):
            return Reader(int(self.options["rows"]))

    return AtHand


def bench_spark_reads_a_segment_of_a_gib(benchmark, spark, folder):
    logs = folder / "whole"
    count = write_log(logs / "rows-0", "none", TIMES_OF_A_GIB, 2 * SEGMENT_BYTES - 1)
    [segment] = (logs / "rows-0").glob("*.log")
    assert segment.stat().st_size >= SEGMENT_BYTES
    benchmark.pedantic(noop, (read(spark, str(logs)),))
    benchmark.extra_info["rows_per_second"] = count / benchmark.stats["median"]
