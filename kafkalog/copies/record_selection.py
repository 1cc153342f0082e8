"""The records of a copy: which records of a log are selected, one by one.

A record has to meet every condition. Conditions are on its offset and timestamp, its
key, its producer, its headers, and what a caller's function returns for it. Control
records are always selected, as the records of transactions depend on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias, TypedDict

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bools
from kafkalog.decoding.batch_decoder import RecordViews
from kafkalog.decoding.decoded_columns import ColumnBuffers
from kafkalog.decoding.read_policy import Bounds
from kafkalog.errors import LogArgumentError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.timestamps import Time, as_ms_or_none
from kafkalog.log.ownership import Name
from kafkalog.query import scan_columns
from kafkalog.query.chunk_columns import ViewColumn
from kafkalog.query.record_filter import (
    HeaderCondition,
    Headers,
    Key,
    are_keys,
    as_headers,
    as_keys,
    have_headers,
    taken,
)
from kafkalog.query.record_search import are_within
from kafkalog.query.records import Origin, Records, make_views
from kafkalog.query.sources import Offset
from kafkalog.storage.log_directory import Topics

Predicate: TypeAlias = "Callable[[Records[ViewColumn]], npt.ArrayLike]"
"""Returns which records of a chunk are selected, as an array of bools."""

COLUMNS: Final = scan_columns.COLUMNS[: scan_columns.COLUMNS.index("is_control")]
"""The columns that a predicate can read: of records, and not of their batches."""

ANY_TIME: Final = Bounds()


class RecordFilters(TypedDict, total=False):
    """The options of `restore` and `prove` that select records."""

    topics: Topics
    exclude_topics: Topics
    start_offset: Offset
    end_offset: Offset
    start_timestamp: Time | None
    end_timestamp: Time | None
    keys: Iterable[Key] | bytes | str | None
    exclude_keys: Iterable[Key] | bytes | str
    producer_ids: Iterable[int] | None
    exclude_producer_ids: Iterable[int]
    headers: Headers
    exclude_headers: Headers
    where: Predicate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSelection:
    """Conditions on the records of a copy, apart from their offsets.

    `keys` and `producer_ids` are those of the selected records, None for all; records
    with one of the excluded ones are not selected. Each of `headers` has to be in a
    record, and none of `excluded_headers`. `timed` are bounds on timestamps.
    """

    keys: frozenset[bytes | None] | None = None
    excluded_keys: frozenset[bytes | None] = frozenset()
    producer_ids: frozenset[int] | None = None
    excluded_producer_ids: frozenset[int] = frozenset()
    headers: tuple[HeaderCondition, ...] = ()
    excluded_headers: tuple[HeaderCondition, ...] = ()
    timed: Bounds = ANY_TIME
    where: Predicate | None = None

    @property
    def is_everything(self) -> bool:
        """Whether every record is selected."""
        return self == RecordSelection()

    @property
    def needs_records(self) -> bool:
        """Whether records have to be read, as headers of batches do not suffice."""
        return self.timed.timed or not (
            self.keys is None
            and not self.excluded_keys
            and not self.headers
            and not self.excluded_headers
            and self.where is None
        )

    def may_have(self, rows: BatchHeaders) -> Bools:
        """Return which batches are of a producer whose records may be selected."""
        producers = rows["producer_id"]
        selected = np.ones(len(rows), np.bool_)
        if self.producer_ids is not None:
            selected &= np.isin(producers, list(self.producer_ids))
        if self.excluded_producer_ids:
            selected &= ~np.isin(producers, list(self.excluded_producer_ids))
        return selected

    def select(self, views: RecordViews, bounds: Bounds, name: Name) -> Bools:
        """Return which records of batches are selected; `bounds` are of offsets."""
        selected = are_within(views, bounds)
        if self.timed.timed:
            selected &= are_within(views, self.timed)
        selected &= np.repeat(self.may_have(views.rows), views.counts)
        if self.keys is not None:
            selected &= are_keys(views, self.keys)
        if self.excluded_keys:
            selected &= ~are_keys(views, self.excluded_keys)
        if self.headers:
            selected &= _have_headers(views, self.headers, selected)
        for condition in self.excluded_headers:
            selected &= ~_have_headers(views, (condition,), selected)
        if self.where is not None and selected.any():
            selected &= _evaluate(self.where, views, name)
        return selected


def as_selection(filters: RecordFilters) -> RecordSelection:
    """Return the conditions on records, apart from their topics and offsets.

    Raises `TypeError` for a filter that does not exist.

    >>> as_selection({"exclude_keys": ["ann"]}).excluded_keys
    frozenset({b'ann'})
    """
    for name in filters.keys() - RecordFilters.__optional_keys__:
        raise TypeError(f"unexpected keyword argument {name!r}")
    keys, producer_ids = filters.get("keys"), filters.get("producer_ids")
    return RecordSelection(
        keys=None if keys is None else as_keys(keys),
        excluded_keys=as_keys(filters.get("exclude_keys", ())),
        producer_ids=None if producer_ids is None else frozenset(producer_ids),
        excluded_producer_ids=frozenset(filters.get("exclude_producer_ids", ())),
        headers=as_headers(filters.get("headers", ())),
        excluded_headers=as_headers(filters.get("exclude_headers", ())),
        timed=Bounds(
            start_timestamp=as_ms_or_none(filters.get("start_timestamp")),
            end_timestamp=as_ms_or_none(filters.get("end_timestamp")),
        ),
        where=filters.get("where"),
    )


def _have_headers(
    views: RecordViews, conditions: tuple[HeaderCondition, ...], among: Bools
) -> Bools:
    """Return which records of `among` have a header for each of some conditions."""
    found = np.zeros(len(among), np.bool_)
    candidates = np.flatnonzero(among & (views.records["header_count"] > 0))
    if len(candidates):
        found[candidates] = have_headers(taken(views, candidates), conditions)
    return found


def _evaluate(where: Predicate, views: RecordViews, name: Name) -> Bools:
    records = make_views(views, Origin(*name), COLUMNS, ColumnBuffers(kept=False))
    selected = np.asarray(where(records))
    if selected.shape != (len(records),) or selected.dtype != np.bool_:
        found = f"{selected.dtype} of shape {selected.shape}"
        expected = f"bool of shape ({len(records)},)"
        raise LogArgumentError(f"the predicate returned {found}, expected {expected}")
    return selected
