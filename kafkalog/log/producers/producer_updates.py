"""The batches of an append, judged against what is known of their producers.

Knows: an append's producers. Does not know: how batches are written.
Source: ``UnifiedLog.java`` (``analyzeAndValidateProducerState``, ``updateProducers``,
``loadProducersFromRecords``), ``LogSegment.java`` (``updateProducerState``).
"""

from __future__ import annotations

from collections.abc import Iterator
from types import MappingProxyType
from typing import Final

import numpy as np

from kafkalog.errors import InvalidTxnStateError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import (
    CONTROL_FLAG,
    TRANSACTIONAL_FLAG,
)
from kafkalog.log.markers import Markers
from kafkalog.log.offset_metadata import OffsetMetadata
from kafkalog.log.producers.hash_order import computed_order
from kafkalog.log.producers.producer_append import TV_UNKNOWN, ProducerAppendInfo
from kafkalog.log.producers.producer_entry import (
    NO_GUARD,
    NONE,
    BatchMetadata,
    CompletedTxn,
    Marker,
    last_sequence_of,
)
from kafkalog.log.producers.producer_manager import (
    ProducerStateManager,
    check_epoch_is_current,
)
from kafkalog.log.producers.producer_state import OwnedBatch, owned_batches
from kafkalog.validation.appends import AppendOrigin

NO_MARKERS: Final[Markers] = MappingProxyType({})

SEQUENCE: Final = np.dtype(
    [
        ("producer_id", np.int64),
        ("least", np.int64),
        ("last", np.int32),
        ("epoch", np.int16),
        ("_unused", np.int16),
    ]
)
"""A producer without an open transaction: its epoch and last sequence.

A sequence below `least` may be that of a duplicate.
"""


class ProducerUpdates:
    """What one append does to producers, or what loading one segment does.

    `add` judges batches and leaves alone what is known, verifications aside; `apply`
    takes all over, after which each of `completed` is for the transaction index and for
    `ProducerStateManager.complete_txn`.

    Parameters
    ----------
    guard : int
        What `ProducerStateManager.start_verification` gave for this append.
    transaction_version : int
        That of the markers; -1 not told, which a leader refuses. Loading takes 0.
    """

    __slots__ = (
        "_again",
        "_guard",
        "_infos",
        "_is_client",
        "_origin",
        "_producers",
        "_verified",
        "_version",
        "completed",
    )

    def __init__(
        self,
        producers: ProducerStateManager,
        origin: AppendOrigin,
        *,
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
    ) -> None:
        self.completed: list[CompletedTxn] = []
        self._producers = producers
        self._origin = origin
        self._guard = guard
        self._version = transaction_version
        self._is_client = origin is AppendOrigin.CLIENT
        self._verified = self._is_client or origin is AppendOrigin.COORDINATOR
        self._infos: dict[int, ProducerAppendInfo] = {}
        self._again = False

    def add(
        self,
        rows: BatchHeaders,
        markers: Markers = NO_MARKERS,
        *,
        segment_base: int = -1,
        position: int = -1,
    ) -> BatchMetadata | None:
        """Judge batches in their order; `rows` are `BATCH`, with their final offsets.

        `markers` has one for each control batch of a producer, as `read_markers` gives
        them. The first of the rows will lie at byte `position` of the segment whose
        base offset is `segment_base`; -1 where that is not told, as in loading.

        Answers the batch that one from a client repeats: then none of the append is to
        be written. Raises what `ProducerAppendInfo` raises.
        """
        shift = position - int(rows["position"][0]) if len(rows) else 0
        for index, row in owned_batches(rows):
            if self._is_client and (found := self._duplicate(row)) is not None:
                return found
            if self._verified:
                self._check_verification(row)
            place = OffsetMetadata(row[1])
            if segment_base != -1:
                place = OffsetMetadata(row[1], segment_base, row[0] + shift)
            self._take(row, place, markers.get(index))
        return None

    def apply(self) -> None:
        """Take the update over; `completed` are for the caller to complete."""
        infos = self._infos
        for producer_id in computed_order(list(infos), again=self._again):
            self._producers.update(infos[producer_id])

    def _duplicate(self, row: OwnedBatch) -> BatchMetadata | None:
        _, base, last, _, producer_id, epoch, sequence, _ = row
        entry = self._producers.last_entry(producer_id)
        if entry is None:
            return None
        return entry.find_duplicate(
            epoch, sequence, last_sequence_of(sequence, last - base)
        )

    def _check_verification(self, row: OwnedBatch) -> None:
        """Let a transaction begin only with the guard of its verification."""
        producer_id, epoch, attributes = row[4], row[5], row[7]
        producers = self._producers
        if not attributes & TRANSACTIONAL_FLAG:
            return
        if producers.has_ongoing_txn(producer_id, epoch):
            return
        entry = producers.last_entry(producer_id)
        if entry is not None:
            check_epoch_is_current(entry, epoch)
        if attributes & CONTROL_FLAG or not producers.transaction_verification:
            return
        if self._guard == NO_GUARD or self._guard != producers.guard_of(producer_id):
            raise InvalidTxnStateError(
                f"producer {producer_id}: the batch at offset {row[1]} "
                f"is not part of an open transaction"
            )

    def _take(
        self, row: OwnedBatch, place: OffsetMetadata, marker: Marker | None
    ) -> None:
        producer_id, epoch, attributes = row[4], row[5], row[7]
        info = self._infos.get(producer_id)
        self._again = info is not None
        if info is None:
            info = self._producers.prepare_update(producer_id, self._origin)
            self._infos[producer_id] = info
        ended = _append(info, row, place, marker, self._version)
        if ended is not None:
            self.completed.append(ended)
        if attributes & TRANSACTIONAL_FLAG:
            self._end_verification(producer_id, epoch, bool(attributes & CONTROL_FLAG))

    def _end_verification(self, producer_id: int, epoch: int, control: bool) -> None:
        """Drop the verification that led here, but not that of the next transaction.

        A marker of version 2 has the epoch of what comes next.
        """
        verifications = self._producers.verifications
        state = verifications.get(producer_id)
        if state is not None:
            next_one = state.supports_epoch_bump and control and epoch == state.epoch
            if not next_one:
                del verifications[producer_id]


