"""Under ``read_committed`` a scan gives what a consumer would see, indexes or not."""

from __future__ import annotations

import random
import shutil

import pytest

import kafkalog
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.query import told

OFFSET, CONTROL = COLUMNS.index("offset"), COLUMNS.index("is_control")
SEGMENT, POSITION = COLUMNS.index("segment"), COLUMNS.index("position")


def has_transactions(name, directory):
    headers = told.batches(name, directory)
    return any(
        row.get("is_transactional")
        for (file, _), row in headers.items()
        if ".log" in file
    )


TRANSACTIONAL = [one for one in told.DIRECTORIES if has_transactions(*one)]


def marker_types(name, directory):
    """Type of the marker in each control batch of transactions."""
    return {
        (row["file"], row["batch_position"]): row["control"]["type"]
        for row in golden_data.truth(name, directory, "records")
        if row.get("control") is not None
    }


def seen_by_a_consumer(name, directory):
    """Rows that a consumer is given: batch after batch, one transaction at a time."""
    types = marker_types(name, directory)
    pending, hidden = {}, set()
    headers = told.batches(name, directory)
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
        for file, row in told.records(name, directory)
        if file.endswith(".log")
        and row[OFFSET] < stable
        and not row[CONTROL]
        and (row[SEGMENT], row[POSITION]) not in hidden
    ]


def committed(place, **bounds):
    return kafkalog.scan(place, columns=COLUMNS, isolation="read_committed", **bounds)


def test_there_are_commits_aborts_and_open_transactions_to_look_at():
    ends = {kind for one in TRANSACTIONAL for kind in marker_types(*one).values()}
    assert {"COMMIT", "ABORT"} <= ends
    hidden = [len(seen_by_a_consumer(*one)) < plain_count(one) for one in TRANSACTIONAL]
    assert sum(hidden) > 3


def plain_count(one):
    place = golden_data.logs(one[0]) / one[1]
    return kafkalog.scan(place, start_offset=0).count()


@pytest.mark.parametrize(("name", "directory"), TRANSACTIONAL)
def test_a_scan_gives_what_a_consumer_sees(name, directory):
    scan = committed(golden_data.logs(name) / directory)
    wanted = seen_by_a_consumer(name, directory)
    assert told.from_chunks(scan.chunks()) == wanted
    assert scan.count() == len(wanted)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_where_nothing_is_transactional_the_levels_are_equal(name):
    for one, directory in told.DIRECTORIES:
        if one != name or (one, directory) in TRANSACTIONAL:
            continue
        place = golden_data.logs(name) / directory
        plain = kafkalog.scan(place, columns=COLUMNS)
        assert told.from_chunks(committed(place).chunks()) == told.from_chunks(
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


@pytest.mark.parametrize("harm", [untouched, deleted, garbled, emptied, zeroed])
@pytest.mark.parametrize(("name", "directory"), TRANSACTIONAL)
def test_bounds_cut_what_a_consumer_sees_whatever_lies_beside_the_log(
    name, directory, harm, tmp_path
):
    rng = random.Random(f"{name} {directory}")
    place = tmp_path / directory
    shutil.copytree(golden_data.logs(name) / directory, place)
    for path in place.iterdir():
        if path.suffix in (".txnindex", ".snapshot"):
            harm(path, rng)
    wanted = seen_by_a_consumer(name, directory)
    assert told.from_chunks(committed(place).chunks()) == wanted
    end = max(row["last_offset"] for row in told.batches(name, directory).values())
    for _ in range(12):
        first, last = sorted(rng.choices(range(end + 2), k=2))
        scan = committed(place, start_offset=first, end_offset=last)
        within = [row for row in wanted if first <= row[OFFSET] < last]
        assert told.from_chunks(scan.chunks()) == within
        assert scan.count() == len(within)


def test_a_transaction_may_be_decided_in_a_later_segment_than_the_bounds_reach():
    place = golden_data.logs("k431-clean") / "ledger-0"
    bases = sorted(int(path.stem) for path in place.glob("*.log"))
    for end in bases[1:]:
        wanted = [
            row
            for row in seen_by_a_consumer("k431-clean", "ledger-0")
            if row[OFFSET] < end
        ]
        assert told.from_chunks(committed(place, end_offset=end).chunks()) == wanted


@pytest.mark.parametrize("flag", [0x10, 0x20])
def test_a_marker_that_lies_about_itself_decides_nothing(flag, tmp_path):
    place = tmp_path / "ledger-0"
    shutil.copytree(golden_data.logs("k431-clean") / "ledger-0", place)
    (file, position), _ = next(
        (where, row)
        for where, row in sorted(told.batches("k431-clean", "ledger-0").items())
        if row["is_control"]
    )
    data = bytearray((place / file).read_bytes())
    data[position + 22] ^= flag  # transactional, or control, and no more
    (place / file).write_bytes(data)
    with pytest.raises(kafkalog.CorruptRecordError) as caught:
        list(committed(place, end_offset=2).chunks())
    assert (caught.value.path, caught.value.position) == (place / file, position)


def test_the_name_of_a_lone_file_bounds_nothing():
    name = next(one for one in told.DIRECTORIES if one[1] == "__cluster_metadata-0")
    file = next(one for one in told.files(*name) if one.endswith(".checkpoint"))
    scan = kafkalog.scan(told.path_of(*name, file), columns=COLUMNS, end_offset=5)
    wanted = [row for one, row in told.records(*name) if one == file]
    within = [row for row in wanted if row[OFFSET] < 5 and not row[CONTROL]]
    assert told.from_chunks(scan.chunks()) == within
    assert within
