"""Small writable logs for tests, with a clock and tasks that a test moves forward."""

from kafkalog import LogConfig, RecordBatchBuilder
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.testing import ManualClock, ManualScheduler

NOW = 1_700_000_000_000
SMALL = LogConfig(internal_segment_bytes=1000, segment_index_bytes=240)


def batch(count=1, *, timestamp=NOW, size=50, **fields):
    """Encode a batch of records, as a producer sends it."""
    builder = RecordBatchBuilder(**fields)
    for number in range(count):
        builder.append(b"key-%d" % number, bytes(size), timestamp=timestamp + number)
    return builder.build()


def load(directory, config=SMALL, **options):
    """Load the log ``t-0`` in a directory, with a clock and tasks of its own."""
    clock = options.pop("clock", None) or ManualClock(NOW)
    scheduler = options.pop("scheduler", None) or ManualScheduler(clock)
    return load_log(
        directory / "t-0", config, clock=clock, scheduler=scheduler, **options
    )


def offsets_in(log, offset=0):
    """Read all offsets of a log's batches, by its own reads."""
    found = []
    while offset < log.log_end_offset:
        read = log.read(offset)
        found += [
            at
            for stored in read.batches()
            for at in range(stored.base_offset, stored.last_offset + 1)
        ]
        if read.next_offset == offset:
            break
        offset = read.next_offset
    return found


def files_of(directory):
    """Return the content of all files below a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }
