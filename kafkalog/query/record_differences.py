"""Comparison of two chunks of records, column by column."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.array_types import Bools, Bytes, Int64s
from kafkalog.query.chunk_columns import BytesColumn, HeadersColumn
from kafkalog.query.records import Records

Indexes = npt.NDArray[np.intp]

FIXED_COMPARED: Final = (
    "leader_epoch",
    "timestamp",
    "timestamp_type",
    "producer_id",
    "producer_epoch",
    "sequence",
    "is_transactional",
    "is_control",
)
COMPARED: Final = (*FIXED_COMPARED, "key", "value", "headers")
"""Columns that equal records have in common, besides the offset."""


def match_offsets(a: Int64s, b: Int64s) -> tuple[Indexes, Indexes]:
    """Return the indexes, in `a` and in `b`, of the offsets that both have.

    >>> match_offsets(np.array([3, 4, 7]), np.array([4, 5, 7]))
    (array([1, 2]), array([0, 2]))
    """
    places = np.searchsorted(b, a)
    found = places < len(b)
    found[found] = b[places[found]] == a[found]
    return np.flatnonzero(found), places[found]


def differing_columns(
    a: Records, in_a: Indexes, b: Records, in_b: Indexes
) -> dict[str, Bools]:
    """Return which pairs of records differ, by column; equal columns are missing."""
    found = {}
    for name in COMPARED:
        if name in FIXED_COMPARED:
            differ = getattr(a, name)[in_a] != getattr(b, name)[in_b]
        elif name == "headers":
            differ = _headers_differ(a.headers, in_a, b.headers, in_b)
        else:
            differ = _bytes_differ(getattr(a, name), in_a, getattr(b, name), in_b)
        if differ.any():
            found[name] = differ
    return found


def _bytes_differ(
    a: BytesColumn, in_a: Indexes, b: BytesColumn, in_b: Indexes
) -> Bools:
    starts_a, lengths_a = _places(a, in_a)
    starts_b, lengths_b = _places(b, in_b)
    differ: Bools = lengths_a != lengths_b
    same = np.flatnonzero(~differ)
    lengths = lengths_a[same]
    bytes_a = _gather(a.data, starts_a[same], lengths)
    bytes_b = _gather(b.data, starts_b[same], lengths)
    positions = np.flatnonzero(bytes_a != bytes_b)
    ends = np.cumsum(np.maximum(lengths, 0))
    differ[same[np.searchsorted(ends, positions, side="right")]] = True
    return differ


def _places(column: BytesColumn, rows: Indexes) -> tuple[Any, Any]:
    """Return start and length of some rows; the length of a null is -1."""
    starts = column.offsets[rows].astype(np.int64)
    lengths = column.offsets[rows + 1] - starts
    if column.valid is not None:
        lengths[~column.valid[rows]] = -1
    return starts, lengths


def _gather(data: Bytes, starts: Any, lengths: Any) -> Bytes:
    out = np.empty(int(np.maximum(lengths, 0).sum()), np.uint8)
    _speedups.gather_bytes(data, starts, lengths, out)
    return out


def _headers_differ(
    a: HeadersColumn[BytesColumn],
    in_a: Indexes,
    b: HeadersColumn[BytesColumn],
    in_b: Indexes,
) -> Bools:
    counts_a = a.offsets[in_a + 1] - a.offsets[in_a]
    counts_b = b.offsets[in_b + 1] - b.offsets[in_b]
    differ: Bools = counts_a != counts_b
    same = np.flatnonzero(~differ)
    counts = counts_a[same]
    headers_a = _ranges(a.offsets[in_a[same]], counts)
    headers_b = _ranges(b.offsets[in_b[same]], counts)
    unequal = _bytes_differ(a.key, headers_a, b.key, headers_b)
    unequal |= _bytes_differ(a.value, headers_a, b.value, headers_b)
    differ[np.repeat(same, counts)[unequal]] = True
    return differ


def _ranges(starts: npt.NDArray[np.int32], counts: npt.NDArray[np.int32]) -> Indexes:
    """Return the integers of the ranges of `counts` integers from `starts` on."""
    before = np.cumsum(counts) - counts
    ranges: Indexes = np.arange(int(counts.sum())) + np.repeat(starts - before, counts)
    return ranges
