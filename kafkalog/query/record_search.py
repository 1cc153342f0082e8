"""The records of a scan that meet conditions, located by file and byte.

Batches whose headers exclude them are not decoded. In the others, keys, values and
headers are searched in place, without a copy.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bools, Bytes
from kafkalog.decoding.batch_decoder import RecordViews, decode, find_headers
from kafkalog.decoding.decoded_columns import ColumnBuffers
from kafkalog.decoding.read_policy import Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.layout import NO_TIMESTAMP
from kafkalog.query.partition_reader import PartitionReader, ScanProblem, SegmentStep
from kafkalog.query.record_filter import taken
from kafkalog.query.records import Origin, make_views
from kafkalog.query.scan import Scan
from kafkalog.query.sources import PartitionSource
from kafkalog.storage.location import Location

Pattern = re.Pattern[bytes]
Numbers = npt.NDArray[np.intp]
CONTENTS: Final[dict[str, Any]] = {"key": None, "value": None, "headers": ()}
"""The contents of a record, and what they are if they are not requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Conditions that a record has to meet, all at once.

    `key` and `value` are patterns to be found in it; null never matches. `headers` are
    pairs of a key and a pattern or None; each pair has to match a header.
    """

    key: Pattern | None = None
    value: Pattern | None = None
    headers: tuple[tuple[bytes, Pattern | None], ...] = ()


BY_IMPORTANCE: Final = ("offset", "path", "position", "record_index", "partition")
"""The columns of a location that a narrow table shows, the most important first."""


class RecordLocation(NamedTuple):
    """A record found, in the batch at byte `position` of `path`.

    `record_index` counts the batch's records from 0; `timestamp` is in ms, None where
    it has none. `key`, `value` and `headers` are set if they are columns of the scan.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int | None
    path: Location | None
    position: int
    record_index: int
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[bytes, bytes | None]] = ()


def locate_records(
    scan: Scan, condition: Condition, *, first: bool = False
) -> Iterator[RecordLocation]:
    """Yield the locations of the records in a scan that meet a condition.

    With `first`, only the first record of each partition is located. Damage that is
    skipped is listed in the scan's `problems`.

    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"a", b"one", timestamp=1)
    >>> batch.append(b"b", b"two", timestamp=2)
    >>> condition = Condition(value=re.compile(b"^t"))
    >>> [found] = locate_records(kafkalog.scan(batch.build()), condition)
    >>> found.offset, found.position, found.record_index
    (8, 0, 1)
    """
    scan.problems = []
    for source, bounds in scan.sources:
        for location in _of_source(scan, source, bounds, condition):
            yield location
            if first:
                break


def _of_source(
    scan: Scan, source: PartitionSource, bounds: Bounds, condition: Condition
) -> Iterator[RecordLocation]:
    policy = replace(scan.policy.checking_first(), needs="records")
    workspace = Workspace()
    reader = PartitionReader(
        source=source, bounds=bounds, policy=policy, filter=scan.filter
    )
    for step in reader.steps():
        if isinstance(step, ScanProblem):
            scan.problems.append(step)
            continue
        last, passed = -1, 0  # the batch that may continue, and its records so far
        for views in _decoded(scan, step, workspace):
            first = int(views.rows["position"][0])
            passed = passed if first == last else 0
            matches = np.flatnonzero(are_within(views, step.bounds))
            if scan.filter.of_records:
                within = taken(views, matches)
                place = source.topic, source.partition
                matches = matches[scan.filter.matches(within, *place)]
            matches = _matches(views, matches, condition)
            if len(matches):
                yield from _locations(scan, source, step, views, matches, passed)
            last = int(views.rows["position"][-1])
            passed = int(views.counts[-1]) + passed * (first == last)


