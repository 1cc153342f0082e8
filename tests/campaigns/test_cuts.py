"""Fifty thousand truncations: the longest valid prefix is read, and never more."""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest

import kafkalog
from kafkalog.errors import (
    CorruptCheckpointError,
    CorruptIndexError,
    CorruptSnapshotError,
    LocatedError,
)
from kafkalog.formats.checkpoint import parse_epochs, parse_offsets
from kafkalog.formats.partition_files import PartitionMetadata, QuorumState
from kafkalog.formats.producer_snapshot import parse_snapshot
from kafkalog.formats.properties import MetaProperties, parse_properties
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.log.reading.metadata_snapshot import MetadataSnapshot
from tests.campaigns import sources
from tests.query.batches import KINDS

pytestmark = pytest.mark.slow

LEAST_CUTS = 50_000
PARTS = 8  # of brokers' entries


def test_at_least_the_stated_number_of_cuts_is_made():
    """Count the positions of truncation in some of the files."""
    made = sum(len(entry) for kind in KINDS for entry in sources.made(*kind))
    brokers = sum(len(entry) for part in range(PARTS) for entry in of_brokers(part))
    others = ("*.snapshot", "partition.metadata", "meta.properties", "quorum-state")
    small = sum(len(data) for pattern in others for data in sources.files(pattern))
    # Entries of kafkalog are truncated twice, in memory and as a file.
    assert 2 * made + brokers + small >= LEAST_CUTS


def offsets_of(source, **options):
    found = []
    scan = kafkalog.scan(source, columns=["offset"], control_records=True, **options)
    for chunk in scan.chunks():
        found += chunk.offset.tolist()
    return found


def check_cuts(entries):
    """Truncate the entries at each byte, in memory; return the number of cuts."""
    data = b"".join(entries)
    ends = list(itertools.accumulate(map(len, entries)))
    offsets = list(itertools.accumulate([offsets_of(entry) for entry in entries]))
    whole = 0
    for cut in range(len(data) + 1):
        whole += whole < len(ends) and cut == ends[whole]
        assert offsets_of(data[:cut]) == (offsets[whole - 1] if whole else [])
    return len(data) + 1


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_cut_batches_of_kafkalog_are_read_up_to_the_last_whole_one(
    magic, codec, figure
):
    cuts = check_cuts(sources.made(magic, codec))
    figure("cuts", f"entries of magic {magic}, {codec}", cuts)


def of_brokers(number):
    return sources.of_brokers()[number::48]


@pytest.mark.parametrize("number", range(PARTS))
def test_cut_batches_of_brokers_are_read_up_to_the_last_whole_one(number, figure):
    entries = of_brokers(number)
    groups = [entries[i : i + 3] for i in range(0, len(entries), 3)]
    cuts = sum(map(check_cuts, groups))
    figure("cuts", f"entries of brokers, part {number}", cuts)


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_a_truncated_file_is_read_up_to_the_last_whole_batch(
    magic, codec, tmp_path, figure
):
    entries = sources.made(magic, codec)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(b"".join(entries))
    ends = list(itertools.accumulate(map(len, entries)))
    whole_file = offsets_of(path)
    each = len(whole_file) // len(entries)
    for cut in range(ends[-1], -1, -1):
        os.truncate(path, cut)
        whole = each * sum(end <= cut for end in ends)
        assert offsets_of(path, on_corruption="skip") == whole_file[:whole]
    figure("cuts", f"files of magic {magic}, {codec}", ends[-1] + 1)


