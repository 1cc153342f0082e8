"""Producer snapshots of Kafka are read, and every corruption is detected."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.codecs.checksum import crc32c
from kafkalog.errors import CorruptSnapshotError
from kafkalog.formats.producer_snapshot import (
    ENTRY,
    first_offset,
    first_sequence,
    format_snapshot,
    parse_snapshot,
)
from tests import golden_data
from tests.faults import byte_of_fault

# What Kafka's ProducerStateManager wrote for these entries.
EXAMPLES = {
    "one": (
        [(4242, 1, 8, 101, 1, 1_700_000_000_005, 9, 100)],
        "0001978ce1270000000100000000000010920001000000080000000000000065"
        "000000010000018bcfe56805000000090000000000000064",
    ),
    "empty": ([], "000148674bc700000000"),
    "no batch": (
        [(7, 0, -1, -1, 0, 1_700_000_000_000, 3, -1)],
        "00018a98eb150000000100000000000000070000ffffffffffffffffffffffff"
        "000000000000018bcfe5680000000003ffffffffffffffff",
    ),
}
ONE = bytes.fromhex(EXAMPLES["one"][1])

LIMITS = {"i2": 2**15, "i4": 2**31, "i8": 2**63}
rows = st.tuples(
    *(
        st.integers(-LIMITS[kind.str[1:]], LIMITS[kind.str[1:]] - 1)
        for kind in (ENTRY[name] for name in ENTRY.names)
    )
)


def with_crc(body):
    return struct.pack(">hI", 1, crc32c(body)) + body


def golden_snapshots(set_name):
    for directory in golden_data.directories(set_name):
        for row in golden_data.truth(set_name, directory, "snapshots"):
            path = golden_data.logs(set_name) / directory / row["file"]
            yield row, path.read_bytes()


def as_truth(entries):
    """Yield entries in the form of the truth: null where Kafka has no batch."""
    firsts = zip(first_sequence(entries), first_offset(entries), strict=True)
    for entry, (sequence, offset) in zip(entries, firsts, strict=True):
        has_batch = entry["last_offset"] >= 0
        of_batch = {
            "first_sequence": sequence,
            "last_sequence": entry["last_sequence"],
            "first_offset": offset,
            "last_offset": entry["last_offset"],
            "offset_delta": entry["offset_delta"],
        }
        transaction = entry["current_txn_first_offset"]
        yield {
            "producer_id": entry["producer_id"],
            "producer_epoch": entry["producer_epoch"],
            "coordinator_epoch": entry["coordinator_epoch"],
            "current_txn_first_offset": transaction if transaction >= 0 else None,
            "last_timestamp": entry["timestamp"],
            **{name: value if has_batch else None for name, value in of_batch.items()},
        }


@pytest.mark.parametrize("set_name", golden_data.SETS)
def test_every_snapshot_has_the_entries_read_by_kafka(set_name):
    seen = entries_seen = 0
    for row, data in golden_snapshots(set_name):
        entries = parse_snapshot(data)
        assert list(as_truth(entries)) == row["entries"]
        assert len(data) == row["size"]
        assert format_snapshot(entries) == data
        seen, entries_seen = seen + 1, entries_seen + len(entries)
    assert (seen and entries_seen) or set_name == "oldclients"


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_bytes_are_those_kafka_wrote(name):
    entries, written = EXAMPLES[name]
    assert format_snapshot(np.array(entries, ENTRY)).hex() == written
    assert parse_snapshot(bytes.fromhex(written)).tolist() == entries


@given(entries=st.lists(rows, max_size=6))
def test_entries_are_read_back(entries):
    read = parse_snapshot(format_snapshot(np.array(entries, ENTRY)))
    assert read.tolist() == entries


def test_entries_in_native_byte_order_are_written_in_the_same_way():
    entries = parse_snapshot(ONE)
    native = entries.astype(ENTRY.newbyteorder("="))
    assert format_snapshot(native) == ONE


def test_entries_with_other_fields_are_rejected():
    wide = np.zeros(1, [(name, "i8") for name in ENTRY.names])
    with pytest.raises(TypeError):
        format_snapshot(wide)
    with pytest.raises(TypeError, match=r"expected \('producer_id'"):
        format_snapshot(np.zeros(1, [("producer_id", "i8")]))


def test_a_sequence_wraps_where_kafkas_does():
    entries = np.zeros(3, ENTRY)
    entries["last_sequence"] = [0, 4, 2**31 - 1]
    entries["offset_delta"] = [1, 5, 2**31 - 1]
    assert first_sequence(entries).tolist() == [2**31 - 1, 2**31 - 1, 0]


def test_a_producer_without_a_batch_has_no_first():
    entries = np.array(EXAMPLES["no batch"][0], ENTRY)
    assert first_sequence(entries).tolist() == [-1]
    assert first_offset(entries).tolist() == [-1]


@pytest.mark.parametrize("bit", range(8 * len(ONE)))
def test_every_flipped_bit_is_detected(bit):
    flipped = bytearray(ONE)
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptSnapshotError) as caught:
        parse_snapshot(bytes(flipped))
    assert caught.value.cause == ("version" if bit < 16 else "crc")
    assert caught.value.position == (0 if bit < 16 else 2)


@pytest.mark.parametrize("cut", range(len(ONE)))
def test_every_truncation_is_detected(cut):
    with pytest.raises(CorruptSnapshotError) as caught:
        parse_snapshot(ONE[:cut])
    assert caught.value.cause == ("truncated" if cut < 10 else "crc")
    assert caught.value.position <= cut


def test_a_short_snapshot_over_a_long_one_is_detected():
    short = bytes.fromhex(EXAMPLES["empty"][1])
    with pytest.raises(CorruptSnapshotError, match="CRC mismatch: stored"):
        parse_snapshot(short + ONE[len(short) :])


@pytest.mark.parametrize("count", [-1, 2, 2**31 - 1, -(2**31)])
def test_a_count_above_the_size_of_the_file_is_an_error(count):
    with pytest.raises(CorruptSnapshotError) as caught:
        parse_snapshot(with_crc(struct.pack(">i", count) + ONE[10:]))
    assert caught.value.cause == "count"
    assert caught.value.position == 6


def test_bytes_after_the_entries_are_ignored():
    assert len(parse_snapshot(with_crc(ONE[6:] + b"trailing"))) == 1


@given(data=st.binary(max_size=120))
def test_any_bytes_are_a_snapshot_or_a_typed_error(data):
    for whole in (data, with_crc(data)):
        assert 0 <= byte_of_fault(parse_snapshot, whole) <= len(whole)
