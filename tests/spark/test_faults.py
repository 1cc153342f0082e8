"""Workers and drivers killed during a read: no row twice, none missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from kafkalog import RecordBatchBuilder
from tests.spark import session
from tests.spark.growing import GrowingLog, rows_of

pytestmark = pytest.mark.spark

WAIT_SECONDS = 240
MANY, LONG = 12_000, 2_000  # records of so many bytes: each of 4 tasks has two batches
TASKS = 4


@pytest.fixture
def log(tmp_path):
    return GrowingLog(tmp_path / "logs")


@pytest.fixture
def killed(spark, tmp_path):
    from tests.spark.mortal import MortalSource

    spark.dataSource.register(MortalSource)
    folder = tmp_path / "killed"
    folder.mkdir()
    return folder


def test_a_batch_has_the_same_rows_if_workers_are_killed(spark, log, killed):
    log.append(MANY, size=LONG, codec="zstd")
    options = {"path": str(log.logs), "killed": str(killed)} | {"minPartitions": TASKS}
    frame = spark.read.format("mortal").options(**options).load()
    assert rows_of(frame) == sorted(log.written)
    assert len(list(killed.iterdir())) >= TASKS


def test_a_retried_task_reads_the_same_bytes(spark, log, killed):
    log.append(1000)
    more = RecordBatchBuilder(base_offset=log.ends[0])
    more.append(None, b"appended when the first worker is killed", timestamp=0)
    (killed / "grown-0").write_bytes(more.build())
    options = {"path": str(log.logs), "killed": str(killed)}
    frame = spark.read.format("mortal").options(**options).load()
    assert rows_of(frame) == sorted(log.written)
    assert not (killed / "grown-0").exists()
    again = spark.read.format("kafkalog").load(str(log.logs))
    assert again.count() == len(log.written) + 1


def test_a_stream_has_every_row_once_if_workers_are_killed(
    spark, log, killed, tmp_path
):
    log.append(MANY, size=LONG, codec="zstd")
    options = {"path": str(log.logs), "killed": str(killed)} | {"minPartitions": TASKS}
    options |= {"startingOffsets": "earliest", "maxOffsetsPerTrigger": MANY}
    query = (
        spark.readStream.format("mortal")
        .options(**options)
        .load()
        .writeStream.format("parquet")
        .option("path", str(tmp_path / "out"))
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .start()
    )
    try:
        query.processAllAvailable()
    finally:
        query.stop()
    assert rows_of(spark.read.parquet(str(tmp_path / "out"))) == sorted(log.written)
    assert len(list(killed.iterdir())) >= TASKS


class Driver:
    """Drivers of one query, one after another, each in its own process."""

    def __init__(self, log, folder):
        self.log = log
        self.folder = folder
        self.out = folder / "out"
        self.checkpoint = folder / "checkpoint"
        self.process = None

    def start(self):
        tps = (self.log.logs, self.out, self.checkpoint, self.folder / "spark")
        with (self.folder / "driver.out").open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.spark.driver", *map(str, tps)],
                env=os.environ | session.environment(),
                cwd=session.ROOT,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # the driver and its Java machine
            )

    def kill_when(self, kind, batch):
        """Kill it as soon as its checkpoint has that batch in `kind`."""
        self.wait_until((self.checkpoint / kind / str(batch)).exists)
        self.kill()

    def wait_until(self, happened):
        deadline = time.monotonic() + WAIT_SECONDS
        while not happened():
            assert self.process.poll() is None, self.message()
            assert time.monotonic() < deadline, self.message()
            time.sleep(0.002)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def finish(self):
        self.out.with_name("out.stop").touch()
        assert self.process.wait(WAIT_SECONDS) == 0, self.message()

    def message(self):
        return (self.folder / "driver.out").read_text()[-3000:]

    def last_batch(self, kind):
        if not (self.checkpoint / kind).exists():
            return -1
        names = [one.name for one in (self.checkpoint / kind).iterdir()]
        return max((int(name) for name in names if name.isdigit()), default=-1)

    def has_read(self, ends):
        """Return whether a committed batch ended at these offsets."""
        batch = self.last_batch("commits")
        return batch >= 0 and self.ends_of(batch) == ends

    def ends_of(self, batch):
        text = (self.checkpoint / "offsets" / str(batch)).read_text()
        topics = json.loads(text.splitlines()[-1])
        return [end for _, end in sorted(topics["grown"].items())]


@pytest.fixture
def driver(log, tmp_path):
    (tmp_path / "spark").mkdir()
    started = Driver(log, tmp_path)
    yield started
    started.kill()


@pytest.mark.slow
def test_a_stream_has_every_row_once_if_its_driver_is_killed(spark, log, driver):
    log.append(60)
    driver.start()
    driver.wait_until(lambda: driver.has_read(log.ends))
    log.roll()
    log.append(200)
    driver.kill_when("offsets", driver.last_batch("commits") + 1)  # within a batch
    log.delete_first()
    log.append(100)
    log.roll()
    log.append(100)
    driver.start()
    driver.kill_when("commits", driver.last_batch("offsets") + 1)  # between two batches
    log.append(100)
    log.roll()
    log.append(50)
    driver.start()
    driver.finish()
    assert rows_of(spark.read.parquet(str(driver.out))) == sorted(log.written)
    assert driver.ends_of(driver.last_batch("commits")) == log.ends
