"""The choice of a log to compact, rounds and their states, and the checkpoint."""

import os
import threading
import time

import numpy as np
import pytest

import kafkalog
from kafkalog import LogConfig, RecordBatchBuilder
from kafkalog.cleaner import LogCleaner
from kafkalog.cleaner.batch_filter import BatchFilter
from kafkalog.cleaner.cleaning_states import State
from kafkalog.errors import (
    BatchTooLargeError,
    CorruptCheckpointError,
    CorruptRecordError,
    InvalidRecordError,
    LogArgumentError,
    LogCleaningAbortedError,
    LogStateError,
)
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.storage.checkpoint_file import CLEANED_TO, read_offsets
from kafkalog.testing import ManualClock, ManualScheduler, TracingDisk, open_log

NOW_MS = 1_700_000_000_000
COMPACT = LogConfig(cleanup_policy="compact", internal_segment_bytes=1000)


def open_logs(tmp_path):
    """Return open logs by name: `a`, `b` and `c`."""
    clock = ManualClock(NOW_MS)
    return {
        (topic, 0): open_log(
            tmp_path / f"{topic}-0",
            COMPACT,
            clean=True,
            clock=clock,
            scheduler=ManualScheduler(clock),
        )
        for topic in "abc"
    }


@pytest.fixture
def logs(tmp_path):
    """Yield the logs of `open_logs`, and close them."""
    opened = open_logs(tmp_path)
    yield opened
    for log in opened.values():
        log.close()


def fill(log, batches, *, keys=3, timestamp=NOW_MS):
    for number in range(batches):
        batch = RecordBatchBuilder()
        batch.append(b"key %d" % (number % keys), b"." * 100, timestamp=timestamp)
        log.append(batch.build())
    log.update_high_watermark(log.log_end_offset)


def checkpoint(tmp_path):
    return read_offsets(tmp_path, CLEANED_TO)


def clean(logs, topic="a", **options):
    return LogCleaner(logs, **options).clean(topic, 0)


# The choice of a log


def test_the_dirtiest_log_is_compacted_first_and_clean_ones_are_not(logs, tmp_path):
    fill(logs["a", 0], 20)
    clean(logs)
    fill(logs["a", 0], 20)
    fill(logs["b", 0], 20)
    cleaner = LogCleaner(logs)
    order = []
    while (result := cleaner.clean_filthiest()) is not None:
        order.append(result.topic)
    assert order == ["b", "a"]
    assert set(checkpoint(tmp_path)) == {("a", 0), ("b", 0)}


def test_the_ratio_must_be_exceeded(logs):
    fill(logs["a", 0], 20)
    cleaner = LogCleaner(logs)
    logs["a", 0].update_config(COMPACT.with_changes({"min.cleanable.dirty.ratio": "1"}))
    assert cleaner.clean_filthiest() is None
    logs["a", 0].update_config(
        COMPACT.with_changes({"min.cleanable.dirty.ratio": "0.999"})
    )
    assert cleaner.clean_filthiest().topic == "a"


def test_an_old_record_is_compacted_whatever_the_ratio(logs):
    lazy = {"min.cleanable.dirty.ratio": "1", "max.compaction.lag.ms": "1000"}
    logs["a", 0].update_config(COMPACT.with_changes(lazy))
    fill(logs["a", 0], 20, timestamp=NOW_MS - 1000)
    cleaner = LogCleaner(logs)
    assert cleaner.clean_filthiest() is None
    logs["a", 0].runtime.clock.time_ms += 1
    assert cleaner.clean_filthiest().needs_compaction_now


def test_logs_without_the_policy_are_not_compacted(logs):
    logs["a", 0].update_config(COMPACT.with_changes({"cleanup.policy": "delete"}))
    fill(logs["a", 0], 20)
    assert LogCleaner(logs).clean_filthiest() is None


def test_nothing_above_the_high_watermark_is_compacted(logs):
    fill(logs["a", 0], 20)
    logs["a", 0].update_high_watermark(9)
    assert clean(logs).end_offset <= 9


# The checkpoint


def test_an_offset_that_is_not_in_the_log_is_reset(logs, tmp_path):
    fill(logs["a", 0], 20)
    (tmp_path / CLEANED_TO).write_text("0\n1\na 0 900\n")
    assert clean(logs).first_dirty_offset == 0
    logs["a", 0].delete_records(11)
    (tmp_path / CLEANED_TO).write_text("0\n1\na 0 3\n")
    assert clean(logs).first_dirty_offset == 11


