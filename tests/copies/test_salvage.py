"""`salvage` of directories and fragments, compared with the undamaged originals."""

import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.cleaner.partition_facts import (
    count_file_records,
)
from kafkalog.errors import (
    CorruptRecordError,
    LogArgumentError,
    LogStateError,
    NotALogDirectoryError,
)
from kafkalog.formats.checkpoint import (
    format_offsets,
)
from kafkalog.query.description import (
    describe,
)
from kafkalog.query.tailing import (
    last_records,
)
from kafkalog.segment.log_segment import (
    LogSegment,
)
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
)
from tests import golden_data
from tests.copies.log_truth import Truth, batches_of, logs_of, write_log
from tests.query.test_causes import with_crc

pytestmark = [
    pytest.mark.filterwarnings("ignore::kafkalog.UnknownSettingsWarning"),
]
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")


def problems(directory):
    report = kafkalog.verify(directory)
    return [problem for problem in report.problems if problem.severity == "error"]


def trimmed(logs):
    """Return files without the zeros of preallocation."""
    return {name: data.rstrip(b"\0") for name, data in logs.items()}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("original") / "data" / "orders-0")


def copy_of(original, tmp_path):
    return shutil.copytree(original.parent, tmp_path / "data")


@pytest.mark.parametrize("name", golden_data.SETS)
def test_an_undamaged_directory_comes_over_byte_for_byte(name, tmp_path):
    source = golden_data.logs(name)
    report = kafkalog.salvage(source, tmp_path / "out")
    assert report.ok
    assert report.partitions
    for row in report.partitions:
        directory = f"{row.topic}-{row.partition}"
        assert (row.missing, row.bytes_unreadable) == ((), 0)
        copied = logs_of(tmp_path / "out" / directory)
        # Preallocated bytes at the end are not copied.
        assert trimmed(copied) == trimmed(logs_of(source / directory))
        scan = kafkalog.scan(source / directory, start_offset=0)
        assert row.records == scan.count()
    assert problems(tmp_path / "out") == []
    assert (tmp_path / "out" / ".kafka_cleanshutdown").exists()


@pytest.mark.parametrize("name", ["k431-clean", "k431-repl-broker2"])
def test_epochs_ids_and_offsets_of_the_log_come_over(name, tmp_path):
    source = golden_data.logs(name)
    report = kafkalog.salvage(source, tmp_path / "out")
    identity = (source / "meta.properties").read_bytes()
    assert (tmp_path / "out" / "meta.properties").read_bytes() == identity
    for row in report.partitions:
        directory = f"{row.topic}-{row.partition}"
        before = kafkalog.open(source / directory)
        after = kafkalog.open(tmp_path / "out" / directory)
        assert after.log_start_offset == before.log_start_offset
        assert after.log_end_offset == before.log_end_offset
        assert after.high_watermark == before.high_watermark
        metadata = source / directory / "partition.metadata"
        if metadata.exists():
            copied = tmp_path / "out" / directory / "partition.metadata"
            assert copied.read_bytes() == metadata.read_bytes()


def test_a_link_to_a_partition_is_listed_and_not_followed(original, tmp_path):
    source = copy_of(original, tmp_path)
    moved = (source / "orders-0").rename(tmp_path / "orders-0")
    (source / "orders-0").symlink_to(moved)
    [row] = kafkalog.salvage(source, tmp_path / "out").partitions
    assert (row.records, row.ok) == (0, False)
    assert row.notes[0].startswith("symbolic link, expected a directory")
    assert not (tmp_path / "out" / "orders-0").exists()
    assert kafkalog.salvage(source / "orders-0", tmp_path / "named").ok


def test_all_is_missing_of_a_log_without_files(original, tmp_path):
    source = copy_of(original, tmp_path)
    for path in (source / "orders-0").iterdir():
        path.unlink()
    end = kafkalog.Log(original).log_end_offset
    (source / CHECKPOINTS[0]).write_text(f"0\n1\norders 0 {end}\n")
    [row] = kafkalog.salvage(source, tmp_path / "out").partitions
    assert (row.records, row.missing) == (0, ((0, end - 1),))


STARTS = "log-start-offset-checkpoint"


