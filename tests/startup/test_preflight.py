"""The prediction of a start, compared with the opening of a `LogManager` on a copy.

Also checked is that a prediction changes nothing, not even a modification time.
"""

import json
import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog import ConfigError, KafkaLogError, LogConfig, LogManager
from kafkalog.errors import NotALogDirectoryError
from kafkalog.manager.cluster_image import ClusterImage
from kafkalog.startup.found_directories import FoundDirectory
from tests import golden_data
from tests.log.clusters import setting, snapshot, topic
from tests.manager.managing import MARKER, POINTS, STARTS, batch, manage
from tests.manager.test_cluster_image import (
    DIRECTORY_1,
    DIRECTORY_2,
    partition,
)
from tests.startup import damages
from tests.startup.prepared import (
    CONFIG,
    ORDERS,
    RECORDS,
    UUID,
    crash,
    of,
    readable,
    states,
    write_cluster,
    write_ids,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore::kafkalog.LostOffsetsWarning"),
    pytest.mark.filterwarnings("ignore::kafkalog.UnknownSettingsWarning"),
]


def tree(root):
    """Return all names, contents and times below a directory."""
    return {
        path: (
            path.stat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in sorted(root.rglob("*"))
    }


# Agreement with the manager


@pytest.mark.parametrize("stop", ["clean", "crash", "crash at 40"])
@pytest.mark.parametrize(
    "damage", [*damages.ALL, damages.strange_name], ids=lambda damage: damage.__name__
)
def test_a_prediction_agrees_with_the_opening_of_a_copy(logs, tmp_path, damage, stop):
    damage(logs / "orders-0")
    if stop != "clean":
        crash(logs, **({"p0": 40, "p1": 40} if stop == "crash at 40" else {}))
    before = tree(logs)
    report = kafkalog.preflight(logs)
    assert tree(logs) == before

    copy = shutil.copytree(logs, tmp_path / "copy")
    predicted = of(report, "orders-0")
    try:
        manager = LogManager(copy, cluster=copy)
    except KafkaLogError as error:
        text = str(error).replace(str(copy), str(logs))
        assert any(text in line for line in report.stops)
        assert predicted.state == "offline"
        return
    with manager:
        assert report.stops == ()
        log = manager["orders", 0]
        loading = log.report
        assert predicted.log_end_offset == log.log_end_offset
        assert predicted.log_start_offset == log.log_start_offset
        read = [(each.base_offset, each.bytes_read) for each in loading.recovered]
        read += loading.replayed
        assert predicted.bytes_to_read == sum(size for _, size in read)
        assert predicted.segments_to_read == len({base for base, _ in read})
        assert predicted.state == ("recover" if read else "clean")
        assert predicted.segments_dropped == len(loading.dropped)
        sizes = [
            sum(path.stat().st_size for path in (root / "orders-0").glob("*.log"))
            for root in (logs, copy)
        ]
        if not (loading.removed or damage in (damages.zero_tail, damages.zero_batch)):
            assert predicted.bytes_cut == sizes[0] - sizes[1]
        assert of(report, "orders-1").log_end_offset == RECORDS
        if not predicted.bytes_trailing:
            left = RECORDS - predicted.log_end_offset
            cut = [each for each in loading.recovered if each.bytes_cut]
            first = min([*loading.dropped, *(each.end_offset for each in cut), RECORDS])
            assert predicted.cut_from_offset == (first if predicted.bytes_cut else None)
            assert left >= 0
        counted = readable(logs / "orders-0"), readable(copy / "orders-0")
    replaces = {"swap", "cleaned", "deleted"} & set(damage.__name__.split("_"))
    if not replaces and not predicted.bytes_trailing and loading.lost is None:
        assert predicted.records_lost == counted[0] - counted[1]


def test_what_is_cut_and_then_deleted_is_lost_once(logs):
    directory = logs / "orders-0"
    records = readable(directory)
    size = sum(path.stat().st_size for path in damages.logs_of(directory))
    damages.flip_payload_in_first(directory)
    crash(logs)
    (logs / STARTS).write_text("0\n1\norders 0 1000\n")
    start = of(kafkalog.preflight(logs), "orders-0")
    assert start.bytes_cut == size
    assert start.records_lost == readable(directory) == records - 10
    assert start.segments_dropped == len(damages.logs_of(directory))
    assert (start.cut_from_offset, start.log_end_offset) == (0, 1000)
    assert f"{start.segments_dropped} segments from offset 0 on" in start.notes[-1]


@pytest.mark.parametrize("name", golden_data.SETS)
def test_a_brokers_directory_is_predicted(name, tmp_path):
    original = golden_data.logs(name)
    report = kafkalog.preflight(original)
    copy = shutil.copytree(original, tmp_path / "copy")
    (copy / ".lock").unlink(missing_ok=True)
    with LogManager(copy) as manager:
        for (topic_name, number), log in manager.items():
            predicted = of(report, f"/{topic_name}-{number}")
            assert predicted.log_end_offset == log.log_end_offset
            assert predicted.log_start_offset == log.log_start_offset
            cut = [each.bytes_cut for each in log.report.recovered]
            assert predicted.bytes_cut == sum(cut) == 0
    assert report.ok == (name != "oldclients")  # that has no meta.properties


def test_a_broker_recovered_what_was_predicted():
    report = kafkalog.preflight(golden_data.logs("k431-crash"))
    recovered = golden_data.logs("k431-recovered")
    partitions = [
        start for start in report.partitions if not start.topic.startswith("__")
    ]
    assert partitions
    for start in partitions:
        after = kafkalog.Log(recovered / f"{start.topic}-{start.partition}")
        assert start.state == "recover"
        # The broker has appended the marker of an aborted transaction since.
        assert after.log_end_offset - start.log_end_offset in (0, 1)


# Strays, futures, duplicates


def test_partitions_that_the_cluster_does_not_assign_become_strays(logs, tmp_path):
    write_cluster(logs, partition(ORDERS, 1, [2], [DIRECTORY_2]))
    (logs / "state-0").mkdir()
    (logs / "state-1").mkdir()
    text = f"version: 0\ntopic_id: {DIRECTORY_2}"
    (logs / "state-1" / "partition.metadata").write_text(text)
    (logs / f"orders-7.{UUID}-stray").mkdir()
    report = kafkalog.preflight(logs)
    assert states(report) == {
        "__cluster_metadata-0": "recover",
        "orders-0": "clean",
        "orders-1": "stray",
        "state-0": "stray",
        "state-1": "stray",
        f"orders-7.{UUID}-stray": "stray",
    }
    assert not report.ok
    assert "no topic id" in of(report, "state-0").notes[-1]
    assert f"topic id {DIRECTORY_2}" in of(report, "state-1").notes[-1]
    assert "replicas are on 2, not on node 1" in of(report, "orders-1").notes[-1]
    names = {each.topic + f"-{each.partition}" for each in report.new_strays}

    copy = shutil.copytree(logs, tmp_path / "copy")
    with LogManager(copy, cluster=copy):
        pass
    marked = {path.name.partition(".")[0] for path in copy.glob("*-stray")}
    assert marked == {*names, "orders-7"}


def test_strays_are_judged_by_another_clusters_metadata(logs, tmp_path):
    other = tmp_path / "other"
    write_cluster(other, replicas=(2,))
    assert states(kafkalog.preflight(logs, cluster=other))["orders-0"] == "stray"
    image = ClusterImage.read(logs)
    assert kafkalog.preflight(logs, cluster=image).ok
    assert states(kafkalog.preflight(logs, node_id=2))["orders-0"] == "stray"


def test_a_topic_whose_creation_is_cut_from_the_metadata_log_becomes_stray(logs):
    [path] = (logs / "__cluster_metadata-0").glob("*.log")
    damages.flip(path, 70)
    report = kafkalog.preflight(logs)
    metadata = of(report, "__cluster_metadata-0")
    assert (metadata.cut_from_offset, metadata.records_lost) == (0, 3)
    assert states(report)["orders-0"] == "stray"


def test_a_metadata_log_that_ends_before_its_snapshot_begins_at_it(logs):
    [path] = (logs / "__cluster_metadata-0").glob("*.log")
    partitions = [partition(ORDERS, number, [1], [DIRECTORY_1]) for number in (0, 1)]
    snapshot(logs, [topic("orders"), *partitions], 50)
    report = kafkalog.preflight(logs)
    metadata = of(report, "__cluster_metadata-0")
    assert metadata.log_end_offset == 50
    assert metadata.notes[-1].startswith("emptied, as it ends at 6, before its newest")
    assert states(report)["orders-0"] == "clean"
    path.unlink()
    assert of(kafkalog.preflight(logs), "__cluster_metadata-0").log_end_offset == 50


@pytest.fixture
def pair(logs, tmp_path):
    """Return two log directories of one broker."""
    second = tmp_path / "second"
    write_ids(second, DIRECTORY_2)
    (second / MARKER).touch()
    return logs, second


def test_a_partition_in_two_directories_stops_the_broker(pair):
    shutil.copytree(pair[0] / "orders-0", pair[1] / "orders-0")
    report = kafkalog.preflight(pair)
    [stop] = report.stops
    assert stop.startswith("two directories of one partition: ")
    assert not report.ok
    with pytest.raises(KafkaLogError, match="two directories of one partition"):
        LogManager(pair, cluster=pair[0])


def test_a_second_directory_of_a_partition_may_be_a_stray(pair):
    path = shutil.copytree(pair[0] / "orders-0", pair[1] / "orders-0")
    (path / "partition.metadata").write_text(f"version: 0\ntopic_id: {DIRECTORY_2}")
    report = kafkalog.preflight(pair)
    assert report.stops == ()
    assert sorted(
        str(each.state)
        for each in report.partitions
        if each.partition == 0 and each.topic != "state"
    ) == ["clean", "recover", "stray"]


def test_a_future_log_that_the_cluster_has_accepted_is_promoted(pair):
    first, second = pair
    write_cluster(first, directories=(DIRECTORY_2,))
    (first / "orders-0").rename(second / f"orders-0.{UUID}-future")
    report = kafkalog.preflight(pair)
    [future] = [each for each in report.partitions if each.state == "future"]
    assert future.notes[-1].startswith("promoted")
    with LogManager(pair, cluster=first) as manager:
        assert manager["orders", 0].log_end_offset == future.log_end_offset


def test_a_future_log_replaces_the_current_log_that_the_cluster_gave_up(pair):
    first, second = pair
    write_cluster(first, directories=(DIRECTORY_2,))
    shutil.copytree(first / "orders-0", second / f"orders-0.{UUID}-future")
    report = kafkalog.preflight(pair)
    assert states(report)["orders-0"] == "deleted"
    future = of(report, "-future")
    assert future.notes[-1].startswith("promoted")
    with LogManager(pair, cluster=first) as manager:
        assert manager["orders", 0].path == second / "orders-0"
        assert manager["orders", 0].log_end_offset == future.log_end_offset
        assert not manager.futures
    assert [path.name[-7:] for path in first.glob("orders-0*")] == ["-delete"]


def test_a_future_log_next_to_the_current_one_fails_their_directory(logs):
    shutil.copytree(logs / "orders-0", logs / f"orders-0.{UUID}-future")
    report = kafkalog.preflight(logs)
    assert set(states(report).values()) == {"offline"}
    assert "cannot be renamed" in report.directories[0].notes[0]
    assert report.stops[0] == "all log directories fail"
    with pytest.raises(OSError, match="not empty"):
        LogManager(logs, cluster=logs)


def test_a_future_log_is_kept_while_its_move_goes_on(pair):
    first, second = pair
    future = shutil.copytree(first / "orders-0", second / f"orders-0.{UUID}-future")
    damages.missing_middle(future)
    report = kafkalog.preflight(pair)
    assert states(report)["orders-0"] == "clean"
    assert of(report, "-future").notes[-1].startswith("kept: the move goes on, 0 off")
    shutil.rmtree(first / "orders-0")
    report = kafkalog.preflight(pair)
    start = of(report, "-future")
    assert start.notes[-1].startswith("emptied: there is no current log")
    assert start.records_lost == readable(future) > 0
    assert not report.ok


# Directories


@pytest.mark.parametrize(
    ("ids", "reason"),
    [
        ({"directory_id": DIRECTORY_1}, "directory.id .* in two directories"),
        ({"node": 2}, "node.id 2, expected 1"),
        ({"cluster": DIRECTORY_2}, "cluster.id .*, expected"),
    ],
)
def test_ids_that_differ_stop_the_broker(pair, ids, reason):
    write_ids(pair[1], **({"directory_id": DIRECTORY_2} | ids))
    report = kafkalog.preflight(pair)
    [stop] = report.stops
    with pytest.raises(KafkaLogError, match=reason) as caught:
        LogManager(pair, cluster=pair[0])
    assert stop == str(caught.value)


def test_a_missing_meta_properties_stops_the_broker(pair):
    (pair[1] / "meta.properties").unlink()
    (pair[1] / POINTS).touch()
    report = kafkalog.preflight(pair)
    [stop] = report.stops
    assert stop.startswith("no meta.properties")
    write_ids(pair[1], None)
    report = kafkalog.preflight(pair)
    assert report.ok
    assert report.directories[1].notes == ("gets a new directory.id",)


def test_a_metadata_log_in_two_directories_stops_the_broker(pair):
    write_cluster(pair[1])
    assert kafkalog.preflight(pair).stops[0].startswith("__cluster_metadata-0 in two")
    shutil.rmtree(pair[0] / "__cluster_metadata-0")
    report = kafkalog.preflight(pair)
    assert report.stops == ()
    assert "metadata.log.dir must be" in report.directories[1].notes[-1]


def test_a_directory_that_is_no_partitions_stops_the_broker(logs):
    (logs / "backup").mkdir()
    report = kafkalog.preflight(logs)
    assert report.stops == (
        f"directory name, expected <topic>-<partition>: {logs / 'backup'}",
    )


@pytest.mark.parametrize(
    "file", ["orders-0/partition.metadata", "orders-0/leader-epoch-checkpoint"]
)
def test_a_small_file_that_cannot_be_parsed_takes_its_directory_offline(pair, file):
    (pair[0] / "orders-0").rename(pair[1] / "orders-0")
    (pair[1] / file).write_text("x")
    report = kafkalog.preflight(pair)
    assert states(report)["orders-0"] == "offline"
    assert states(report)["orders-1"] == "clean"
    assert [each.online for each in report.directories] == [True, False]
    assert (report.ok, report.stops) == (False, ())
    with LogManager(pair, cluster=pair[0]) as manager:
        assert list(manager.offline) == [pair[1]]


def test_without_a_directory_that_works_the_broker_stops(logs):
    (logs / POINTS).write_text("x")
    report = kafkalog.preflight(logs)
    assert set(states(report).values()) == {"offline"}
    assert "all log directories fail" in report.stops


def test_what_can_be_freed_is_listed_from_the_safest_on(logs):
    damages.leftover_deleted(logs / "orders-0")
    damages.leftover_cleaned(logs / "orders-0")
    shutil.copytree(logs / "orders-1", logs / f"orders-3.{UUID}-delete")
    shutil.copytree(logs / "orders-1", logs / f"orders-4.{UUID}-stray")
    report = kafkalog.preflight(logs)
    [directory] = report.directories
    assert [str(each.kind) for each in directory.freeable] == [
        "deleted_file",
        "deleted_partition",
        "unfinished",
        "stray",
    ]
    assert directory.bytes_freeable == sum(each.bytes for each in directory.freeable)
    assert all(Path(each.path).exists() for each in directory.freeable)
    assert states(report)[f"orders-3.{UUID}-delete"] == "deleted"


def test_the_space_for_indexes_is_counted(logs):
    (logs / "orders-0").rename(logs.parent / "orders-0")
    report = kafkalog.preflight(logs)
    start = of(report, "orders-1")
    with LogManager(shutil.copytree(logs, logs.parent / "copy")) as manager:
        [*_, active] = manager["orders", 1].growing_segments
        sizes = active.offset_index.size_in_bytes, active.time_index.size_in_bytes
    grown = sum(sizes) - sum(
        path.stat().st_size
        for kind in ("index", "timeindex")
        for path in sorted((logs / "orders-1").glob(f"*.{kind}"))[-1:]
    )
    assert grown <= start.bytes_needed - 2 * (10 << 20) <= grown + 1000
    assert start.bytes_to_write < 1000


def test_a_disk_that_is_too_full_for_recovery_is_stated(logs, monkeypatch):
    crash(logs)
    [directory] = kafkalog.preflight(logs).directories
    needed = directory.bytes_to_write
    assert needed > 0
    for free, is_enough in ((needed, True), (needed - 1, False)):
        monkeypatch.setattr(FoundDirectory, "bytes_free", free)
        report = kafkalog.preflight(logs)
        assert report.ok == is_enough
        [directory] = report.directories
        assert any("bytes to write" in note for note in directory.notes) != is_enough


def test_the_time_is_that_of_the_given_rate(logs):
    crash(logs)
    report = kafkalog.preflight(logs, read_rate=1000)
    start = of(report, "orders-0")
    assert start.seconds == start.bytes_to_read / 1000
    total = sum(each.seconds for each in report.partitions)
    assert report.directories[0].seconds == pytest.approx(total / 2)
    measured = kafkalog.preflight(logs)
    assert measured.read_rate > 0
    with pytest.raises(ConfigError, match="read rate 0"):
        kafkalog.preflight(logs, read_rate=0)


def test_a_path_that_is_no_log_directory_is_rejected(logs):
    with pytest.raises(NotALogDirectoryError):
        kafkalog.preflight(logs / "orders-0")
    with pytest.raises(FileNotFoundError):
        kafkalog.preflight(logs / "missing")
    with pytest.raises(ConfigError):
        kafkalog.preflight([logs, logs])
    with pytest.raises(NotALogDirectoryError, match="no __cluster_metadata-0"):
        kafkalog.preflight(logs, cluster=logs / "orders-0")


# The cleaner


def test_a_batch_that_stops_the_cleaner_is_found(logs):
    write_cluster(logs, setting("orders", "cleanup.policy", "compact"))
    assert kafkalog.preflight(logs).ok
    damages.flip_record_in_middle(logs / "orders-0")
    report = kafkalog.preflight(logs)
    start = of(report, "orders-0")
    assert start.state == "clean"
    assert start.cleaner_error.startswith("record ends after the end of its batch: ")
    assert not report.ok
    assert kafkalog.preflight(logs, check_cleaner=False).ok
    compacted = LogConfig(cleanup_policy="compact")
    with manage(logs, config=compacted) as manager:
        log = manager["orders", 0]
        log.update_high_watermark(log.log_end_offset)
        with pytest.raises(KafkaLogError, match="CRC mismatch"):  # is checked before
            manager.cleaner.clean("orders", 0)


def test_the_settings_of_topics_are_those_of_the_passed_metadata(logs, tmp_path):
    shutil.rmtree(logs / "__cluster_metadata-0")
    write_cluster(tmp_path / "other", setting("orders", "cleanup.policy", "compact"))
    damages.flip_record_in_middle(logs / "orders-0")
    assert kafkalog.preflight(logs).ok
    for path in (tmp_path / "other", tmp_path / "other" / "__cluster_metadata-0"):
        report = kafkalog.preflight(logs, cluster=path)
        assert of(report, "orders-0").cleaner_error is not None


def test_records_without_a_key_in_a_compacted_log_are_counted(logs):
    with manage(logs, config=CONFIG) as manager:
        log = manager["orders", 0]
        for _ in range(2):
            builder = kafkalog.RecordBatchBuilder()
            builder.append(None, b"without a key")
            log.append(builder.build())
        log.roll()
    assert of(kafkalog.preflight(logs), "orders-0").notes == ()
    write_cluster(logs, setting("orders", "cleanup.policy", "compact"))
    report = kafkalog.preflight(logs)
    note = "compaction removes 2 records without a key"
    assert (of(report, "orders-0").notes, report.ok) == ((note,), True)


# The report


def test_a_crash_below_the_log_start_offset_is_predicted(logs, tmp_path):
    (logs / STARTS).write_text("0\n1\norders 0 1000\n")
    crash(logs)
    report = kafkalog.preflight(logs)
    start = of(report, "orders-0")
    assert (start.log_start_offset, start.log_end_offset) == (1000, 1000)
    assert (start.cut_from_offset, start.records_lost) == (0, RECORDS)
    with LogManager(logs, cluster=logs) as manager:
        assert manager["orders", 0].log_end_offset == 1000


def test_records_past_the_end_of_a_damaged_index_are_overwritten(logs):
    damages.index_past_end(logs / "orders-0")
    start = of(kafkalog.preflight(logs), "orders-0")
    last = int(damages.logs_of(logs / "orders-0")[-1].stem)
    assert start.state == "clean"
    assert start.cut_from_offset == start.log_end_offset == last
    assert start.records_lost == RECORDS - last
    assert start.bytes_trailing > 0


def test_logs_are_loaded_in_several_threads(logs):
    crash(logs)
    one, two = kafkalog.preflight(logs), kafkalog.preflight(logs, threads=3)
    assert [each.bytes_to_read for each in one.partitions] == [
        each.bytes_to_read for each in two.partitions
    ]


def test_a_report_is_a_table_and_json_and_html(logs):
    crash(logs)
    report = kafkalog.preflight(logs)
    table = report.to_arrow()
    rows = json.loads(json.dumps(report.as_dict()))
    assert table.num_rows == len(rows["partitions"]) == 5
    assert table["state"].to_pylist() == ["recover"] * 3 + ["missing"] * 2
    assert rows["schema"] == 1
    assert set(rows) >= {"directories", "partitions", "bytes_free", "bytes_needed"}
    assert "orders-1" in report._repr_html_()
    assert str(report).startswith("5 partitions: 3 recover, 2 missing; ")


def test_no_temporary_file_is_left(logs, tmp_path, monkeypatch):
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    kafkalog.preflight(logs)
    assert list(place.iterdir()) == []


def test_a_log_is_split_on_the_disk_of_the_rehearsal(logs):
    far = batch()
    data = bytearray(far)
    data[:8] = (1 << 33).to_bytes(8, "big")
    path = damages.logs_of(logs / "orders-0")[-1]
    path.write_bytes(path.read_bytes() + data)
    crash(logs, p0=RECORDS, p1=RECORDS)
    before = tree(logs)
    report = kafkalog.preflight(logs)
    assert tree(logs) == before
    start = of(report, "orders-0")
    assert any("split" in note for note in start.notes)
    with LogManager(logs, cluster=logs) as manager:
        assert manager["orders", 0].log_end_offset == start.log_end_offset
