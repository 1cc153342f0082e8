"""Half a million flipped bits: each under a checksum is detected."""

from __future__ import annotations

import numpy as np
import pytest

import kafkalog
from kafkalog.errors import CorruptIndexError, CorruptSnapshotError, LocatedError
from kafkalog.formats.batch_headers import find_crc_mismatches, scan_headers
from kafkalog.formats.checkpoint import parse_epochs, parse_offsets
from kafkalog.formats.producer_snapshot import parse_snapshot
from kafkalog.formats.properties import MetaProperties
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from tests.campaigns import sources
from tests.query.batches import rows_of

pytestmark = pytest.mark.slow

MAGIC_AT = 16
CRC_AT = {0: 12, 1: 12, 2: 17}
LEAST_FLIPS = 500_000
MOST_COPIED_BYTES = 32 << 20
EPOCH = range(12, 16)  # of a batch; changed in place, and so under no checksum


def flipped(data, bits):
    """Return a copy of `data` for each of `bits`, with that bit flipped."""
    copies = np.tile(np.frombuffer(data, np.uint8), (len(bits), 1))
    copies[np.arange(len(bits)), bits // 8] ^= (1 << bits % 8).astype(np.uint8)
    return copies


def covered(entry):
    """Return the bits of a batch under its checksum, and those of the checksum.

    The magic is not among them, as it determines the checksum.
    """
    bits = np.arange(8 * CRC_AT[entry[MAGIC_AT]], 8 * len(entry))
    return bits[bits // 8 != MAGIC_AT]


def test_every_flipped_bit_under_the_checksum_of_a_batch_is_detected(figure):
    entries = sources.all_entries()
    tried = found = 0
    for entry in entries:
        parts = len(entry) ** 2 * 8 // MOST_COPIED_BYTES + 1
        for bits in np.array_split(covered(entry), parts):
            data = flipped(entry, bits).reshape(-1)
            rows, status, _ = scan_headers(data, capacity=len(bits) + 1)
            assert (len(rows), status) == (len(bits), 0)
            mismatches = find_crc_mismatches(data, 0, rows)
            tried, found = tried + len(bits), found + len(mismatches)
    assert found == tried >= LEAST_FLIPS
    figure("bit flips", "under an entry's checksum", tried, "all found")


@pytest.mark.parametrize("number", range(8))
def test_a_scan_skips_each_corrupt_batch_and_returns_the_others(number, figure):
    entries = sources.all_entries()[number::80]
    tried = 0
    for entry in entries:
        bits = covered(entry)[:: max(3, len(entry) // 40)]
        copies = flipped(entry, bits)
        valid = np.tile(np.frombuffer(entry, np.uint8), (len(bits), 1))
        data = np.stack([valid, copies], axis=1).tobytes()
        skipping = scan(data, on_corruption="skip")
        records = len(rows_of(scan(entry)))
        assert len(rows_of(skipping)) == records * len(bits)
        places = [problem.position for problem in skipping.problems]
        assert places == [len(entry) * (2 * i + 1) for i in range(len(bits))]
        tried += len(bits)
    assert tried
    figure("bit flips", f"through a scan, part {number}", tried, "all skipped")


def scan(data, **options):
    return kafkalog.scan(
        data,
        columns=kafkalog.query.scan_columns.COLUMNS,
        control_records=True,
        **options,
    )


def test_a_flipped_bit_outside_the_checksum_changes_no_key_or_value(
    figure,
):
    tried = found = 0
    for entry in sources.all_entries()[::16]:
        outside = np.setdiff1d(np.arange(8 * len(entry)), covered(entry))
        before = outcome(entry)
        for bit, copy in zip(outside, flipped(entry, outside), strict=True):
            values, error = outcome(copy.tobytes())
            if error is None and values != before[0]:
                # With a greater size the batch is incomplete.
                assert (values, bit // 8 in range(8, 12)) == ([], True)
            found += error is not None
            tried += 1
    assert 0 < found < tried
    figure("bit flips", "outside a checksum", tried, f"{found:,} of them an error")


def outcome(data):
    """Return keys and values, and the error that ended the scan, if any."""
    found = []
    try:
        for chunk in kafkalog.scan(data, control_records=True).chunks():
            found += zip(chunk.key.to_list(), chunk.value.to_list(), strict=True)
    except LocatedError as error:
        return found, error
    return found, None


def test_every_flipped_bit_of_a_producer_snapshot_is_detected(figure):
    tried = 0
    for data in sources.files("*.snapshot"):
        for copy in flipped(data, np.arange(8 * len(data))):
            with pytest.raises(CorruptSnapshotError):
                parse_snapshot(copy.tobytes())
            tried += 1
    assert tried > 1_000
    figure("bit flips", "producer snapshots", tried, "all found")


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("*.index", OffsetIndex),
        ("*.timeindex", TimeIndex),
        ("*.txnindex", TransactionIndex),
    ],
)
def test_a_flipped_bit_of_an_index_is_detected_or_keeps_the_offsets_ascending(
    pattern, kind, figure
):
    tried = found = 0
    for data in sources.files(pattern)[:12]:
        used = np.flatnonzero(np.frombuffer(data, np.uint8)).max(initial=-1) + 1
        used = -(-used // kind.ENTRY.itemsize) * kind.ENTRY.itemsize
        for copy in flipped(data, np.arange(8 * min(used, 600))):
            try:
                index = kind.from_bytes(copy.tobytes(), 0)
            except CorruptIndexError:
                found += 1
            else:
                assert (np.diff(index.offsets) >= 0).all()
            tried += 1
    assert tried > 300
    figure("bit flips", f"{pattern}", tried, f"{found:,} of them an error")


@pytest.mark.parametrize(
    ("pattern", "parse"),
    [
        ("*-offset-checkpoint", parse_offsets),
        ("leader-epoch-checkpoint", parse_epochs),
        ("meta.properties", MetaProperties.parse),
    ],
)
def test_a_flipped_bit_of_a_text_file_raises_no_untyped_error(pattern, parse, figure):
    tried = found = 0
    for data in sources.files(pattern)[:6]:
        for copy in flipped(data, np.arange(8 * min(len(data), 400))):
            try:
                parse(copy.tobytes())
            except LocatedError:
                found += 1
            tried += 1
    assert tried > 300
    figure("bit flips", f"{pattern}", tried, f"{found:,} of them an error")
