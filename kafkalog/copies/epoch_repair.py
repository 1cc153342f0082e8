"""Leader epochs of batches that do not fit, and those that do.

No CRC covers the leader epoch of a batch. It never falls along a log, so one that is
above the epoch after it, or below the one before it, is damaged, unless the other is.
The epoch checkpoint of the log, if it is valid, states the epoch of each offset.

A copy is appended batch by batch, so every batch gets an epoch that fits, a likely one
if none is certain; `repair` changes the original, and only where one is certain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kafkalog.array_types import Bytes
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.checkpoint import EpochEntry
from kafkalog.formats.layout import LOG_OVERHEAD, NO_LEADER_EPOCH
from kafkalog.log.leader_epochs import certain_epoch, epoch_for_offset


def epoch_corrections(
    rows: BatchHeaders,
    previous: int,
    following: int | None,
    known: Sequence[EpochEntry],
) -> Iterator[tuple[int, int]]:
    """Yield the index of each batch whose leader epoch does not fit, and one that does.

    `previous` is the epoch before them, -1 at the beginning; `following` is that of the
    batch after them, if it is known. `known` is the epoch checkpoint, or empty.
    """
    indexes = np.flatnonzero(rows["magic"] == 2)
    epochs = rows["leader_epoch"][indexes]
    bound = known[-1].epoch if known else None
    least, last = previous, [] if following is None else [following]
    joined = np.concatenate(([least], epochs, last))
    if (np.diff(joined) >= 0).all() and (bound is None or joined[-1] <= bound):
        return
    later = [*epochs[1:].tolist(), following]
    for i, epoch, after in zip(indexes.tolist(), epochs.tolist(), later, strict=True):
        most = after if after is not None else bound
        fits = least <= epoch and (most is None or epoch <= most)
        if fits or (most is not None and most < least):
            least = max(epoch, NO_LEADER_EPOCH)
            continue
        stated = epoch_for_offset(known, int(rows["last_offset"][i]))
        fitting = certain_epoch(least, most, stated)
        if fitting is None:
            fitting = least if least >= 0 or most is None else most
        yield i, fitting
        least = fitting


def restore_header(data: Bytes, start: int, row: np.void) -> None:
    """Write the offset, size, leader epoch and magic of `row` to the batch at `start`.

    The CRC does not cover them.
    """
    fields = (
        (row["base_offset"], 8),
        (row["size_in_bytes"] - LOG_OVERHEAD, 4),
        (row["leader_epoch"], 4),
        (row["magic"], 1),
    )
    header = b"".join(
        int(value).to_bytes(width, signed=True) for value, width in fields
    )
    data[start : start + len(header)] = np.frombuffer(header, np.uint8)
