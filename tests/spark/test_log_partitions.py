"""What directories hold, asked as the source asks it."""

from __future__ import annotations

import shutil

import pytest

import kafkalog
from kafkalog.errors import ConfigError, NotALogDirectoryError
from kafkalog.spark.log_partitions import Partitions
from tests import golden_data
from tests.query.batches import build

ROOT = golden_data.logs("k431-clean")


def name(base):
    return f"{base:020d}.log"


def test_a_log_directory_is_its_partitions_and_their_ends():
    held = Partitions([ROOT])
    places = held.places()
    assert places == sorted(places)
    assert ("orders.zstd", 0) in places
    marked = [path for path in ROOT.iterdir() if path.name.endswith("-delete")]
    assert marked
    assert not {path.name.rpartition("-")[0] for path in marked} & {
        t for t, _ in places
    }
    first, last = held.earliest(places), held.latest(places)
    for place in places:
        with kafkalog.open(held.directory(place)) as log:
            assert first[place] == log.log_start_offset
            assert last[place] == log.log_end_offset
    assert first["cutoff", 0] == 77


def test_the_end_of_what_is_committed_is_the_last_stable_offset():
    held = Partitions([ROOT], read_committed=True)
    places = [("ledger", 0), ("ledger", 1), ("orders.zstd", 0)]
    for place, end in held.latest(places).items():
        with kafkalog.open(held.directory(place)) as log:
            assert end == log.last_stable_offset
            assert (end < log.log_end_offset) == (place[0] == "ledger")


def test_an_empty_directory_is_nothing_to_read_whatever_its_name(tmp_path):
    (tmp_path / "disk-1").mkdir()
    with pytest.raises(NotALogDirectoryError, match=r"empty directory: .*disk-1"):
        Partitions([tmp_path / "disk-1"])
    assert Partitions([tmp_path]).places() == [("disk", 1)]


def test_a_time_is_its_first_offset_or_none():
    held = Partitions([ROOT])
    place = "orders.none", 0
    with kafkalog.open(held.directory(place)) as log:
        for time in (0, 1_700_000_000_050, 1_700_000_100_000, 2**62):
            [offset] = log.offsets_for_times([time]).tolist()
            found = held.for_times({place: time})[place]
            assert found == (None if offset < 0 else offset)
    assert held.for_times({place: 2**62}) == {place: None}


def test_a_time_of_what_is_not_committed_has_no_offset(tmp_path):
    plain = kafkalog.RecordBatchBuilder(base_offset=0)
    plain.append(b"k", b"v", timestamp=10)
    begun = kafkalog.RecordBatchBuilder(
        base_offset=1,
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )
    begun.append(b"k", b"v", timestamp=20)
    (tmp_path / "open-0").mkdir()
    (tmp_path / "open-0" / name(0)).write_bytes(plain.build() + begun.build())
    place = "open", 0
    committed = Partitions([tmp_path], read_committed=True)
    assert committed.latest([place]) == {place: 1}
    assert committed.for_times({place: 10}) == {place: 0}
    assert committed.for_times({place: 11}) == {place: None}
    assert Partitions([tmp_path]).for_times({place: 11}) == {place: 1}


def test_the_end_lies_behind_damage_so_that_reading_meets_it(tmp_path):
    place = tmp_path / "orders-0"
    place.mkdir()
    data = bytearray(b"".join(build(2, "none", first) for first in range(0, 30, 3)))
    data[70] ^= 1
    (place / name(0)).write_bytes(data)
    assert Partitions([tmp_path]).latest([("orders", 0)]) == {("orders", 0): 30}


def test_a_partition_in_two_places_is_refused(tmp_path):
    for disk in ("a", "b"):
        shutil.copytree(ROOT / "once-0", tmp_path / disk / "once-0")
    shutil.copytree(ROOT / "once-1", tmp_path / "b" / "once-1")
    both = [tmp_path / "a", tmp_path / "b"]
    with pytest.raises(ConfigError, match=r"once-0 is in two places.*/a/.*/b/"):
        Partitions(both)
    shutil.rmtree(tmp_path / "b" / "once-0")
    assert Partitions(both).places() == [("once", 0), ("once", 1)]


def test_what_is_no_log_directory_is_named(tmp_path):
    with pytest.raises(NotALogDirectoryError, match=str(tmp_path)):
        Partitions([tmp_path])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        Partitions([tmp_path / "nowhere"])
    with pytest.raises(NotALogDirectoryError, match="not a log directory"):
        Partitions([ROOT / "once-0" / name(0)])
    (tmp_path / "meta.properties").touch()
    assert Partitions([tmp_path]).places() == []