def test_a_log_start_offset_past_all_that_is_known_is_ignored(original, tmp_path):
    source = copy_of(original, tmp_path)
    end = kafkalog.Log(source / "orders-0").log_end_offset
    (source / STARTS).write_text("0\n1\norders 0 1000000\n")
    [row] = kafkalog.salvage(source, tmp_path / "out").partitions
    assert row.notes == (f"log start offset 1000000, expected at most {end}",)
    assert (row.missing, row.bytes_unreadable) == ((), 0)
    salvaged = kafkalog.scan(tmp_path / "out", control_records=True)
    assert salvaged.count() == row.records > 0
    # The records before it are deleted ones if the log had reached it.
    (source / STARTS).write_text(f"0\n1\norders 0 {end + 10}\n")
    for checkpoint in CHECKPOINTS:
        (source / checkpoint).write_text(f"0\n1\norders 0 {end + 12}\n")
    [row] = kafkalog.salvage(source, tmp_path / "deleted").partitions
    assert (row.missing, row.notes) == (((end + 10, end + 11),), ())
    assert kafkalog.scan(tmp_path / "deleted", control_records=True).count() == 0


@settings(max_examples=50)
@given(data=st.data())
def test_damage_loses_the_batches_it_touches_and_no_others(
    data, original, tmp_path_factory
):
    tmp_path = tmp_path_factory.mktemp("damaged")
    damaged = copy_of(original, tmp_path) / "orders-0"
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for _ in range(data.draw(st.integers(1, 5))):
        path = data.draw(st.sampled_from(sorted(damaged.glob("*.log"))))
        content = bytearray(path.read_bytes())
        kind = data.draw(st.sampled_from(["overwrite", "overwrite", "cut", "remove"]))
        at = data.draw(st.integers(0, len(content)))
        if kind == "overwrite":
            length = data.draw(st.integers(20, 700))
            content[at : at + length] = rng.randbytes(len(content[at : at + length]))
            path.write_bytes(content)
        elif kind == "cut":
            path.write_bytes(content[:at])
        elif kind == "remove" and len(list(damaged.glob("*.log"))) > 1:
            path.unlink()
            break
    truth = Truth(original, damaged)
    report = kafkalog.salvage(damaged.parent, tmp_path / "out")
    [row] = report.partitions
    copied = logs_of(tmp_path / "out" / "orders-0")
    assert {n: d for n, d in copied.items() if d} == {
        n: d for n, d in truth.kept.items() if d
    }
    assert list(row.missing) == truth.missing
    assert row.bytes_unreadable == truth.unreadable
    assert row.ok == (not (truth.missing or truth.unreadable))
    assert problems(tmp_path / "out") == []
    shutil.rmtree(tmp_path)


def test_the_end_is_known_by_the_checkpoints(original, tmp_path):
    damaged = copy_of(original, tmp_path)
    last = max((damaged / "orders-0").glob("*.log"))
    *_, (_, end, first, offset) = batches_of(last.read_bytes())
    before = batches_of(last.read_bytes())[-1].position
    assert end == last.stat().st_size
    last.write_bytes(last.read_bytes()[:before])
    [row] = kafkalog.salvage(damaged, tmp_path / "out").partitions
    assert (list(row.missing), row.bytes_unreadable) == ([(first, offset)], 0)
    for name in CHECKPOINTS:
        (damaged / name).unlink()
    for path in (damaged / "orders-0").glob("*.snapshot"):
        path.unlink()
    [row] = kafkalog.salvage(damaged, tmp_path / "again").partitions
    assert row.ok  # nothing states that there was more


@pytest.mark.parametrize("cut", [1, 100, 777])
def test_a_fragment_begins_and_ends_inside_of_a_batch(original, tmp_path, cut):
    [segment, *_] = sorted(original.glob("*.log"))
    content = segment.read_bytes()
    whole = [b for b in batches_of(content) if b.position >= cut]
    whole = [b for b in whole if b.end <= len(content) - 9]
    fragment = tmp_path / "part.bin"
    fragment.write_bytes(content[cut:-9])
    report = kafkalog.salvage(
        fragment,
        tmp_path / "out",
        fragment=True,
        output_topic="orders",
        output_partition=3,
    )
    [row] = report.partitions
    expected = content[whole[0].position : whole[-1].end]
    assert logs_of(tmp_path / "out" / "orders-3") == {
        f"{whole[0].first:020}.log": expected
    }
    assert row.missing == ()
    assert row.bytes_unreadable == len(content) - cut - 9 - len(expected)
    assert not report.ok


