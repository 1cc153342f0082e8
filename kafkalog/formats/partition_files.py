"""Topic id, clean shutdown marker and quorum state: three small files.

``partition.metadata``, in a partition's directory, no LF at the end:

    version: 0
    topic_id: K48VsEpRT9uBWc5sqaDtCA

``.kafka_cleanshutdown``, in the log directory, exists after a clean shutdown. It is
empty up to Kafka 3.6, then one JSON object without LF:

    {"version":0,"brokerEpoch":11}

``quorum-state``, in ``__cluster_metadata-0``: the last election, one JSON object:

    {"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"...","data_version":1}

Source: ``PartitionMetadataFile.java``, ``CleanShutdownFileHandler.java``,
``FileQuorumStateStore.java``, ``QuorumStateData.json``.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Final, Self

from kafkalog.errors import CorruptCheckpointError, UnsupportedFormatError
from kafkalog.text.decimal_text import int_from_text
from kafkalog.text.uuid_text import ZERO_UUID, canonical_uuid, uuid_from_text

NO_EPOCH: Final = -1
NO_NODE: Final = -1

_PARTS: Final = re.compile(r":[ \t\x0b\f]+")


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """The content of ``partition.metadata``: a topic id in Kafka's base64 form."""

    topic_id: str
    version: int = 0

    def __post_init__(self) -> None:
        """Raise `ValueError` for an invalid or zero id, or a negative version."""
        if self.version < 0:
            raise ValueError(f"version {self.version}, expected at least 0")
        if not any(uuid_from_text(self.topic_id)):
            raise ValueError("topic id of zeros, expected another")

    @classmethod
    def parse(cls, data: bytes) -> Self:
        r"""Return the values of the first two lines, whatever their names.

        Raises `CorruptCheckpointError`, whose `position` is the start of the line.

        >>> text = b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ"
        >>> PartitionMetadata.parse(text).topic_id
        'AAAAAAAAAAAAAAAAAAAAAQ'
        """
        lines = data.splitlines(keepends=True)
        if not lines:
            raise _missing_line(data)
        version, at = _version(lines[0]), len(lines[0])
        if len(lines) == 1:
            raise _missing_line(data)
        text = _second_part(lines[1], at)
        try:
            topic_id = canonical_uuid(text)
        except ValueError as error:
            raise CorruptCheckpointError(
                str(error), position=at, kafka_name="IllegalArgumentException"
            ) from None
        try:
            return cls(topic_id, version)
        except ValueError as error:
            raise CorruptCheckpointError(str(error), position=at) from None

    def format(self) -> bytes:
        r"""Return the bytes of the file: two lines, the second without LF.

        >>> PartitionMetadata("AAAAAAAAAAAAAAAAAAAAAQ").format()
        b'version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ'
        """
        return f"version: {self.version}\ntopic_id: {self.topic_id}".encode("ascii")


def parse_clean_shutdown(data: bytes) -> int:
    """Return the broker epoch of ``.kafka_cleanshutdown``, -1 if there is none.

    The shutdown was clean whatever the content is, so nothing is raised.

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
    """Return the bytes of ``.kafka_cleanshutdown``, as Kafka writes it since 3.7.

    >>> format_clean_shutdown()
    b'{"version":0,"brokerEpoch":-1}'
    """
    return _json({"version": 0, "brokerEpoch": broker_epoch})


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumState:
    """The content of ``quorum-state``: the last election; -1 in place of a node.

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
        """Return the content of the first line of ``quorum-state``.

        Raises `CorruptCheckpointError`, and `UnsupportedFormatError` for a
        ``data_version`` that is neither 0 nor 1.

        >>> state = QuorumState(leader_id=1, leader_epoch=2)
        >>> QuorumState.parse(state.format()) == state
        True
        """
        content = _json_object(data)
        version = _int_of(content, "data_version", 16)
        if version not in (0, 1):
            reason = f"quorum state version {version}, expected 0 or 1"
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
        """Return the bytes of the file: a JSON object with Kafka's order of members."""
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


def _missing_line(data: bytes) -> CorruptCheckpointError:
    reason = "fewer than 2 lines, expected a version and a topic id"
    name = "NullPointerException"
    return CorruptCheckpointError(reason, position=len(data), kafka_name=name)


def _version(line: bytes) -> int:
    """Return the version in the first line of ``partition.metadata``."""
    text = _second_part(line, 0)
    try:
        version = int_from_text(text, 32)
    except ValueError as error:
        raise CorruptCheckpointError(str(error), position=0) from None
    if version < 0:
        raise CorruptCheckpointError(
            f"version {version}, expected at least 0", position=0
        )
    return version


def _second_part(line: bytes, at: int) -> str:
    """Return the value of a ``name: value`` line."""
    try:
        parts = _PARTS.split(line.rstrip(b"\r\n").decode())
    except UnicodeDecodeError as error:
        reason, at = "line with invalid UTF-8", at + error.start
        raise CorruptCheckpointError(reason, position=at) from None
    while parts and not parts[-1]:  # as Java's String.split
        parts.pop()
    if len(parts) != 2:
        reason = f"line of {len(parts)} parts, expected 'name: value'"
        raise CorruptCheckpointError(reason, position=at)
    return parts[1]


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()


def _json_object(data: bytes) -> dict[str, Any]:
    line = data.splitlines()[0] if data else b""
    try:
        content = json.loads(line.decode())
    except (ValueError, RecursionError) as error:
        at = getattr(error, "pos", 0)
        reason = "quorum state without JSON, expected an object"
        raise CorruptCheckpointError(reason, position=at) from None
    if not isinstance(content, dict):
        kind = type(content).__name__
        reason = f"quorum state of type {kind}, expected an object"
        raise CorruptCheckpointError(reason, position=0)
    return content


def _fits(value: int, bits: int) -> bool:
    return type(value) is not bool and -(1 << bits - 1) <= value < 1 << bits - 1


def _int_of(content: dict[str, Any], name: str, bits: int) -> int:
    value = content.get(name)
    if not isinstance(value, int) or not _fits(value, bits):
        reason = f"{name} {value!r:.40}, expected an int{bits}"
        raise CorruptCheckpointError(reason, position=0)
    return value


def _text_of(content: dict[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        reason = f"{name} {value!r:.40}, expected a string"
        raise CorruptCheckpointError(reason, position=0)
    return value


def _uuid_of(content: dict[str, Any], name: str) -> str:
    text = _text_of(content, name)
    try:
        return canonical_uuid(text)
    except ValueError as error:
        raise CorruptCheckpointError(f"{name} {error}", position=0) from None


def _voters_of(content: dict[str, Any]) -> tuple[int, ...] | None:
    voters = content.get("currentVoters", "missing")
    if voters is None:
        return None
    if not isinstance(voters, list) or not all(isinstance(v, dict) for v in voters):
        reason = f"currentVoters {voters!r:.40}, expected a list of objects"
        raise CorruptCheckpointError(reason, position=0)
    return tuple(_int_of(voter, "voterId", 32) for voter in voters)
