"""The names of files and partition directories in a log directory.

A file of a partition has a number, an extension and at most one suffix:

    00000000000000041000.log                       20 digits: base offset
    00000000000000041000.index.deleted             and a suffix: deleted, cleaned, swap
    00000000000000012345-0000000007.checkpoint     a metadata snapshot: offset, epoch

A partition's directory is named by topic and number, with a mark if it is not live:

    orders-0                                       live
    orders-0.<32 hex>-delete                       to be deleted; topic may be shortened
    orders-0.<32 hex>-stray                        not assigned; topic may be shortened
    orders-0.<32 hex>-future                       target of a move between disks

Topics may contain dots, dashes and underscores, so names are parsed from the right. A
base offset of fewer than 20 digits is accepted if no file has the one with 20.

This module opens no files.
Source: ``LogFileUtils.java``, ``LocalLog.java``, ``Snapshots.java``.
"""

from __future__ import annotations

import string
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal, TypeAlias, cast

from kafkalog.integer_limits import MAX_INT32, MAX_INT64

FileKind: TypeAlias = Literal[
    "log", "index", "timeindex", "txnindex", "snapshot", "checkpoint"
]
FileSuffix: TypeAlias = Literal["deleted", "cleaned", "swap", "part"]
DirState: TypeAlias = Literal["delete", "future", "stray"]

LOCK: Final = ".lock"
CLEAN_SHUTDOWN: Final = ".kafka_cleanshutdown"
META_PROPERTIES: Final = "meta.properties"
PARTITION_METADATA: Final = "partition.metadata"
BOOTSTRAP: Final = "bootstrap.checkpoint"
"""The first records of a new cluster's metadata log."""

CLEANED: Final = ".cleaned"
DELETED: Final = ".deleted"
SWAP: Final = ".swap"

INDEXES: Final[tuple[FileKind, ...]] = ("index", "timeindex", "txnindex")
SEGMENT_KINDS: Final[tuple[FileKind, ...]] = ("log", *INDEXES)
"""The kinds of the files that belong to one segment."""

METADATA_TOPIC: Final = "__cluster_metadata"
"""Its log belongs to the controller, not to the log manager."""

MAX_OFFSET: Final = MAX_INT64
MAX_NAME_LENGTH: Final = 255
"""Characters of a directory's name; topics are shortened so that a mark fits."""

MAX_TOPIC_LENGTH: Final = 249

_KINDS: Final = {"log", "index", "timeindex", "txnindex", "snapshot"}
_SUFFIXES: Final = {"", "deleted", "cleaned", "swap"}
_CHECKPOINT_SUFFIXES: Final = {"", "deleted", "part"}
_STATES: Final = {"delete", "future", "stray"}
_OFFSET_DIGITS: Final = 20
_EPOCH_DIGITS: Final = 10
_NAMES_KEPT: Final = 4096
"""Number of parsed names that are kept: partitions have many names in common."""

_LEGAL: Final = frozenset(string.ascii_letters + string.digits + "._-")
_BLANKS: Final = frozenset(" \t\n\x0b\f\r")


