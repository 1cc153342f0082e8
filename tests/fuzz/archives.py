"""Pack the files of a directory into bytes, and unpack them.

    | name | size | content | name | size | content | ...     a byte, two bytes, content

A name is an index into `NAMES`: fuzzing changes the files of a log directory, not their
names. The last file may be truncated.
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
MAX_BYTES = 1 << 16


def pack(files: dict[str, bytes]) -> bytes:
    """Return files in the form that `unpack` reads."""
    data = b""
    for name, content in files.items():
        data += bytes([NAMES.index(name)]) + len(content).to_bytes(2) + content
    return data


def unpack(data: bytes, root: Path) -> None:
    """Write the files in `data` to `root`; of a repeated name the last one counts."""
    (root / PARTITION).mkdir(parents=True, exist_ok=True)
    position, data = 0, data[:MAX_BYTES]
    while position < len(data):
        name = NAMES[data[position] % len(NAMES)]
        size = int.from_bytes(data[position + 1 : position + 3])
        content = data[position + 3 : position + 3 + size]
        (root / name).write_bytes(content)
        position += 3 + size
