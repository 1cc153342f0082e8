"""The transactions of a log, ended and open, from its first segment to its end.

Of an ended transaction, records and marker are read. The open transactions are those
of the producers' states, which a broker has and reports, too.

The first record of a transaction may be removed. A producer snapshot at the start of
the first segment lists the transactions that were open there, with their first offsets.
Without it, the first transaction of each producer may have begun earlier.

Source: ``ProducerStateManager.java``, ``ReplicaManager.activeProducerState``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import numpy.typing as npt

from kafkalog.log.log import entry_steps, producer_states_at
from kafkalog.log.log_segments import list_segments
from kafkalog.log.producers.newest_snapshot import newest_snapshot
from kafkalog.log.transactions import NO_DATA, TransactionReplay, replay_with
from kafkalog.storage.location import Location

UNKNOWN: Final = NO_DATA


def ended_transactions(
    directory: Location, log_start_offset: int = 0
) -> Iterator[npt.NDArray[np.void]]:
    """Yield the transactions whose marker is at or above the log start, as `ENDED`.

    They are in order of their markers. `first_offset` is -1 if it is unknown: no record
    is left, or earlier ones may have been removed.
    """
    segments = list_segments(directory)
    if not segments:
        return
    base = segments[0].base_offset
    snapshot = newest_snapshot(directory, base, base)
    replay = TransactionReplay() if snapshot is None else replay_with(snapshot[0])
    is_known = snapshot is not None or not base
    seen = np.empty(0, np.int64)
    for step in entry_steps(directory, base):
        ended = replay.feed(step)
        if not is_known:
            producers, places = np.unique(ended["producer_id"], return_index=True)
            ended["first_offset"][places[~np.isin(producers, seen)]] = UNKNOWN
            seen = np.union1d(seen, producers)
        ended = ended[ended["last_offset"] >= log_start_offset]
        if len(ended):
            yield ended[np.argsort(ended["last_offset"])]


def open_transactions(directory: Location, log_end_offset: int) -> npt.NDArray[np.void]:
    """Return the states of the producers that have a transaction open at the log end.

    They are entries of a producer snapshot, by first offset of the transaction.
    """
    states = producer_states_at(directory, log_end_offset)
    states = states[states["current_txn_first_offset"] >= 0]
    return states[np.argsort(states["current_txn_first_offset"])]
