"""`stats` states what Kafka's own reading shows, grouped slowly in plain Python."""

from __future__ import annotations

import base64
import json
import tracemalloc
from collections import defaultdict
from itertools import groupby, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog import RecordBatchBuilder
from kafkalog.analysis.log_stats import GROUPS, OF_RECORDS, stats_of
from kafkalog.errors import CorruptRecordError
from kafkalog.query.scan_columns import COLUMNS
from tests import golden_data
from tests.cli import golden
from tests.cli.shell import call, objects, run
from tests.query import kafka_rows
from tests.query.batches import CODECS, KINDS, T, build

LEAST_RECORD = 7
CLEAN = golden.CLEAN
OF_HEADERS = [
    ("topic",),
    ("topic", "partition"),
    ("producer", "codec"),
    ("segment",),
    ("batch_size",),
]
OF_EACH = [
    ("key",),
    ("size",),
    ("hour",),
    ("topic", "partition", "key"),
    ("codec", "day"),
]


def length(value):
    """Return the length of bytes, of hexadecimal text, or of a digest with a length."""
    if isinstance(value, tuple):
        return value[0]
    return len(value or "") // (1 if isinstance(value, bytes) else 2)


def sizes_of(row):
    """Return the bytes of key, value and headers of a record in a row of `COLUMNS`."""
    headers = sum(len(key.encode()) + length(value) for key, value in row["headers"])
    return length(row["key"]), length(row["value"]), headers


def floor(size):
    """Return the greatest power of two up to a size."""
    return 1 << size.bit_length() - 1 if size else 0


def batches_of(name):
    """Yield header and records of each batch of a set that has records, live ones."""
    for directory in golden.partitions(name):
        headers = kafka_rows.batches(name, directory)
        rows = [
            dict(zip(COLUMNS, r, strict=True)) for r in golden.records(name, directory)
        ]
        for place, records in groupby(rows, lambda r: (r["segment"], r["position"])):
            yield headers[place], list(records)


