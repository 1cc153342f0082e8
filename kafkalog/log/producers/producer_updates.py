"""Validation of the batches of an append against the state of their producers.

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
"""Epoch and last sequence of a producer without an open transaction.

A batch with a base sequence below `least` may be a duplicate.
"""


class ProducerUpdates:
    """Updates of the producer state by one append, or by loading one segment.

    `add` validates batches and, except for verifications, does not change the state.
    `apply` updates it. The caller then writes each of `completed` to the transaction
    index, and passes it to `ProducerStateManager.complete_txn`.

    Parameters
    ----------
    guard : int
        Guard of this append, from `ProducerStateManager.start_verification`.
    transaction_version : int
        Transaction version of the markers; -1 if unknown, which a leader rejects, 0
        when loading.
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
        """Validate batches in order; `rows` are `BATCH`, with their final offsets.

        `markers` has the marker of each control batch, as `read_markers` returns them.
        `position` is the byte that the first of `rows` will have in the segment with
        base offset `segment_base`; both are -1 if unknown, as when loading.

        Returns the earlier batch if one of a client is a duplicate: the append must
        then not be written. Raises the errors of `ProducerAppendInfo`.
        """
        shift = position - int(rows["position"][0]) if len(rows) else 0
        for index, row in owned_batches(rows):
            if self._is_client and (batch := self._duplicate(row)) is not None:
                return batch
            if self._verified:
                self._check_verification(row)
            offset = OffsetMetadata(row[1])
            if segment_base != -1:
                offset = OffsetMetadata(row[1], segment_base, row[0] + shift)
            self._append_batch(row, offset, markers.get(index))
        return None

    def apply(self) -> None:
        """Update the producer state; the caller completes `completed`."""
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
        """Raise if a transaction begins without the guard of its verification."""
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
                f"batch of producer {producer_id} at offset {row[1]}: transactional, "
                f"expected an open or verified transaction"
            )

    def _append_batch(
        self, row: OwnedBatch, offset: OffsetMetadata, marker: Marker | None
    ) -> None:
        producer_id, epoch, attributes = row[4], row[5], row[7]
        info = self._infos.get(producer_id)
        self._again = info is not None
        if info is None:
            info = self._producers.prepare_update(producer_id, self._origin)
            self._infos[producer_id] = info
        ended = _append(info, row, offset, marker, self._version)
        if ended is not None:
            self.completed.append(ended)
        if attributes & TRANSACTIONAL_FLAG:
            self._end_verification(producer_id, epoch, bool(attributes & CONTROL_FLAG))

    def _end_verification(self, producer_id: int, epoch: int, control: bool) -> None:
        """Drop the verification of this batch, but not that of the next transaction.

        A marker of version 2 has the epoch of the next transaction.
        """
        verifications = self._producers.verifications
        state = verifications.get(producer_id)
        if state is not None:
            is_next = state.supports_epoch_bump and control and epoch == state.epoch
            if not is_next:
                del verifications[producer_id]


def known_sequences(
    producers: ProducerStateManager, rows: BatchHeaders
) -> BatchHeaders:
    """Return a row of `SEQUENCE` for each producer of `rows` that may simply continue.

    Such a producer is known, and has neither an open transaction nor a verification.
    """
    sequences = []
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
            sequences.append((producer_id, least, entry.last_sequence, epoch, 0))
    return np.array(sequences, SEQUENCE)


def continue_sequences(producers: ProducerStateManager, rows: BatchHeaders) -> None:
    """Add written batches to the producers whose sequences they continue."""
    for _, row in owned_batches(rows):
        _, base, last, timestamp, producer_id, epoch, sequence, _ = row
        entry, delta = producers.producers[producer_id], last - base
        entry.add(epoch, BatchMetadata(sequence + delta, last, delta, timestamp))


def replay(
    producers: ProducerStateManager, rows: BatchHeaders, markers: Markers
) -> Iterator[CompletedTxn]:
    """Update the producer state batch by batch, as in the recovery of a segment.

    Yields each transaction that ends. The caller completes it before the next step.
    """
    for index, row in owned_batches(rows):
        info = producers.prepare_update(row[4], AppendOrigin.REPLICATION)
        offset = OffsetMetadata(row[1])
        ended = _append(info, row, offset, markers.get(index), TV_UNKNOWN)
        producers.update(info)
        if ended is not None:
            yield ended


def _append(
    info: ProducerAppendInfo,
    row: OwnedBatch,
    offset: OffsetMetadata,
    marker: Marker | None,
    version: int,
) -> CompletedTxn | None:
    """Add a batch to the state of its producer; an empty control batch is ignored."""
    _, base, last, timestamp, _, epoch, sequence, attributes = row
    if attributes & CONTROL_FLAG:
        if marker is None:
            return None
        return info.append_marker(marker, epoch, base, version)
    last_sequence = last_sequence_of(sequence, last - base)
    transactional = bool(attributes & TRANSACTIONAL_FLAG)
    info.append_data(
        *(epoch, sequence, last_sequence, timestamp, offset, last, transactional)
    )
    return None
