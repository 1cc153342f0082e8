"""`heal` of replicas that are damaged elsewhere, compared with the original."""

import random
import shutil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkalog
from kafkalog.copies.replica_batches import ReplicaBatches
from kafkalog.errors import LogArgumentError, LogStateError
from tests import golden_data
from tests.copies.log_truth import Truth, batches_of, logs_of, merged, write_log
from tests.copies.test_salvage import problems

pytestmark = [
    pytest.mark.filterwarnings("ignore::kafkalog.UnknownSettingsWarning"),
]
NAMES = ("a", "b", "c")
EPOCHS = "leader-epoch-checkpoint"


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("original") / "data" / "orders-0")


def copies_of(original, tmp_path, names=NAMES):
    return [shutil.copytree(original.parent, tmp_path / name) for name in names]


def damage(directory, name, at, length=1):
    path = directory / "orders-0" / name
    content = bytearray(path.read_bytes())
    for place in range(at, min(at + length, len(content))):
        content[place] ^= 0x5A
    path.write_bytes(content)


def segments_of(directory):
    return sorted(path.name for path in directory.glob("*.log"))


def files_of(directory):
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


@settings(max_examples=30)
@given(data=st.data())
def test_the_healed_log_is_the_original_or_nothing_is_written(
    data, original, tmp_path_factory
):
    tmp_path = tmp_path_factory.mktemp("replicas")
    replicas = copies_of(original, tmp_path)
    rng = random.Random(data.draw(st.integers(0, 2**32)))
    for replica in replicas:
        for _ in range(data.draw(st.integers(0, 4))):
            name = data.draw(st.sampled_from(segments_of(original)))
            path = replica / "orders-0" / name
            content = bytearray(path.read_bytes())
            at = data.draw(st.integers(0, len(content)))
            length = data.draw(st.integers(20, 900))
            content[at : at + length] = rng.randbytes(len(content[at : at + length]))
            path.write_bytes(content)
    for replica in replicas[: data.draw(st.integers(0, 2))]:
        (replica / "orders-0" / EPOCHS).unlink()
    truths = [Truth(original, replica / "orders-0") for replica in replicas]
    lost = [
        {offset for first, last in truth.missing for offset in range(first, last + 1)}
        for truth in truths
    ]
    gone = sorted(set.intersection(*lost))
    report = kafkalog.heal(replicas, tmp_path / "out")
    [row] = report.partitions
    assert list(row.missing) == merged((offset, offset) for offset in gone)
    assert report.ok == (not gone)
    if gone:
        assert f"{row.missing[0].first} to {row.missing[0].last}" in row.why
        assert sorted(path.name for path in tmp_path.iterdir()) == list(NAMES)
    else:
        assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)
        assert problems(tmp_path / "out") == []
    shutil.rmtree(tmp_path)


def test_a_log_start_offset_past_the_end_of_one_replica_is_ignored(original, tmp_path):
    replicas = copies_of(original, tmp_path)
    for replica in replicas[:2]:
        (replica / "log-start-offset-checkpoint").write_text("0\n1\norders 0 1000000\n")
    first = segments_of(original)[0]
    damage(replicas[0], first, batches_of((original / first).read_bytes())[2].position)
    assert kafkalog.heal(replicas, tmp_path / "out").ok
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)
    start = kafkalog.Log(tmp_path / "out" / "orders-0").log_start_offset
    assert start == kafkalog.Log(original).log_start_offset


