"""Small files with a form of their own: topic id, clean shutdown, quorum state.

``partition.metadata``, in a partition's directory, no LF at the end:

    version: 0
    topic_id: K48VsEpRT9uBWc5sqaDtCA

``.kafka_cleanshutdown``, in the log directory: that it is there says that the last
shutdown was clean. Empty up to Kafka 3.6, then one JSON object without a line's end:

    {"version":0,"brokerEpoch":11}

``quorum-state``, in ``__cluster_metadata-0``: the last election, one JSON object:

    {"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"...","data_version":1}

Knows: these forms. Does not know: files.
Source: ``PartitionMetadataFile.java``, ``CleanShutdownFileHandler.java``,
``FileQuorumStateStore.java``, ``QuorumStateData.json``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Self

from kafkalog.codecs.decimal_text import int_from_text
from kafkalog.codecs.uuid_text import ZERO_UUID, uuid_from_text, uuid_to_text
from kafkalog.errors import CorruptCheckpointError, UnsupportedFormatError

NO_EPOCH: Final = -1
NO_NODE: Final = -1

_PARTS: Final = re.compile(r":[ \t\x0b\f]+")


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """What ``partition.metadata`` says: the id of the topic, in Kafka's text form."""

    topic_id: str
    version: int = 0

    def __post_init__(self) -> None:
        """Refuse an id that is none, or is all zero, and a version below 0."""
        if self.version < 0:
            raise ValueError(f"version {self.version} is below 0")
        if not any(uuid_from_text(self.topic_id)):
            raise ValueError("topic id is all zero")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        r"""Read the first two lines; the words before their colons do not matter.

        Raises `CorruptCheckpointError`, its `position` where the faulty line begins.

        >>> text = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
        >>> PartitionMetadata.parse(text).topic_id
        'AAAAAAAAAAAAAAAAAAAAAQ'
        """
        lines = data.splitlines(keepends=True)
        if not lines:
            raise _lacks_a_line(data)
        version, at = _version(lines[0]), len(lines[0])
        if len(lines) == 1:
            raise _lacks_a_line(data)
        text = _second_part(lines[1], at)
        try:
            topic_id = _canonical(text)
        except ValueError as error:
            raise CorruptCheckpointError(
                str(error), position=at, kafka_name="IllegalArgumentException"
            ) from None
        try:
            return cls(topic_id, version)
        except ValueError as error:
            raise CorruptCheckpointError(str(error), position=at) from None

    def format(self) -> bytes:
        r"""Write the file: two lines, of which the second does not end.

        >>> PartitionMetadata("AAAAAAAAAAAAAAAAAAAAAQ").format()
        b'version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ'
        """
        return f"version: {self.version}\ntopic_id: {self.topic_id}".encode("ascii")


def parse_clean_shutdown(data: bytes) -> int:
    """Read the broker epoch of ``.kafka_cleanshutdown``; -1 where it says none.

    Whatever stands in the file, the shutdown was clean: this raises nothing.

    >>> parse_clean_shutdown(b'{"version":0,"brokerEpoch":11}')
    11
    >>> parse_clean_shutdown(b"")
    -1
    """
    try:
        content = json.loads(data.decode())
    except (ValueError, RecursionError):
        return NO_EPOCH
    epoch = content.get("brokerEpoch") if isinstance(content, dict) else None
    return epoch if isinstance(epoch, int) and _fits(epoch, 64) else NO_EPOCH