@pytest.mark.parametrize("content", [None, b"version: 0\ntopic_id: ?\n"])
def test_a_missing_topic_id_is_that_of_the_clusters_metadata(tmp_path, content):
    source, expected = tmp_path / "logs", golden_data.logs("k431-clean") / "ledger-0"
    for name in ("ledger-0", "__cluster_metadata-0"):
        shutil.copytree(expected.parent / name, source / name)
    path = source / "ledger-0" / "partition.metadata"
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    report = kafkalog.salvage(source, tmp_path / "salvaged")
    salvaged = tmp_path / "salvaged" / "ledger-0" / "partition.metadata"
    assert salvaged.read_bytes() == (expected / "partition.metadata").read_bytes()
    [noted] = [part for part in report.partitions if part.notes]
    assert noted.topic == "ledger"
    assert kafkalog.verify(tmp_path / "salvaged").ok


def test_a_manager_opens_what_was_salvaged_and_appends(original, tmp_path):
    kafkalog.salvage(original, tmp_path / "out", output_topic="other")
    with kafkalog.LogManager(tmp_path / "out") as logs:
        log = logs["other", 0]
        assert log.report.clean
        end = log.log_end_offset
        log.append_records({"value": [b"more"]}, leader_epoch=9)
        assert log.log_end_offset == end + 1


