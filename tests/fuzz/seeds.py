"""The seeds of fuzzing: valid inputs of each kind, made by code or by brokers."""

from __future__ import annotations

import struct
from pathlib import Path

from kafkalog import RecordBatchBuilder
from kafkalog.codecs.compression import compress
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.indexes.index_table import IndexTable
from kafkalog.indexes.offset_index import OffsetIndex
from kafkalog.indexes.time_index import TimeIndex
from kafkalog.indexes.txn_index import TransactionIndex
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.storage.file_names import parse_partition_dir
from tests import golden_data
from tests.fuzz.archives import PARTITION, pack
from tests.fuzz.checksums import BATCH_HEADER
from tests.messages.message_examples import EXAMPLES
from tests.query.batches import CODECS, KINDS, T, build

SMALL = 4_000  # bytes; larger files of brokers are no seeds


def golden(pattern: str, count: int = 8) -> list[bytes]:
    """Return small golden files whose names match, each content once."""
    found: dict[bytes, None] = {}
    for name in golden_data.SETS:
        for path in sorted(golden_data.logs(name).rglob(pattern)):
            if path.is_file() and 0 < path.stat().st_size <= SMALL:
                found[path.read_bytes()] = None
    return sorted(found, key=lambda data: (len(data), data))[:count]


def entries_of(magic: int) -> list[bytes]:
    """Return segments of three batches, of each codec; and small ones of brokers."""
    found = [
        b"".join(build(magic, codec, 3 * i) for i in range(3))
        for of, codec in KINDS
        if of == magic
    ]
    found.append(b"".join(build(magic, codec, 0, 1) for codec in CODECS[:4]))
    if magic == 2:
        found += [marker(), *golden("*.log")]
    return found


def marker() -> bytes:
    """Return a batch with the marker that commits a transaction."""
    batch = RecordBatchBuilder(
        base_offset=9,
        producer_id=7,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
    )
    batch.append(*end_transaction_marker(ControlRecordType.COMMIT, 3), timestamp=T)
    return batch.build()


def records() -> list[bytes]:
    """Return payloads of batches, after their count and some attributes."""
    return [
        bytes([count, flags]) + build(2, "none", 0, count)[BATCH_HEADER.size :]
        for count, flags in ((1, 0), (3, 0), (3, 0x08), (12, 0x40), (40, 0))
    ]


def wrapped(magic: int) -> list[bytes]:
    """Return the messages inside wrappers, after the wrapper's offset."""
    return [
        bytes([last]) + b"".join(build(magic, "none", i, 1) for i in range(count))
        for last, count in ((0, 1), (2, 3), (9, 10))
    ]


def streams(codec: int) -> list[bytes]:
    """Return compressed streams: empty, short, and repetitive."""
    contents = [b"", b"abc", build(2, "none", 0)[BATCH_HEADER.size :], b"ab" * 5_000]
    return [
        compress(codec, content, magic=magic)
        for content in contents
        for magic in ((0, 2) if codec == 3 else (2,))
    ]


def index(kind: type[IndexTable]) -> list[bytes]:
    """Return indexes of a few entries, with and without unused slots."""
    if kind is OffsetIndex:
        made = OffsetIndex.build([10, 20, 40], [100, 300, 999], 0).to_bytes()
    elif kind is TimeIndex:
        made = TimeIndex.build([T, T + 5, T + 9], [0, 20, 20], 0).to_bytes()
    else:
        made = TransactionIndex.build([7, 9], [1, 12], [15, 18], [12, 19], 0).to_bytes()
    return [b"\x00" + made, b"\x00" + made + bytes(3 * kind.ENTRY.itemsize), b"\x00"]


def producer_snapshots() -> list[bytes]:
    """Return small producer snapshots of brokers."""
    return golden("*.snapshot")


def offset_checkpoints() -> list[bytes]:
    """Return small offset checkpoints of brokers, and one with other line ends."""
    return [*golden("*-offset-checkpoint"), b"0\r\n1\r\nt\t0  7\r\n", b"0\n0\n"]


def epoch_checkpoints() -> list[bytes]:
    """Return small leader epoch checkpoints of brokers."""
    return [*golden("leader-epoch-checkpoint"), b"0\n2\n0 0\n5 1500\n"]


