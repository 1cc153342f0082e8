"""The partitions of log directories and their offsets."""

from __future__ import annotations

import shutil

import pytest

import kafkalog
from kafkalog.errors import ConfigError, NotALogDirectoryError
from kafkalog.spark.log_partitions import LogPartitions
from tests import golden_data
from tests.query.batches import build

ROOT = golden_data.logs("k431-clean")


def name(base):
    return f"{base:020d}.log"


def test_partitions_have_the_offsets_of_their_logs():
    partitions = LogPartitions([ROOT])
    tps = partitions.topic_partitions()
    assert tps == sorted(tps)
    assert ("orders.zstd", 0) in tps
    marked = [path for path in ROOT.iterdir() if path.name.endswith("-delete")]
    assert marked
    assert not {path.name.rpartition("-")[0] for path in marked} & {t for t, _ in tps}
    first, last = partitions.earliest_offsets(tps), partitions.latest_offsets(tps)
    for tp in tps:
        with kafkalog.open(partitions.directory(tp)) as log:
            assert first[tp] == log.log_start_offset
            assert last[tp] == log.log_end_offset
    assert first["cutoff", 0] == 77


def test_under_read_committed_the_end_is_the_last_stable_offset():
    partitions = LogPartitions([ROOT], read_committed=True)
    tps = [("ledger", 0), ("ledger", 1), ("orders.zstd", 0)]
    ends = partitions.latest_offsets(tps)
    assert sorted(ends) == tps
    for tp, end in ends.items():
        with kafkalog.open(partitions.directory(tp)) as log:
            assert end == log.last_stable_offset
            assert (end < log.log_end_offset) == (tp[0] == "ledger")


def test_an_empty_directory_is_rejected(tmp_path):
    (tmp_path / "disk-1").mkdir()
    with pytest.raises(NotALogDirectoryError, match=r"empty directory: .*disk-1"):
        LogPartitions([tmp_path / "disk-1"])
    assert LogPartitions([tmp_path]).topic_partitions() == [("disk", 1)]


def test_a_timestamp_resolves_to_its_first_offset_or_none():
    partitions = LogPartitions([ROOT])
    tp = "orders.none", 0
    with kafkalog.open(partitions.directory(tp)) as log:
        for time in (0, 1_700_000_000_050, 1_700_000_100_000, 2**62):
            [offset] = log.offsets_for_times([time]).tolist()
            found = partitions.offsets_for_times({tp: time})[tp]
            assert found == (None if offset < 0 else offset)
    assert partitions.offsets_for_times({tp: 2**62}) == {tp: None}


def test_a_timestamp_of_uncommitted_records_has_no_offset(tmp_path):
    committed = kafkalog.RecordBatchBuilder(base_offset=0)
    committed.append(b"k", b"v", timestamp=10)
    begun = kafkalog.RecordBatchBuilder(
        base_offset=1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    begun.append(b"k", b"v", timestamp=20)
    (tmp_path / "open-0").mkdir()
    (tmp_path / "open-0" / name(0)).write_bytes(committed.build() + begun.build())
    tp = "open", 0
    committed = LogPartitions([tmp_path], read_committed=True)
    assert committed.latest_offsets([tp]) == {tp: 1}
    assert committed.offsets_for_times({tp: 10}) == {tp: 0}
    assert committed.offsets_for_times({tp: 11}) == {tp: None}
    assert LogPartitions([tmp_path]).offsets_for_times({tp: 11}) == {tp: 1}


def test_the_end_is_after_corrupt_batches(tmp_path):
    tp = tmp_path / "orders-0"
    tp.mkdir()
    data = bytearray(b"".join(build(2, "none", first) for first in range(0, 30, 3)))
    data[70] ^= 1
    (tp / name(0)).write_bytes(data)
    assert LogPartitions([tmp_path]).latest_offsets([("orders", 0)]) == {
        ("orders", 0): 30
    }


def test_a_partition_in_two_directories_is_rejected(tmp_path):
    for disk in ("a", "b"):
        shutil.copytree(ROOT / "once-0", tmp_path / disk / "once-0")
    shutil.copytree(ROOT / "once-1", tmp_path / "b" / "once-1")
    both = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(
        ConfigError, match=r"expected one directory of once-0, got .*/a/.*/b/"
    ):
        LogPartitions(both)
    shutil.rmtree(tmp_path / "b" / "once-0")
    assert LogPartitions(both).topic_partitions() == [("once", 0), ("once", 1)]


def test_an_error_names_a_path_that_is_not_a_log_directory(tmp_path):
    with pytest.raises(NotALogDirectoryError, match=str(tmp_path)):
        LogPartitions([tmp_path])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        LogPartitions([tmp_path / "nowhere"])
    with pytest.raises(NotALogDirectoryError, match="not a log directory"):
        LogPartitions([ROOT / "once-0" / name(0)])
    (tmp_path / "meta.properties").touch()
    assert LogPartitions([tmp_path]).topic_partitions() == []
