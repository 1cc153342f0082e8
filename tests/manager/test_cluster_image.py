"""Logs that the cluster does not assign to this broker, and abandoned future logs."""

import shutil

import pytest

from kafkalog import ConfigError, CorruptRecordError
from kafkalog.errors import NotALogDirectoryError
from kafkalog.log.reading.cluster_metadata import Replicas
from kafkalog.manager.cluster_image import ClusterImage
from kafkalog.messages.schema_tables import schemas_of
from kafkalog.storage.checkpoint_file import read_offsets
from tests import golden_data
from tests.log.clusters import IDS, METADATA, REMOVE, metadata_log, record, topic
from tests.manager.managing import POINTS, fill, manage

ORDERS, STATE = IDS["orders"], IDS["state"]
PARTITION, CHANGE = 3, 5
DIRECTORY_1, DIRECTORY_2 = "uofqeqfsP63VDPF-lkGQ6Q", "50zIfVQaSqGOTjgxcH_wcg"
CLUSTER = "Zm9yLWRldmVsb3BlcnMtMQ"


def partition(topic_id, number, replicas, directories=(), version=1):
    message = {
        "topicId": topic_id,
        "partitionId": number,
        "replicas": replicas,
        "isr": replicas,
        "removingReplicas": [],
        "addingReplicas": [],
        "leader": replicas[0],
        "leaderEpoch": 0,
        "partitionEpoch": 0,
    }
    if version:
        message["directories"] = list(directories)
    return encoded(PARTITION, message, version)


def change(topic_id, number, version=1, **changes):
    return encoded(
        CHANGE, {"topicId": topic_id, "partitionId": number, **changes}, version
    )


def encoded(number, message, version):
    schema = schemas_of(METADATA)["metadata", number]
    return bytes([1, number, version]) + schema.encode(message, version)


def replicas(logs, *values):
    metadata_log(logs, values)
    return ClusterImage.read(logs).partitions


# The image


def test_the_partitions_are_read_from_the_metadata_log(tmp_path):
    found = replicas(
        tmp_path,
        topic("orders"),
        partition(ORDERS, 0, [1, 2], [DIRECTORY_1, DIRECTORY_2]),
        partition(ORDERS, 1, [2], version=0),
        change(ORDERS, 1, isr=[2], leader=2),
    )
    assert found == {
        (ORDERS, 0): Replicas((1, 2), (DIRECTORY_1, DIRECTORY_2)),
        (ORDERS, 1): Replicas((2,)),
    }


def test_changes_replace_replicas_and_directories(tmp_path):
    found = replicas(
        tmp_path,
        topic("orders"),
        partition(ORDERS, 0, [1, 2], [DIRECTORY_1, DIRECTORY_2]),
        partition(ORDERS, 1, [1], [DIRECTORY_1]),
        change(ORDERS, 0, replicas=[3]),
        change(ORDERS, 1, directories=[DIRECTORY_2]),
    )
    assert found[ORDERS, 0] == Replicas((3,))
    assert found[ORDERS, 1] == Replicas((1,), (DIRECTORY_2,))


def test_a_deleted_topic_has_no_partitions(tmp_path):
    found = replicas(
        tmp_path,
        topic("orders"),
        topic("state"),
        partition(ORDERS, 0, [1]),
        partition(STATE, 0, [1]),
        record(REMOVE, topicId=ORDERS),
    )
    assert list(found) == [(STATE, 0)]


def test_a_missing_metadata_log_is_an_error(tmp_path):
    with pytest.raises(NotALogDirectoryError, match="no __cluster_metadata-0"):
        ClusterImage.read(tmp_path)
    metadata_log(tmp_path).write_bytes(b"x" * 100)
    with pytest.raises(CorruptRecordError):
        ClusterImage.read(tmp_path / "__cluster_metadata-0")


def test_the_logs_of_a_broker_are_assigned_to_it(tmp_path):
    logs = shutil.copytree(golden_data.logs("k431-clean"), tmp_path / "logs")
    image = ClusterImage.read(logs)
    with manage(logs) as manager:
        assert len(manager)
        assert not [log for log in manager.values() if image.is_stray(log, 1)]
        assert all(image.is_stray(log, 2) for log in manager.values())
        identity = set(manager.directory_ids.values())
        assert {image.directory_of(log, 1) for log in manager.values()} == identity


# Strays


def image_of(*partitions):
    return ClusterImage({name: Replicas((1,), (DIRECTORY_1,)) for name in partitions})


def test_logs_that_are_not_assigned_to_the_broker_become_strays(tmp_path):
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0, topic_id=ORDERS))
        fill(manager.open("orders", 1, topic_id=ORDERS))
        fill(manager.open("state", 0, topic_id=STATE))
        fill(manager.open("untitled", 0))
    cluster = image_of((ORDERS, 0), (DIRECTORY_2, 1))
    with manage(tmp_path, cluster=cluster, node_id=1) as manager:
        assert list(manager) == [("orders", 0)]
        names = sorted(path.name.partition(".")[0] for path in manager.strays)
        assert names == ["orders-1", "state-0", "untitled-0"]
        assert all(path.is_dir() for path in manager.strays)
    assert list(read_offsets(tmp_path, POINTS)) == [("orders", 0)]
    with manage(tmp_path, cluster=cluster, node_id=2) as manager:
        assert len(manager.strays) == 4


