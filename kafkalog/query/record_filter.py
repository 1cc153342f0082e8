"""`RecordFilter`: the records of a scan by key, header and producer, or a sample.

Whole batches are selected by their headers. In the others records are selected in
place, before any of their bytes are copied to columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from kafkalog import _speedups
from kafkalog.array_types import Bools, Bytes, Int64s
from kafkalog.decoding.batch_decoder import RecordViews, find_headers
from kafkalog.decoding.workspace import RecordSpans
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.query.sampling import RecordSample
from kafkalog.query.sources import PartitionSource

Key: TypeAlias = bytes | str | None
"""A key; text is UTF-8, and None the null key."""

Header: TypeAlias = "str | bytes | tuple[str | bytes, str | bytes | None]"
"""The key of a header, or a pair of key and value; a value of None is any."""

Headers: TypeAlias = "Iterable[Header] | Mapping[str, str | bytes | None]"

HeaderCondition = tuple[bytes, bytes | None]
"""The key of a header and its value; None for any value."""

Rows = npt.NDArray[np.intp]
"""The numbers of records."""


class LatestOfKeys(Protocol):
    """What finds the latest record of each key in a partition."""

    def offsets_in(self, source: PartitionSource) -> Int64s:
        """Return the offsets of these records, which ascend."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordFilter:
    """Conditions on the records of a scan, apart from bounds; all have to be met.

    The key has to be one of `keys`, and the producer one of `producer_ids`; None stands
    for any. Each of `headers` has to be in a record. Of what is left, a `sample` is
    taken, by record or by batch. Records without a value may be left out as
    `tombstones`. With `latest`, the caller also leaves out all but the latest record of
    each key.
    """

    keys: frozenset[bytes | None] | None = None
    headers: tuple[HeaderCondition, ...] = ()
    producer_ids: frozenset[int] | None = None
    sample: RecordSample | None = None
    tombstones: bool = True
    latest: LatestOfKeys | None = None

    @classmethod
    def of(
        cls,
        keys: Iterable[Key] | bytes | str | None,
        headers: Headers | None,
        producer_ids: Iterable[int] | int | None,
        sample: RecordSample | None = None,
    ) -> RecordFilter:
        """Return the filter for arguments of `scan`.

        >>> RecordFilter.of("ann", {"trace": b"1"}, 7).headers
        ((b'trace', b'1'),)
        """
        return cls(
            keys=None if keys is None else as_keys(keys),
            headers=() if headers is None else as_headers(headers),
            producer_ids=as_producer_ids(producer_ids),
            sample=sample,
        )

    @property
    def of_batches(self) -> bool:
        """Whether batches are selected by their headers."""
        sampled = self.sample is not None and self.sample.by == "batch"
        return sampled or self.producer_ids is not None

    @property
    def of_records(self) -> bool:
        """Whether records are selected within batches."""
        sampled = self.sample is not None and self.sample.by == "record"
        by_offset = sampled or self.latest is not None or not self.tombstones
        return by_offset or self.keys is not None or bool(self.headers)

    def select_batches(self, rows: BatchHeaders, topic: str, partition: int) -> Bools:
        """Return which batches of a partition may have records that are selected."""
        selected = np.ones(len(rows), np.bool_)
        if self.producer_ids is not None:
            selected &= np.isin(rows["producer_id"], list(self.producer_ids))
        if self.sample is not None and self.sample.by == "batch":
            # The first offset of a wrapper message is not in its header.
            selected &= self.sample.selects(rows["last_offset"], topic, partition)
        return selected

    def matches(self, views: RecordViews, topic: str, partition: int) -> Rows:
        """Return which records of selected batches meet the other conditions."""
        matches = np.arange(len(views.records))
        if self.sample is not None and self.sample.by == "record":
            offsets = views.records["offset"]
            matches = np.flatnonzero(self.sample.selects(offsets, topic, partition))
        if not self.tombstones:
            matches = matches[views.records["value_length"][matches] >= 0]
        if self.keys is not None and len(matches):
            matches = matches[are_keys(taken(views, matches), self.keys)]
        if self.headers and len(matches):
            found = have_headers(taken(views, matches), self.headers)
            matches = matches[found]
        return matches


EVERY_RECORD: Final = RecordFilter()


