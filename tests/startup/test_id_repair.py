"""Ids that a repair takes from the cluster's metadata."""

import shutil

import pytest

import kafkalog
from tests.manager.test_cluster_image import DIRECTORY_1, DIRECTORY_2
from tests.startup.prepared import of, write_ids


def test_the_directory_id_that_the_cluster_has_is_written(logs):
    write_ids(logs, DIRECTORY_2)
    with (logs / "meta.properties").open("a") as file:
        file.write("kept=1\n")
    [problem] = kafkalog.verify(logs).problems
    assert (str(problem.cause), str(problem.recovery)) == ("directory_id", "unserved")
    assert DIRECTORY_1 in problem.message
    done = kafkalog.repair(logs, apply=True)
    assert [(each.path, str(each.action)) for each in done.actions] == [
        ("meta.properties", "rewrite")
    ]
    assert done.unrepaired == ()
    assert "kept=1" in (logs / "meta.properties").read_text()
    assert kafkalog.verify(logs).problems == ()
    assert kafkalog.preflight(logs).ok
    kafkalog.repair(logs, undo=True)
    assert DIRECTORY_2 in (logs / "meta.properties").read_text()


@pytest.mark.parametrize("content", [None, "", "version: 0\n", "what\n"])
@pytest.mark.parametrize("alone", [False, True])
def test_the_topic_id_that_the_cluster_has_is_written(logs, content, alone):
    path = logs / "orders-0" / "partition.metadata"
    before = path.read_bytes()
    path.unlink()
    if content is not None:
        path.write_text(content)
    assert not kafkalog.preflight(logs).ok
    kafkalog.repair(logs / "orders-0" if alone else logs, apply=True)
    if alone and content is None:  # without the cluster's metadata it is no problem
        assert not path.exists()
        return
    assert path.read_bytes() == before
    assert kafkalog.verify(logs).problems == ()
    assert of(kafkalog.preflight(logs), "orders-0").ok


def test_the_id_of_another_topic_stays(logs):
    shutil.copytree(logs / "orders-0", logs / "copy-0")
    report = kafkalog.repair(logs, apply=True)
    assert report.actions == ()
    assert [each.path for each in report.unrepaired] == ["copy-0/partition.metadata"]
