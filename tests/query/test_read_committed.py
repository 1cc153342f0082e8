"""Scans with ``read_committed`` return the records that a consumer receives."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest

import kafkalog
from kafkalog import BrokerConfig
from kafkalog.formats.producer_snapshot import ENTRY, format_snapshot
from kafkalog.query.description import describe
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.query.tailing import last_records
from kafkalog.spark.log_partitions import LogPartitions
from tests import golden_data
from tests.cli.shell import call
from tests.log.writing import SMALL, batch, load
from tests.query import kafka_rows
from tests.query.batches import build

OFFSET, CONTROL = COLUMNS.index("offset"), COLUMNS.index("is_control")
SEGMENT, POSITION = COLUMNS.index("segment"), COLUMNS.index("position")


def has_transactions(name, directory):
    headers = kafka_rows.batches(name, directory)
    return any(
        row.get("is_transactional")
        for (file, _), row in headers.items()
        if ".log" in file
    )


TRANSACTIONAL = [
    partition for partition in kafka_rows.DIRECTORIES if has_transactions(*partition)
]


def marker_types(name, directory):
    """Return the type of the marker in each control batch of transactions."""
    return {
        (row["file"], row["batch_position"]): row["control"]["type"]
        for row in golden_data.truth(name, directory, "records")
        if row.get("control") is not None
    }


def seen_by_a_consumer(name, directory, *, markers=False):
    """Return the rows that a consumer receives, and the `markers` that it ignores."""
    types = marker_types(name, directory)
    pending, hidden = {}, set()
    headers = kafka_rows.batches(name, directory)
    places = sorted(place for place in headers if place[0].endswith(".log"))
    for place in places:
        batch = headers[place]
        if not batch.get("is_transactional"):
            continue
        producer = batch["producer_id"]
        if not batch["is_control"]:
            pending.setdefault(producer, []).append(place)
        elif types[place] == "ABORT":
            hidden.update(pending.pop(producer, []))
        elif types[place] == "COMMIT":
            pending.pop(producer, None)
    undecided = [headers[first]["base_offset"] for first, *_ in pending.values()]
    stable = min(undecided, default=2**63)
    return [
        row
        for file, row in kafka_rows.records(name, directory)
        if file.endswith(".log")
        and row[OFFSET] < stable
        and (markers or not row[CONTROL])
        and (row[SEGMENT], row[POSITION]) not in hidden
    ]


def committed(place, **bounds):
    return kafkalog.scan(place, columns=COLUMNS, isolation="read_committed", **bounds)


def test_golden_data_has_commits_aborts_and_open_transactions():
    ends = {
        kind
        for partition in TRANSACTIONAL
        for kind in marker_types(*partition).values()
    }
    assert {"COMMIT", "ABORT"} <= ends
    hidden = [
        len(seen_by_a_consumer(*partition)) < uncommitted_count(partition)
        for partition in TRANSACTIONAL
    ]
    assert sum(hidden) > 3


def uncommitted_count(one):
    place = golden_data.logs(one[0]) / one[1]
    return kafkalog.scan(place, start_offset=0).count()


@pytest.mark.parametrize(("name", "directory"), TRANSACTIONAL)
def test_a_scan_has_the_records_that_a_consumer_receives(name, directory):
    scan = committed(golden_data.logs(name) / directory)
    visible = seen_by_a_consumer(name, directory)
    assert kafka_rows.from_chunks(scan.chunks()) == visible
    assert scan.count() == len(visible)


@pytest.mark.parametrize(
    ("name", "directory"),
    [each for each in kafka_rows.DIRECTORIES if each not in TRANSACTIONAL],
)
def test_without_transactions_both_isolation_levels_are_equal(name, directory):
    place = golden_data.logs(name) / directory
    plain = kafkalog.scan(place, columns=COLUMNS)
    assert kafka_rows.from_chunks(committed(place).chunks()) == kafka_rows.from_chunks(
        plain.chunks()
    )


def deleted(path, _rng):
    path.unlink()


def garbled(path, rng):
    path.write_bytes(rng.randbytes(max(100, path.stat().st_size)))


def emptied(path, _rng):
    path.write_bytes(b"")


def zeroed(path, _rng):
    path.write_bytes(bytes(path.stat().st_size))


def untouched(_path, _rng):
    pass


@pytest.mark.parametrize("damage", [untouched, deleted, garbled, emptied, zeroed])
@pytest.mark.parametrize(("name", "directory"), TRANSACTIONAL)
def test_bounds_select_committed_records_whatever_the_other_files_are(
    name, directory, damage, tmp_path
):
    rng = random.Random(f"{name} {directory}")
    place = tmp_path / directory
    shutil.copytree(golden_data.logs(name) / directory, place)
    for path in place.iterdir():
        if path.suffix in (".txnindex", ".snapshot"):
            damage(path, rng)
    visible = seen_by_a_consumer(name, directory)
    assert kafka_rows.from_chunks(committed(place).chunks()) == visible
    end = max(
        row["last_offset"] for row in kafka_rows.batches(name, directory).values()
    )
    for _ in range(12):
        first, last = sorted(rng.choices(range(end + 2), k=2))
        scan = committed(place, start_offset=first, end_offset=last)
        within = [row for row in visible if first <= row[OFFSET] < last]
        assert kafka_rows.from_chunks(scan.chunks()) == within
        assert scan.count() == len(within)


@pytest.mark.parametrize(("name", "directory"), TRANSACTIONAL)
def test_the_markers_do_not_depend_on_where_the_reading_begins(name, directory):
    place = golden_data.logs(name) / directory
    visible = seen_by_a_consumer(name, directory, markers=True)
    for start in {0, *(row[OFFSET] for row in visible if row[CONTROL])}:
        scan = committed(place, start_offset=start, control_records=True)
        within = [row for row in visible if row[OFFSET] >= start]
        assert kafka_rows.from_chunks(scan.chunks()) == within
        assert scan.count() == len(within)


def test_a_transaction_may_end_after_the_bounds():
    place = golden_data.logs("k431-clean") / "ledger-0"
    bases = sorted(int(path.stem) for path in place.glob("*.log"))
    assert len(bases) > 1
    for end in bases[1:]:
        visible = [
            row
            for row in seen_by_a_consumer("k431-clean", "ledger-0")
            if row[OFFSET] < end
        ]
        assert (
            kafka_rows.from_chunks(committed(place, end_offset=end).chunks()) == visible
        )


@pytest.mark.parametrize("flag", [0x10, 0x20])
def test_a_marker_with_a_flipped_flag_is_damage(flag, tmp_path):
    place = tmp_path / "ledger-0"
    shutil.copytree(golden_data.logs("k431-clean") / "ledger-0", place)
    (file, position), _ = next(
        (where, row)
        for where, row in sorted(kafka_rows.batches("k431-clean", "ledger-0").items())
        if row["is_control"]
    )
    data = bytearray((place / file).read_bytes())
    data[position + 22] ^= flag  # clears transactional or control
    (place / file).write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        list(committed(place, end_offset=2).chunks())
    assert (caught.value.path, caught.value.position) == (place / file, position)


def test_the_name_of_a_single_file_is_no_bound():
    name = next(
        place for place in kafka_rows.DIRECTORIES if place[1] == "__cluster_metadata-0"
    )
    file = next(
        file for file in kafka_rows.files(*name) if file.endswith(".checkpoint")
    )
    scan = kafkalog.scan(kafka_rows.path_of(*name, file), columns=COLUMNS, end_offset=5)
    visible = [row for one, row in kafka_rows.records(*name) if one == file]
    within = [row for row in visible if row[OFFSET] < 5 and not row[CONTROL]]
    assert kafka_rows.from_chunks(scan.chunks()) == within
    assert within


def kept(snapshots, base):
    """Keep every snapshot: the log was not loaded since its segments were deleted."""
    assert base in snapshots


def above_the_start(snapshots, base):
    """Remove what a broker removes when it loads the log."""
    for offset, path in snapshots.items():
        if offset <= base:
            path.unlink()


def the_last_alone(snapshots, _base):
    for path in [*snapshots.values()][:-1]:
        path.unlink()


def the_first_corrupt(snapshots, base):
    for offset, path in snapshots.items():
        if offset <= base:
            path.write_bytes(path.read_bytes()[:-1] + b"\xff")


@pytest.fixture(params=[kept, above_the_start, the_last_alone, the_first_corrupt])
def log_after_retention(request, tmp_path):
    """A log whose open transaction began in a segment that retention has deleted."""
    open_since = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}
    trusting = BrokerConfig(transaction_partition_verification_enable=False)
    config = SMALL.with_changes({"retention.bytes": 1500})
    with load(tmp_path, config, broker=trusting) as log:
        log.append(batch(2, **open_since, base_sequence=0))
        for _ in range(12):
            log.append(batch(5))
        log.update_high_watermark(log.log_end_offset)
        assert log.delete_old_segments() > 0
        assert log.last_stable_offset == log.log_start_offset > 2
    for path in tmp_path.glob("t-0/*.deleted"):
        path.unlink()
    snapshots = {
        int(path.stem): path for path in sorted(tmp_path.glob("t-0/*.snapshot"))
    }
    request.param(snapshots, min(int(path.stem) for path in tmp_path.glob("t-0/*.log")))
    return tmp_path / "t-0"


def test_a_transaction_that_began_below_the_log_start_is_open(log_after_retention):
    directory = log_after_retention
    with kafkalog.open(directory) as log:
        start, end = log.log_start_offset, log.log_end_offset
        assert 2 < start < end == log.log_end_offset
        assert log.last_stable_offset == start
        assert log.read(start, isolation="read_committed").data == b""
    assert kafkalog.scan(directory).count() == end - start
    for first in (None, 0, start, start + 1, end - 1):
        assert committed(directory, start_offset=first).count() == 0
    assert committed(directory).to_arrow().num_rows == 0
    as_scan = {"isolation": "read_committed"}
    parts = kafkalog.splits(directory, target_bytes=400, **as_scan)
    assert [part.scan().count() for part in parts] == [0] * len(parts)
    assert kafkalog.dataset(directory, **as_scan).to_table().num_rows == 0
    assert last_records(committed(directory), 3).count() == 0
    partitions = LogPartitions([directory], read_committed=True)
    assert partitions.latest_offsets([("t", 0)]) == {("t", 0): start}
    assert describe(directory)["last_stable_offset"] == start
    for command in ("cat", "tail"):
        ran = call(command, directory, "--isolation-level", "read_committed")
        assert (ran.exit_code, ran.stdout) == (0, "")


def test_a_snapshot_below_the_first_segment_is_ignored(tmp_path):
    entry = np.zeros(1, ENTRY)
    entry["producer_id"], entry["current_txn_first_offset"] = 7, 2
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{20:020d}.log").write_bytes(build(2, "none", 20))
    (directory / f"{10:020d}.snapshot").write_bytes(format_snapshot(entry))
    assert committed(directory).count() == 3
    with kafkalog.open(directory) as log:
        assert (log.last_stable_offset, len(log.producer_states())) == (23, 1)
        assert log.producer_states()["last_offset"].tolist() == [22]
    (directory / f"{20:020d}.snapshot").write_bytes(format_snapshot(entry))
    assert committed(directory).count() == 0
