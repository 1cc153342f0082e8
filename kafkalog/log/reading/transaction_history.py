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

from kafkalog.errors import LocatedError
from kafkalog.log.producers.newest_snapshot import newest_snapshot
from kafkalog.log.producers.producer_state import producer_states_at
from kafkalog.log.reading.log_segments import entry_steps, list_segments
from kafkalog.log.reading.transactions import NO_DATA, TransactionReplay, replay_with
from kafkalog.storage.location import Location

UNKNOWN: Final = NO_DATA


def ended_transactions(
    directory: Location,
    log_start_offset: int = 0,
    errors: list[LocatedError] | None = None,
) -> Iterator[npt.NDArray[np.void]]:
    """Yield the transactions whose marker is at or above the log start, as `ENDED`.

    They are in order of their markers. `first_offset` is -1 if it is unknown: no record
    is left, or earlier ones may have been removed or skipped. With a list for errors,
    corrupt batches are skipped and their errors appended; else the first one is raised.
    """
    segments = list_segments(directory)
    if not segments:
        return
    base = segments[0].base_offset
    snapshot = newest_snapshot(directory, base, base)
    replay = TransactionReplay() if snapshot is None else replay_with(snapshot[0])
    is_known = snapshot is not None or not base
    seen, skipped = np.empty(0, np.int64), 0
    for _, step in entry_steps(directory, segments, base, errors=errors):
        if errors is not None and len(errors) > skipped:
            # What was skipped may have been the beginning of any transaction.
            is_known, seen, skipped = False, seen[:0], len(errors)
        ended = replay.feed(step)
        if not is_known:
            producers, places = np.unique(ended["producer_id"], return_index=True)
            ended["first_offset"][places[~np.isin(producers, seen)]] = UNKNOWN
            seen = np.union1d(seen, producers)
        ended = ended[ended["last_offset"] >= log_start_offset]
        if len(ended):
            yield ended[np.argsort(ended["last_offset"])]


def open_transactions(
    directory: Location, log_end_offset: int, errors: list[LocatedError] | None = None
) -> npt.NDArray[np.void]:
    """Return the states of the producers that have a transaction open at the log end.

    They are entries of a producer snapshot, by first offset of the transaction. With a
    list for errors, corrupt batches are skipped and their errors appended.
    """
    segments = list_segments(directory)
    states = producer_states_at(directory, segments, log_end_offset, errors)
    states = states[states["current_txn_first_offset"] >= 0]
    return states[np.argsort(states["current_txn_first_offset"])]
