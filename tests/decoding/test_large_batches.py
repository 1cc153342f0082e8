"""Large batches are decoded in parts, with the same records and errors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import kafkalog
from kafkalog.decoding import large_batches
from kafkalog.decoding.batch_decoder import decode
from kafkalog.decoding.decoded_columns import ColumnBuffers, ColumnWorkspace
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.query.record_search import Condition, locate_records
from tests.query.batches import KINDS, build
from tests.query.test_memory import batch_of

TINY = b"\x0c\x00\x00\x00\x01\x01\x00"
MANY = 700_000


@pytest.fixture
def small_parts(monkeypatch):
    """Treat every batch of some records as a large one."""
    monkeypatch.setattr(large_batches, "LARGE_BATCH_BYTES", 40)
    monkeypatch.setattr(large_batches, "MOST_RECORDS", 2)


def mixed(codec):
    """Return batches of 11 records each, with headers and nulls."""
    entries = []
    for base in (0, 11):
        batch = RecordBatchBuilder(base_offset=base, codec=codec)
        for i in range(11):
            headers = [("h", b"x"), ("n", None)][: i % 3]
            key = None if i % 4 == 0 else b"k" * i
            batch.append(key, b"v" * (7 * i % 100), timestamp=i * i, headers=headers)
        entries.append(batch.build())
    return b"".join(entries)


def decoded(data, workspace, bounds, **options):
    """Return the decoded records, field by field, and errors; and the results."""
    rows, _, _ = scan_headers(np.frombuffer(data, np.uint8))
    found, runs = [], 0
    for run in decode(
        *(np.frombuffer(data, np.uint8), 0, rows),
        **{"bounds": bounds, "limit": 1 << 26, "workspace": workspace, **options},
    ):
        runs += 1
        if isinstance(run, LocatedError):
            found.append((type(run), run.position, run.cause, run.reason))
            continue
        position = np.repeat(run.rows["position"], run.counts)
        records = run.records
        if isinstance(workspace, Workspace):
            columns = [*records.longs.tolist(), *records.ints[1::2].tolist()]
        else:
            key, value, headers = records.key, records.value, records.headers
            columns = [records.offset.tolist(), records.timestamp.tolist()]
            columns += [strings_of(key), strings_of(value)]
            names, texts = strings_of(headers.key), strings_of(headers.value)
            ends = headers.offsets.tolist()
            spans = [slice(*ends[i : i + 2]) for i in range(len(records))]
            columns += [[(names[span], texts[span]) for span in spans]]
        found += zip(position.tolist(), *columns, strict=True)
    return found, runs


def strings_of(strings):
    data, ends = strings.data.tobytes(), strings.offsets.tolist()
    whole = [data[a:b] for a, b in pairwise(ends)]
    return [row if ok else None for row, ok in zip(whole, strings.valid, strict=False)]


def column_workspace(kept=False):
    return ColumnWorkspace(("key", "value", "headers"), ColumnBuffers(kept=kept))


WORKSPACES = {
    "views": Workspace,
    "columns": column_workspace,
    "kept": lambda: column_workspace(kept=True),
}
BOUNDS = [
    Bounds(),
    Bounds(start_offset=3, end_offset=17),
    Bounds(start_timestamp=5, end_timestamp=50),
]


@pytest.mark.parametrize("workspace", WORKSPACES)
@pytest.mark.parametrize("bounds", BOUNDS, ids=["all", "offsets", "times"])
@pytest.mark.parametrize("codec", ["none", "lz4", "zstd"])
def test_the_parts_have_the_records_of_the_whole_batch(
    codec, bounds, workspace, small_parts
):
    data, make = mixed(codec), WORKSPACES[workspace]
    whole, _ = decoded(data, make(), bounds)
    parts, runs = decoded(data, make(), bounds, split_large=True)
    assert parts == whole
    assert len(whole) > 5
    assert runs > 4


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_splitting_does_not_change_batches_of_any_kind(magic, codec, small_parts):
    data = b"".join(build(magic, codec, 5 * i, 5) for i in range(3))
    for make in WORKSPACES.values():
        options = {"before": -1, "split_large": True}
        parts, _ = decoded(data, make(), Bounds(), **options)
        assert parts == decoded(data, make(), Bounds(), before=-1)[0]


def test_corruption_is_the_same_error_with_and_without_splitting(small_parts):
    data, changed = mixed("none"), 0
    undamaged, _ = decoded(data, Workspace(), Bounds())
    for place in range(57, len(data) // 2):
        for value in (0, 1, 0x7F, 0x80, 0xFF, data[place] ^ 2):
            damaged = bytearray(data)
            damaged[place] = value
            whole, _ = decoded(bytes(damaged), Workspace(), Bounds())
            parts, _ = decoded(bytes(damaged), Workspace(), Bounds(), split_large=True)
            assert parts == whole
            changed += whole != undamaged
    assert changed > 300


@pytest.fixture(scope="module")
def dense():
    """Return a batch of very many of the smallest records."""
    return batch_of(0, TINY * MANY, MANY)


@pytest.mark.parametrize("options", [{}, {"views": True}, {"reuse": True}])
def test_a_batch_of_very_many_records_is_read_in_several_chunks(dense, options):
    sizes, codes = [], set()
    scan = kafkalog.scan(dense, columns=["offset", "value", "codec"])
    for chunk in scan.chunks(**options):
        sizes.append(len(chunk))
        codes |= set(chunk.codec.tolist())
    assert sum(sizes) == MANY
    assert max(sizes) == large_batches.MOST_RECORDS
    assert codes == {0}


def test_a_batch_is_validated_to_its_end_before_a_record_is_returned(dense):
    damaged = dense[:-1] + b"\x01"
    scan = kafkalog.scan(damaged, check_crcs=False)
    with pytest.raises(
        kafkalog.CorruptRecordError, match="invalid number or length of record headers"
    ) as caught:
        next(scan.chunks())
    assert caught.value.position == len(dense) - 6  # after the last record's length
    skipping = kafkalog.scan(damaged, check_crcs=False, on_corruption="skip")
    assert list(skipping.chunks()) == []
    assert len(skipping.problems) == 1


def test_the_index_of_a_record_counts_from_the_start_of_the_batch(small_parts):
    data = mixed("none")
    found = list(locate_records(kafkalog.scan(data), Condition()))
    assert [place.record_index for place in found] == [*range(11)] * 2
    assert [place.offset for place in found] == [*range(22)]