@dataclass(frozen=True, slots=True)
class SegmentFile:
    """The parts of the name of a partition's file.

    Only a checkpoint has an `epoch`, and, while it is written (``.checkpoint.part``), a
    random `token`.

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
        """The file name as Kafka writes it, with twenty digits."""
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
    """Return the name of a partition's file.

    An offset below 0 is accepted, as Kafka accepts a ``-5.log``.

    >>> file_name(41_000, "log")
    '00000000000000041000.log'
    >>> file_name(12_345, "checkpoint", epoch=7)
    '00000000000000012345-0000000007.checkpoint'
    """
    if not -MAX_OFFSET - 1 <= base_offset <= MAX_OFFSET:
        raise ValueError(f"offset {base_offset}, expected an int64")
    if (kind == "checkpoint") != (epoch is not None):
        raise ValueError(
            f"epoch {epoch} for a {kind} file, expected one for a checkpoint only"
        )
    number = f"{'-' if base_offset < 0 else ''}{abs(base_offset):020d}"
    if epoch is not None:
        if not 0 <= epoch <= MAX_INT32:
            raise ValueError(f"epoch {epoch}, expected 0..{MAX_INT32}")
        number += f"-{epoch:010d}"
    if token is not None:
        number += f"-{token}"
    return f"{number}.{kind}" if suffix is None else f"{number}.{kind}.{suffix}"


@lru_cache(_NAMES_KEPT)
def parse_file_name(name: str) -> SegmentFile | None:
    """Parse the name of a partition's file; None if it is not one of Kafka's.

    >>> parse_file_name("00000000000000041000.timeindex.deleted").suffix
    'deleted'
    >>> parse_file_name("leader-epoch-checkpoint") is None
    True
    """
    number, _, extension = name.partition(".")
    kind, dot, suffix = extension.partition(".")
    if dot and not suffix:
        return None
    if kind == "checkpoint":
        return _checkpoint_file(number, suffix)
    base_offset = _number(number, MAX_OFFSET)
    if kind not in _KINDS or suffix not in _SUFFIXES or base_offset is None:
        return None
    if len(number) > _OFFSET_DIGITS:
        return None
    return SegmentFile(
        base_offset, cast("FileKind", kind), cast("FileSuffix | None", suffix or None)
    )


def parse_file_names(names: Iterable[str]) -> dict[str, SegmentFile]:
    """Parse the names in a directory; those that are not Kafka's are ignored.

    A name with fewer than 20 digits is ignored if there is one with 20 for the same
    offset: a broker then uses that one.

    >>> list(parse_file_names(["00000000000000000005.log", "5.log", "7.log", "x.log"]))
    ['00000000000000000005.log', '7.log']
    """
    read = {name: parse_file_name(name) for name in names}
    return {
        name: parsed
        for name, parsed in read.items()
        if parsed is not None and (_has_all_digits(name) or parsed.name not in read)
    }


def _has_all_digits(name: str) -> bool:
    return name[_OFFSET_DIGITS : _OFFSET_DIGITS + 1] in (".", "-")


def _checkpoint_file(number: str, suffix: str) -> SegmentFile | None:
    """Parse the part before ``.checkpoint``: offset, epoch, and an optional token."""
    offset, _, rest = number.partition("-")
    epoch, dash, token = rest.partition("-")
    widths = len(offset), len(epoch)
    if widths != (_OFFSET_DIGITS, _EPOCH_DIGITS) or suffix not in _CHECKPOINT_SUFFIXES:
        return None
    end_offset, leader_epoch = _number(offset, MAX_OFFSET), _number(epoch, MAX_INT32)
    if end_offset is None or leader_epoch is None or (dash and not token):
        return None
    return SegmentFile(
        end_offset,
        "checkpoint",
        cast("FileSuffix | None", suffix or None),
        leader_epoch,
        token or None,
    )


@dataclass(frozen=True, slots=True)
class PartitionDir:
    """The parts of the name of a partition's directory.

    `uuid` and `state` are None for a live one. In the name of a deleted or stray one
    `topic` may be shortened.

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
        """Raise `ValueError` for an invalid name, or a state without its uuid."""
        if not is_topic_name(self.topic):
            raise ValueError(f"topic {self.topic!r}, expected a legal topic name")
        if not 0 <= self.partition <= MAX_INT32:
            raise ValueError(f"partition {self.partition}, expected 0..{MAX_INT32}")
        if (self.uuid is None) != (self.state is None):
            raise ValueError(
                f"uuid {self.uuid!r} and state {self.state!r}, expected both or none"
            )

    @property
    def name(self) -> str:
        """The directory's name, with the topic shortened as Kafka does."""
        if self.state is None:
            return f"{self.topic}-{self.partition}"
        end = f"-{self.partition}.{self.uuid}-{self.state}"
        if self.state == "future":
            return self.topic + end
        return self.topic[: MAX_NAME_LENGTH - len(end)] + end


def parse_partition_dir(name: str) -> PartitionDir | None:
    """Parse the name of a partition's directory; None if it is not one.

    >>> parse_partition_dir("a.b-c_d-12")
    PartitionDir(topic='a.b-c_d', partition=12, uuid=None, state=None)
    >>> parse_partition_dir("orders-0.6377a1264763416496a100f8f49e88ac-delete").topic
    'orders'
    >>> parse_partition_dir("remote-log-index-cache") is None
    True
    """
    live, uuid, state = name, None, name.rpartition("-")[2]
    if state in _STATES:
        live, _, end = name.rpartition(".")
        uuid = end.removesuffix(f"-{state}")
        if end == uuid or not uuid or _BLANKS.intersection(uuid):
            return None
    topic, _, digits = live.rpartition("-")
    partition = _number(digits, MAX_INT32)
    if partition is None or not is_topic_name(topic):
        return None
    if uuid is None:
        return PartitionDir(topic, partition)
    return PartitionDir(topic, partition, uuid, cast("DirState", state))


def is_topic_name(text: str) -> bool:
    """Return whether Kafka takes a text for the name of a topic.

    >>> is_topic_name("a.b-c_d"), is_topic_name("a b"), is_topic_name("..")
    (True, False, False)
    """
    if text in (".", ".."):
        return False
    return 0 < len(text) <= MAX_TOPIC_LENGTH and _LEGAL.issuperset(text)


def _number(text: str, most: int) -> int | None:
    """Parse ASCII digits; None if they are not a number up to `most`."""
    digits = text.lstrip("0") or text[-1:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > len(str(most)):
        return None
    value = int(digits)
    return value if value <= most else None
