"""Log directories of brokers, opened and closed: the files equal those of brokers."""

import shutil

import pytest

from kafkalog import LogConfig
from kafkalog.formats.checkpoint import parse_epochs
from kafkalog.storage.checkpoint_file import read_offsets
from kafkalog.verification.path_verification import verify
from tests import golden_data
from tests.manager.managing import HIGHS, MARKER, POINTS, STARTS, manage

METADATA = "__cluster_metadata-0"

# The topics of the crashed broker, as tests/golden/make created them.
TORN = LogConfig(
    internal_segment_bytes=6000,
    index_interval_bytes=200,
    segment_index_bytes=400,
    retention_ms=-1,
)
TORN_TOPICS = {
    "torn.preallocated": TORN.with_changes({"preallocate": "true"}),
    "torn.sparse": TORN.with_changes({"segment.index.bytes": "10485760"}),
    "__transaction_state": LogConfig(segment_index_bytes=400, cleanup_policy="compact"),
}


def copy_of(set_name, tmp_path):
    return shutil.copytree(golden_data.logs(set_name), tmp_path / "logs")


def contents(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


# Compared with a broker's recovery


@pytest.fixture(scope="module")
def recovered(tmp_path_factory):
    """Return a crashed broker's directory after recovery, and the reports of it."""
    logs = copy_of("k431-crash", tmp_path_factory.mktemp("crash"))
    with manage(logs, config=TORN, topics=TORN_TOPICS) as manager:
        reports = {f"{name[0]}-{name[1]}": manager[name].report for name in manager}
    return logs, reports


TORN_PARTITIONS = sorted(
    path.name for path in golden_data.partitions("k431-crash") if path.name != METADATA
)


@pytest.mark.parametrize("partition", TORN_PARTITIONS)
def test_recovery_leaves_the_files_that_a_brokers_recovery_leaves(recovered, partition):
    ours = contents(recovered[0] / partition)
    theirs = contents(golden_data.logs("k431-recovered") / partition)
    epochs = "leader-epoch-checkpoint"
    assert ours.keys() == theirs.keys()
    differing = [name for name in ours if ours[name] != theirs[name]]
    assert set(differing) <= {epochs}
    known, later = parse_epochs(ours[epochs]), parse_epochs(theirs[epochs])
    assert known == later[:-1]  # the broker began another, as it led again


@pytest.mark.parametrize("name", [POINTS, STARTS, HIGHS])
def test_the_checkpoints_after_recovery_are_those_of_the_broker(recovered, name):
    theirs = read_offsets(golden_data.logs("k431-recovered"), name)
    ours = read_offsets(recovered[0], name)
    if name == HIGHS:  # a broker that leads alone raises it to the end of each log
        before = read_offsets(golden_data.logs("k431-crash"), name)
        assert ours == before
    else:
        assert ours == theirs


def test_close_writes_the_clean_shutdown_marker_and_releases_the_lock(recovered):
    assert (recovered[0] / MARKER).read_bytes() == b'{"version":0,"brokerEpoch":-1}'
    assert not (recovered[0] / ".lock").exists()


def test_no_file_is_damaged_after_recovery(recovered):
    report = verify(recovered[0])
    assert report.files > 40
    assert not report.problems


def test_the_report_has_the_recovered_segments_and_the_bytes_cut(recovered):
    report = recovered[1]["torn.preallocated-0"]
    assert not report.clean
    assert [segment.base_offset for segment in report.recovered] == [0, 88]
    assert report.bytes_cut == 0  # 5198 preallocated zeros are no data


MADE_EMPTY = b""  # leader epochs of logs without any
NEEDLESS_SNAPSHOTS = {  # at the start of a log, or between its segments
    "k431-clean": {
        "cutoff-0/00000000000000000060.snapshot",
        "expired-0/00000000000000000090.snapshot",
        "state.and-delete-0/00000000000000000067.snapshot",
    },
    "k431-recovered": set(),
    "k431-repl-broker1": {"twins-0/00000000000000000084.snapshot"},
    "k431-repl-broker2": {
        "twins-0/00000000000000000028.snapshot",
        "twins-1/00000000000000000028.snapshot",
    },
    "k282-clean": set(),
}


@pytest.mark.parametrize("set_name", NEEDLESS_SNAPSHOTS)
def test_a_clean_directory_is_not_changed_by_opening_and_closing_it(tmp_path, set_name):
    logs = copy_of(set_name, tmp_path)
    before = contents(logs)
    with manage(logs, config=LogConfig()) as manager:
        assert all(log.report.clean for log in manager.values())
        assert not any(log.report.recovered for log in manager.values())
        names = set(manager)
    changed = {
        name
        for name, data in contents(logs).items()
        if data != before.get(name, MADE_EMPTY)
    }
    assert changed <= {POINTS, HIGHS, STARTS}  # hash maps, written in another order
    gone = before.keys() - contents(logs).keys() - {".lock"}
    assert {
        name for name in gone if not name.endswith(".deleted")
    } == NEEDLESS_SNAPSHOTS[set_name]
    assert names == {
        (path.name.rpartition("-")[0], int(path.name.rpartition("-")[2]))
        for path in golden_data.partitions(set_name)
        if path.name != METADATA and not path.name.endswith("-delete")
    }
    for name in (POINTS, HIGHS, STARTS):
        assert read_offsets(logs, name) == read_offsets(
            golden_data.logs(set_name), name
        )


def test_the_marker_is_missing_while_logs_are_open_and_is_restored_with_its_epoch(
    tmp_path,
):
    logs = copy_of("k431-recovered", tmp_path)
    marker = (logs / MARKER).read_bytes()
    with manage(logs, config=TORN, topics=TORN_TOPICS):
        assert not (logs / MARKER).exists()
    assert (logs / MARKER).read_bytes() == marker


def test_logs_without_a_topic_id_can_be_treated_as_stray(tmp_path):
    logs = copy_of("k282-clean", tmp_path)
    with manage(logs, is_stray=lambda log: log.topic_id is None) as manager:
        assert not list(manager)
        assert len(manager.strays) == len(golden_data.partitions("k282-clean"))
    assert all(path.name.endswith("-stray") for path in logs.iterdir() if path.is_dir())
