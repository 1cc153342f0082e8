"""The cluster that a copy is for: its ids, and those of its topics.

A broker serves a partition only if the topic id in ``partition.metadata`` is that of
the cluster's metadata. Topic ids are read from one of

    a log directory, or a ``__cluster_metadata-0``   the cluster's metadata
    the output of ``kafka-topics.sh --describe``     lines with Topic and TopicId
    JSON                                             an object, or a list of objects
    CSV                                              lines of topic and topic id

The first line of a CSV file may have names of columns, such as ``topic,id``.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from kafkalog.errors import LogArgumentError, LogStateError, NotALogDirectoryError
from kafkalog.formats.properties import MetaProperties
from kafkalog.log.ownership import Name
from kafkalog.log.reading.cluster_metadata import (
    METADATA_PARTITION,
    read_cluster_settings,
)
from kafkalog.manager.identity import new_directory_id, read_identity
from kafkalog.storage.location import AnyPath, is_directory, local_path, read_small
from kafkalog.text.uuid_text import canonical_uuid

FIRST_EPOCH: Final = 0
"""The leader epoch of a topic's partitions when it is created."""

_TOPIC_COLUMNS: Final = ("topic", "topicname", "name")
_ID_COLUMNS: Final = ("id", "topicid", "uuid", "topicuuid")
_DESCRIBED: Final = re.compile(r"Topic:\s*(\S+)\s+TopicId:\s*(\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetCluster:
    """The ids that a copy gets; None where those of the source are kept.

    With a `leader_epoch`, all batches get it. A cluster whose partitions have lower
    leader epochs than the batches would not replicate these, and consumers that
    committed such an epoch would wait for it.

    Without `keeps_producers`, the state of producers is forgotten. A new cluster gives
    the same producer ids to other producers, whose first batches it would take for
    duplicates of old ones.
    """

    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    topic_ids: Mapping[str, str] | None = None
    leader_epoch: int | None = None
    keeps_producers: bool = True

    @property
    def identity(self) -> MetaProperties | None:
        """The content of ``meta.properties``; None if the ids are unknown."""
        if self.cluster_id is None or self.node_id is None:
            return None
        return MetaProperties(
            version=1,
            node_id=self.node_id,
            cluster_id=self.cluster_id,
            directory_id=self.directory_id or new_directory_id(),
        )

    def topic_id(self, topic: str, own: str | None) -> str | None:
        """Return the id of a topic, whose id in the source is `own`."""
        return own if self.topic_ids is None else self.topic_ids.get(topic)

    def check_topics(self, names: list[Name]) -> None:
        """Raise `LogStateError` if the id of a topic to copy is missing."""
        if self.topic_ids is None:
            return
        missing = sorted({topic for topic, _ in names} - self.topic_ids.keys())
        if missing:
            reason = f"no topic id for {', '.join(missing)}"
            error = LogStateError(f"{reason}, expected one for each topic")
            error.add_note("Create the topics in the target cluster first.")
            raise error


def target_cluster(
    sources: list[Path],
    *,
    target: AnyPath | None,
    cluster_id: str | None,
    node_id: int | None,
    directory_id: str | None,
    topic_ids: Mapping[str, str] | AnyPath | None,
    leader_epoch: int | None,
    keep_producers: bool | None,
) -> TargetCluster:
    """Return the ids of the target; `sources` are the log directories copied from.

    Raises `LogArgumentError` for an id that is invalid, or missing.
    """
    ids = _as_topic_ids(topic_ids)
    if target is not None:
        directory = local_path(target)
        identity = read_identity(directory)
        if identity is None:
            raise NotALogDirectoryError(f"no meta.properties: {directory}")
        cluster_id = identity.cluster_id if cluster_id is None else cluster_id
        node_id = identity.node_id if node_id is None else node_id
        if directory_id is None:
            directory_id = identity.directory_id
        if ids is None:
            ids = read_topic_ids(directory)
    is_other = ids is not None or cluster_id is not None
    owners = {
        (own.cluster_id, own.node_id)
        for own in filter(None, map(read_identity, sources))
    }
    if (cluster_id is None) != (node_id is None):
        missing = "node_id" if node_id is None else "cluster_id"
        raise LogArgumentError(f"no {missing}, expected both cluster_id and node_id")
    if len(owners) == 1 and not is_other:
        [(cluster_id, node_id)] = owners
    if directory_id is not None:
        directory_id = _as_id(directory_id, "directory id")
    if leader_epoch is None and is_other:
        leader_epoch = FIRST_EPOCH
    return TargetCluster(
        cluster_id=cluster_id,
        node_id=node_id,
        directory_id=directory_id,
        topic_ids=ids,
        leader_epoch=leader_epoch,
        keeps_producers=not is_other if keep_producers is None else keep_producers,
    )


def read_topic_ids(path: AnyPath) -> dict[str, str]:
    """Return topic ids by topic, from a file or from a cluster's metadata.

    Raises `FileNotFoundError`, `NotALogDirectoryError` for a directory without metadata
    and `LogArgumentError` for a file without topic ids.
    """
    place = local_path(path)
    if place.is_dir():
        directory = place
        if is_directory(place / METADATA_PARTITION):
            directory = place / METADATA_PARTITION
        if directory.absolute().name != METADATA_PARTITION:
            raise NotALogDirectoryError(f"no {METADATA_PARTITION}: {place}")
        return dict(read_cluster_settings(directory).topic_ids)
    text = read_small(place, links=True).decode("utf-8", "replace")
    ids: dict[str, str] = {}
    for topic, topic_id in _pairs(text, place):
        checked = _as_id(topic_id, f"id of topic {topic}", place)
        if ids.setdefault(topic, checked) != checked:
            raise LogArgumentError(f"two ids of topic {topic}: {place}")
    if not ids:
        raise LogArgumentError(f"no topic id, expected at least one: {place}")
    return ids


def _pairs(text: str, path: Path) -> Iterator[tuple[str, str]]:
    """Yield topics and their ids, in any of the forms."""
    if found := _DESCRIBED.findall(text):
        yield from found
    elif text.lstrip()[:1] in ("{", "["):
        yield from _of_json(text, path)
    else:
        yield from _of_csv(text, path)


def _of_csv(text: str, path: Path) -> Iterator[tuple[str, str]]:
    rows = csv.reader(text.removeprefix("\ufeff").splitlines())
    lines = [fields for row in rows if any(fields := [field.strip() for field in row])]
    for number, fields in enumerate(lines):
        if len(fields) != 2:
            reason = f"line of {len(fields)} fields, expected topic and topic id"
            raise LogArgumentError(f"{reason}: {path}")
        if number or not _is_header(fields):
            yield fields[0], fields[1]


def _is_header(fields: list[str]) -> bool:
    """Return whether a line has names of columns; none of them is a topic id."""
    topic, topic_id = (re.sub(r"[\W_]", "", field).lower() for field in fields)
    return topic in _TOPIC_COLUMNS and topic_id in _ID_COLUMNS


def _of_json(text: str, path: Path) -> Iterator[tuple[str, str]]:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LogArgumentError(f"invalid JSON: {error}: {path}") from None
    pairs: list[tuple[Any, Any]] = []
    if isinstance(content, dict):
        pairs = list(content.items())
    elif all(isinstance(item, dict) for item in content):
        pairs = [(item.get("topic"), item.get("topic_id")) for item in content]
    for topic, topic_id in pairs:
        if not isinstance(topic, str) or not isinstance(topic_id, str):
            reason = f"topic {topic!r:.64} with id {topic_id!r:.64}, expected text"
            raise LogArgumentError(f"{reason}: {path}")
        yield topic, topic_id


def _as_topic_ids(
    topic_ids: Mapping[str, str] | AnyPath | None,
) -> dict[str, str] | None:
    if topic_ids is None:
        return None
    if isinstance(topic_ids, Mapping):
        return {
            topic: _as_id(topic_id, f"id of topic {topic}")
            for topic, topic_id in topic_ids.items()
        }
    return read_topic_ids(topic_ids)


def _as_id(text: str, role: str, path: Path | None = None) -> str:
    try:
        return canonical_uuid(text)
    except ValueError as error:
        place = "" if path is None else f": {path}"
        raise LogArgumentError(f"{role}: {error}{place}") from None