def test_lines_of_missing_partitions_are_dropped_and_others_kept(logs, tmp_path):
    (tmp_path / "here-0").mkdir()
    (tmp_path / CLEANED_TO).write_text("0\n2\ngone 0 5\nhere 0 6\n")
    fill(logs["a", 0], 20)
    result = clean(logs)
    offsets = {("a", 0): result.end_offset, ("here", 0): 6}
    assert checkpoint(tmp_path) == offsets


def test_a_corrupt_checkpoint_closes_the_log_and_is_not_written(logs, tmp_path):
    for topic in "ab":
        fill(logs[topic, 0], 20)
    (tmp_path / CLEANED_TO).write_text("nonsense")
    cleaner = LogCleaner(logs)
    with pytest.raises(CorruptCheckpointError, match=f"{CLEANED_TO} at byte 0"):
        cleaner.clean("a", 0)
    for _ in "bc":
        cleaner.work()  # ends with the first log that fails
    for topic in "abc":
        assert isinstance(logs[topic, 0].runtime.failure, CorruptCheckpointError)
    assert not cleaner.uncleanable
    assert cleaner.clean_filthiest() is None
    assert (tmp_path / CLEANED_TO).read_text() == "nonsense"


def test_a_checkpoint_that_becomes_corrupt_in_a_round_is_not_written(logs, tmp_path):
    fill(logs["a", 0], 20)
    cleaner = LogCleaner(logs)
    cleaner.observer = lambda _: (tmp_path / CLEANED_TO).write_text("nonsense")
    cleaner.work()
    assert isinstance(logs["a", 0].runtime.failure, CorruptCheckpointError)
    assert (tmp_path / CLEANED_TO).read_text() == "nonsense"


def test_a_truncation_lowers_the_checkpoint_to_the_active_segment(logs, tmp_path):
    fill(logs["a", 0], 40)
    cleaner = LogCleaner(logs)
    end = cleaner.clean("a", 0).end_offset
    assert cleaner.truncate_to(logs["a", 0], end - 1)
    active = logs["a", 0].growing_segments[-1].base_offset
    assert checkpoint(tmp_path)["a", 0] == active < end
    cleaner.truncate_fully(logs["a", 0], 0)
    assert checkpoint(tmp_path)["a", 0] == 0


# States


def test_a_log_in_progress_is_not_taken_again(logs):
    fill(logs["a", 0], 20)
    states = LogCleaner(logs).states
    assert states.take(("a", 0), NOW_MS) is not None
    with pytest.raises(LogStateError, match="in progress"):
        states.take(("a", 0), NOW_MS)
    assert states.take_filthiest() is None


def test_pauses_are_counted(logs):
    fill(logs["a", 0], 20)
    states = LogCleaner(logs).states
    with states.paused([("a", 0)]), states.paused([("a", 0)]):
        assert states.take_filthiest() is None
    assert states.take_filthiest().name == ("a", 0)
    with pytest.raises(LogStateError, match="expected paused"):
        states.resume([("b", 0)])


def test_an_abort_ends_the_round_before_the_next_chunk(logs, tmp_path, monkeypatch):
    fill(logs["a", 0], 40)
    cleaner = LogCleaner(logs)
    second = logs["a", 0].growing_segments[1]
    inside, outcome = threading.Event(), []
    real = BatchFilter.filter

    def slow(self, window):
        inside.set()
        while cleaner.states._states["a", 0].value != "aborted":
            time.sleep(0.001)
        return real(self, window)

    monkeypatch.setattr(BatchFilter, "filter", slow)

    def work():
        with pytest.raises(LogCleaningAbortedError):
            cleaner.clean("a", 0)
        outcome.append("aborted")

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(10)
    with cleaner.states.paused([("a", 0)]):
        thread.join(60)
        assert outcome == ["aborted"]
    assert second in logs["a", 0].growing_segments
    assert not list(tmp_path.rglob("*.cleaned"))
    assert ("a", 0) not in checkpoint(tmp_path)
    monkeypatch.undo()
    assert cleaner.clean("a", 0).first_dirty_offset == 0


def test_a_round_that_was_aborted_leaves_the_checkpoint(logs, tmp_path):
    fill(logs["a", 0], 40)
    cleaner = LogCleaner(logs)

    def abort(_):
        cleaner.states._states["a", 0] = State.ABORTED

    cleaner.observer = abort
    with pytest.raises(LogCleaningAbortedError):
        cleaner.clean("a", 0)
    assert ("a", 0) not in checkpoint(tmp_path)


