"""Text checkpoints: how far each partition got, and where each leader epoch began.

Lines of UTF-8, fields parted by blanks:

    0                     version
    2                     number of entries
    orders 0 4100         topic partition offset     (the four offset checkpoints)
    clicks 3 77

``leader-epoch-checkpoint``, one in each partition, has ``epoch start_offset`` lines
instead. Files end lines with LF; any line ending is read. An empty file, or one that
ends behind its version, has no entries: brokers create it so. Offset checkpoints have
no order (they are a hash map, written out); epochs ascend.

Knows: lines. Does not know: files, or which of the four checkpoints it has.
Source: ``CheckpointFile.java``, ``OffsetCheckpointFile.java``,
``LeaderEpochCheckpointFile.java``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kafkalog.codecs.decimal_text import int_from_text, shown
from kafkalog.errors import CorruptCheckpointError

VERSION: Final = 0

_BLANKS: Final = re.compile(r"[ \t\x0b\f]+")
_TOPIC: Final = re.compile(r"[^ \t\x0b\f\r\n]+")


class EpochEntry(NamedTuple):
    """A leader epoch, and the first offset written under it."""

    epoch: int
    start_offset: int


def parse_offsets(data: bytes) -> dict[tuple[str, int], int]:
    r"""Read an offset checkpoint: the offset of each (topic, partition).

    Raises `CorruptCheckpointError`, its `position` where the faulty line begins. Where
    a partition has two lines the last one counts.

    >>> parse_offsets(b"0\n1\nmy-topic 3 42\n")
    {('my-topic', 3): 42}
    """
    return {
        (topic, _field(partition, "partition", at)): _field(offset, "offset", at, 64)
        for at, (topic, partition, offset) in _entries(data, 3)
    }


def format_offsets(offsets: Mapping[tuple[str, int], int]) -> bytes:
    r"""Write an offset checkpoint, its lines in the order of `offsets`.

    >>> format_offsets({("my-topic", 3): 42})
    b'0\n1\nmy-topic 3 42\n'
    """
    for topic, _ in offsets:
        if not _TOPIC.fullmatch(topic):
            raise ValueError(f"topic {topic!r} would not be read back from a line")
    return _format(f"{topic} {n} {offset}" for (topic, n), offset in offsets.items())


def parse_epochs(data: bytes) -> list[EpochEntry]:
    r"""Read a ``leader-epoch-checkpoint``: its entries, in the file's order.

    Raises `CorruptCheckpointError`, its `position` where the faulty line begins.

    >>> parse_epochs(b"0\n2\n0 0\n5 1500\n")
    [EpochEntry(epoch=0, start_offset=0), EpochEntry(epoch=5, start_offset=1500)]
    """
    return [
        EpochEntry(_field(epoch, "epoch", at), _field(start, "start offset", at, 64))
        for at, (epoch, start) in _entries(data, 2)
    ]


def format_epochs(entries: Iterable[tuple[int, int]]) -> bytes:
    r"""Write a ``leader-epoch-checkpoint`` of (epoch, start offset) pairs.

    >>> format_epochs([(0, 0), (5, 1500)])
    b'0\n2\n0 0\n5 1500\n'
    """
    return _format(f"{epoch} {start}" for epoch, start in entries)


def _format(lines: Iterable[str]) -> bytes:
    entries = list(lines)
    text = "\n".join([str(VERSION), str(len(entries)), *entries])
    return text.encode() + b"\n"


def _entries(data: bytes, fields: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each entry's position and fields, then hold their number to the count."""
    lines = _lines(data)
    for at, line in lines:
        if (version := _number(line, "version", at)) != VERSION:
            reason = f"checkpoint version {version}, not {VERSION}"
            raise CorruptCheckpointError(reason, position=at)
        break
    for counted_at, line in lines:
        count, found = _number(line, "count", counted_at), 0
        if count < 0:
            raise CorruptCheckpointError(
                f"{count} entries are counted",
                position=counted_at,
                kafka_name="IllegalArgumentException",
            )
        for at, line in lines:
            yield at, _split(line, fields, at)
            found += 1
        if found != count:
            reason = f"{found} entries where {count} were counted"
            raise CorruptCheckpointError(reason, position=counted_at)


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Yield each line's position and text; lines end with LF, CR or both."""
    position = 0
    for line in data.splitlines(keepends=True):
        try:
            text = line.rstrip(b"\r\n").decode()
        except UnicodeDecodeError as error:
            reason = "a line is not UTF-8"
            at = position + error.start
            raise CorruptCheckpointError(reason, position=at) from None
        yield position, text
        position += len(line)


def _split(line: str, fields: int, at: int) -> list[str]:
    parts = _BLANKS.split(line)
    while parts and not parts[-1]:  # Java's split drops the empty ones at the end
        parts.pop()
    if len(parts) != fields or not parts[0]:
        reason = f"{shown(line)} does not have {fields} fields"
        raise CorruptCheckpointError(reason, position=at)
    return parts


def _field(text: str, name: str, at: int, bits: int = 32) -> int:
    """Read a number of an entry, of which Kafka does not say what it stands in."""
    return _number(text, name, at, bits, "NumberFormatException")


def _number(
    text: str, name: str, at: int, bits: int = 32, kafka_name: str | None = None
) -> int:
    try:
        return int_from_text(text, bits)
    except ValueError as error:
        raise CorruptCheckpointError(
            f"{name} {error}", position=at, kafka_name=kafka_name
        ) from None