def known_sequences(
    producers: ProducerStateManager, rows: BatchHeaders
) -> BatchHeaders:
    """Return a row of `SEQUENCE` for each producer of `rows` that may just continue.

    One that is known, has no open transaction, and of which none is being verified.
    """
    found = []
    for producer_id in dict.fromkeys(rows["producer_id"].tolist()):
        entry = producers.last_entry(producer_id)
        if (
            entry is not None
            and entry.batches
            and entry.txn_first_offset == NONE
            and producer_id not in producers.verifications
        ):
            least = max(batch.first_sequence for batch in entry.batches) + 1
            epoch = entry.producer_epoch
            found.append((producer_id, least, entry.last_sequence, epoch, 0))
    return np.array(found, SEQUENCE)


def continue_sequences(producers: ProducerStateManager, rows: BatchHeaders) -> None:
    """Add written batches to their producers, whose sequences they continue."""
    for _, row in owned_batches(rows):
        _, base, last, timestamp, producer_id, epoch, sequence, _ = row
        entry, delta = producers.producers[producer_id], last - base
        entry.add(epoch, BatchMetadata(sequence + delta, last, delta, timestamp))


def replay(
    producers: ProducerStateManager, rows: BatchHeaders, markers: Markers
) -> Iterator[CompletedTxn]:
    """Take over batches one by one, as recovering a segment does.

    Yields each transaction as it is ended, for the caller to complete before going on.
    """
    for index, row in owned_batches(rows):
        info = producers.prepare_update(row[4], AppendOrigin.REPLICATION)
        place = OffsetMetadata(row[1])
        ended = _append(info, row, place, markers.get(index), TV_UNKNOWN)
        producers.update(info)
        if ended is not None:
            yield ended


def _append(
    info: ProducerAppendInfo,
    row: OwnedBatch,
    place: OffsetMetadata,
    marker: Marker | None,
    version: int,
) -> CompletedTxn | None:
    """Append a batch to its producer's part; an emptied control batch does nothing."""
    _, base, last, timestamp, _, epoch, sequence, attributes = row
    if attributes & CONTROL_FLAG:
        if marker is None:
            return None
        return info.append_marker(marker, epoch, base, version)
    last_sequence = last_sequence_of(sequence, last - base)
    transactional = bool(attributes & TRANSACTIONAL_FLAG)
    info.append_data(
        *(epoch, sequence, last_sequence, timestamp, place, last, transactional)
    )
    return None
