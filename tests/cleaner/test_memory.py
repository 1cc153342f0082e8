"""Peak memory of compaction, measured in a separate process."""

import numpy as np
import pytest

import kafkalog
from kafkalog import LogConfig
from tests.query.test_memory import MIB, measured

pytestmark = pytest.mark.slow

BUFFER_MIB = 16
FIXED_MIB = 40
KEYS = 900_000
CHUNK = 20_000
VALUE_BYTES = 100
SEGMENT_BYTES = 32 * MIB
COMPACT = """
from kafkalog import LogConfig
from kafkalog.cleaner import LogCleaner

config = LogConfig(cleanup_policy="compact", segment_bytes=int(sys.argv[3]))
rounds = written = 0
with kafkalog.open(sys.argv[1], "a", config) as log:
    log.update_high_watermark(log.log_end_offset)
    name = log.topic, log.partition
    cleaner = LogCleaner({name: log}, dedupe_buffer_size=int(sys.argv[2]))
    while (result := cleaner.clean(*name)) is not None:
        rounds, written = rounds + 1, result.messages_written
print(rounds, written, peak() - before)
"""


def write_log(directory, size, codec):
    """Write records with keys, `size` bytes in total; return the number of keys."""
    config = LogConfig(cleanup_policy="compact", segment_bytes=SEGMENT_BYTES)
    random, seen, written = np.random.default_rng(4), np.zeros(KEYS, bool), 0
    value = bytes(range(97, 117)) * (VALUE_BYTES // 20)
    with kafkalog.open(directory, "a", config) as log:
        while written < size:
            numbers = random.integers(0, KEYS, CHUNK)
            seen[numbers] = True
            keys = [b"key %d" % number for number in numbers]
            log.append_records({"key": keys, "value": [value] * CHUNK}, codec=codec)
            written += CHUNK * (VALUE_BYTES + 10)
        log.roll()
    return int(seen.sum())


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_compaction_takes_little_more_memory_than_the_offset_map(
    codec, tmp_path, figure
):
    keys = write_log(tmp_path / "state-0", 10 * BUFFER_MIB * MIB, codec)
    rounds, written, grown = measured(
        COMPACT, tmp_path / "state-0", BUFFER_MIB * MIB, SEGMENT_BYTES
    )
    assert rounds > 1
    assert written == keys
    limit = BUFFER_MIB + FIXED_MIB
    figure("MiB of memory", f"compaction, {codec}", grown, f"of {limit}")
    assert grown <= limit
