"""The ids of log directories: ``meta.properties`` is written and checked."""

import pytest

from kafkalog.errors import LogStateError
from kafkalog.formats.properties import MetaProperties
from kafkalog.manager.identity import new_directory_id
from tests.manager.managing import MARKER, fill, manage

CLUSTER, OTHER = "Zm9yLWRldmVsb3BlcnMtMQ", "b3RoZXItY2x1c3Rlci1pZA"
ID_1, ID_2 = "uofqeqfsP63VDPF-lkGQ6Q", "50zIfVQaSqGOTjgxcH_wcg"


def write(directory, **ids):
    directory.mkdir(parents=True, exist_ok=True)
    lines = [f"{key.replace('_', '.')}={value}" for key, value in ids.items()]
    (directory / "meta.properties").write_text("\n".join(lines) + "\n")


def read(directory):
    return MetaProperties.parse((directory / "meta.properties").read_bytes())


def test_new_directories_get_the_ids_and_one_of_their_own(tmp_path):
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b, cluster_id=CLUSTER, node_id=7) as manager:
        ids = manager.directory_ids
    assert read(a) == MetaProperties(
        version=1, node_id=7, cluster_id=CLUSTER, directory_id=ids[a]
    )
    assert ids[a] != ids[b]
    before = (a / "meta.properties").read_bytes()
    assert before.startswith(b"#\n#Fri Nov 21 15:46:40 UTC 2025\nnode.id=7\n")
    with manage(a, b, cluster_id=CLUSTER, node_id=7) as manager:
        assert manager.directory_ids == ids
    assert (a / "meta.properties").read_bytes() == before


def test_no_file_is_written_without_both_ids(tmp_path):
    for ids in ({}, {"cluster_id": CLUSTER}, {"node_id": 7}):
        with manage(tmp_path, **ids) as manager:
            assert manager.directory_ids == {}
        assert not (tmp_path / "meta.properties").exists()


def test_a_file_without_a_directory_id_gets_one(tmp_path):
    write(tmp_path, version=0, broker_id=7, cluster_id=CLUSTER)
    with manage(tmp_path, cluster_id=CLUSTER, node_id=7) as manager:
        [directory_id] = manager.directory_ids.values()
    assert read(tmp_path) == MetaProperties(
        version=0, node_id=7, cluster_id=CLUSTER, directory_id=directory_id
    )


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        ({"cluster_id": OTHER}, {}, f"cluster.id {CLUSTER}, expected {OTHER}: .*/b/"),
        ({"node_id": 2}, {}, "node.id 1, expected 2: .*/b/meta.properties"),
        ({"directory_id": ID_2}, {}, f"directory.id {ID_2} in two directories: .*/a/"),
        ({}, {"cluster_id": OTHER}, f"cluster.id {CLUSTER}, expected {OTHER}: .*/a/"),
        ({}, {"node_id": 2}, "node.id 1, expected 2: .*/a/meta.properties"),
    ],
)
def test_directories_of_several_brokers_are_an_error(tmp_path, first, second, message):
    a, b = tmp_path / "a", tmp_path / "b"
    for directory in (a, b):
        with manage(directory) as manager:
            fill(manager.open(f"in-{directory.name}", 0))
    ids = {"version": 1, "node_id": 1, "cluster_id": CLUSTER, "directory_id": ID_1}
    write(a, **{**ids, **first})
    write(b, **{**ids, "directory_id": ID_2})
    with pytest.raises(LogStateError, match=message):
        manage(a, b, **second)
    assert (a / MARKER).exists()
    assert (b / MARKER).exists()
    manage(b).close()


def test_a_reserved_directory_id_is_an_error(tmp_path):
    reserved = "AAAAAAAAAAAAAAAAAAAAAQ"
    write(tmp_path, version=1, node_id=1, cluster_id=CLUSTER, directory_id=reserved)
    with pytest.raises(LogStateError, match=f"reserved directory.id {reserved}"):
        manage(tmp_path)


@pytest.mark.parametrize("text", ["version=1\nnode.id=1\n", "version=2\n"])
def test_a_directory_with_an_invalid_file_goes_offline(tmp_path, text):
    a, b = tmp_path / "a", tmp_path / "b"
    with manage(a, b) as manager:
        fill(manager.open("orders", 0, directory=a))
    (a / "meta.properties").write_text(text)
    with manage(a, b) as manager:
        assert list(manager.offline) == [a]
        assert "meta.properties" in str(manager.offline[a])


def test_directory_ids_do_not_look_like_options():
    ids = {new_directory_id() for _ in range(300)}
    assert len(ids) == 300
    assert not [each for each in ids if each.startswith("-")]