def test_the_sources_have_the_replica_of_each_range(original, tmp_path):
    a, b, c = copies_of(original, tmp_path)
    first, second, *_ = segments_of(original)
    in_first = batches_of((original / first).read_bytes())
    in_second = batches_of((original / second).read_bytes())
    damage(a, first, in_first[2].position + 70)
    damage(b, first, in_first[2].position + 70)
    damage(a, second, in_second[1].position + 70)
    # The others miss more, so that the first one defines the history.
    third = segments_of(original)[2]
    for number, batch in enumerate(batches_of((original / third).read_bytes())[1:6]):
        damage((b, c)[number % 2], third, batch.position + 70)
        damage((b, c)[number % 2], second, in_second[number + 4].position + 70)
    [row] = kafkalog.heal([a, b, c], tmp_path / "out").partitions
    assert row.sources == {
        0: str(a / "orders-0"),
        in_first[2].first: str(c / "orders-0"),
        in_first[3].first: str(a / "orders-0"),
        in_second[1].first: str(b / "orders-0"),
        in_second[2].first: str(a / "orders-0"),
    }
    assert row.records == kafkalog.scan(original).count()
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)


def test_directories_of_one_partition_are_healed_as_well(original, tmp_path):
    a, b, _ = copies_of(original, tmp_path)
    first = segments_of(original)[0]
    (a / "orders-0" / first).unlink()
    kafkalog.heal([a / "orders-0", b / "orders-0"], tmp_path / "out")
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)


def test_golden_replicas_heal_each_other(tmp_path):
    sources = [golden_data.logs(f"k431-repl-broker{n}") for n in (1, 2)]
    copies = [
        shutil.copytree(source, tmp_path / str(number))
        for number, source in enumerate(sources)
    ]
    for number, copy in enumerate(copies):
        path = sorted((copy / "twins-0").glob("*.log"))[0]
        content = bytearray(path.read_bytes())
        batch = batches_of(content)[3 + 4 * number]
        content[batch.end - 1] ^= 1
        path.write_bytes(content)
    report = kafkalog.heal(copies, tmp_path / "out")
    assert report.ok
    assert len(report.partitions[0].sources) == 3
    assert kafkalog.diff(sources[0], tmp_path / "out").ok
    assert problems(tmp_path / "out") == []
    with kafkalog.LogManager(tmp_path / "out") as logs:
        assert logs["twins", 0].report.clean


def diverged(original, tmp_path, more):
    """Return two replicas that share a log and then diverge in leader epochs."""
    a, b = copies_of(original, tmp_path, ("a", "b"))
    with kafkalog.open(a / "orders-0", "a") as log:
        end = log.log_end_offset
        for number in range(more):
            log.append_records({"value": [b"old %d" % number]}, leader_epoch=7)
    with kafkalog.open(b / "orders-0", "a") as log:
        for number in range(3):
            log.append_records({"value": [b"new %d" % number]}, leader_epoch=8)
    return a, b, end


def test_the_greatest_leader_epoch_defines_the_history(original, tmp_path):
    a, b, end = diverged(original, tmp_path, more=9)
    truth = logs_of(b / "orders-0")
    first = segments_of(original)[0]
    damage(b, first, 80)
    report = kafkalog.heal([a, b], tmp_path / "out")
    assert report.ok
    assert logs_of(tmp_path / "out" / "orders-0") == truth
    assert kafkalog.open(tmp_path / "out" / "orders-0").log_end_offset == end + 3


@pytest.mark.parametrize("has_epochs", [True, False])
def test_batches_of_another_history_fill_no_gap(original, tmp_path, has_epochs):
    a, b, end = diverged(original, tmp_path, more=9)
    last = max(segments_of(b / "orders-0"))
    begun = [
        x for x in batches_of((b / "orders-0" / last).read_bytes()) if x.first >= end
    ]
    damage(b, last, begun[1].position + 70)
    if not has_epochs:
        for replica in (a, b):
            (replica / "orders-0" / EPOCHS).unlink()
    report = kafkalog.heal([a, b], tmp_path / "out")
    [row] = report.partitions
    assert list(row.missing) == [(end + 1, end + 1)]
    assert not report.ok
    assert not (tmp_path / "out").exists()