def taken(views: RecordViews, rows: Rows) -> RecordViews:
    """Return some of the records, whose numbers ascend; batches stay without any."""
    if len(rows) == len(views.records):
        return views
    batches = np.repeat(np.arange(len(views.rows)), views.counts)[rows]
    spans = views.records
    return replace(
        views,
        records=RecordSpans(spans.longs.take(rows, 1), spans.ints.take(rows, 1)),
        counts=np.bincount(batches, minlength=len(views.rows)),
    )


def at_offsets(views: RecordViews, offsets: Int64s) -> Rows:
    """Return which records have one of some offsets; both ascend."""
    own = views.records["offset"]
    if not len(own):
        return np.empty(0, np.intp)
    first = np.searchsorted(offsets, own[0])
    end = np.searchsorted(offsets, own[-1], "right")
    wanted = offsets[first:end]
    rows = np.searchsorted(own, wanted)
    found: Rows = rows[own[rows] == wanted]
    return found


def are_keys(views: RecordViews, keys: Collection[bytes | None]) -> Bools:
    """Return which records have one of some keys."""
    records = views.records
    return are_any(views.data, records["key_start"], records["key_length"], keys)


def are_any(
    data: Bytes,
    starts: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int32],
    values: Collection[bytes | None],
) -> Bools:
    """Return which byte strings in `data` are one of `values`; a length of -1 is null.

    >>> data = np.frombuffer(b"abcb", np.uint8)
    >>> starts, lengths = np.array([0, 1, 3], "i4"), np.array([1, 1, 1], "i4")
    >>> are_any(data, starts, lengths, [b"b", b"bc"])
    array([False,  True,  True])
    """
    by_length = defaultdict[int, list[bytes]](list)
    for value in values:
        by_length[-1 if value is None else len(value)].append(value or b"")
    found = np.zeros(len(lengths), np.bool_)
    for length, same in by_length.items():
        rows = np.flatnonzero(lengths == length)
        if length <= 0 or not len(rows):
            found[rows] = True
            continue
        copied = np.empty(len(rows) * length, np.uint8)
        _speedups.gather_bytes(data, starts[rows], lengths[rows], copied)
        # NumPy ignores zeros at the end, and all of these have the same length.
        texts = copied.view(f"S{length}")
        found[rows] = np.isin(texts, np.array(same, texts.dtype))
    return found


def have_headers(views: RecordViews, conditions: Iterable[HeaderCondition]) -> Bools:
    """Return which records have a header for each of some conditions."""
    offsets, (starts, lengths, value_starts, value_lengths) = find_headers(views)
    found = np.ones(len(views.records), np.bool_)
    for name, value in conditions:
        matches = are_any(views.data, starts, lengths, [name])
        if value is not None:
            matches &= are_any(views.data, value_starts, value_lengths, [value])
        before = np.append(0, np.cumsum(matches))
        found &= before[offsets[1:]] > before[offsets[:-1]]
    return found


def as_keys(keys: Iterable[Key] | bytes | str) -> frozenset[bytes | None]:
    """Return keys as bytes; text as UTF-8, and the null key as None."""
    if isinstance(keys, bytes | str):
        keys = [keys]
    return frozenset(None if key is None else _as_bytes(key, "key") for key in keys)


def as_headers(headers: Headers) -> tuple[HeaderCondition, ...]:
    """Return conditions on headers: each a key, or a pair of key and value."""
    if isinstance(headers, bytes | str):
        headers = [headers]
    elif isinstance(headers, Mapping):
        headers = list(headers.items())
    return tuple(_as_condition(header) for header in headers)


def as_producer_ids(ids: Iterable[int] | int | None) -> frozenset[int] | None:
    """Return the ids of producers; None for any."""
    if ids is None:
        return None
    listed = list(ids) if isinstance(ids, Iterable) else [ids]
    for number in listed:
        if isinstance(number, bool) or not hasattr(number, "__index__"):
            raise TypeError(f"producer id {number!r}, expected an integer")
    return frozenset(map(int, listed))


def _as_condition(header: Header) -> HeaderCondition:
    if isinstance(header, bytes | str):
        return _as_bytes(header, "header"), None
    key, value = header
    value = None if value is None else _as_bytes(value, "header value")
    return _as_bytes(key, "header"), value


def _as_bytes(value: object, role: str) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if not isinstance(value, bytes):
        raise TypeError(f"{role} {value!r:.64}, expected bytes or text")
    return value