def test_a_closed_cleaner_starts_no_round(logs):
    fill(logs["a", 0], 20)
    cleaner = LogCleaner(logs)
    cleaner.close()
    cleaner.close()
    cleaner.work()
    with pytest.raises(LogCleaningAbortedError):
        cleaner.clean("a", 0)


def test_a_log_that_cannot_be_read_is_uncleanable_and_others_are_compacted(logs):
    for topic in "ab":
        fill(logs[topic, 0], 20)
    path = logs["b", 0].growing_segments[0].path
    data = bytearray(path.read_bytes())
    data[16] = 77  # the magic
    path.write_bytes(data)
    cleaner = LogCleaner(logs)
    cleaner.work()
    cleaner.work()
    assert list(cleaner.uncleanable) == [("b", 0)]
    assert isinstance(cleaner.uncleanable["b", 0], CorruptRecordError)
    assert cleaner.states.checkpointed(logs["a", 0]) > 0
    with pytest.raises(CorruptRecordError, match="magic 77"):
        cleaner.clean("b", 0)


def test_a_corrupt_marker_is_an_invalid_record(logs):
    log = logs["a", 0]
    marker = RecordBatchBuilder(
        producer_id=7, producer_epoch=0, is_transactional=True, is_control=True
    )
    marker.append(*end_transaction_marker(ControlRecordType.ABORT, 0), timestamp=NOW_MS)
    log.append(marker.build(), origin="coordinator", transaction_version=0)
    fill(log, 20)
    path = log.growing_segments[0].path
    data = bytearray(path.read_bytes())
    data[61] += 2  # the length of the marker's record
    path.write_bytes(data)
    with pytest.raises(InvalidRecordError, match="record ends after"):
        LogCleaner(logs, check_crcs=False).clean("a", 0)


# Corrupt batches


def corrupt(path, position=-1):
    """Change a byte of a value, by default of the last batch."""
    data = bytearray(path.read_bytes())
    data[data.rindex(b"...") if position < 0 else position] ^= 1
    path.write_bytes(data)
    return data


def test_a_batch_with_a_wrong_crc_is_not_written_anew(logs, tmp_path):
    fill(logs["a", 0], 20)
    path = logs["a", 0].growing_segments[0].path
    before = corrupt(path)
    with pytest.raises(CorruptRecordError, match=f"CRC mismatch.*{path.name} at byte"):
        clean(logs)
    assert path.read_bytes() == before
    assert checkpoint(tmp_path)["a", 0] == 0


def test_a_log_with_a_wrong_crc_is_uncleanable_and_others_are_compacted(logs):
    for topic in "ab":
        fill(logs[topic, 0], 20)
    corrupt(logs["b", 0].growing_segments[0].path)
    cleaner = LogCleaner(logs)
    cleaner.work()
    cleaner.work()
    assert isinstance(cleaner.uncleanable["b", 0], CorruptRecordError)
    assert list(cleaner.uncleanable) == [("b", 0)]
    assert cleaner.states.checkpointed(logs["a", 0]) > 0
    cleaner.close()


def test_a_wrong_crc_below_the_dirty_offsets_is_found_as_well(logs):
    fill(logs["a", 0], 20)
    clean(logs)
    fill(logs["a", 0], 20)
    first = next(each for each in logs["a", 0].growing_segments if each.size)
    corrupt(first.path)
    with pytest.raises(CorruptRecordError, match="CRC mismatch"):
        clean(logs)


def three_batches(log, codec="none"):
    """Append batches of two records each, and return their bytes.

    The first records have the same key. The second batch gets a wrong CRC on disk.
    """
    for number in range(3):
        batch = RecordBatchBuilder(codec=codec)
        for key in (b"same", b"key %d" % number):
            batch.append(key, b"value %d" % number, timestamp=NOW_MS)
        log.append(batch.build())
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    path = log.growing_segments[0].path
    data = bytearray(path.read_bytes())
    rows, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    start, size = int(rows["position"][1]), int(rows["size_in_bytes"][1])
    data[start + size - 1] ^= 1
    path.write_bytes(data)
    return [bytes(data[place : place + size]) for place in rows["position"].tolist()]


