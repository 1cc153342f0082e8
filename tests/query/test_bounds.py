"""Bounds select the same records with valid, damaged and missing indexes."""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime, timedelta, timezone
from functools import cache

import numpy as np
import pytest

import kafkalog
from kafkalog.query.scan_columns import COLUMNS
from kafkalog.storage.byte_source import FileSource
from tests import golden_data
from tests.query import kafka_rows
from tests.query.batches import T, build
from tests.query.big_segment import write_segment

OFFSET, TIME, CONTROL = (
    COLUMNS.index(name) for name in ("offset", "timestamp", "is_control")
)


@cache
def records(name, directory):
    return [
        row
        for file, row in kafka_rows.records(name, directory)
        if file.endswith(".log") and not row[CONTROL]
    ]


def expected(name, directory, within):
    return [row for row in records(name, directory) if within(row)]


# ------------------------------------------------------------------------- indexes


def untouched(path, rng):
    del path, rng


def missing(path, rng):
    del rng
    path.unlink()


def garbage(path, rng):
    path.write_bytes(rng.randbytes(max(path.stat().st_size, 240)))


def zeroed(path, rng):
    del rng
    path.write_bytes(bytes(path.stat().st_size))


def cut(path, rng):
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data) + 1)])


def of_another_segment(path, rng):
    others = sorted(path.parent.glob(f"*{path.suffix}"))
    path.write_bytes(rng.choice(others).read_bytes())