@pytest.mark.parametrize(
    ("pattern", "kind"),
    [
        ("*.index", OffsetIndex),
        ("*.timeindex", TimeIndex),
        ("*.txnindex", TransactionIndex),
    ],
)
def test_truncated_indexes_have_the_entries_before_the_cut(
    pattern, kind, tmp_path, figure
):
    path, width, cuts = tmp_path / "0", kind.ENTRY.itemsize, 0
    for data in sources.files(pattern)[:20]:
        whole = kind.from_bytes(data, 0)
        path.write_bytes(data)
        for cut in range(min(len(data), (len(whole) + 1) * width), -1, -1):
            os.truncate(path, cut)
            front = whole.entries[: cut // width]
            assert np.array_equal(kind.read_live(path, 0).entries, front)
            if cut % width:
                with pytest.raises(CorruptIndexError):
                    kind.read(path, 0)
            else:
                assert np.array_equal(kind.read(path, 0).entries, front)
            cuts += 1
    assert cuts > 50
    figure("cuts", f"{pattern}", cuts)


def test_truncated_producer_snapshots_are_errors(figure):
    cuts = 0
    for data in sources.files("*.snapshot"):
        for cut in range(len(data)):
            with pytest.raises(CorruptSnapshotError):
                parse_snapshot(data[:cut])
        cuts += len(data)
    assert cuts > 200
    figure("cuts", "producer snapshots", cuts, "all found")


def test_truncated_metadata_snapshots_have_the_batches_before_the_cut(figure):
    cuts = 0
    for data in sources.files("*.checkpoint", 20_000)[:4]:
        whole = MetadataSnapshot.parse(data)
        for cut in range(len(data)):
            try:
                found = MetadataSnapshot.parse(data[:cut])
            except LocatedError:
                continue
            finally:
                cuts += 1
            assert found.finished is None
            assert found.batches == whole.batches[: len(found.batches)]
    assert cuts > 100
    figure("cuts", "snapshots of metadata", cuts)


@pytest.mark.parametrize(
    ("pattern", "parse"),
    [("*-offset-checkpoint", parse_offsets), ("leader-epoch-checkpoint", parse_epochs)],
)
def test_truncated_checkpoints_are_errors_or_have_the_lines_before_the_cut(
    pattern, parse, figure
):
    cuts = 0
    for data in sources.files(pattern):
        whole = list(parse(data))
        for cut in range(len(data)):
            try:
                found = list(parse(data[:cut]))
            except LocatedError:
                continue
            finally:
                cuts += 1
            # No checksum: digits may be missing in the last line, and all lines after
            # the version.
            assert found[:-1] == whole[: len(found) - 1] or found == []
            assert len(found) in (0, len(whole))
    assert cuts > 50
    figure("cuts", f"{pattern}", cuts)


def test_truncated_meta_properties_have_the_lines_before_the_cut(figure):
    cuts = 0
    for data in sources.files("meta.properties"):
        lines, whole = parse_properties(data), MetaProperties.parse(data)
        for cut in range(len(data)):
            found = parse_properties(data[:cut])
            *before, last = found or [""]
            assert all(found[name] == lines[name] for name in before)
            # The last line may end in its key, or in its value.
            if last not in lines:
                assert any(name.startswith(last) for name in lines)
            else:
                assert lines[last].value.startswith(found[last].value)
            try:
                meta = MetaProperties.parse(data[:cut])
            except LocatedError:
                continue
            finally:
                cuts += 1
            for name in ("node_id", "cluster_id", "directory_id"):
                value = getattr(meta, name)
                assert value is None or f"{getattr(whole, name)}".startswith(f"{value}")
    assert cuts > 500
    figure("cuts", "meta.properties", cuts)


def test_truncated_partition_metadata_is_an_error(figure):
    cuts = 0
    for data in sources.files("partition.metadata"):
        for cut in range(len(data.rstrip())):
            with pytest.raises(CorruptCheckpointError):
                PartitionMetadata.parse(data[:cut])
        cuts += len(data)
    assert cuts > 500
    figure("cuts", "partition.metadata", cuts, "all found")


def test_truncated_quorum_states_are_errors(figure):
    cuts = 0
    for data in sources.files("quorum-state"):
        for cut in range(len(data.rstrip())):
            with pytest.raises(CorruptCheckpointError):
                QuorumState.parse(data[:cut])
        cuts += len(data)
    assert cuts > 200
    figure("cuts", "quorum-state", cuts, "all found")