def offsets_of(log):
    scan = kafkalog.scan(log.path, on_corruption="skip")
    return scan.to_arrow()["offset"].to_pylist(), scan.problems


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_corrupt_batch_can_be_dropped(logs, codec):
    three_batches(logs["a", 0], codec)
    clean(logs, on_corruption="skip")
    assert offsets_of(logs["a", 0]) == ([1, 4, 5], [])


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_corrupt_batch_can_be_kept_byte_for_byte(logs, codec):
    _, middle, _ = three_batches(logs["a", 0], codec)
    clean(logs, on_corruption="keep")
    assert middle in logs["a", 0].growing_segments[0].path.read_bytes()
    offsets, [problem] = offsets_of(logs["a", 0])
    assert offsets == [1, 4, 5]
    assert (problem.first_offset, problem.last_offset) == (2, 3)


def test_a_corrupt_batch_supersedes_no_record(logs):
    """The keys of a corrupt batch are unknown."""
    log = logs["a", 0]
    fill(log, 2, keys=1)
    corrupt(log.growing_segments[0].path)
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    clean(logs, on_corruption="skip")
    assert offsets_of(log) == ([0], [])


def test_bytes_that_are_no_batch_are_dropped_up_to_the_next_valid_one(logs):
    log = logs["a", 0]
    first, middle, _ = three_batches(log)
    path = log.growing_segments[0].path
    data = bytearray(path.read_bytes())
    data[len(first) + 8 : len(first) + 12] = (len(middle) * 2 - 12).to_bytes(4, "big")
    path.write_bytes(data)  # its size is that of two batches
    with pytest.raises(CorruptRecordError):
        clean(logs, on_corruption="keep")
    clean(logs, on_corruption="skip")
    assert offsets_of(log)[0][-2:] == [4, 5]


@pytest.mark.parametrize("size", [7, 20, 800])
@pytest.mark.parametrize("on_corruption", ["raise", "keep"])
def test_a_log_that_was_shortened_ends_the_round(logs, size, on_corruption):
    """Source: ``LogCleanerTest.testCorruptMessageSizeLargerThanBytesAvailable``."""
    log = logs["a", 0]
    log.append_records({"key": [b"k"], "value": [bytes(800)]})
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    os.truncate(log.growing_segments[0].path, size)
    with pytest.raises(CorruptRecordError, match="truncated since it was opened"):
        clean(logs, on_corruption=on_corruption)


def test_a_shortened_log_is_uncleanable_and_the_cleaner_can_be_closed(logs):
    for topic in "ab":
        fill(logs[topic, 0], 20)
    os.truncate(logs["a", 0].growing_segments[0].path, 100)
    with LogCleaner(logs) as cleaner:
        cleaner.work()
        cleaner.work()
    assert list(cleaner.uncleanable) == [("a", 0)]
    assert cleaner.states.checkpointed(logs["b", 0]) > 0


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_batch_that_is_too_large_is_not_decompressed(logs, codec):
    log = logs["a", 0]
    batch = RecordBatchBuilder(codec=codec)
    batch.append(b"key", bytes(10_000), timestamp=NOW_MS)
    log.append(batch.build())
    fill(log, 20)
    with pytest.raises(
        BatchTooLargeError, match=r"max_batch_bytes|expected at most"
    ) as raised:
        clean(logs, max_batch_bytes=9_999)
    assert raised.value.path == log.growing_segments[0].path
    cleaner = LogCleaner(logs)
    cleaner.max_batch_bytes = 9_999
    cleaner.work()
    assert isinstance(cleaner.uncleanable["a", 0], BatchTooLargeError)
    assert clean(logs, max_batch_bytes=20_000) is not None


def test_the_mark_of_a_deleted_log_is_removed(logs):
    fill(logs["a", 0], 20)
    cleaner = LogCleaner(logs)
    cleaner.states.mark_uncleanable(logs["a", 0], ValueError())
    assert cleaner.clean_filthiest() is None
    log = logs.pop(("a", 0))
    cleaner.work()
    assert not cleaner.uncleanable
    log.close()


def test_a_map_for_less_than_one_key_is_rejected(logs):
    with pytest.raises(LogArgumentError, match="offset map of 24 bytes"):
        LogCleaner(logs, dedupe_buffer_size=24)


# Files


def test_replaced_files_are_removed_after_their_delay(logs, tmp_path):
    fill(logs["a", 0], 20)
    count = len(logs["a", 0].growing_segments)
    clean(logs)
    assert len(list(tmp_path.rglob("a-0/*.log.deleted"))) == count - 1
    logs["a", 0].runtime.clock.time_ms += 60_000
    logs["a", 0].runtime.scheduler.run_due()
    assert not list(tmp_path.rglob("*.deleted"))