def test_a_future_log_of_a_stray_becomes_a_stray(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b) as manager:
        fill(manager.open("orders", 0, topic_id=ORDERS, directory=a))
        manager.move("orders", 0, b)
    with manage(a, b, cluster=image_of((STATE, 0)), node_id=1) as manager:
        assert not manager
        assert not manager.moves
        assert len(manager.strays) == 2


def test_the_metadata_log_on_disk_tells_strays(tmp_path):
    metadata_log(tmp_path, [topic("orders"), partition(ORDERS, 0, [1])])
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0, topic_id=ORDERS))
        fill(manager.open("state", 0, topic_id=STATE))
    with manage(tmp_path, cluster=tmp_path, node_id=1) as manager:
        assert list(manager) == [("orders", 0)]
    assert (tmp_path / "__cluster_metadata-0").is_dir()


def test_strays_need_the_id_of_the_broker(tmp_path):
    with manage(tmp_path) as manager:
        fill(manager.open("orders", 0, topic_id=ORDERS))
    with pytest.raises(ConfigError, match=r"no node\.id"):
        manage(tmp_path, cluster=image_of())
    (tmp_path / "meta.properties").write_text(
        f"version=1\nnode.id=7\ncluster.id={CLUSTER}\n"
    )
    with manage(tmp_path, cluster=image_of((ORDERS, 0))) as manager:
        assert len(manager.strays) == 1  # assigned to broker 1, and this is 7


# Abandoned future logs


@pytest.mark.parametrize("accepted", [True, False])
def test_a_future_log_that_the_cluster_has_accepted_replaces_a_lost_log(
    tmp_path, accepted
):
    a, b = tmp_path / "a", tmp_path / "b"
    ids = {"cluster_id": CLUSTER, "node_id": 1}
    with manage(a, b, **ids) as manager:
        fill(manager.open("orders", 0, topic_id=ORDERS, directory=a), 2)
        manager.move("orders", 0, b)
        manager.advance_moves(1)
        directory_id = manager.directory_ids[b if accepted else a]
    shutil.rmtree(a)  # the disk was replaced by an empty one
    cluster = ClusterImage({(ORDERS, 0): Replicas((1,), (directory_id,))})
    with manage(a, b, cluster=cluster, **ids) as manager:
        assert (("orders", 0) in manager) is accepted
        assert bool(manager.moves) is not accepted
        assert (b / "orders-0").is_dir() is accepted
        if accepted:
            assert manager["orders", 0].log_end_offset == 10


@pytest.mark.parametrize("accepted", [True, False])
def test_a_future_log_that_the_cluster_has_accepted_replaces_the_current_log(
    tmp_path, accepted
):
    a, b = tmp_path / "a", tmp_path / "b"
    ids = {"cluster_id": CLUSTER, "node_id": 1}
    with manage(a, b, **ids) as manager:
        fill(manager.open("orders", 0, topic_id=ORDERS, directory=a), 2)
        manager.move("orders", 0, b)
        manager.advance_moves(1)
        directory_id = manager.directory_ids[b if accepted else a]
    (a / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 7\n")
    cluster = ClusterImage({(ORDERS, 0): Replicas((1,), (directory_id,))})
    with manage(a, b, cluster=cluster, **ids) as manager:
        assert bool(manager.moves) is not accepted
        assert manager["orders", 0].log_end_offset == (10 if accepted else 20)
        assert manager["orders", 0].path == (b if accepted else a) / "orders-0"
        assert [path.name[-7:] for path in a.glob("orders-0*")] == (
            ["-delete"] if accepted else ["orders-0"[-7:]]
        )
        assert manager.remove_deleted() == 0  # file.delete.delay.ms has not passed
    assert not list(a.glob("*-move"))
    assert read_offsets(a, POINTS).keys() == (set() if accepted else {("orders", 0)})
    owner = b if accepted else a
    assert read_offsets(owner, "cleaner-offset-checkpoint") == {("orders", 0): 7}
    with manage(a, b, cluster=cluster, **ids) as manager:
        assert list(manager) == [("orders", 0)]
        assert bool(manager.moves) is not accepted


def test_a_future_log_does_not_replace_a_current_log_of_another_topic(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    ids = {"cluster_id": CLUSTER, "node_id": 1}
    with manage(a, b, **ids) as manager:
        fill(manager.open("orders", 0, topic_id=STATE, directory=a))
        directory_id = manager.directory_ids[b]
    future = shutil.copytree(a / "orders-0", b / f"orders-0.{'0' * 32}-future")
    (future / "partition.metadata").write_text(f"version: 0\ntopic_id: {ORDERS}")
    assigned = Replicas((1,), (directory_id,))
    cluster = ClusterImage({(ORDERS, 0): assigned, (STATE, 0): Replicas((1,))})
    with manage(a, b, cluster=cluster, **ids) as manager:
        assert manager["orders", 0].topic_id == STATE
        assert manager.futures["orders", 0].path == future
