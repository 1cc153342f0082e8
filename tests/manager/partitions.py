"""Writer of a small partition: two segments, indexes, epochs and a snapshot."""

import numpy as np

from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.formats.checkpoint import format_epochs
from kafkalog.formats.producer_snapshot import ENTRY, format_snapshot
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex

START_MS = 1_700_000_000_000
PRODUCER = 4242


def batch(base, count=2, *, epoch=0, **settings):
    """Return a batch of `count` records from offset `base`, one second apart."""
    builder = RecordBatchBuilder(
        base_offset=base,
        leader_epoch=epoch,
        producer_id=PRODUCER,
        producer_epoch=0,
        base_sequence=base,
        **settings,
    )
    for offset in range(base, base + count):
        builder.append(None, b"v", timestamp=START_MS + 1000 * offset)
    return builder.build()


def write_segment(directory, base, batches, *, indexed=True):
    """Write a segment of batches of two records; all but the first are indexed."""
    name = f"{base:020d}"
    (directory / f"{name}.log").write_bytes(b"".join(batches))
    if not indexed:
        return
    positions = np.cumsum([0] + [len(data) for data in batches])
    last = np.array([base + 2 * i + 1 for i in range(len(batches))])
    offsets = OffsetIndex.build(last[1:], positions[1:-1], base)
    times = TimeIndex.build(START_MS + 1000 * last, last, base)
    (directory / f"{name}.index").write_bytes(offsets.to_bytes())
    (directory / f"{name}.timeindex").write_bytes(times.to_bytes())


def write_partition(directory):
    """Write offsets 0 to 9 in two segments and two leader epochs, closed cleanly."""
    directory.mkdir()
    write_segment(directory, 0, [batch(0), batch(2), batch(4, epoch=3)])
    write_segment(directory, 6, [batch(6, epoch=3), batch(8, epoch=3)])
    epochs = format_epochs([(0, 0), (3, 4)])
    (directory / "leader-epoch-checkpoint").write_bytes(epochs)
    entry = np.zeros(1, ENTRY)
    entry["producer_id"], entry["last_offset"] = PRODUCER, 9
    entry["last_sequence"], entry["offset_delta"] = 9, 1
    entry["timestamp"], entry["coordinator_epoch"] = START_MS + 9000, -1
    entry["current_txn_first_offset"] = -1
    (directory / f"{10:020d}.snapshot").write_bytes(format_snapshot(entry))
    return directory


def flips(path, bits):
    """Yield each of `bits`, with that bit of the file flipped; restore the file."""
    data = path.read_bytes()
    for bit in bits:
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        yield bit
    path.write_bytes(data)
