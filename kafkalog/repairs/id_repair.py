"""The repair of topic ids and directory ids, by the cluster's metadata.

A ``partition.metadata`` that is missing or cannot be read is written again, if the
cluster has a partition of that name on the broker. The ``directory.id`` is replaced by
the one that the cluster has recorded.

Source: ``PartitionMetadataFile.java``, ``MetaPropertiesEnsemble.java``.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from kafkalog.errors import KafkaLogError
from kafkalog.formats.partition_files import PartitionMetadata
from kafkalog.formats.properties import format_properties, parse_properties
from kafkalog.log.reading.cluster_metadata import METADATA_PARTITION
from kafkalog.manager.cluster_image import ClusterImage
from kafkalog.manager.identity import read_identity
from kafkalog.repairs.partition_repair import FileChange
from kafkalog.repairs.repair_report import RepairAction, RepairKind
from kafkalog.storage.byte_source import read_regular
from kafkalog.storage.durable_file import UNSYNCED
from kafkalog.storage.file_names import (
    META_PROPERTIES,
    PARTITION_METADATA,
    parse_partition_dir,
)
from kafkalog.verification.verification_report import Cause, Problem, Report


def find_id_changes(
    root: Path, report: Report, place: Path, where: Path
) -> Iterator[FileChange]:
    """Yield the changes of files with ids; `where` was verified, and is in `root`."""
    image, node_id = None, None
    with suppress(KafkaLogError, OSError):
        image = ClusterImage.read(root)
        identity = read_identity(root)
        node_id = None if identity is None else identity.node_id
    if image is None or node_id is None:
        return
    for problem in report.problems:
        if problem.cause == Cause.DIRECTORY_ID:
            yield _directory_id(root, image, node_id, problem, place)
        elif problem.path.endswith(PARTITION_METADATA):
            directory = where if where != root else root / Path(problem.path).parent
            change = _topic_id(directory, image, node_id, problem, place)
            if change is not None:
                yield change


def _directory_id(
    root: Path, image: ClusterImage, node_id: int, problem: Problem, place: Path
) -> FileChange:
    file = root / META_PROPERTIES
    properties = {
        key: found.value for key, found in parse_properties(read_regular(file)).items()
    }
    recorded = image.recorded_directory(node_id)
    assert recorded is not None
    properties["directory.id"] = recorded
    result = place / META_PROPERTIES
    UNSYNCED.replace(result, format_properties(properties, datetime.now(UTC)))
    action = RepairAction(
        path=META_PROPERTIES,
        action=RepairKind.REWRITE,
        reason=f"{problem.cause}: {problem.message}",
    )
    return FileChange(META_PROPERTIES, result, action)


def _topic_id(
    directory: Path, image: ClusterImage, node_id: int, problem: Problem, place: Path
) -> FileChange | None:
    """Return the change that writes ``partition.metadata``, if it has no topic id."""
    name, file = parse_partition_dir(directory.name), directory / PARTITION_METADATA
    if name is None or name.state is not None or directory.name == METADATA_PARTITION:
        return None
    topic_id = image.topic_ids.get(name.topic)
    if topic_id is None or not image.is_assigned(topic_id, name.partition, node_id):
        return None
    with suppress(FileNotFoundError, KafkaLogError):
        PartitionMetadata.parse(read_regular(file))
        return None
    result = place / f"{directory.name}.{PARTITION_METADATA}"
    UNSYNCED.replace(result, PartitionMetadata(topic_id).format())
    path = f"{directory.name}/{PARTITION_METADATA}"
    action = RepairAction(
        path=path,
        action=RepairKind.REWRITE,
        reason=f"{problem.cause}: {problem.message}",
        topic=name.topic,
        partition=name.partition,
    )
    return FileChange(path, result, action)
