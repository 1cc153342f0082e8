"""`verify` of damaged files: each flipped bit and each truncation is found."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.formats.layout import BATCH_CRC_FROM
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.verification.path_verification import verify
from kafkalog.verification.verification_report import Cause
from tests import golden_data
from tests.manager.partitions import batch, flips, write_partition

SET, LEDGER = "k431-clean", "ledger-0"
BATCH_BYTES = len(batch(0))


@pytest.fixture
def partition(tmp_path):
    return write_partition(tmp_path / "orders-0")


@pytest.fixture
def ledger(tmp_path):
    return shutil.copytree(golden_data.logs(SET) / LEDGER, tmp_path / LEDGER)


def batches_of(path):
    rows = golden_data.truth(SET, LEDGER, "batches")
    return [row for row in rows if row["file"] == f"{path.stem}.log"]


def some_bits(size, step):
    """Return every `step`-th bit of a file; an odd step covers all bits of a byte."""
    assert size
    return range(0, 8 * size, step)


def bits_of_batches(path):
    """Yield all bits not covered by the checksum, and one of every third byte in it."""
    for byte in range(path.stat().st_size):
        if byte % BATCH_BYTES < BATCH_CRC_FROM:
            yield from range(8 * byte, 8 * byte + 8)
        elif byte % 3 == 0:
            yield 8 * byte + byte % 8


@pytest.mark.parametrize("base", [0, 6])
def test_every_flipped_bit_of_a_log_is_found(partition, base):
    log = partition / f"{base:020d}.log"
    unnoticed = [
        divmod(bit // 8, BATCH_BYTES)
        for bit in flips(log, bits_of_batches(log))
        if verify(partition).ok
    ]
    assert unnoticed == []
    assert not verify(partition).problems


def test_every_flipped_bit_of_a_snapshot_is_found(partition):
    (snapshot,) = partition.glob("*.snapshot")
    for _ in flips(snapshot, some_bits(snapshot.stat().st_size, 1)):
        assert not verify(snapshot).ok


def starts_early_enough(index, batches):
    """Return whether a reader that uses an offset index finds every offset."""
    places = {0, *(row["position"] for row in batches)}
    offsets = range(index.base_offset, batches[-1]["last_offset"] + 1)
    starts = index.lookup(list(offsets)).tolist()
    expected = [
        next(row["position"] for row in batches if row["last_offset"] >= offset)
        for offset in offsets
    ]
    pairs = zip(starts, expected, strict=True)
    return places.issuperset(starts) and all(start <= at for start, at in pairs)


@pytest.mark.parametrize("base", [5, 82])
def test_a_flipped_bit_of_an_offset_index_is_found_or_harmless(ledger, base):
    path = ledger / f"{base:020d}.index"
    batches = batches_of(path)
    noticed = 0
    for _ in flips(path, some_bits(path.stat().st_size, 11)):
        if verify(ledger).ok:
            assert starts_early_enough(OffsetIndex.read(path), batches)
        else:
            noticed += 1
    assert noticed


def finds_every_time(index, batches):
    """Return whether a reader that uses a time index finds the first batch per time.

    It starts with the batch of the offset that the index returns.
    """
    greatest = np.array([row["max_timestamp"] for row in batches])
    last = np.array([row["last_offset"] for row in batches])
    times = np.unique(np.concatenate((greatest, index.timestamps)))
    times = np.unique(np.concatenate((times - 1, times, times + 1)))
    first = [int((greatest >= time).argmax()) for time in times]
    starts = np.searchsorted(last, index.lookup(times))
    present = times <= greatest.max()
    return bool((starts <= first)[present].all())


@pytest.mark.parametrize("base", [5, 82])
def test_a_flipped_bit_of_a_time_index_is_found_or_harmless(ledger, base):
    path = ledger / f"{base:020d}.timeindex"
    batches = batches_of(path)
    noticed = 0
    for _ in flips(path, some_bits(path.stat().st_size, 13)):
        if verify(ledger).ok:
            assert finds_every_time(TimeIndex.read(path), batches)
        else:
            noticed += 1
    assert noticed


def skipped_batches(index, batches):
    """Return the positions of the batches that a reader skips by these entries."""
    return {
        (row["file"], row["position"])
        for row in batches
        for entry in index.entries
        if row["is_transactional"]
        and row["producer_id"] == entry["producer_id"]
        and entry["first_offset"] <= row["base_offset"] <= entry["last_offset"]
    }


@pytest.mark.parametrize("base", [5, 82])
def test_a_flipped_bit_of_a_transaction_index_is_found_or_harmless(ledger, base):
    path = ledger / f"{base:020d}.txnindex"
    batches = golden_data.truth(SET, LEDGER, "batches")
    right = TransactionIndex.read(path)
    expected = skipped_batches(right, batches)
    stable = right.entries["last_stable_offset"].copy()
    found = harmless = 0
    for _ in flips(path, some_bits(path.stat().st_size, 23)):
        if verify(ledger).problems:
            found += 1
        else:
            harmless += 1
            index = TransactionIndex.read(path)
            assert skipped_batches(index, batches) == expected
            assert (index.entries["last_stable_offset"] <= stable).all()
    assert found > harmless > 0


def cuts(path):
    """Yield each shorter length, with the file truncated to it; restore the file."""
    data = path.read_bytes()
    assert data
    for length in range(len(data)):
        path.write_bytes(data[:length])
        yield length
    path.write_bytes(data)


def test_a_lone_log_may_end_anywhere(partition, tmp_path):
    log = Path(shutil.copy(partition / f"{0:020d}.log", tmp_path))
    data = log.read_bytes()
    for length in cuts(log):
        report = verify(log)
        whole, part = divmod(length, BATCH_BYTES)
        assert report.batches == whole
        found = [(p.cause, p.position, p.offset) for p in report.problems]
        position = whole * BATCH_BYTES
        zeros = not any(data[position:length])
        cause = Cause.PREALLOCATED if zeros else Cause.INCOMPLETE
        end = (cause, position, 2 * whole)
        assert found == ([end] if part else [])
        assert report.ok


def test_a_truncated_log_is_found_by_its_indexes(partition):
    paths = list(partition.glob("*.log"))
    assert paths
    for path in paths:
        for _ in cuts(path):
            assert not verify(partition).ok


@pytest.mark.parametrize(("kind", "width"), [("index", 8), ("timeindex", 12)])
def test_an_index_truncated_within_an_entry_is_an_error(partition, kind, width):
    path = partition / f"{0:020d}.{kind}"
    for length in cuts(path):
        causes = [problem.cause for problem in verify(partition).problems]
        expected = [Cause.TRUNCATED] if length % width else []
        if kind == "timeindex":  # the last entry is gone
            expected.append(Cause.TIME_INDEX)
        assert sorted(causes) == sorted(expected)


def test_a_truncated_transaction_index_is_an_error(ledger):
    path = ledger / f"{5:020d}.txnindex"
    for length in cuts(path):
        if length % 17 == 0:
            causes = {problem.cause for problem in verify(ledger).problems}
            assert Cause.TXN_INDEX in causes
            assert (Cause.TRUNCATED in causes) == bool(length % 34)


def test_a_truncated_snapshot_is_an_error(partition):
    (snapshot,) = partition.glob("*.snapshot")
    for _ in cuts(snapshot):
        assert not verify(snapshot).ok


@given(
    which=st.integers(0, 99),
    place=st.integers(0, 400),
    removed=st.integers(0, 40),
    put=st.binary(max_size=40),
)
def test_any_damage_is_reported_without_an_exception(which, place, removed, put):
    with TemporaryDirectory() as directory:
        partition = write_partition(Path(directory, "orders-0"))
        paths = sorted(partition.iterdir())
        path = paths[which % len(paths)]
        data = path.read_bytes()
        path.write_bytes(data[:place] + put + data[place + removed :])
        report = verify(partition)
        assert report.files == len(paths)
        assert list(report.problems) == sorted(report.problems, key=lambda p: p.order)


@pytest.mark.parametrize("base", [2**63 - 1, 2**63 - 2**31, 2**32])
def test_a_segment_of_any_base_offset_is_verified(partition, base):
    for path in partition.glob(f"{6:020d}.*"):
        path.rename(partition / path.name.replace(f"{6:020d}", f"{base:020d}"))
    assert not verify(partition).ok


@pytest.mark.parametrize(
    "name",
    [
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "bootstrap.checkpoint",
        "__cluster_metadata-0/quorum-state",
        "__cluster_metadata-0/leader-epoch-checkpoint",
        "__cluster_metadata-0/partition.metadata",
    ],
)
def test_any_truncation_of_a_small_file_is_reported_without_an_exception(
    tmp_path, name
):
    source = golden_data.logs(SET) / name
    path = shutil.copy(source, tmp_path)
    copy = tmp_path / source.name
    found = [problem for _ in cuts(copy) for problem in verify(path).problems]
    assert {problem.path for problem in found} == {copy.name}
