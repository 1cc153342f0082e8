"""Checks of a partition's transaction indexes against its batches and markers.

A reader that skips aborted records relies on three fields of an entry:

    last_offset         the producer's abort marker has this offset, in that segment
    first_offset        no record of the transaction has a lower offset, and none of
                        the producer's earlier transactions has it or a higher one
    last_stable_offset  no other transaction was open from a lower offset

There must also be an entry for each abort that has records. Compaction may
have removed records, so these are bounds, not equalities.

Source: ``TransactionIndex.java``, ``ProducerStateManager.java``,
``CleanedTransactionMetadata.java``.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Int64s
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.integer_limits import MAX_INT64, MIN_INT64
from kafkalog.verification.index_checks import SlotFault, add_slot_faults, runs
from kafkalog.verification.verification_report import Cause, Findings

DATA: Final = -1
ABORT: Final = 0

EVENT: Final = np.dtype(
    [
        ("producer_id", np.int64),
        ("offset", np.int64),
        ("position", np.int64),
        ("type", np.int16),
    ]
)
"""A producer's transactional batch (`DATA`, its base offset) or marker (its offset)."""

SPAN: Final = np.dtype(
    [
        ("producer_id", np.int64),
        ("after", np.int64),
        ("first", np.int64),
        ("marker", np.int64),
        ("aborted", np.bool_),
    ]
)
"""A transaction: the marker before it, its first remaining record, its marker."""


def events_of(rows: BatchHeaders, types: npt.NDArray[np.int16]) -> npt.NDArray[np.void]:
    """Reduce transactional batches, in order, to the begin and end of transactions.

    `types` is `DATA`, or the control type of a marker.
    """
    events = np.empty(len(rows), EVENT)
    marker = types != DATA
    events["producer_id"] = rows["producer_id"]
    events["position"] = rows["position"]
    events["offset"] = np.where(marker, rows["last_offset"], rows["base_offset"])
    events["type"] = types
    order = np.argsort(events["producer_id"], kind="stable")
    ordered = events[order]
    kept = np.ones(len(order), np.bool_)
    kept[1:] = (
        (ordered["type"][1:] != DATA)
        | (ordered["type"][:-1] != DATA)
        | (ordered["producer_id"][1:] != ordered["producer_id"][:-1])
    )
    return np.asarray(events[np.sort(order[kept])])


def spans_of(events: npt.NDArray[np.void]) -> npt.NDArray[np.void]:
    """Pair each producer's batches with its markers.

    `first` is `MAX_INT64` if no record is left, and `marker` if there is none.
    """
    events = events[np.argsort(events["producer_id"], kind="stable")]
    producers, marker = events["producer_id"], events["type"] != DATA
    begins = np.ones(len(events), np.bool_)
    begins[1:] = (producers[1:] != producers[:-1]) | marker[:-1]
    firsts = np.flatnonzero(begins)
    lasts = np.append(firsts[1:], len(events))[: len(firsts)] - 1
    spans = np.empty(len(firsts), SPAN)
    spans["producer_id"] = producers[firsts]
    follows = np.zeros(len(firsts), np.bool_)
    follows[1:] = producers[firsts[1:]] == producers[firsts[1:] - 1]
    spans["after"] = np.where(follows, events["offset"][firsts - 1], MIN_INT64)
    spans["first"] = np.where(marker[firsts], MAX_INT64, events["offset"][firsts])
    spans["marker"] = np.where(marker[lasts], events["offset"][lasts], MAX_INT64)
    spans["aborted"] = marker[lasts] & (events["type"][lasts] == ABORT)
    return spans


def open_at(spans: npt.NDArray[np.void], offsets: Int64s) -> Int64s:
    """Return the first offset of the earliest transaction open after each offset.

    It is `MAX_INT64` if there is none. A transaction is open from its first record to
    its marker.
    """
    spans = spans[np.argsort(spans["first"], kind="stable")]
    latest = np.maximum.accumulate(spans["marker"])
    at = np.searchsorted(latest, offsets, side="right")
    first = np.append(spans["first"], MAX_INT64)[at]
    return np.where(first < offsets, first, MAX_INT64)


def check_transactions(
    index: TransactionIndex | None,
    events: npt.NDArray[np.void],
    spans: npt.NDArray[np.void],
    findings: Findings,
) -> None:
    """Compare one segment's transaction index, or its absence, with the log.

    `events` are those of the segment, `spans` the transactions of the whole log.
    """
    aborted = spans[spans["aborted"]]
    aborted = aborted[np.argsort(aborted["marker"])]
    if index is not None and len(index):
        _check_entries(index, events, aborted, spans, findings)
    indexed = np.empty(0, np.int64) if index is None else index.offsets
    ends = events["offset"][events["type"] == ABORT]
    with_records = aborted["marker"][aborted["first"] != MAX_INT64]
    expected = np.intersect1d(ends, with_records)
    lacking = ~np.isin(expected, indexed)
    for first, last in runs(lacking):
        message = f"no entry for the abort marker at offset {expected[first]}"
        if last > first:
            message += f" (nor for the next {last - first}, to {expected[last]})"
        findings.add(
            Cause.TXN_INDEX,
            message,
            offset=int(expected[first]),
            last_offset=int(expected[last]) if last > first else None,
        )


def _check_entries(
    index: TransactionIndex,
    events: npt.NDArray[np.void],
    aborted: npt.NDArray[np.void],
    spans: npt.NDArray[np.void],
    findings: Findings,
) -> None:
    entries, offsets = index.entries, index.offsets
    ends = events[events["type"] == ABORT]
    here = np.isin(offsets, ends["offset"])
    at = np.searchsorted(aborted["marker"], offsets)
    at = np.minimum(at, max(len(aborted) - 1, 0))
    span = aborted[at] if len(aborted) else np.zeros(len(index), SPAN)
    same = here & (span["marker"] == offsets)
    same &= span["producer_id"] == entries["producer_id"]
    first = entries["first_offset"]
    wrong_first = (first > span["first"]) | (first <= span["after"])
    stable = entries["last_stable_offset"]
    wrong_stable = stable > np.minimum(open_at(spans, offsets), offsets + 1)
    wrong_stable |= stable < 0
    width = index.ENTRY.itemsize
    add_slot_faults(
        findings,
        Cause.TXN_INDEX,
        offsets,
        width,
        SlotFault(~same, "no abort marker of that producer at its last offset"),
        SlotFault(
            same & wrong_first, "the transaction does not begin at its first offset"
        ),
        SlotFault(
            same & wrong_stable, "a transaction is open below its last stable offset"
        ),
    )
    message = "version is not 0, expected 0 (brokers up to 4.3 ignore it)"
    later = SlotFault(entries["version"] != 0, message, is_harmless=True)
    add_slot_faults(findings, Cause.VERSION, offsets, width, later)