def format_clean_shutdown(broker_epoch: int = NO_EPOCH) -> bytes:
    """Write ``.kafka_cleanshutdown``, as Kafka does since 3.7.

    >>> format_clean_shutdown()
    b'{"version":0,"brokerEpoch":-1}'
    """
    return _json({"version": 0, "brokerEpoch": broker_epoch})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """What ``quorum-state`` says of the last election; -1 where there is no node.

    Version 0 alone has `cluster_id`, `applied_offset` and `current_voters` (ids, or
    None); version 1 alone has `voted_directory_id`.
    """

    leader_id: int
    leader_epoch: int
    voted_id: int = NO_NODE
    voted_directory_id: str = ZERO_UUID
    cluster_id: str = ""
    applied_offset: int = 0
    current_voters: tuple[int, ...] | None = ()
    data_version: int = 1

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """Read the first line of ``quorum-state``.

        Raises `CorruptCheckpointError`, and `UnsupportedFormatError` for a
        ``data_version`` that is neither 0 nor 1.

        >>> state = QuorumState(leader_id=1, leader_epoch=2)
        >>> QuorumState.parse(state.format()) == state
        True
        """
        content = _json_object(data)
        version = _int_of(content, "data_version", 16)
        if version not in (0, 1):
            reason = f"quorum state version {version}, not 0 or 1"
            raise UnsupportedFormatError(reason, position=0)
        election: dict[str, Any] = {
            "leader_id": _int_of(content, "leaderId", 32),
            "leader_epoch": _int_of(content, "leaderEpoch", 32),
            "voted_id": _int_of(content, "votedId", 32),
        }
        if version:
            voted = _uuid_of(content, "votedDirectoryId")
            return cls(**election, voted_directory_id=voted)
        return cls(
            **election,
            cluster_id=_text_of(content, "clusterId"),
            applied_offset=_int_of(content, "appliedOffset", 64),
            current_voters=_voters_of(content),
            data_version=0,
        )

    def format(self) -> bytes:
        """Write the file: one JSON object, its members in Kafka's order."""
        election: dict[str, Any] = {
            "leaderId": self.leader_id,
            "leaderEpoch": self.leader_epoch,
            "votedId": self.voted_id,
        }
        if self.data_version:
            voted = {"votedDirectoryId": self.voted_directory_id}
            return _json({**election, **voted, "data_version": self.data_version})
        ids = self.current_voters
        voters = None if ids is None else [{"voterId": voter} for voter in ids]
        return _json(
            {
                "clusterId": self.cluster_id,
                **election,
                "appliedOffset": self.applied_offset,
                "currentVoters": voters,
                "data_version": self.data_version,
            }
        )


def _lacks_a_line(data: bytes) -> CorruptCheckpointError:
    reason = "a version and a topic id are two lines"
    name = "NullPointerException"
    return CorruptCheckpointError(reason, position=len(data), kafka_name=name)


def _version(line: bytes) -> int:
    """Read the first line of ``partition.metadata``."""
    text = _second_part(line, 0)
    try:
        version = int_from_text(text, 32)
    except ValueError as error:
        raise CorruptCheckpointError(str(error), position=0) from None
    if version < 0:
        raise CorruptCheckpointError(f"version {version} is below 0", position=0)
    return version


def _second_part(line: bytes, at: int) -> str:
    """Return what stands behind a line's only colon and blanks."""
    try:
        parts = _PARTS.split(line.rstrip(b"\r\n").decode())
    except UnicodeDecodeError as error:
        reason, at = "a line is not UTF-8", at + error.start
        raise CorruptCheckpointError(reason, position=at) from None
    while parts and not parts[-1]:  # Java's split drops the empty ones at the end
        parts.pop()
    if len(parts) != 2:
        raise CorruptCheckpointError("a line is not 'name: value'", position=at)
    return parts[1]


def _canonical(text: str) -> str:
    return uuid_to_text(uuid_from_text(text))


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _json_object(data: bytes) -> dict[str, Any]:
    line = data.splitlines()[0] if data else b""
    try:
        content = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", 0)
        reason = "quorum state is not JSON"
        raise CorruptCheckpointError(reason, position=at) from None
    if not isinstance(content, dict):
        raise CorruptCheckpointError("quorum state is no object", position=0)
    return content


def _fits(value: int, bits: int) -> bool:
    return type(value) is not bool and -(1 << bits - 1) <= value < 1 << bits - 1


def _int_of(content: dict[str, Any], name: str, bits: int) -> int:
    value = content.get(name)
    if not isinstance(value, int) or not _fits(value, bits):
        reason = f"quorum state has no int{bits} {name}"
        raise CorruptCheckpointError(reason, position=0)
    return value


def _text_of(content: dict[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        reason = f"quorum state has no text {name}"
        raise CorruptCheckpointError(reason, position=0)
    return value


def _uuid_of(content: dict[str, Any], name: str) -> str:
    text = _text_of(content, name)
    try:
        return _canonical(text)
    except ValueError as error:
        raise CorruptCheckpointError(f"{name} {error}", position=0) from None


def _voters_of(content: dict[str, Any]) -> tuple[int, ...] | None:
    voters = content.get("currentVoters", "missing")
    if voters is None:
        return None
    if not isinstance(voters, list) or not all(isinstance(v, dict) for v in voters):
        reason = "quorum state has no list currentVoters of objects"
        raise CorruptCheckpointError(reason, position=0)
    return tuple(_int_of(voter, "voterId", 32) for voter in voters)