def test_a_log_is_appended_to_and_read_after_its_compaction(logs):
    fill(logs["a", 0], 40)
    clean(logs)
    fill(logs["a", 0], 5)
    offsets = []
    for batch in logs["a", 0].read(0, max_bytes=1 << 20).batches():
        offsets += [record.offset for record in batch]
    assert offsets == sorted(offsets)
    assert logs["a", 0].find_offset(-1).offset == 45


def test_compaction_with_appends_in_another_thread_loses_nothing(tmp_path):
    config = LogConfig(cleanup_policy="compact", internal_segment_bytes=4000)
    with kafkalog.open(tmp_path / "a-0", "a", config) as log:
        ended = threading.Event()

        def append():
            try:
                for _ in range(60):
                    fill(log, 10, keys=10)
            finally:
                ended.set()

        thread = threading.Thread(target=append)
        thread.start()
        with LogCleaner({("a", 0): log}) as cleaner:
            while not ended.is_set():
                cleaner.clean("a", 0)
            thread.join()
            cleaner.clean("a", 0)
        last = {}
        for path in sorted((tmp_path / "a-0").glob("*.log")):
            for records in kafkalog.scan(path).chunks():
                keys = records.key.to_list()
                last |= dict(zip(keys, records.offset.tolist(), strict=True))
        assert last == {b"key %d" % number: 590 + number for number in range(10)}
    assert kafkalog.verify(tmp_path).ok


@pytest.mark.parametrize("fails", ["cleaner-offset-checkpoint.tmp", ".log.cleaned"])
def test_a_failing_disk_closes_the_log_and_ends_the_round(tmp_path, fails):
    class Failing(TracingDisk):
        def fails(self):
            effect, name, *_ = self.calls[-1]
            return effect == "write" and name.endswith(fails)

    clock = ManualClock(NOW_MS)
    log = open_log(
        tmp_path / "a-0",
        COMPACT,
        clean=True,
        clock=clock,
        scheduler=ManualScheduler(clock),
        disk=Failing(),
    )
    fill(log, 20)
    cleaner = LogCleaner({("a", 0): log})
    cleaner.work()
    assert isinstance(log.runtime.failure, OSError)
    assert cleaner.clean_filthiest() is None
    cleaner.close()
    log.abandon()


# Limits


def keyed(value, key=b"key", **settings):
    batch = RecordBatchBuilder(**settings)
    batch.append(key, value, timestamp=NOW_MS)
    return batch.build()


def test_a_segment_whose_offsets_are_too_far_apart_is_split(logs, tmp_path):
    log, far = logs["a", 0], 2**31 + 10
    log.append(keyed(b"0"))
    log.append_as_follower(keyed(b"far", base_offset=far + 90, leader_epoch=0))
    path = log.growing_segments[0].path
    log.close()
    offsets = (0, 5, far, far + 10)
    batches = [
        keyed(b"v", b"%d" % (offset % 2), base_offset=offset, leader_epoch=0)
        for offset in offsets
    ]
    path.write_bytes(b"".join(batches))
    clock = ManualClock(NOW_MS)
    log = logs["a", 0] = open_log(
        tmp_path / "a-0",
        COMPACT,
        clean=True,
        clock=clock,
        scheduler=ManualScheduler(clock),
    )
    log.roll()
    log.update_high_watermark(log.log_end_offset)
    with pytest.raises(LogCleaningAbortedError, match="split"):
        clean(logs)
    bases = [segment.base_offset for segment in log.growing_segments]
    assert bases == [0, far, far + 90, far + 91]
    result = clean(logs)
    assert (result.messages_read, result.messages_written) == (5, 3)
    assert not list(tmp_path.rglob("*.cleaned"))


def test_a_delete_horizon_beyond_all_timestamps_is_never_reached(logs, tmp_path):
    log = logs["a", 0]
    never = {"delete.retention.ms": str(2**63 - 1)}
    log.update_config(COMPACT.with_changes(never))
    log.append(keyed(None))
    for _ in range(2):
        log.roll()
        fill(log, 1)
        log.update_high_watermark(log.log_end_offset)
        assert clean(logs).messages_written > 0
    [first, *_] = kafkalog.scan(tmp_path / "a-0").to_arrow().to_pylist()
    assert (first["key"], first["value"]) == (b"key", None)
