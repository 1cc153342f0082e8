"""A directory out of bytes, and bytes out of a directory.

    | name | size | content | name | size | content | ...     a byte, two bytes, content

The name is one of `NAMES`, by its number: what is fuzzed is what lies in a log
directory, not its names. The last file is cut where the bytes end.
"""

from __future__ import annotations

from pathlib import Path

PARTITION = "orders-0"
SEGMENTS = tuple(
    f"{PARTITION}/{base:020d}.{kind}"
    for base in (0, 6)
    for kind in ("log", "index", "timeindex", "txnindex", "snapshot")
)
NAMES = (
    *SEGMENTS,
    f"{PARTITION}/leader-epoch-checkpoint",
    f"{PARTITION}/partition.metadata",
    f"{PARTITION}/{0:020d}.log.deleted",
    f"{PARTITION}/{3:020d}.log.swap",
    f"{PARTITION}/{3:020d}.log.cleaned",
    f"{PARTITION}/{3:020d}.index.swap",
    f"{PARTITION}/{0:020d}-{1:010d}.checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
)
MOST_BYTES = 1 << 16


def pack(files: dict[str, bytes]) -> bytes:
    """Put files into the form that `unpack` reads."""
    packed = b""
    for name, content in files.items():
        packed += bytes([NAMES.index(name)]) + len(content).to_bytes(2) + content
    return packed


def unpack(data: bytes, root: Path) -> None:
    """Write the files that `data` holds below `root`; each name counts once."""
    (root / PARTITION).mkdir(parents=True, exist_ok=True)
    position, data = 0, data[:MOST_BYTES]
    while position < len(data):
        name = NAMES[data[position] % len(NAMES)]
        size = int.from_bytes(data[position + 1 : position + 3])
        content = data[position + 3 : position + 3 + size]
        (root / name).write_bytes(content)
        position += 3 + size