def shares(total, weights):
    """Divide a total among weights, so that the parts add up."""
    ends = [sum(weights[: i + 1]) for i in range(len(weights))]
    points = [0, *(total * end // ends[-1] for end in ends)]
    return [b - a for a, b in pairwise(points)]


def group_of(by, record, header):
    """Return the group of a record."""
    period = {"hour": 3_600_000, "day": 86_400_000}
    time = record["timestamp"]
    values = {
        **record,
        "producer": record["producer_id"],
        "batch_size": floor(header["size"]),
        "size": floor(sum(sizes_of(record))),
        **{n: None if time is None else time // ms * ms for n, ms in period.items()},
    }
    return tuple(values[name] for name in by)


def expected_of_headers(name, by):
    groups = defaultdict(lambda: [0, 0, 0, -1, [], []])
    for header, records in batches_of(name):
        group = groups[group_of(by, records[0], header)]
        group[0] += len(records)
        group[1] += 1
        group[2] += header["size"]
        group[3] = max(group[3], header["max_timestamp"])
        group[4].append(header["base_offset"])
        group[5].append(header["last_offset"])
    return {
        group: (records, batches, size, None if time < 0 else time)
        + ((min(first), max(last)) if {"topic", "partition"} <= {*by} else ())
        for group, (records, batches, size, time, first, last) in groups.items()
    }


@pytest.mark.parametrize("by", OF_HEADERS, ids=",".join)
@pytest.mark.parametrize("name", golden_data.SETS)
def test_groups_of_batches_are_those_of_kafkas_own_reading(name, by):
    report = kafkalog.stats(golden_data.logs(name), by)
    expected = expected_of_headers(name, by)
    measures = ["records", "batches", "bytes", "max_timestamp"]
    if {"topic", "partition"} <= {*by}:
        measures += ["first_offset", "last_offset"]
    found = {
        tuple(row[group] for group in by): tuple(row[name] for name in measures)
        for row in report.rows()
    }
    assert found == expected
    assert report.total["bytes"] == sum(group[2] for group in expected.values())
    assert report.distinct_groups == len(expected)
    assert report.other is None


def expected_of_records(name, by):
    groups = defaultdict(lambda: [0] * 6 + [[], []])
    for header, records in batches_of(name):
        sizes = [sizes_of(record) for record in records]
        stored = shares(header["size"], [sum(size) + LEAST_RECORD for size in sizes])
        for record, size, part in zip(records, sizes, stored, strict=True):
            group = groups[group_of(by, record, header)]
            new = (1, part, *size, record["value"] is None)
            group[:6] = (a + b for a, b in zip(group[:6], new, strict=True))
            group[6].append(record["timestamp"])
            group[7].append(record["offset"])
    found = {}
    for group, (*sums, times, offsets) in groups.items():
        known = [time for time in times if time is not None]
        found[group] = (*sums, min(known, default=None), max(known, default=None))
        if {"topic", "partition"} <= {*by}:
            found[group] += (min(offsets), max(offsets))
    return found


def shorten(by, row):
    """Return a row's groups, with keys as `kafka_rows` has them."""
    values = dict(row)
    if isinstance(key := values.get("key"), dict):
        key = base64.b64decode(key["base64"])
    elif key is not None:
        key = key.encode()
    values["key"] = kafka_rows.shorten(key)
    return tuple(values[name] for name in by)


@pytest.mark.parametrize("by", OF_EACH, ids=",".join)
@pytest.mark.parametrize("name", golden_data.SETS)
def test_groups_of_records_are_those_of_kafkas_own_reading(name, by):
    report = kafkalog.stats(golden_data.logs(name), by)
    measures = ["records", "bytes", "key_bytes", "value_bytes", "header_bytes"]
    measures += ["null_values", "first_timestamp", "max_timestamp"]
    if {"topic", "partition"} <= {*by}:
        measures += ["first_offset", "last_offset"]
    found = {
        shorten(by, row): tuple(row[name] for name in measures) for row in report.rows()
    }
    assert found == expected_of_records(name, by)


@pytest.mark.parametrize("name", golden_data.SETS)
def test_the_sizes_of_groups_of_batches_are_the_sums_of_their_records(name):
    logs = golden_data.logs(name)
    by_topic = kafkalog.stats(logs, "topic", sizes=True)
    by_key = kafkalog.stats(logs, ["topic", "key"]).to_arrow()
    names = ["records", "bytes", "uncompressed_bytes", "key_bytes", "value_bytes"]
    names += ["header_bytes", "null_values"]
    summed = by_key.group_by("topic").aggregate([(name, "sum") for name in names])
    summed = summed.rename_columns(["topic", *names]).sort_by("topic").to_pylist()
    assert by_topic.to_arrow().select(["topic", *names]).sort_by(
        "topic"
    ).to_pylist() == (summed)
    batches = kafkalog.stats(logs, "topic").to_arrow()
    assert by_topic.to_arrow().select(["topic", "batches", "bytes"]) == batches.select(
        ["topic", "batches", "bytes"]
    )


@pytest.mark.parametrize("codec", CODECS)
def test_uncompressed_bytes_are_those_of_the_same_batch_without_compression(codec):
    data = build(2, codec, 0, 50)
    report = kafkalog.stats(data, ["codec"], sizes=True)
    [row] = report.rows()
    assert row["codec"] == codec
    assert row["bytes"] == len(data)
    assert row["uncompressed_bytes"] == len(build(2, "none", 0, 50))
    assert row["compression_ratio"] == row["uncompressed_bytes"] / len(data)
    assert row["records_per_batch"] == 50


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_batch_that_is_decoded_in_parts_is_counted_once(codec):
    def batch(codec):
        builder = RecordBatchBuilder(codec=codec)
        for i in range(100):
            builder.append(b"%d" % (i % 7), bytes(100_000), timestamp=T + i)
        return builder.build()

    data, plain = batch(codec), batch("none")
    [row] = kafkalog.stats(data, "codec", sizes=True).rows()
    by_key = kafkalog.stats(data, "key")
    assert (row["batches"], row["records"], row["bytes"]) == (1, 100, len(data))
    assert row["uncompressed_bytes"] == len(plain)
    assert by_key.total["bytes"] == len(data)
    assert by_key.total["uncompressed_bytes"] == len(plain)
    assert by_key.total["value_bytes"] == 10_000_000


@st.composite
def logs(draw):
    data, offset = [], 0
    for magic, codec in draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8)):
        count = draw(st.integers(1, 9))
        data.append(build(magic, codec, offset, count))
        offset += count + draw(st.integers(0, 2))
    return b"".join(data), offset


@given(logs(), st.data())
@settings(deadline=None)
def test_bounds_select_the_records_of_a_scan_with_the_same_bounds(log, data):
    written, end = log
    bounds = {
        name: data.draw(st.none() | st.integers(low, low + end))
        for name, low in (
            ("start_offset", 0),
            ("end_offset", 0),
            ("start_timestamp", T),
            ("end_timestamp", T),
        )
    }
    by = data.draw(st.lists(st.sampled_from(GROUPS), min_size=1, unique=True))
    report = kafkalog.stats(written, by, **bounds)
    rows = kafka_rows.from_chunks(
        kafkalog.scan(written, columns=COLUMNS, **bounds).chunks()
    )
    records = [dict(zip(COLUMNS, row, strict=True)) for row in rows]
    assert report.total["records"] == len(records)
    if "batches" in report.total:
        assert report.total["batches"] == len({row["position"] for row in records})
    if not {"batch_size"} & {*by}:  # a row of a scan does not state the size
        counts = defaultdict(int)
        for record in records:
            counts[group_of(by, record, {"size": 0})] += 1
        assert {shorten(by, row): row["records"] for row in report.rows()} == counts
    if "value_bytes" in report.total:
        found = report.total["key_bytes"], report.total["value_bytes"]
        assert found == (
            sum(length(row["key"]) for row in records),
            sum(length(row["value"]) for row in records),
        )


def test_groups_of_batches_need_only_their_headers():
    damaged = bytearray(build(2, "none", 0))
    damaged[-1] ^= 1
    for by in set(GROUPS) - set(OF_RECORDS):
        assert kafkalog.stats(damaged, by).total["records"] == 3
    for by in OF_RECORDS:
        with pytest.raises(CorruptRecordError, match="CRC mismatch"):
            kafkalog.stats(damaged, by)
    report = kafkalog.stats(
        bytes(damaged) + build(2, "none", 3), "key", on_corruption="skip"
    )
    assert report.total["records"] == 3
    assert [problem.first_offset for problem in report.problems] == [0]


def test_control_records_are_counted_unless_they_are_excluded():
    every = kafkalog.stats(CLEAN, topics="ledger").total
    data = kafkalog.stats(CLEAN, topics="ledger", control_records=False).total
    scanned = kafkalog.scan(CLEAN, topics="ledger", control_records=True)
    assert every["records"] == scanned.count()
    assert data["records"] == kafkalog.scan(CLEAN, topics="ledger").count()
    assert data["bytes"] < every["bytes"]


def test_the_groups_with_the_most_bytes_come_first_and_the_others_are_added_up():
    every = kafkalog.stats(CLEAN, "topic")
    some = kafkalog.stats(CLEAN, "topic", limit=3)
    rows = list(every.rows())
    assert [row["bytes"] for row in rows] == sorted(
        (row["bytes"] for row in rows), reverse=True
    )
    assert list(some.rows()) == rows[:3]
    assert some.total == every.total
    assert some.other["bytes"] == sum(row["bytes"] for row in rows[3:])
    times = [row["first_timestamp"] for row in rows[3:] if row["first_timestamp"]]
    assert some.other["first_timestamp"] == min(times)
    hours = [row["hour"] for row in kafkalog.stats(CLEAN, "hour").rows()]
    assert hours == sorted(hours)


def keyed(keys, size=20):
    builder = RecordBatchBuilder(codec="none")
    for i, key in enumerate(keys):
        builder.append(key, bytes(size), timestamp=T + i)
    return builder.build()


def test_with_more_keys_than_fit_the_largest_are_right_up_to_the_stated_error(
    monkeypatch,
):
    monkeypatch.setattr("kafkalog.analysis.group_totals.ROWS", 200)
    random = np.random.default_rng(7)
    keys = [b"%d" % key for key in random.zipf(1.3, 20_000)]
    data = b"".join(keyed(keys[i : i + 100]) for i in range(0, len(keys), 100))
    exact = kafkalog.stats(data, "key")
    rough = kafkalog.stats(data, "key", max_groups=300)
    assert exact.error_bytes == 0
    assert exact.distinct_groups == len(set(keys))
    assert rough.distinct_groups is None
    assert rough.total == exact.total
    sizes = {row["key"]: row["bytes"] for row in exact.rows()}
    rows = list(rough.rows())
    assert 300 <= len(rows) <= 600
    assert 0 < rough.error_bytes < sizes["1"] / 10
    for row in rows:
        assert row["bytes"] <= sizes[row["key"]] <= row["bytes"] + rough.error_bytes
    kept = {row["key"] for row in rows}
    dropped = [size for key, size in sizes.items() if key not in kept]
    assert max(dropped) <= rough.error_bytes
    assert rough.other["bytes"] == exact.total["bytes"] - sum(r["bytes"] for r in rows)


def test_memory_does_not_grow_with_the_number_of_keys():
    batches = [
        keyed([b"%d" % (j + i) for j in range(5000)]) for i in range(0, 600_000, 5000)
    ]
    data = b"".join(batches)
    tracemalloc.start()
    try:
        report = kafkalog.stats(data, "key", max_groups=1000)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.total["records"] == 600_000
    assert peak < 64 << 20


@pytest.mark.parametrize("by", GROUPS)
def test_threads_find_the_same_groups(by, monkeypatch):
    monkeypatch.setattr("kafkalog.analysis.log_stats.PART_BYTES", 2000)
    for options in ({}, {"start_offset": 5, "isolation": "read_committed"}):
        one = kafkalog.stats(CLEAN, ["topic", by] if by != "topic" else by, **options)
        many = kafkalog.stats(CLEAN, one.by, threads=3, **options)
        assert many.as_dict() == one.as_dict()


def test_threads_that_drop_groups_keep_the_totals(monkeypatch, tmp_path):
    monkeypatch.setattr("kafkalog.analysis.log_stats.PART_BYTES", 2000)
    whole = kafkalog.stats(CLEAN, "key")
    some = kafkalog.stats(CLEAN, "key", max_groups=20, threads=3)
    assert some.total == whole.total
    sizes = {json.dumps(row["key"]): row["bytes"] for row in whole.rows()}
    for row in some.rows():
        size = sizes[json.dumps(row["key"])]
        assert row["bytes"] <= size <= row["bytes"] + some.error_bytes


@pytest.mark.parametrize("threads", [1, 3])
def test_damage_and_progress_are_reported_with_any_number_of_threads(tmp_path, threads):
    for number in range(4):
        log = tmp_path / f"orders-{number}" / f"{0:020}.log"
        log.parent.mkdir()
        damaged = bytearray(build(2, "none", 0))
        damaged[-1] ^= number % 2
        log.write_bytes(damaged + build(2, "none", 3))
    with pytest.raises(CorruptRecordError, match="orders-1"):
        kafkalog.stats(tmp_path, "key", threads=threads)
    skipped = kafkalog.stats(tmp_path, "key", threads=threads, on_corruption="skip")
    assert [problem.path.parent.name for problem in skipped.problems] == [
        "orders-1",
        "orders-3",
    ]
    reports = []
    scan = kafkalog.scan(
        tmp_path,
        threads=threads,
        progress=lambda done, size: reports.append((done, size)),
    )
    stats_of(scan, "topic")
    total = sum(path.stat().st_size for path in tmp_path.glob("*/*.log"))
    assert reports[-1] == (total, total)


def test_timestamps_far_from_now_and_null_ones_have_groups():
    builder = RecordBatchBuilder()
    for time in (2**62, -1, 5):
        builder.append(None, b"v", timestamp=time)
    rows = list(kafkalog.stats(builder.build(), "hour").rows())
    hour = 2**62 // 3_600_000 * 3_600_000
    assert [row["hour"] for row in rows] == [0, hour, None]
    assert rows[-1]["first_timestamp"] is None


def test_a_log_without_records_has_a_report_without_groups(tmp_path):
    (tmp_path / "orders-0").mkdir()
    for by in GROUPS:
        report = kafkalog.stats(tmp_path, by)
        assert report.to_arrow().num_rows == 0
        assert report.total["records"] == report.total["bytes"] == 0
        assert report.total["first_timestamp"] is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"by": "topics"},
            r"no such groups: topics \(did you mean topic\?\); expected topic, part",
        ),
        ({"by": []}, r"groups \(\), expected one or more, each once"),
        ({"by": ["key", "key"]}, "expected one or more, each once"),
        ({"limit": 0}, "limit 0, expected 1 or more"),
        ({"max_groups": 0}, "max_groups 0, expected 1 or more"),
    ],
)
def test_an_invalid_option_is_a_value_error(options, message):
    with pytest.raises(ValueError, match=message):
        kafkalog.stats(build(2, "none", 0), **options)


