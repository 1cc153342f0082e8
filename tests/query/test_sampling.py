"""Samples: the same records in each reading, as many as requested."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kafkalog
from kafkalog.query.sampling import SAMPLE_BY, RecordSample
from tests import golden_data
from tests.cli.shell import call, objects

from .batches import KINDS, build

CLEAN = golden_data.logs("k431-clean")
COLUMNS = ("topic", "partition", "offset", "position", "segment")


def slow_hash(offset, salt):
    """Return SplitMix64 of one offset, in Python's integers."""
    mixed = (offset * 0x9E3779B97F4A7C15 + salt) % 2**64
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % 2**64
    return mixed ^ mixed >> 31


@given(
    offsets=st.lists(st.integers(-(2**63), 2**63 - 1)),
    salt=st.integers(0, 2**64 - 1),
)
def test_hashes_are_those_of_one_offset_after_another(offsets, salt):
    from kafkalog.query.sampling import _hashed

    found = _hashed(np.array(offsets, np.int64), salt).tolist()
    assert found == [slow_hash(offset, salt) for offset in offsets]


@given(
    less=st.floats(0, 1),
    more=st.floats(0, 1),
    seed=st.integers(),
    partition=st.integers(0, 99),
)
def test_a_smaller_sample_is_part_of_a_larger_one(less, more, seed, partition):
    less, more = sorted((less, more))
    offsets = np.arange(2000)
    part, whole = (
        RecordSample(share, "record", seed).selects(offsets, "orders", partition)
        for share in (less, more)
    )
    assert not (part & ~whole).any()
    assert abs(int(whole.sum()) - 2000 * more) < 200  # 9 standard deviations at most


def test_partitions_topics_and_seeds_have_samples_of_their_own():
    places = [("a", 0, 0), ("a", 1, 0), ("b", 0, 0), ("a", 0, 1)]
    samples = {
        RecordSample(0.5, "record", seed)
        .selects(np.arange(99), topic, number)
        .tobytes()
        for topic, number, seed in places
    }
    assert len(samples) == len(places)


def rows_of(scan):
    return [tuple(row) for chunk in scan.chunks() for row in chunk]


def sampled(by, **more):
    return kafkalog.scan(CLEAN, columns=COLUMNS, sample=0.2, sample_by=by, **more)


@pytest.mark.parametrize("by", SAMPLE_BY)
def test_every_reading_has_the_same_sample(by):
    every = rows_of(kafkalog.scan(CLEAN, columns=COLUMNS))
    rows = rows_of(sampled(by))
    assert 0 < len(rows) < len(every) / 2
    assert {*rows} < {*every}
    batches = {(row[0], row[1], row[3:]) for row in rows}
    together = [row for row in every if (row[0], row[1], row[3:]) in batches]
    assert (rows == together) == (by == "batch")
    for more in ({"threads": 2}, {"check_crcs": False}):
        assert rows_of(sampled(by, **more)) == rows
    views = [[*row] for chunk in sampled(by).chunks(views=True) for row in chunk]
    assert views == [[*row] for row in rows]
    assert sampled(by).count() == len(rows)
    parts = kafkalog.splits(CLEAN, 2000, columns=COLUMNS, sample=0.2, sample_by=by)
    scans = [pickle.loads(pickle.dumps(part)).scan() for part in parts]
    assert [row for scan in scans for row in rows_of(scan)] == rows
    assert sampled(by).to_arrow()["offset"].to_pylist() == [row[2] for row in rows]
    dataset = kafkalog.dataset(CLEAN, sample=0.2, sample_by=by)
    assert dataset.count_rows() == dataset.to_table().num_rows == len(rows)
    alone = kafkalog.scan(
        CLEAN, columns=COLUMNS, sample=0.2, sample_by=by, topics="ledger"
    )
    assert rows_of(alone) == [row for row in rows if row[0] == "ledger"]
    assert rows_of(sampled(by, seed=1)) != rows
    assert f"sample of 20% by {by}, seed 0" in repr(sampled(by))
    assert f"20% by {by}" in sampled(by)._repr_html_()


@pytest.mark.parametrize("by", SAMPLE_BY)
@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_batches_of_every_format_are_sampled(magic, codec, by):
    data = b"".join(build(magic, codec, first, 5) for first in range(0, 500, 5))
    every = kafkalog.scan(data, columns=["offset"]).to_arrow()["offset"].to_numpy()
    scan = kafkalog.scan(data, columns=["offset"], sample=0.3, sample_by=by)
    found = scan.to_arrow()["offset"].to_numpy()
    hashed = every
    if by == "batch" and (magic == 2 or codec != "none"):
        hashed = every // 5 * 5 + 4  # the last offset of the batch
    assert (
        found.tolist()
        == every[RecordSample(0.3, by, 0).selects(hashed, "", -1)].tolist()
    )
    assert 75 < len(found) < 250
    assert scan.count() == len(found)


def test_keys_and_bounds_come_with_a_sample():
    keys = ["key-16", "key-22", "key-1"]
    offsets = sampled("record").to_arrow()
    place = {*zip(*(offsets[name].to_pylist() for name in COLUMNS), strict=True)}
    found = rows_of(sampled("record", keys=keys))
    assert found
    expected = rows_of(kafkalog.scan(CLEAN, columns=COLUMNS, keys=keys))
    assert found == [row for row in expected if tuple(row) in place]


def test_batches_that_are_not_chosen_are_not_decompressed():
    batches = [bytearray(build(2, "gzip", first, 5)) for first in range(0, 500, 5)]
    for batch in batches:
        batch[-1] ^= 1  # its CRC differs, and so does that of gzip
    data = b"".join(batches)
    none = kafkalog.scan(data, sample=0, sample_by="batch", check_crcs=False)
    assert none.to_arrow().num_rows == 0
    with pytest.raises(kafkalog.CorruptionError):
        kafkalog.scan(data, sample=0, sample_by="batch").to_arrow()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sample": 1.5}, ValueError, "sample 1.5, expected a number from 0 to 1"),
        ({"sample": float("nan")}, ValueError, "expected a number from 0 to 1"),
        ({"sample": "1%"}, TypeError, "sample '1%', expected a number"),
        ({"sample_by": "row"}, ValueError, "sample_by 'row', expected record or batch"),
        ({"sample": 0.5, "seed": 0.5}, TypeError, "seed 0.5, expected an integer"),
    ],
)
def test_other_samples_are_rejected(options, error, message):
    with pytest.raises(error, match=message):
        kafkalog.scan(CLEAN, **options)


@pytest.mark.parametrize("by", SAMPLE_BY)
def test_commands_print_the_sample_of_a_scan(by):
    options = "--sample", "20%", "--sample-by", by, "--columns", "topic,offset"
    ran = call("cat", CLEAN, *options)
    rows = [(row["topic"], row["offset"]) for row in objects(ran.stdout)]
    assert rows == [(row[0], row[2]) for row in rows_of(sampled(by))]
    assert call("cat", CLEAN, *options, "--seed", 1).stdout != ran.stdout
    assert call("cat", CLEAN, *options, "--sample", "0.2").stdout == ran.stdout
    ran = call("cat", CLEAN, "--sample", "101%")
    assert (ran.exit_code, ran.stdout) == (2, "")