def test_an_empty_destination_is_used(original, tmp_path):
    (tmp_path / "out").mkdir()
    kafkalog.salvage(original, tmp_path / "out")
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("there", "message"),
    [("file", "not a directory"), ("directory", "the directory is not empty")],
)
def test_a_destination_that_is_not_empty_is_refused(original, tmp_path, there, message):
    out = tmp_path / "out"
    if there == "file":
        out.touch()
    else:
        (out / "sub").mkdir(parents=True)
    with pytest.raises(LogStateError, match=message):
        kafkalog.salvage(original, out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_destination_inside_of_the_source_is_refused(original):
    with pytest.raises(LogStateError, match="destination in a source"):
        kafkalog.salvage(original.parent, original.parent / "out")


def test_an_interrupted_copy_keeps_another_name(original, tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("kafkalog.storage.durable_file.Disk.rename", interrupt)
        with pytest.raises(KeyboardInterrupt):
            kafkalog.salvage(original, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "out.incomplete").mkdir(exist_ok=True)
    with pytest.raises(LogStateError, match="copy that is not complete"):
        kafkalog.salvage(original, tmp_path / "out")


def test_after_an_error_nothing_is_left(original, tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kafkalog.copies.copy_directory.CopiedLog.finish", fail)
    with pytest.raises(OSError, match="No space"):
        kafkalog.salvage(original, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_name_that_no_partition_has_is_refused(original, tmp_path):
    with pytest.raises(LogArgumentError, match="expected a legal name"):
        kafkalog.salvage(original, tmp_path / "out", output_topic="a/b")
    with pytest.raises(FileNotFoundError):
        kafkalog.salvage(tmp_path / "missing", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotALogDirectoryError):
        kafkalog.salvage(tmp_path / "empty", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_only_the_chosen_partitions_of_a_log_directory_are_salvaged(tmp_path):
    for name in ("orders-0", "orders-1", "state-0"):
        write_log(tmp_path / "data" / name, batches=3)

    def names(place, **chosen):
        report = kafkalog.salvage(tmp_path / "data", tmp_path / place, **chosen)
        return [(row.topic, row.partition) for row in report.partitions]

    assert names("all") == [("orders", 0), ("orders", 1), ("state", 0)]
    assert names("topic", topics="o*s") == [("orders", 0), ("orders", 1)]
    assert names("both", topics="orders", partitions=1) == [("orders", 1)]
    with pytest.raises(FileNotFoundError, match="No such topic"):
        names("none", topics="lost")


def test_topics_select_in_a_log_directory_and_name_no_output(original, tmp_path):
    file = min(original.glob("*.log"))
    with pytest.raises(LogArgumentError, match="expected no name for the output"):
        kafkalog.salvage(original.parent, tmp_path / "out", output_topic="orders")
    with pytest.raises(LogArgumentError, match="select in a log directory") as caught:
        kafkalog.salvage(file, tmp_path / "out", topics="orders")
    assert "output_topic" in caught.value.__notes__[0]
    with pytest.raises(FileNotFoundError, match="No such topic"):
        kafkalog.salvage(original, tmp_path / "out", topics="lost")
    assert not (tmp_path / "out").exists()


def test_a_partition_that_cannot_be_read_does_not_hide_the_others(
    tmp_path, monkeypatch
):
    for name in ("orders-0", "orders-1"):
        write_log(tmp_path / "data" / name)
    last = max((tmp_path / "data" / "orders-0").glob("*.log"))
    opened = LogSegment.open

    def failing(segment):
        if segment.path == last:
            raise OSError(5, "Input/output error", str(last))
        return opened(segment)

    monkeypatch.setattr(LogSegment, "open", failing)
    rows = kafkalog.salvage(tmp_path / "data", tmp_path / "out").partitions
    assert [row.ok for row in rows] == [False, True]
    [note] = rows[0].notes
    assert note.startswith("what follows cannot be read: [Errno 5]")
    end = kafkalog.open(tmp_path / "data" / "orders-1").log_end_offset
    assert list(rows[0].missing) == [(int(last.stem), end - 1)]


def batches_in(directory):
    """Return the file and place of each batch of a partition."""
    return [
        (path, batch)
        for path in sorted(directory.glob("*.log"))
        for batch in batches_of(path.read_bytes())
    ]


def set_field(path, position, data):
    content = bytearray(path.read_bytes())
    content[position : position + len(data)] = data
    path.write_bytes(content)


@pytest.mark.parametrize("place", [0, 1, 9, 16, -2, -1])
@pytest.mark.parametrize("bit", [0, 1, 8, 18, 40, 63])
def test_a_damaged_base_offset_is_corrected(original, tmp_path, place, bit):
    damaged = copy_of(original, tmp_path) / "orders-0"
    path, batch = batches_in(damaged)[place]
    offset = (batch.first ^ (1 << bit)).to_bytes(8)
    set_field(path, batch.position, offset)
    [row] = kafkalog.salvage(damaged.parent, tmp_path / "out").partitions
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)
    found = f"base offset {int.from_bytes(offset, signed=True)}"
    note = f"{found}, expected {batch.first}: {path} at byte {batch.position}"
    assert row.notes == (note,)
    for sources in ([damaged.parent, original.parent], [damaged.parent]):
        healed = tmp_path / f"healed {len(sources)}"
        assert kafkalog.heal(sources, healed).ok
        assert logs_of(healed / "orders-0") == logs_of(original)


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_last_batch_past_the_end_that_is_not_certain_is_left_out_or_noted(
    original, tmp_path, is_cleaned
):
    damaged = copy_of(original, tmp_path) / "orders-0"
    path, batch = batches_in(damaged)[-1]
    set_field(path, batch.position, (batch.first + 0x50_0001).to_bytes(8))
    known = batch.first - 1  # a crash: the batch was not flushed
    for file in damaged.glob("*.snapshot"):
        if int(file.stem) > known:
            file.unlink()
    written = {("orders", 0): known}
    for name in CHECKPOINTS:
        (damaged.parent / name).write_bytes(format_offsets(written))
    if is_cleaned:  # a follower of a compacted log has gaps
        (damaged.parent / CLEANED_TO).write_bytes(format_offsets(written))
    [row] = kafkalog.salvage(damaged.parent, tmp_path / "out").partitions
    [note] = row.notes
    assert f"but the log ends at {known} by its checkpoints: {path}" in note
    whole = kafkalog.scan(original).count()
    count = batch.last - batch.first + 1
    assert row.records == whole - (0 if is_cleaned else count)
    assert note.endswith("left out") != is_cleaned
    if not is_cleaned:
        assert kafkalog.heal([damaged.parent, original.parent], tmp_path / "healed").ok
        assert logs_of(tmp_path / "healed" / "orders-0") == logs_of(original)


def test_a_batch_past_the_known_end_that_follows_the_one_before_is_kept(
    original, tmp_path
):
    damaged = copy_of(original, tmp_path)
    for name in CHECKPOINTS:
        (damaged / name).write_bytes(format_offsets({("orders", 0): 3}))
    for file in (damaged / "orders-0").glob("*.snapshot"):
        file.unlink()
    [row] = kafkalog.salvage(damaged, tmp_path / "out").partitions
    assert (row.notes, row.missing) == ((), ())
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)


def test_a_batch_whose_records_cannot_be_decoded_is_not_readable(original, tmp_path):
    damaged = copy_of(original, tmp_path) / "orders-0"
    path, batch = batches_in(damaged)[3]
    content = bytearray(path.read_bytes())
    data = content[batch.position : batch.end]
    data[57:61] = (2**31 - 1).to_bytes(4)
    content[batch.position : batch.end] = with_crc(data)
    path.write_bytes(content)
    count = batch.last - batch.first + 1
    [row] = kafkalog.salvage(damaged.parent, tmp_path / "out").partitions
    assert row.records == kafkalog.scan(original).count() - count
    assert list(row.missing) == [(batch.first, batch.last)]
    assert row.bytes_unreadable == batch.end - batch.position
    [note] = row.notes
    assert note.endswith(f"{path} at byte {batch.position}, left out")
    assert kafkalog.heal([damaged.parent, original.parent], tmp_path / "healed").ok
    assert logs_of(tmp_path / "healed" / "orders-0") == logs_of(original)


def test_no_command_counts_more_records_than_bytes_can_hold(original, tmp_path):
    damaged = copy_of(original, tmp_path) / "orders-0"
    path, batch = batches_in(damaged)[-1]
    content = bytearray(path.read_bytes())
    data = content[batch.position : batch.end]
    data[23:27] = (2**31 - 2).to_bytes(4)
    data[57:61] = (2**31 - 1).to_bytes(4)
    content[batch.position : batch.end] = with_crc(data)
    path.write_bytes(content)
    most = kafkalog.scan(original).count()
    assert describe(path)["records"] < most
    assert kafkalog.scan(damaged, on_corruption="skip").count() < most
    with pytest.raises(CorruptRecordError):
        kafkalog.scan(damaged).count()
    assert count_file_records(LogSegment.of(path)) < most
    skipping = kafkalog.scan(damaged, on_corruption="skip")
    assert last_records(skipping, 5).count() == 5


@pytest.mark.parametrize("has_checkpoint", [True, False])
@pytest.mark.parametrize("place", [0, 9, 16, -1])
@pytest.mark.parametrize("epoch", [-9, 0x4000_0000])
def test_a_damaged_leader_epoch_is_restored(
    original, tmp_path, place, epoch, has_checkpoint
):
    damaged = copy_of(original, tmp_path) / "orders-0"
    if not has_checkpoint:
        (damaged / "leader-epoch-checkpoint").unlink()
        if place == -1:
            return  # nothing states the epoch of the last batch
    found = [
        (path, batch)
        for path in sorted(damaged.glob("*.log"))
        for batch in batches_of(path.read_bytes())
    ]
    path, batch = found[place]
    content = bytearray(path.read_bytes())
    at = batch.position + 12
    before = int.from_bytes(content[at : at + 4], "big")
    content[at : at + 4] = epoch.to_bytes(4, "big", signed=True)
    path.write_bytes(content)
    report = kafkalog.salvage(damaged.parent, tmp_path / "out")
    [row] = report.partitions
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)
    note = f"leader epoch {epoch}, expected {before}: {path} at byte {batch.position}"
    assert row.notes == (note,)
    assert not report.ok
    with (
        kafkalog.open(original) as log,
        kafkalog.open(tmp_path / "out/orders-0") as new,
    ):
        assert new.leader_epochs == log.leader_epochs


@pytest.mark.parametrize("kept", [0, 1, 2])
def test_an_interrupted_compaction_is_finished(original, tmp_path, kept):
    directory = copy_of(original, tmp_path) / "orders-0"
    first, second, *_ = sorted(directory.glob("*.log"))
    merged = first.read_bytes() + second.read_bytes()
    (directory / f"{first.name}.swap").write_bytes(merged)
    for path in (second, first)[kept:]:
        path.rename(path.with_name(f"{path.name}.deleted"))
    report = kafkalog.salvage(directory, tmp_path / "out")
    assert report.ok
    expected = logs_of(original) | {first.name: merged}
    del expected[second.name]
    assert logs_of(tmp_path / "out" / "orders-0") == expected


def test_a_damaged_file_of_a_compaction_replaces_nothing(original, tmp_path):
    directory = copy_of(original, tmp_path) / "orders-0"
    first = min(directory.glob("*.log"))
    (directory / f"{first.name}.swap").write_bytes(first.read_bytes()[:-1])
    assert kafkalog.salvage(directory, tmp_path / "out").ok
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)


def test_a_copy_of_later_batches_hides_no_batch_after_it(original, tmp_path):
    damaged = copy_of(original, tmp_path) / "orders-0"
    path = min(damaged.glob("*.log"))
    content = path.read_bytes()
    batches = batches_of(content)
    later = content[batches[-2].position :]
    at = batches[2].position + 20
    path.write_bytes(content[:at] + later + content[at + len(later) :])
    truth = Truth(original, damaged)
    assert truth.missing
    [row] = kafkalog.salvage(damaged.parent, tmp_path / "out").partitions
    assert list(row.missing) == truth.missing
    assert logs_of(tmp_path / "out" / "orders-0") == truth.kept