def entries(path):
    layout = ">i4, >i4" if path.suffix == ".index" else ">i8, >i4"
    data = path.read_bytes()
    size = np.dtype(layout).itemsize
    return np.frombuffer(data[: len(data) // size * size], layout).copy()


def shifted(path, rng):
    """Shift the targets of entries: positions, or offsets."""
    table = entries(path)
    table["f1"] += rng.randrange(-300, 300)
    path.write_bytes(table.tobytes())


def moved(path, rng):
    """Raise or lower the keys of entries: offsets, or timestamps."""
    table = entries(path)
    table["f0"] += rng.choice([-5_000, -40, -3, -1, 1, 2, 60, 5_000])
    path.write_bytes(table.tobytes())


def slid(path, rng):
    """Set the target of each entry to that of another."""
    table = entries(path)
    by = rng.choice([-3, -2, -1, 1, 2, 3])
    table["f1"] = np.roll(table["f1"], by)
    path.write_bytes(table.tobytes())


DAMAGES = [
    untouched,
    missing,
    garbage,
    zeroed,
    cut,
    of_another_segment,
    shifted,
    moved,
    slid,
]
SEGMENTED = [
    place
    for place in kafka_rows.DIRECTORIES
    if any(file.endswith(".log") for file in kafka_rows.files(*place))
]


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", golden_data.SETS)
def test_records_within_bounds_do_not_depend_on_the_indexes(name, damage, tmp_path):
    for one, directory in SEGMENTED:
        if one != name:
            continue
        rng = random.Random(f"{damage.__name__} {name} {directory}")
        place = tmp_path / directory
        shutil.copytree(golden_data.logs(name) / directory, place)
        for path in place.iterdir():
            if path.suffix in (".index", ".timeindex"):
                path.chmod(0o644)
                damage(path, rng)
        for _ in range(2):
            check_some_bounds(name, directory, place, rng)


def check_some_bounds(name, directory, place, rng):
    rows = expected(name, directory, lambda row: True)
    offsets = [row[OFFSET] for row in rows] or [0]
    times = [row[TIME] for row in rows if row[TIME] is not None] or [0]
    first, end = sorted(rng.choice(offsets) + rng.randrange(-1, 2) for _ in range(2))
    early, late = sorted(rng.choice(times) + rng.randrange(-1, 2) for _ in range(2))

    def check(within, **bounds):
        scan = kafkalog.scan(place, columns=COLUMNS, **bounds)
        selected = expected(name, directory, within)
        assert kafka_rows.from_chunks(scan.chunks()) == selected, bounds
        if rng.random() < 0.2:
            assert scan.count() == len(selected), bounds

    check(lambda r: first <= r[OFFSET] < end, start_offset=first, end_offset=end)
    check(lambda r: first <= r[OFFSET], start_offset=first)
    check(
        lambda r: r[TIME] is not None and early <= r[TIME] < late,
        start_timestamp=early,
        end_timestamp=late,
    )
    check(lambda r: r[TIME] is not None and early <= r[TIME], start_timestamp=early)
    check(
        lambda r: r[TIME] is not None and early <= r[TIME] and r[OFFSET] < end,
        start_timestamp=early,
        end_offset=end,
    )


# ------------------------------------------------------------------------- bounds


ORDERS = golden_data.logs("k431-clean") / "orders.none-0"


def offsets_of(source, **bounds):
    return (
        kafkalog.scan(source, columns=["offset"], **bounds)
        .to_arrow()["offset"]
        .to_pylist()
    )


def test_a_datetime_with_a_time_zone_is_an_instant():
    middle = 1_700_000_000_000 + 5_500
    utc = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=middle)
    elsewhere = utc.astimezone(timezone(timedelta(hours=-7, minutes=30)))
    offsets = offsets_of(ORDERS, start_timestamp=middle)
    assert offsets
    assert len(offsets) < len(offsets_of(ORDERS))
    assert offsets_of(ORDERS, start_timestamp=utc) == offsets
    assert offsets_of(ORDERS, start_timestamp=elsewhere) == offsets
    # A bound between two milliseconds is after the first of them.
    later = utc + timedelta(microseconds=1)
    following = offsets_of(ORDERS, start_timestamp=middle + 1)
    assert offsets_of(ORDERS, start_timestamp=later) == following


@pytest.mark.parametrize("bound", ["start_timestamp", "end_timestamp"])
def test_a_datetime_without_a_time_zone_is_rejected(bound):
    with pytest.raises(ValueError, match="without a time zone"):
        kafkalog.scan(ORDERS, **{bound: datetime(2023, 1, 1)})


@pytest.mark.parametrize("bound", ["start_timestamp", "end_timestamp"])
@pytest.mark.parametrize("value", [b"2023-01-01", 1.5, True])
def test_another_type_of_time_is_rejected(bound, value):
    with pytest.raises(TypeError):
        kafkalog.scan(ORDERS, **{bound: value})


@pytest.mark.parametrize("bound", ["start_offset", "end_offset"])
@pytest.mark.parametrize("value", ["7", 7.0, True, {("orders.none", 0): "7"}])
def test_another_type_of_offset_is_rejected(bound, value):
    with pytest.raises(TypeError, match=bound):
        kafkalog.scan(ORDERS, **{bound: value})


def test_offsets_by_partition_bound_only_their_partitions():
    logs = golden_data.logs("k431-clean")
    sources = [logs / "once-0", logs / "once-1"]
    scan = kafkalog.scan(
        sources,
        columns=["partition", "offset"],
        start_offset={("once", 0): 9},
        end_offset={("once", 1): 5},
    )
    rows = scan.to_arrow().to_pylist()
    first = [row["offset"] for row in rows if row["partition"] == 0]
    second = [row["offset"] for row in rows if row["partition"] == 1]
    assert first == offsets_of(sources[0], start_offset=9)
    assert second == offsets_of(sources[1], end_offset=5)


@pytest.mark.parametrize("huge", [2**63 - 1, 2**63, 2**80])
def test_bounds_may_exceed_int64(huge):
    assert offsets_of(ORDERS, start_offset=huge) == []
    assert offsets_of(ORDERS, end_offset=-huge) == []
    assert offsets_of(ORDERS, start_timestamp=huge) == []
    everything = offsets_of(ORDERS)
    assert offsets_of(ORDERS, start_offset=-huge, end_offset=huge) == everything
    bounded = offsets_of(ORDERS, start_timestamp=-huge, end_timestamp=huge)
    assert bounded == offsets_of(ORDERS, start_timestamp=0)


@pytest.mark.parametrize(
    ("option", "known"),
    [("isolation", "read_committed"), ("on_corruption", "skip")],
)
def test_an_unknown_choice_is_rejected_with_the_known_ones(option, known):
    with pytest.raises(ValueError, match=known):
        kafkalog.scan(ORDERS, **{option: "commited"})


def test_unknown_and_duplicate_columns_are_rejected():
    with pytest.raises(ValueError, match=r"no such columns: valeu .*; expected topic"):
        kafkalog.scan(ORDERS, columns=["key", "valeu"])
    with pytest.raises(ValueError, match="duplicate columns: key"):
        kafkalog.scan(ORDERS, columns=["key", "key"])
    with pytest.raises(TypeError, match="columns 'key', expected a list"):
        kafkalog.scan(ORDERS, columns="key")


# ------------------------------------------------------------- amount of data read


@pytest.fixture(scope="module")
def gibibyte(tmp_path_factory):
    """Return a partition of one segment of 1 GiB with sparse indexes."""
    place = tmp_path_factory.mktemp("big") / "big-0"
    written = write_segment(place, 1 << 30)
    yield written
    shutil.rmtree(place)


@pytest.fixture
def pages(monkeypatch):
    """Return the set of pages of a segment that are read."""
    touched = set()
    read = FileSource.read

    def counted(self, position, length, take=None):
        data = read(self, position, length, take)
        touched.update(range(position // 4096, -(-(position + len(data)) // 4096)))
        return data

    monkeypatch.setattr(FileSource, "read", counted)
    return touched


@pytest.mark.parametrize("at", [0.0, 0.1, 0.5, 0.999])
def test_a_narrow_scan_of_a_gibibyte_reads_few_pages(gibibyte, pages, at):
    limit = (1 << 30) // 4096 // 100
    first = int(at * gibibyte.records)
    offsets = list(range(first, first + 100))
    bounds = {"start_offset": first, "end_offset": first + 100}
    assert offsets_of(gibibyte.place, **bounds) == offsets
    assert 0 < len(pages) <= limit
    pages.clear()
    lone = gibibyte.place / f"{0:020d}.log"
    assert offsets_of(lone, **bounds) == offsets
    assert 0 < len(pages) <= limit
    pages.clear()
    times = [gibibyte.timestamp(offset) for offset in (first, first + 100)]
    by_time = offsets_of(
        gibibyte.place,
        start_timestamp=times[0],
        end_timestamp=times[1],
        end_offset=first + 1_000,
    )
    assert by_time == offsets
    assert 0 < len(pages) <= limit


def test_the_greatest_timestamp_is_within_a_bound_without_an_end():
    builder = kafkalog.RecordBatchBuilder(base_offset=0)
    for timestamp in (0, 2**63 - 1, -1):
        builder.append(None, None, timestamp=timestamp)
    data = builder.build()
    late = kafkalog.scan(data, start_timestamp=1)
    assert [offset for chunk in late.chunks() for offset in chunk.offset] == [1]
    early = kafkalog.scan(data, end_timestamp=2**63 - 1)
    assert [offset for chunk in early.chunks() for offset in chunk.offset] == [0]
    assert late.count() == early.count() == 1


@pytest.mark.parametrize("times", [1_023, 1_024, 5_000])
def test_more_batches_than_a_step_has_are_counted(times):
    batch = build(2, "none", 0, 7, text=bytes(2_000))
    assert kafkalog.scan(batch * times).count() == 7 * times
    assert kafkalog.scan(batch * times, end_offset=5).count() == 5 * times
    assert kafkalog.scan(batch * times, end_timestamp=T + 5).count() == 5 * times
