"""The batches of one append, judged against what is known of their producers.

Knows: an append's producers. Does not know: how batches are written.
Source: ``UnifiedLog.java`` (``analyzeAndValidateProducerState``, ``updateProducers``,
``loadProducersFromRecords``).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from kafkalog.formats.appends import AppendOrigin
from kafkalog.formats.headers import Bytes, Rows
from kafkalog.log.producer_append import TV_UNKNOWN
from kafkalog.log.producer_entry import NO_GUARD, BatchMetadata, CompletedTxn, Marker
from kafkalog.log.producers import ProducerStateManager

Markers = Mapping[int, Marker | None]
NO_MARKERS: Final[Markers] = MappingProxyType({})


def read_markers(data: Bytes, rows: Rows, origin: int = 0) -> dict[int, Marker | None]:
    """Read the markers of the control batches among `rows`: row number to marker.

    None stands for a control batch that compaction emptied. `origin` is the position of
    the first byte of `data`. Raises `CorruptRecordError`.
    """
    raise NotImplementedError


class ProducerUpdates:
    """What one append does to producers, or what loading one segment does.

    `add` judges batches and changes nothing that an append refused would leave; `apply`
    takes all over, after which each of `completed` goes into the transaction index and
    to `ProducerStateManager.complete_txn`. Changes of verifications are made by `add`.

    Parameters
    ----------
    guard : int
        What `ProducerStateManager.start_verification` gave for this append.
    transaction_version : int
        That of the markers; -1 not told, which a leader's marker is refused for. While
        loading it is 0.
    """

    def __init__(
        self,
        producers: ProducerStateManager,
        origin: AppendOrigin,
        *,
        guard: int = NO_GUARD,
        transaction_version: int = TV_UNKNOWN,
    ) -> None:
        self.completed: list[CompletedTxn] = []
        raise NotImplementedError

    def add(
        self,
        rows: Rows,
        markers: Markers = NO_MARKERS,
        *,
        segment_base: int = -1,
        position: int = -1,
    ) -> BatchMetadata | None:
        """Judge batches in their order; `rows` are `BATCH`, with their final offsets.

        `markers` has one for each control batch of a producer, as `read_markers` gives
        them. The first of the rows will lie at byte `position` of the segment whose base
        offset is `segment_base`; -1 where that is not told, as in loading.

        Answers the batch of which one from a client is a duplicate: then none of the
        append is to be written. Raises what `ProducerAppendInfo` raises.
        """
        raise NotImplementedError

    def apply(self) -> None:
        """Take the update over; `completed` are for the caller to complete."""
        raise NotImplementedError


class PlainAppends:
    """Many appends of one batch each, from clients: the plain ones at their beginning.

    Plain is a batch without producer, and one that continues its producer's sequence
    outside of any transaction: `count` rows, from the first. It is the same as an
    append of its own for each, `ProducerUpdates` and `apply`, with less ado; what comes
    at row `count` goes that way. `apply` takes over as many as were written.
    """

    def __init__(self, producers: ProducerStateManager, rows: Rows) -> None:
        self.count = 0
        raise NotImplementedError

    def apply(self, count: int) -> None:
        """Take over the first `count` of them."""
        raise NotImplementedError
