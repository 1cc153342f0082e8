"""Names in a log directory: what a file or a partition's directory says of itself.

A file of a partition is a number, an extension and at most one suffix:

    00000000000000041000.log                       20 digits: base offset
    00000000000000041000.index.deleted             and what is becoming of it
    00000000000000012345-0000000007.checkpoint     a metadata snapshot: offset, epoch

and a partition's directory is its topic and number, with a mark where it is not live:

    orders-0                                       live
    orders-0.<32 hex>-delete                       to be deleted; its topic may be cut
    orders-0.<32 hex>-stray                        should not be here; may be cut, too
    orders-0.<32 hex>-future                       target of a move between disks

Topics hold dots, dashes and underscores themselves, so names are read from the right.
Reading takes what Kafka's loader takes: a base offset of fewer than 20 digits, too.

Knows: names. Does not know: what lies under them, or whether it is there.
Source: ``LogFileUtils.java``, ``LocalLog.java``, ``Snapshots.java``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

FileKind: TypeAlias = Literal[
    "log", "index", "timeindex", "txnindex", "snapshot", "checkpoint"
]
FileSuffix: TypeAlias = Literal["deleted", "cleaned", "swap", "part"]
DirState: TypeAlias = Literal["delete", "future", "stray"]

MAX_OFFSET: Final = 2**63 - 1
MAX_INT32: Final = 2**31 - 1
MAX_NAME_LENGTH: Final = 255
"""Characters of a directory's name; a topic is cut to make room for a mark."""

_SEGMENT_NAME: Final = re.compile(
    r"(?P<offset>\d{1,20})"
    r"\.(?P<kind>log|index|timeindex|txnindex|snapshot)"
    r"(?:\.(?P<suffix>deleted|cleaned|swap))?",
    re.ASCII,
)
_CHECKPOINT_NAME: Final = re.compile(
    r"(?P<offset>\d{20})-(?P<epoch>\d{10})(?:-(?P<token>[^.]+))?"
    r"\.(?P<kind>checkpoint)(?:\.(?P<suffix>deleted|part))?",
    re.ASCII,
)
_MARKED_DIR: Final = re.compile(
    r"(?P<live>\S+-\S+)\.(?P<uuid>[^\s.]+)-(?P<state>delete|future|stray)", re.ASCII
)
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}")
_LIVE_DIR: Final = re.compile(
    rf"(?P<topic>{_TOPIC.pattern})-(?P<partition>\d+)", re.ASCII
)


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """What the name of a partition's file says.

    `epoch` is a checkpoint's alone; `token` is the random word that keeps the names of
    two checkpoints apart while they are written (``.checkpoint.part``).

    >>> SegmentFile(41_000, "log", "swap").name
    '00000000000000041000.log.swap'
    """

    base_offset: int
    kind: FileKind
    suffix: FileSuffix | None = None
    epoch: int | None = None
    token: str | None = None

    @property
    def name(self) -> str:
        """The file name, as Kafka writes it: twenty digits, always."""
        return file_name(
            self.base_offset, self.kind, self.suffix, self.epoch, self.token
        )


def file_name(
    base_offset: int,
    kind: FileKind,
    suffix: FileSuffix | None = None,
    epoch: int | None = None,
    token: str | None = None,
) -> str:
    """Spell the name of a partition's file.

    >>> file_name(41_000, "log")
    '00000000000000041000.log'
    >>> file_name(12_345, "checkpoint", epoch=7)
    '00000000000000012345-0000000007.checkpoint'
    """
    if not 0 <= base_offset <= MAX_OFFSET:
        raise ValueError(f"offset {base_offset} is not within 0..{MAX_OFFSET}")
    if (kind == "checkpoint") != (epoch is not None):
        raise ValueError(f"a {kind} file with epoch {epoch}")
    number = f"{base_offset:020d}"
    if epoch is not None:
        if not 0 <= epoch <= MAX_INT32:
            raise ValueError(f"epoch {epoch} is not within 0..{MAX_INT32}")
        number += f"-{epoch:010d}"
    if token is not None:
        number += f"-{token}"
    return f"{number}.{kind}" if suffix is None else f"{number}.{kind}.{suffix}"


def parse_file_name(name: str) -> SegmentFile | None:
    """Read the name of a partition's file; None where it is none of Kafka's.

    >>> parse_file_name("00000000000000041000.timeindex.deleted").suffix
    'deleted'
    >>> parse_file_name("leader-epoch-checkpoint") is None
    True
    """
    match = _SEGMENT_NAME.fullmatch(name) or _CHECKPOINT_NAME.fullmatch(name)
    if match is None or int(match["offset"]) > MAX_OFFSET:
        return None
    parts = match.groupdict()
    epoch = None if parts.get("epoch") is None else int(parts["epoch"])
    if epoch is not None and epoch > MAX_INT32:
        return None
    return SegmentFile(
        int(parts["offset"]),
        cast("FileKind", parts["kind"]),
        cast("FileSuffix | None", parts["suffix"]),
        epoch,
        parts.get("token"),
    )


@dataclass(frozen=True, slots=True)
class PartitionDir:
    """What the name of a partition's directory says.

    `uuid` and `state` are None in a live one. In one to be deleted, and in a stray one,
    `topic` is what was left of it when the name was cut.

    >>> PartitionDir("orders", 3).name
    'orders-3'
    >>> PartitionDir("orders", 3, 32 * "a", "future").name
    'orders-3.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-future'
    """

    topic: str
    partition: int
    uuid: str | None = None
    state: DirState | None = None

    def __post_init__(self) -> None:
        """Refuse what no directory may be called, and a mark without its uuid."""
        if not _TOPIC.fullmatch(self.topic):
            raise ValueError(f"{self.topic!r} is no topic")
        if not 0 <= self.partition <= MAX_INT32:
            raise ValueError(f"partition {self.partition} is not within 0..{MAX_INT32}")
        if (self.uuid is None) != (self.state is None):
            raise ValueError(f"uuid {self.uuid!r} with state {self.state!r}")

    @property
    def name(self) -> str:
        """The directory's name, the topic cut where Kafka cuts it."""
        if self.state is None:
            return f"{self.topic}-{self.partition}"
        end = f"-{self.partition}.{self.uuid}-{self.state}"
        if self.state == "future":
            return self.topic + end
        return self.topic[: MAX_NAME_LENGTH - len(end)] + end


def parse_partition_dir(name: str) -> PartitionDir | None:
    """Read the name of a partition's directory; None where it cannot be one.

    >>> parse_partition_dir("a.b-c_d-12")
    PartitionDir(topic='a.b-c_d', partition=12, uuid=None, state=None)
    >>> parse_partition_dir("orders-0.6377a1264763416496a100f8f49e88ac-delete").topic
    'orders'
    >>> parse_partition_dir("remote-log-index-cache") is None
    True
    """
    marked = _MARKED_DIR.fullmatch(name)
    match = _LIVE_DIR.fullmatch(name if marked is None else marked["live"])
    if match is None or len(match["partition"].lstrip("0")) > len(str(MAX_INT32)):
        return None
    partition = int(match["partition"][-10:])
    if partition > MAX_INT32:
        return None
    if marked is None:
        return PartitionDir(match["topic"], partition)
    state = cast("DirState", marked["state"])
    return PartitionDir(match["topic"], partition, marked["uuid"], state)
