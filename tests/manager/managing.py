"""Log managers with a manual clock and scheduler, and batches for their logs."""

from kafkalog import LogConfig, RecordBatchBuilder
from kafkalog.testing import ManualClock, ManualScheduler, open_manager

NOW_MS = 1_763_740_000_000  # 2025: the records of golden data are of 2023
MARKER = ".kafka_cleanshutdown"
POINTS = "recovery-point-offset-checkpoint"
STARTS = "log-start-offset-checkpoint"
HIGHS = "replication-offset-checkpoint"
SMALL = LogConfig(internal_segment_bytes=2000, file_delete_delay_ms=1000)


def batch(count=10, timestamp=NOW_MS):
    builder = RecordBatchBuilder()
    for number in range(count):
        builder.append(b"key-%d" % number, b"v" * 50, timestamp=timestamp)
    return builder.build()


def manage(*directories, config=SMALL, clock=None, scheduler=None, **options):
    clock = ManualClock(NOW_MS) if clock is None else clock
    scheduler = ManualScheduler(clock) if scheduler is None else scheduler
    return open_manager(
        directories, config, clock=clock, scheduler=scheduler, **options
    )


def fill(log, appends=1):
    for _ in range(appends):
        log.append(batch())
    log.update_high_watermark(log.log_end_offset)