def test_different_records_of_one_offset_and_epoch_are_refused(original, tmp_path):
    a, b = copies_of(original, tmp_path, ("a", "b"))
    for replica, value in ((a, b"one"), (b, b"two")):
        with kafkalog.open(replica / "orders-0", "a") as log:
            end = log.log_end_offset
            columns = {"value": [value], "timestamp": [1700000000000]}
            log.append_records(columns, leader_epoch=7)
    [row] = kafkalog.heal([a, b], tmp_path / "out").partitions
    assert row.why.startswith(f"different value at offset {end}: ")
    assert not (tmp_path / "out").exists()


def two_partitions(tmp_path):
    """Write a log directory in which one of two partitions cannot be healed."""
    for name in ("orders-0", "state-0"):
        write_log(tmp_path / "a" / name)
    path = min((tmp_path / "a" / "state-0").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[70] ^= 1
    path.write_bytes(content)
    return tmp_path / "a"


def test_one_partition_that_cannot_be_healed_does_not_hide_the_others(tmp_path):
    a = two_partitions(tmp_path)
    report = kafkalog.heal([a], tmp_path / "out")
    assert [row.ok for row in report.partitions] == [True, False]
    assert str(report) == "2 partitions, 1 cannot be healed and not written"
    assert sorted(path.name for path in (tmp_path / "out").glob("*-0")) == ["orders-0"]
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(a / "orders-0")


def test_only_the_chosen_partitions_are_healed(tmp_path):
    a = two_partitions(tmp_path)
    [row] = kafkalog.heal([a], tmp_path / "out", topics="ord*").partitions
    assert (row.topic, row.ok) == ("orders", True)
    [row] = kafkalog.heal([a], tmp_path / "none", topics=["state"]).partitions
    assert not row.ok
    assert not (tmp_path / "none").exists()
    with pytest.raises(FileNotFoundError, match="No such topic"):
        kafkalog.heal([a], tmp_path / "none", topics="lost*")


def test_a_heal_that_changes_nothing_says_why(original, tmp_path):
    a, b = copies_of(original, tmp_path, ("a", "b"))
    [row] = kafkalog.heal([a, b], tmp_path / "equal").partitions
    assert row.notes == ("nothing to heal: no replica is damaged",)
    last = segments_of(original)[-1]
    batch = batches_of((original / last).read_bytes())[-1]
    path = b / "orders-0" / last
    path.write_bytes(path.read_bytes()[: batch.position])
    for file in (*b.glob("*checkpoint"), *(b / "orders-0").glob("*.snapshot")):
        file.unlink()
    for file in (b / "orders-0").glob(f"{last[:20]}.*index"):
        file.unlink()
    [row] = kafkalog.heal([a, b], tmp_path / "shorter").partitions
    end = f"behind its end at offset {batch.last + 1}"
    assert row.notes[0].endswith(f"; {end}: {b / 'orders-0'} at offset {batch.first}")
    damage(b, segments_of(original)[0], 70)
    [row] = kafkalog.heal([a, b], tmp_path / "damaged").partitions
    [note] = row.notes
    assert note.startswith(f"{a / 'orders-0'} needs nothing of the others; damaged: ")


def test_a_replica_that_cannot_be_read_is_noted(original, tmp_path, monkeypatch):
    a, b = copies_of(original, tmp_path, ("a", "b"))
    read = ReplicaBatches.read

    def failing(directory, name):
        if directory.is_relative_to(a):
            raise OSError(5, "Input/output error", str(directory))
        return read(directory, name)

    monkeypatch.setattr(ReplicaBatches, "read", failing)
    [row] = kafkalog.heal([a, b], tmp_path / "out").partitions
    assert row.ok
    assert "cannot be read: [Errno 5]" in row.notes[0]
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)
    [row] = kafkalog.heal([a], tmp_path / "none").partitions
    assert "cannot be read: [Errno 5]" in row.why