@pytest.mark.parametrize("option", [{"columns": ["key"]}, {"text": True}])
def test_an_option_of_a_scan_that_does_not_apply_is_a_type_error(option):
    with pytest.raises(TypeError, match=f"stats of a scan with {next(iter(option))}"):
        kafkalog.stats(build(2, "none", 0), **option)


def test_the_json_of_the_command_is_the_report_of_the_function():
    options = ("--by", "topic,key", "-n", "5", "--topic", "orders.*")
    printed = json.loads(call("stats", CLEAN, *options, "--format", "json").stdout)
    report = kafkalog.stats(CLEAN, ["topic", "key"], limit=5, topics="orders.*")
    assert printed == report.as_dict()
    assert objects(call("stats", CLEAN, *options).stdout) == [
        {"schema": 1, **row} for row in printed["groups"]
    ]


def test_a_table_ends_with_the_other_groups_and_the_total():
    lines = call("stats", CLEAN, "-n", "2", "--format", "table").stdout.splitlines()
    first = [line.split()[0] for line in lines]
    assert first == ["topic", "sizes", "__transaction_state", "other", "total"]
    assert lines[-1].split()[1:4] == ["387.8", "KiB", "100.0%"]
    for by in GROUPS:
        assert call("stats", CLEAN, "--by", by, "--format", "table").exit_code == 0


