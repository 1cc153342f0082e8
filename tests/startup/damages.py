"""Kinds of damage to a partition's directory, each a function of the directory.

The log has several segments. `CLEAN` kinds leave the clean shutdown marker alone;
whether there is one is up to the caller.
"""

from __future__ import annotations

import shutil


def logs_of(directory):
    return sorted(directory.glob("*.log"))


def flip(path, position, mask=0x40):
    data = bytearray(path.read_bytes())
    data[position] ^= mask
    path.write_bytes(data)


def batches_of(path):
    """Return the positions of the batches, and the end."""
    data, positions, position = path.read_bytes(), [], 0
    while position + 12 < len(data):
        size = int.from_bytes(data[position + 8 : position + 12], "big")
        if size <= 0 or position + 12 + size > len(data):
            break
        positions.append(position)
        position += 12 + size
    return [*positions, position]


def cut_tail(directory):
    path = logs_of(directory)[-1]
    path.write_bytes(path.read_bytes()[:-5])


def cut_last_batch(directory):
    path = logs_of(directory)[-1]
    path.write_bytes(path.read_bytes()[: batches_of(path)[-2]])


def cut_middle(directory):
    path = logs_of(directory)[1]
    path.write_bytes(path.read_bytes()[:-5])


def empty_last(directory):
    logs_of(directory)[-1].write_bytes(b"")


def flip_payload(directory):
    path = logs_of(directory)[-1]
    flip(path, batches_of(path)[-2] + 70)


def flip_payload_in_first(directory):
    path = logs_of(directory)[0]
    flip(path, batches_of(path)[1] + 70)


def flip_payload_in_middle(directory):
    path = logs_of(directory)[1]
    flip(path, batches_of(path)[0] + 70)


def flip_record_in_middle(directory):
    """Change the size of the first record of a batch, which no record then has."""
    path = logs_of(directory)[1]
    flip(path, batches_of(path)[0] + 61)


def flip_size(directory):
    path = logs_of(directory)[-1]
    flip(path, batches_of(path)[-2] + 10, 0x7F)


def negative_size(directory):
    path = logs_of(directory)[-1]
    flip(path, batches_of(path)[-2] + 8, 0x80)


def flip_magic(directory):
    path = logs_of(directory)[-1]
    flip(path, batches_of(path)[-2] + 16, 0x10)


def flip_crc(directory):
    path = logs_of(directory)[-1]
    flip(path, batches_of(path)[-2] + 17)


def zero_tail(directory):
    path = logs_of(directory)[-1]
    path.write_bytes(path.read_bytes() + bytes(4096))


def garbage_tail(directory):
    path = logs_of(directory)[-1]
    path.write_bytes(path.read_bytes() + b"\xff" * 100)


def zero_batch(directory):
    path = logs_of(directory)[-1]
    data, start = bytearray(path.read_bytes()), batches_of(path)[-2]
    data[start:] = bytes(len(data) - start)
    path.write_bytes(data)


def no_index(directory):
    logs_of(directory)[-1].with_suffix(".index").unlink(missing_ok=True)


def no_index_in_first(directory):
    logs_of(directory)[0].with_suffix(".index").unlink()


def no_index_and_flip_in_first(directory):
    no_index_in_first(directory)
    flip_payload_in_first(directory)


def no_time_index(directory):
    logs_of(directory)[0].with_suffix(".timeindex").unlink()


def flip_index(directory):
    flip(logs_of(directory)[0].with_suffix(".index"), 5)


def index_past_end(directory):
    entry = (1).to_bytes(4, "big") + (1 << 24).to_bytes(4, "big")
    logs_of(directory)[-1].with_suffix(".index").write_bytes(entry)


def torn_index(directory):
    path = logs_of(directory)[0].with_suffix(".index")
    path.write_bytes(path.read_bytes()[:-3])


def flip_time_index(directory):
    flip(logs_of(directory)[0].with_suffix(".timeindex"), 3)


def bad_txn_index(directory):
    logs_of(directory)[1].with_suffix(".txnindex").write_bytes(bytes(34))


def no_snapshots(directory):
    for path in directory.glob("*.snapshot"):
        path.unlink()


def no_last_snapshot(directory):
    sorted(directory.glob("*.snapshot"))[-1].unlink()


def flip_snapshots(directory):
    for path in directory.glob("*.snapshot"):
        flip(path, 4)


def stray_snapshot(directory):
    (directory / f"{3:020d}.snapshot").write_bytes(b"")


def no_epochs(directory):
    (directory / "leader-epoch-checkpoint").unlink(missing_ok=True)


def leftover_cleaned(directory):
    path = logs_of(directory)[0]
    shutil.copy(path, path.with_name(path.name + ".cleaned"))


def leftover_swap(directory):
    path = logs_of(directory)[0]
    for kind in (".log", ".index", ".timeindex"):
        old = path.with_suffix(kind)
        shutil.copy(old, old.with_name(old.name + ".swap"))


def swap_and_cleaned(directory):
    leftover_swap(directory)
    leftover_cleaned(directory)


def leftover_deleted(directory):
    path = logs_of(directory)[0]
    shutil.copy(path, path.with_name(f"{7:020d}.log.deleted"))


def missing_middle(directory):
    for path in directory.glob(logs_of(directory)[1].stem + "*"):
        path.unlink()


def missing_log_with_index(directory):
    logs_of(directory)[1].unlink()


def strange_name(directory):
    shutil.copy(logs_of(directory)[0], directory / "old.log")


def untouched(directory):
    pass


ALL = (
    untouched,
    cut_tail,
    cut_last_batch,
    cut_middle,
    empty_last,
    flip_payload,
    flip_payload_in_first,
    flip_payload_in_middle,
    flip_record_in_middle,
    flip_size,
    negative_size,
    flip_magic,
    flip_crc,
    zero_tail,
    garbage_tail,
    zero_batch,
    no_index,
    no_index_in_first,
    no_index_and_flip_in_first,
    no_time_index,
    flip_index,
    index_past_end,
    torn_index,
    flip_time_index,
    bad_txn_index,
    no_snapshots,
    no_last_snapshot,
    flip_snapshots,
    stray_snapshot,
    no_epochs,
    leftover_cleaned,
    leftover_swap,
    swap_and_cleaned,
    leftover_deleted,
    missing_middle,
    missing_log_with_index,
)
"""All kinds but `strange_name`, with which no broker ever starts."""