def test_compacted_replicas_may_lack_records(tmp_path):
    config = kafkalog.LogConfig(cleanup_policy="compact", internal_segment_bytes=1500)
    expected = {}
    with kafkalog.open(tmp_path / "a" / "state-0", "a", config) as log:
        for number in range(60):
            keys = [b"%d" % (number % 7), b"k%d" % number]
            log.append_records({"key": keys, "value": [b"v%d" % number] * 2})
            expected |= dict.fromkeys(keys, b"v%d" % number)
        log.update_high_watermark(log.log_end_offset)
    kafkalog.compact(
        tmp_path / "a" / "state-0", destination=tmp_path / "b", ignore_policy=True
    )
    path = sorted((tmp_path / "b" / "state-0").glob("*.log"))[0]
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    path = sorted((tmp_path / "a" / "state-0").glob("*.log"))[-1]
    content = bytearray(path.read_bytes())
    for batch in batches_of(content)[1:4:2]:
        content[batch.end - 1] ^= 1
    path.write_bytes(content)
    before = files_of(tmp_path / "a")
    report = kafkalog.heal([tmp_path / "b", tmp_path / "a"], tmp_path / "out")
    assert report.ok, report.partitions[0].why
    assert len(report.partitions[0].sources) >= 3
    newest = {
        record.key: record.value
        for records in kafkalog.scan(tmp_path / "out").chunks()
        for record in records
    }
    assert newest == expected
    assert problems(tmp_path / "out") == []
    assert files_of(tmp_path / "a") == before


def test_sources_that_are_no_replicas_are_refused(original, tmp_path):
    a, _, _ = copies_of(original, tmp_path)
    other = write_log(tmp_path / "d" / "other-1", batches=2)
    with pytest.raises(LogArgumentError, match="no source"):
        kafkalog.heal([], tmp_path / "out")
    with pytest.raises(LogArgumentError, match="of different kinds or partitions"):
        kafkalog.heal([a, other], tmp_path / "out")
    with pytest.raises(LogArgumentError, match="of different kinds or partitions"):
        kafkalog.heal([a / "orders-0", other], tmp_path / "out")
    with pytest.raises(FileNotFoundError):
        kafkalog.heal([tmp_path / "none"], tmp_path / "out")
    with pytest.raises(LogStateError, match="destination in a source"):
        kafkalog.heal([a], a / "out")


def test_a_gap_that_compaction_does_not_explain_is_no_valid_range(original, tmp_path):
    a, b = copies_of(original, tmp_path, ("a", "b"))
    first = segments_of(original)[0]
    batch = batches_of((original / first).read_bytes())[2]
    damage(a, first, batch.position + 70)
    kafkalog.salvage(a, tmp_path / "c")  # which has a gap, and no damaged byte
    for sources in ([a, tmp_path / "c"], [tmp_path / "c"]):
        [row] = kafkalog.heal(sources, tmp_path / "out").partitions
        assert list(row.missing) == [(batch.first, batch.last)]
        assert not (tmp_path / "out").exists()
    assert kafkalog.heal([tmp_path / "c", b], tmp_path / "out").ok
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)


def set_epoch(directory, batch, path, epoch):
    content = bytearray((directory / "orders-0" / path).read_bytes())
    content[batch.position + 12 : batch.position + 16] = epoch.to_bytes(4, "big")
    (directory / "orders-0" / path).write_bytes(content)


def test_a_damaged_leader_epoch_defines_no_history(original, tmp_path):
    a, b = copies_of(original, tmp_path, ("a", "b"))
    last = segments_of(original)[-1]
    batch = batches_of((original / last).read_bytes())[-1]
    set_epoch(a, batch, last, 0x4000_0002)
    first = segments_of(original)[0]
    damage(b, first, 70)
    assert kafkalog.heal([a, b], tmp_path / "out").ok
    assert logs_of(tmp_path / "out" / "orders-0") == logs_of(original)
    for replica in (a, b):
        (replica / "orders-0" / EPOCHS).unlink()
    [row] = kafkalog.heal([a, b], tmp_path / "again").partitions
    expected = f"leader epochs 1073741826 and 2 of the batch at offset {batch.first}, "
    assert row.why.startswith(expected)
    assert not (tmp_path / "again").exists()
