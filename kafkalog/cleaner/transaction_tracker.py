"""Find the transactional batches that compaction may discard.

The data of an aborted transaction is discarded at once. A marker is discardable once no
data of its transaction is left, that is, if a round reads the marker without having
read a batch of the transaction. An aborted transaction that had data is written to the
transaction index of the cleaned segment.

Source: ``CleanedTransactionMetadata.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from heapq import heappop, heappush

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bytes, Int64s
from kafkalog.errors import InvalidRecordError, LocatedError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.control_keys import KEY, ControlRecordType
from kafkalog.formats.layout import CONTROL_FLAG, TRANSACTIONAL_FLAG
from kafkalog.indexes.txn_index import AbortedTransaction
from kafkalog.log.markers import FirstRecords, control_records

MAX_INT8 = 127
ABORT = int(ControlRecordType.ABORT)
COMMIT = int(ControlRecordType.COMMIT)
OTHER = int(ControlRecordType.UNKNOWN)


class TransactionTracker:
    """The open transactions at each batch, as a log is read in order.

    `keep_aborted` is called with each aborted transaction that had data.
    """

    def __init__(
        self, keep_aborted: Callable[[AbortedTransaction], None] | None = None
    ) -> None:
        self.keep_aborted = keep_aborted
        self._expected: list[tuple[int, int, AbortedTransaction]] = []
        self._number = 0
        self._aborted: dict[int, AbortedTransaction] = {}
        self._aborted_with_data: set[int] = set()
        self._committed: set[int] = set()

    def expect(self, transactions: Iterable[AbortedTransaction]) -> None:
        """Add aborted transactions to which the following batches may belong."""
        for transaction in transactions:
            entry = transaction.first_offset, self._number, transaction
            heappush(self._expected, entry)
            self._number += 1

    def discardable(
        self, data: Bytes, origin: int, rows: BatchHeaders
    ) -> npt.NDArray[np.bool_]:
        """Return which of the following batches may be discarded.

        `rows` are their headers, and `data` their bytes from position `origin` on.
        Raises `InvalidRecordError` and `CompressionError` for a marker that cannot be
        read.
        """
        result = np.zeros(len(rows), np.bool_)
        attributes = np.where(rows["magic"] == 2, rows["attributes"], 0)
        special = np.flatnonzero(attributes & (TRANSACTIONAL_FLAG | CONTROL_FLAG))
        if not len(special):
            return result
        types = _control_types(data, origin, rows)
        chosen = rows[special]
        facts = zip(
            special.tolist(),
            (attributes[special] & CONTROL_FLAG != 0).tolist(),
            types[special].tolist(),
            (chosen["count"] == 0).tolist(),
            chosen["last_offset"].tolist(),
            chosen["producer_id"].tolist(),
            strict=True,
        )
        for row, is_control, type_, is_empty, last_offset, producer_id in facts:
            self._begin_aborted(last_offset)
            if not is_control:
                result[row] = self._is_aborted_data(producer_id)
            else:
                result[row] = is_empty or self._is_settled_by(type_, producer_id)
        return result

    def _begin_aborted(self, offset: int) -> None:
        """Begin the aborted transactions whose first offset is at most `offset`."""
        while self._expected and self._expected[0][0] <= offset:
            _, _, transaction = heappop(self._expected)
            self._aborted.setdefault(transaction.producer_id, transaction)

    def _is_aborted_data(self, producer_id: int) -> bool:
        if producer_id in self._aborted:
            self._aborted_with_data.add(producer_id)
            return True
        self._committed.add(producer_id)
        return False

    def _is_settled_by(self, type_: int, producer_id: int) -> bool:
        """End a transaction at its marker; return whether it had no data."""
        if type_ == ABORT:
            aborted = self._aborted.pop(producer_id, None)
            if aborted is None or producer_id not in self._aborted_with_data:
                return True
            self._aborted_with_data.discard(producer_id)
            if self.keep_aborted is not None:
                self.keep_aborted(aborted)
            return False
        if type_ == COMMIT:
            had_data = producer_id in self._committed
            self._committed.discard(producer_id)
            return not had_data
        return False


def _control_types(data: Bytes, origin: int, rows: BatchHeaders) -> Int64s:
    """Return the type of the first record of each control batch.

    Raises `InvalidRecordError` for an invalid key or a corrupt record.
    """
    types = np.full(len(rows), OTHER)
    any_producer = rows.copy()  # includes control batches without a producer
    any_producer["producer_id"] = 0
    any_producer["attributes"][rows["magic"] < 2] = 0
    try:
        for found in control_records(data, any_producer, origin):
            _check_keys(found)
            types[found.indexes] = found.types
    except LocatedError as error:
        raise error.as_rejection() from error
    return types


def _check_keys(found: FirstRecords) -> None:
    records = found.views.records
    starts = records["key_start"][found.slots]
    lengths = records["key_length"][found.slots]
    if (lengths < KEY.size).any():
        reason = f"control record key of {lengths.min()} bytes"
        raise InvalidRecordError(f"{reason}, expected at least {KEY.size}")
    if (found.views.data[starts] > MAX_INT8).any():
        raise InvalidRecordError("control record key of a negative version")
