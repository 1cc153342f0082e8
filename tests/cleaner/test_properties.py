"""Invariants of compaction, checked on random logs."""

from random import Random

import pytest

from kafkalog import (
    BrokerConfig,
    LogConfig,
    OffsetOutOfRangeError,
    RecordBatch,
    RecordBatchBuilder,
)
from kafkalog.cleaner import LogCleaner
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.testing import ManualClock, ManualScheduler, open_log

NOW_MS = 1_700_000_000_000
RETENTION_MS = 5_000
NAME = ("state", 0)
CODECS = ("none", "none", "gzip", "snappy", "lz4", "zstd")
BROKER = BrokerConfig(transaction_partition_verification_enable=False)


class Compacted:
    """A log, the records that were appended to it, and its cleaner."""

    def __init__(self, root, seed):
        self.random = Random(seed)
        self.clock = ManualClock(NOW_MS)
        self.appended = {}
        self.aborted = set()
        self.sequences = {}
        self.log = open_log(
            root / "state-0",
            LogConfig(
                cleanup_policy="compact",
                delete_retention_ms=RETENTION_MS,
                internal_segment_bytes=self.random.choice((900, 2000, 6000)),
                index_interval_bytes=200,
            ),
            broker=BROKER,
            clock=self.clock,
            scheduler=ManualScheduler(self.clock),
        )
        slots = self.random.choice((6, 20, 3000))
        self.cleaner = LogCleaner({NAME: self.log}, dedupe_buffer_size=24 * slots)

    def record(self, builder):
        self.clock.time_ms += self.random.choice((0, 1, 7))
        key = b"key %d" % self.random.randrange(12)
        value = self.random.randbytes(self.random.choice((0, 5, 40)))
        headers = [("name", b"x"), ("null", None)][: self.random.randrange(3)]
        builder.append(
            key,
            None if self.random.random() < 0.2 else value,
            timestamp=self.clock.time_ms,
            headers=headers,
        )

    def append(self, **settings):
        codec = self.random.choice(CODECS)
        builder = RecordBatchBuilder(codec=codec, **settings)
        for _ in range(self.random.randint(1, 5)):
            self.record(builder)
        result = self.log.append(builder.build())
        offsets = range(result.first_offset, result.last_offset + 1)
        for offset, record in zip(offsets, RecordBatch(builder.build()), strict=True):
            fields = settings.get("producer_id", -1), settings.get("producer_epoch", -1)
            self.appended[offset] = record._replace(offset=offset), fields
        return offsets

    def append_from(self, producer_id, *, is_transactional=False):
        sequence = self.sequences.get(producer_id, 0)
        offsets = self.append(
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        self.sequences[producer_id] = sequence + len(offsets)
        return offsets

    def transaction(self, producer_id):
        offsets = []
        for _ in range(self.random.randint(1, 3)):
            offsets += self.append_from(producer_id, is_transactional=True)
            if self.random.random() < 0.5:
                self.append()
        kind = self.random.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT))
        marker = RecordBatchBuilder(
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        marker.append(*end_transaction_marker(kind, 1), timestamp=self.clock.time_ms)
        self.log.append(marker.build(), origin="coordinator", transaction_version=0)
        if kind is ControlRecordType.ABORT:
            self.aborted |= set(offsets)

    def fill(self, steps):
        for _ in range(steps):
            match self.random.randrange(5):
                case 0:
                    self.append_from(7)
                case 1:
                    self.transaction(self.random.choice((20, 21)))
                case _:
                    self.append()
        if self.random.random() < 0.7:
            self.log.roll()
        self.log.update_high_watermark(self.log.log_end_offset)

    def clean(self, *, again=False):
        """Run one round; with `again`, from the start of the log."""
        if again:
            self.cleaner.states.set_checkpoint(self.log, 0)
        return self.cleaner.clean(*NAME)

    def clean_all(self):
        """Compact up to the active segment."""
        while self.clean() is not None:
            pass

    def batches(self):
        """Yield all batches."""
        offset = self.log.log_start_offset
        while offset < self.log.log_end_offset:
            try:
                batches = self.log.read(offset, max_bytes=1 << 30).batches()
            except OffsetOutOfRangeError:
                return
            for batch in batches:
                offset = batch.last_offset + 1
                yield batch
            if not batches:
                return

    def records(self):
        return {
            record.offset: (record, (batch.producer_id, batch.producer_epoch))
            for batch in self.batches()
            if not batch.is_control
            for record in batch
        }

    def files(self):
        return {
            segment.path.name: segment.path.read_bytes()
            for segment in self.log.growing_segments
        }


@pytest.fixture
def compacted(tmp_path, request):
    made = Compacted(tmp_path, request.param)
    yield made
    made.log.close()


SEEDS = pytest.mark.parametrize("compacted", range(12), indirect=True)


@SEEDS
def test_kept_records_are_unchanged(compacted):
    for _ in range(4):
        compacted.fill(10)
        compacted.clean_all()
        kept = compacted.records()
        assert kept
        assert kept == {offset: compacted.appended[offset] for offset in kept}


@SEEDS
def test_the_last_value_of_each_key_is_kept(compacted):
    compacted.fill(12)
    compacted.clean_all()
    kept = compacted.records()
    valid = set(compacted.appended) - compacted.aborted
    last = {compacted.appended[offset][0].key: offset for offset in sorted(valid)}
    active = compacted.log.growing_segments[-1].base_offset
    for offset in last.values():
        assert offset in kept  # the tombstones are not due yet
    below = [offset for offset in kept if offset < active]
    newest = {
        compacted.appended[offset][0].key: offset
        for offset in sorted(valid)
        if offset < active
    }
    assert sorted(below) == sorted(newest.values())


# With seed 10, all tombstones are in the active segment, or superseded.
@pytest.mark.parametrize("compacted", {*range(13)} - {10}, indirect=True)
def test_tombstones_are_removed_when_they_are_due_and_not_before(compacted):
    compacted.fill(12)
    compacted.clean_all()
    tombstones = {
        offset
        for offset, (record, _) in compacted.records().items()
        if record.value is None
    }
    active = compacted.log.growing_segments[-1].base_offset
    assert min(tombstones, default=active) < active
    for passed_ms, stays in ((RETENTION_MS - 1, True), (1, False)):
        compacted.clock.time_ms += passed_ms
        compacted.clean(again=True)
        compacted.clean_all()
        present = compacted.records()
        for offset in tombstones:
            assert (offset in present) == (stays or offset >= active)


@SEEDS
def test_a_fourth_round_over_the_same_range_changes_nothing(compacted):
    compacted.fill(12)
    compacted.clean_all()
    contents = []
    for _ in range(4):
        compacted.clean(again=True)
        compacted.clean_all()
        contents.append(compacted.files())
    assert contents[2] == contents[3]


@SEEDS
def test_a_compacted_log_opens_again_as_it_was(compacted, tmp_path):
    compacted.fill(12)
    compacted.clean_all()
    records, producers = compacted.records(), compacted.log.producers
    compacted.log.close()
    compacted.log = open_log(
        tmp_path / "state-0",
        compacted.log.config,
        broker=BROKER,
        clock=compacted.clock,
        scheduler=ManualScheduler(compacted.clock),
    )
    assert compacted.records() == records
    assert compacted.log.producers.keys() == producers.keys()


@SEEDS
def test_recovery_of_all_segments_keeps_what_compaction_kept(compacted, tmp_path):
    compacted.fill(12)
    compacted.clean_all()
    records = compacted.records()
    last = {
        producer: entry.last_sequence
        for producer, entry in compacted.log.producers.items()
    }
    compacted.log.abandon()
    for path in (tmp_path / "state-0").glob("*.snapshot"):
        path.unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
    compacted.log = open_log(
        tmp_path / "state-0",
        compacted.log.config,
        broker=BROKER,
        clock=compacted.clock,
        scheduler=ManualScheduler(compacted.clock),
    )
    assert compacted.records() == records
    found = {
        producer: entry.last_sequence
        for producer, entry in compacted.log.producers.items()
    }
    assert found == last