def _locations(
    scan: Scan,
    source: PartitionSource,
    step: SegmentStep,
    views: RecordViews,
    matches: Numbers,
    passed: int,
) -> Iterator[RecordLocation]:
    """Yield the locations of matches; `passed` records of the first batch precede."""
    ends = np.cumsum(views.counts)
    batches = np.searchsorted(ends, matches, side="right")
    indexes = matches - (ends - views.counts)[batches]
    indexes[batches == 0] += passed
    times = views.records["timestamp"][matches].tolist()
    contents = make_views(
        taken(views, matches),
        Origin(source.topic, source.partition),
        tuple(name for name in scan.columns if name in CONTENTS),
        ColumnBuffers(kept=True),
    )
    contents_of = (
        [CONTENTS[name]] * len(matches)
        if name not in contents.columns
        else getattr(contents, name).to_list()
        for name in CONTENTS
    )
    for offset, time, position, index, *content in zip(
        views.records["offset"][matches].tolist(),
        times,
        views.rows["position"][batches].tolist(),
        indexes.tolist(),
        *contents_of,
        strict=True,
    ):
        yield RecordLocation(
            source.topic,
            source.partition,
            offset,
            None if time == NO_TIMESTAMP else time,
            step.path,
            position,
            index,
            *content,
        )


def _decoded(
    scan: Scan, step: SegmentStep, workspace: Workspace
) -> Iterator[RecordViews]:
    """Decode the batches that may hold a match, each of them whole."""
    results = decode(
        step.step.data,
        step.step.origin,
        step.step.rows,
        bounds=Bounds(),
        limit=scan.policy.max_batch_bytes,
        workspace=workspace,
        before=step.step.before,
        split_large=True,
    )
    for views in results:
        if isinstance(views, LocatedError):
            scan.problems.append(step.skip(views, scan.policy))
        else:
            yield views


def _matches(views: RecordViews, matches: Numbers, condition: Condition) -> Numbers:
    """Return those of `matches`, numbers of records, that meet the conditions."""
    records = views.records
    for name, pattern in (("key", condition.key), ("value", condition.value)):
        if pattern is not None:
            starts, lengths = records[f"{name}_start"], records[f"{name}_length"]
            places = starts[matches], lengths[matches]
            matches = matches[_contains(pattern, views.data, *places)]
    if condition.headers and len(matches):
        matches = with_headers(condition.headers, views, matches)
    return matches


def are_within(views: RecordViews, bounds: Bounds) -> Bools:
    """Return which records are within bounds; those without a timestamp never are."""
    first, last, earliest, latest = bounds.as_array().tolist()
    offset, time = views.records["offset"], views.records["timestamp"]
    within: Bools = (offset >= first) & (offset <= last)
    if bounds.timed:
        within &= (time != NO_TIMESTAMP) & (time >= earliest) & (time <= latest)
    return within


def _contains(
    pattern: Pattern,
    data: Bytes,
    starts: npt.NDArray[np.int32],
    lengths: npt.NDArray[np.int32],
) -> Bools:
    """Return which byte strings the pattern occurs in; a length of -1 is null."""
    search, buffer = pattern.search, data.data
    return np.fromiter(
        (
            length >= 0 and search(buffer[start : start + length]) is not None
            for start, length in zip(starts.tolist(), lengths.tolist(), strict=True)
        ),
        np.bool_,
        len(starts),
    )


def with_headers(
    conditions: tuple[tuple[bytes, Pattern | None], ...],
    views: RecordViews,
    matches: Numbers,
) -> Numbers:
    """Return those of `matches` that have a header for each of `conditions`."""
    offsets, places = find_headers(views)
    buffer = views.data.data
    kept = []
    for match in matches.tolist():
        here = places[:, offsets[match] : offsets[match + 1]].T.tolist()
        headers = [
            (bytes(buffer[a : a + m]), None if n < 0 else buffer[b : b + n])
            for a, m, b, n in here
        ]
        kept.append(all(_has(headers, *condition) for condition in conditions))
    return matches[np.array(kept, np.bool_)]


def _has(
    headers: list[tuple[bytes, memoryview | None]], name: bytes, pattern: Pattern | None
) -> bool:
    """Return whether one of the headers has that key, and a value with the pattern."""
    return any(
        key == name
        and (pattern is None or (value is not None and bool(pattern.search(value))))
        for key, value in headers
    )