def test_an_unknown_group_is_a_usage_error():
    ran = call("stats", CLEAN, "--by", "topic,colour")
    assert ran.exit_code == 2
    assert "--by: no such groups: colour" in ran.stderr


def test_skipped_damage_sets_the_exit_code(tmp_path):
    damaged = bytearray(build(2, "none", 0))
    damaged[-1] ^= 1
    log = tmp_path / "orders-0" / f"{0:020}.log"
    log.parent.mkdir()
    log.write_bytes(damaged + build(2, "none", 3))
    ran = call("stats", log, "--by", "size", "--on-corruption", "skip")
    assert ran.exit_code == 1
    assert sum(row["records"] for row in objects(ran.stdout)) == 3
    assert "corrupt data was skipped once" in ran.stderr


@pytest.mark.parametrize("by", [*GROUPS, "topic,key", "hour,codec"])
def test_a_picture_is_written(by, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "groups.svg"
    ran = call("stats", CLEAN, "--by", by, "--plot", picture)
    assert ran.exit_code == 0, ran.output
    text = picture.read_text(encoding="utf-8")
    assert text.rstrip().endswith("</svg>")
    kafkalog.stats(CLEAN, by.split(",")).plot(tmp_path / "groups.png")
    assert (tmp_path / "groups.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(("name", "code"), [("a.txt", 2), ("a", 2), ("no/a.png", 3)])
def test_a_picture_that_cannot_be_written_is_an_error_before_reading(
    name, code, tmp_path
):
    pytest.importorskip("matplotlib")
    ran = call("stats", CLEAN, "--plot", tmp_path / name)
    assert ran.exit_code == code
    assert ran.stdout == ""


def test_a_picture_of_hours_leaves_out_times_that_cannot_be_drawn(tmp_path):
    pytest.importorskip("matplotlib")
    builder = RecordBatchBuilder()
    for time in (2**62, -1, T):
        builder.append(b"$k$", b"v", timestamp=time)
    for by in ("hour", "day", "key"):
        kafkalog.stats(builder.build(), by).plot(tmp_path / "times.svg")
    assert (tmp_path / "times.svg").stat().st_size


def test_the_report_has_a_text_and_html_form():
    report = kafkalog.stats(CLEAN)
    assert repr(report).startswith("<StatsReport: 25 groups by topic: 3,291 records, ")
    assert "<td>orders.zstd</td>" in report._repr_html_()
    assert "5 more groups" in report._repr_html_()


def test_the_command_reads_headers_only_without_loading_matplotlib():
    ran = run("stats", CLEAN, "--by", "producer")
    assert ran.returncode == 0
    assert len(ran.stdout.splitlines()) == 15