def partition_files() -> list[bytes]:
    """Return each of the small files of one form."""
    return [
        *golden("partition.metadata", 2),
        *golden("quorum-state", 2),
        *golden(".kafka_cleanshutdown", 2),
    ]


def properties() -> list[bytes]:
    """Return small properties files of brokers, and one with all of Java's syntax."""
    return [*golden("meta.properties"), b"! a\na\\ b : c\\\n  d\\u00e9\\t\nversion=0\n"]


def controls() -> list[bytes]:
    """Return keys of control records, each followed by its value."""
    kinds = (ControlRecordType.ABORT, ControlRecordType.COMMIT)
    markers = [b"".join(end_transaction_marker(kind, 3)) for kind in kinds]
    return [*markers, *(struct.pack(">hh", 0, kind) + bytes(20) for kind in range(8))]


def messages() -> list[bytes]:
    """Return messages that Kafka's classes wrote, after their schema's number."""
    numbers: dict[tuple[str, int], int] = {}
    found = []
    for schema, version, _, written in EXAMPLES.values():
        number = numbers.setdefault((schema.name, version), len(numbers))
        found.append(bytes([number]) + bytes.fromhex(written))
    return found


def metadata_snapshots() -> list[bytes]:
    """Return small metadata snapshots of brokers."""
    return golden("*.checkpoint")


def option_json() -> list[bytes]:
    """Return offsets and partitions as in Spark's options."""
    return [b'{"orders":{"0":23,"1":-1}}', b'{"orders":[0,1],"b":[2]}', b'{"a":1e3}']


def directories() -> list[bytes]:
    """Return log directories of one partition with two segments and all other files."""
    logs = {
        f"{PARTITION}/{0:020d}.log": b"".join(
            build(2, "none", 2 * i, 2) for i in range(3)
        ),
        f"{PARTITION}/{6:020d}.log": build(2, "lz4", 6) + build(2, "zstd", 9),
    }
    first = len(build(2, "none", 0, 2))
    other_files = {
        f"{PARTITION}/{0:020d}.index": OffsetIndex.build([3], [first], 0).to_bytes(),
        f"{PARTITION}/{0:020d}.timeindex": TimeIndex.build(
            [T + 3, T + 5], [3, 5], 0
        ).to_bytes(),
        f"{PARTITION}/{6:020d}.index": bytes(16),
        f"{PARTITION}/{6:020d}.timeindex": bytes(24),
        f"{PARTITION}/leader-epoch-checkpoint": b"0\n1\n5 0\n",
        "log-start-offset-checkpoint": b"0\n1\norders 0 1\n",
        "recovery-point-offset-checkpoint": b"0\n1\norders 0 6\n",
    }
    old = {f"{PARTITION}/{0:020d}.log": build(1, "gzip", 0) + build(0, "none", 3)}
    return [pack(logs), pack({**logs, **other_files}), pack(old), golden_partition()]


def golden_partition() -> bytes:
    """Return a small partition of a broker, as `PARTITION`."""
    for path in golden_data.partitions("k431-clean"):
        if parse_partition_dir(path.name) and 0 < size_of(path) <= SMALL:
            return pack(
                {
                    f"{PARTITION}/{file.name}": file.read_bytes()
                    for file in sorted(path.iterdir())
                    if file.name.startswith(f"{0:020d}.") and file.suffix != ".snapshot"
                }
            )
    raise LookupError("no small partition")


def size_of(directory: Path) -> int:
    """Return the bytes of all files in a directory."""
    return sum(path.stat().st_size for path in directory.iterdir())


def dumped() -> list[bytes]:
    """Return files to dump, after the number of their kind."""
    logs = [b"\x00" + log for magic in (0, 1, 2) for log in entries_of(magic)[:3]]
    kinds = (OffsetIndex, TimeIndex, TransactionIndex)
    indexes = [bytes([1 + i]) + index(kind)[0][1:] for i, kind in enumerate(kinds)]
    snapshots = [b"\x04" + data for data in producer_snapshots()[:2]]
    return [*logs, *indexes, *snapshots]


def appends() -> list[bytes]:
    """Return batches as producers and leaders send them."""
    free = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1}
    return [
        *(build(2, codec, 0, **free) for codec in CODECS),
        build(2, "none", 1, **free) + build(2, "lz4", 4, **free),
        build(2, "none", 0),
        build(1, "gzip", 0),
        build(0, "none", 0),
        marker(),
    ]
