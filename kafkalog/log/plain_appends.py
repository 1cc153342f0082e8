"""Many appends at once of which a producer's rules have nothing to say.

Knows: the one way in which nearly all appends go. Does not know: any other way.
Source: what ``UnifiedLog.analyzeAndValidateProducerState`` comes to, there.
"""

from __future__ import annotations

from struct import Struct
from typing import Any, Final

from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import (
    CONTROL_FLAG,
    NO_PRODUCER_ID,
    SEQUENCE_MASK,
    TRANSACTIONAL_FLAG,
)
from kafkalog.log.producers.producer_entry import (
    NONE,
    BatchMetadata,
    ProducerStateEntry,
)
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.producer_state import owned_batches

_NOT_PLAIN: Final = CONTROL_FLAG | TRANSACTIONAL_FLAG

# Of a batch's header: attributes, last offset delta, producer, epoch, sequence.
_OWNER: Final = Struct(">21xhi16xqhi")


class PlainAppends:
    """Appends of one batch each, from clients: the plain ones at their beginning.

    Plain is a batch without producer, and one that continues the sequence of a producer
    that has no transaction: `count` rows, from the first, their offsets final. For each
    it is the same as `ProducerUpdates.add` and `apply`, with less ado; what comes at
    row `count` has to go that way.
    """

    __slots__ = ("_runs", "_taken", "count")

    def __init__(self, producers: ProducerStateManager, rows: BatchHeaders) -> None:
        self.count = len(rows)
        self._taken: list[tuple[int, ProducerStateEntry, BatchMetadata]] = []
        self._runs: dict[int, Run] = {}
        for index, row in owned_batches(rows):
            _, base, last, timestamp, producer_id, epoch, sequence, attributes = row
            run = self._runs.get(producer_id) or run_of(producers, producer_id)
            plain = run is not None and not attributes & _NOT_PLAIN
            if run is None or not plain or not run.take(epoch, sequence, last - base):
                self.count = index
                break
            self._runs[producer_id] = run
            batch = BatchMetadata(run.last_sequence, last, last - base, timestamp)
            self._taken.append((index, run.entry, batch))

    def apply(self, count: int) -> None:
        """Take over the first `count` of them, which were written."""
        for index, entry, batch in self._taken:
            if index >= count:
                break
            entry.add(entry.producer_epoch, batch)


class Run:
    """Batches that follow one another behind the last one known of a producer."""

    __slots__ = ("entry", "last_sequence", "least")

    def __init__(self, entry: ProducerStateEntry) -> None:
        self.entry = entry
        self.last_sequence = entry.last_sequence
        # Above all sequences remembered no batch can repeat one of them.
        self.least = max(batch.first_sequence for batch in entry.batches) + 1

    def take(self, epoch: int, sequence: int, offset_delta: int) -> bool:
        """Whether a batch is the next one; then it is what others follow."""
        follows = sequence == self.last_sequence + 1 and sequence >= self.least
        if not follows or epoch != self.entry.producer_epoch:
            return False
        if sequence > SEQUENCE_MASK - offset_delta:
            return False
        self.last_sequence = sequence + offset_delta
        return True

    def apply(self, first_offset: int, last_offset: int, timestamp: int) -> None:
        """Take over the batch taken last, which was written."""
        delta = last_offset - first_offset
        batch = BatchMetadata(self.last_sequence, last_offset, delta, timestamp)
        self.entry.add(self.entry.producer_epoch, batch)


def run_of(producers: ProducerStateManager, producer_id: int) -> Run | None:
    """Give the run behind what is known of a producer; None where it has more to it."""
    entry = producers.last_entry(producer_id)
    if entry is None or not entry.batches or entry.txn_first_offset != NONE:
        return None
    return None if producer_id in producers.verifications else Run(entry)


def run_with(producers: ProducerStateManager, piece: Any) -> Run | None:
    """Give the run that goes on with a batch, by its header; None where none does."""
    if type(piece) is not bytes or len(piece) < _OWNER.size:
        return None
    attributes, delta, producer_id, epoch, sequence = _OWNER.unpack_from(piece)
    if producer_id == NO_PRODUCER_ID or attributes & _NOT_PLAIN:
        return None
    run = run_of(producers, producer_id)
    return run if run is not None and run.take(epoch, sequence, delta) else None
