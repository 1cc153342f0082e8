"""Predicted recovery of each problem, compared with the recovery of `open`.

Each kind of damage is applied to a log that kafkalog wrote. The expected prediction is
written here, too, so an error common to both would be noticed.
"""

import random
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import kafkalog
from kafkalog import BrokerConfig, KafkaLogError, LogConfig, RecordBatchBuilder
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.testing import ManualClock, ManualScheduler, open_log
from kafkalog.verification.path_verification import verify
from kafkalog.verification.verification_report import Cause, Recovery, Severity
from tests.log.clusters import mark_as_brokers, metadata_log, setting, topic
from tests.log.writing import NOW

DOCUMENT = Path(__file__).parents[2] / "docs" / "verify.md"
SMALL = LogConfig(
    internal_segment_bytes=1000, segment_index_bytes=240, index_interval_bytes=100
)
TOPIC_ID = "K48VsEpRT9uBWc5sqaDtCA"
LOGS = [f"{base:020d}.log" for base in (0, 15, 30, 46, 61)]
FIRST, SECOND, THIRD, FOURTH, LAST = (name.removesuffix(".log") for name in LOGS)
DATA_BYTES, MARKER_BYTES = 117, 78
END = f"{66:020d}.snapshot"
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "is_transactional": True}

STOPS = {"clean": None, "crash": 0, "crash at 30": 30}
"""Shutdowns of the log, and the recovery point after a crash."""

pytestmark = pytest.mark.filterwarnings("ignore::kafkalog.LostOffsetsWarning")


def opened(place, config=SMALL):
    clock = ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    return open_log(place, config, clock=clock, scheduler=scheduler, topic_id=TOPIC_ID)


def marker(kind, key=None):
    builder = RecordBatchBuilder(is_control=True, **PRODUCER)
    valid_key, value = end_transaction_marker(kind, 0)
    builder.append(valid_key if key is None else key, value, timestamp=NOW)
    return builder.build()


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write five segments with three leader epochs and aborts, closed cleanly."""
    root = tmp_path_factory.mktemp("written")
    kinds = ControlRecordType.COMMIT, ControlRecordType.ABORT
    with opened(root / "t-0") as log:
        for number in range(30):
            builder = RecordBatchBuilder(base_sequence=2 * number, **PRODUCER)
            for _ in range(2):
                builder.append(b"k", bytes(20), timestamp=NOW + number)
            guard = log.start_verification(7, 2 * number, 0)
            epoch = number // 10
            log.append(builder.build(), guard=guard, leader_epoch=epoch)
            if number % 5 == 4:
                log.append(
                    marker(kinds[number % 2]),
                    origin="coordinator",
                    transaction_version=1,
                    leader_epoch=epoch,
                )
    (root / ".kafka_cleanshutdown").touch()
    assert sorted(path.name for path in (root / "t-0").glob("*.log")) == LOGS
    return root


@pytest.fixture
def damaged(written, tmp_path):
    """Return a function that copies the log as it is after a kind of shutdown."""

    def copy(stop):
        root = tmp_path / "logs"
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(written, root)
        if stop != "clean":
            (root / ".kafka_cleanshutdown").unlink()
            text = f"0\n1\nt 0 {STOPS[stop]}\n"
            (root / "recovery-point-offset-checkpoint").write_text(text)
        return root

    return copy


def files_of(place):
    return {path.name: path.read_bytes() for path in place.iterdir()}


def recovery_actions(root, problems, before, broker):
    """Open the log; return the action that was taken on each problem."""
    try:
        log = opened(root / "t-0", broker.log_config({"internal.segment.bytes": 1000}))
    except Exception as error:
        if not isinstance(error, KafkaLogError):
            raise
        return [(Recovery.REFUSE, None)] * len(problems)
    report = log.report
    end = log.log_end_offset
    log.abandon()
    after = files_of(root / "t-0")
    for file in after.keys() - before.keys():
        if file.endswith(".deleted"):
            del after[file]
    return [_action_on(problem, report, end, before, after) for problem in problems]


def _action_on(problem, report, end, before, after):
    if problem.recovery == Recovery.OVERWRITE and end == problem.lost_from:
        return Recovery.OVERWRITE, None
    file = problem.path.removeprefix("t-0/")
    stem, _, kind = file.partition(".")
    recovered = [segment.base_offset for segment in report.recovered]
    is_recovered = stem.isdigit() and int(stem) in recovered
    if file not in after:
        return (Recovery.DELETE if file in before else Recovery.NOTHING), None
    if kind == "log":
        size = len(after[file])
        if report.split:
            return Recovery.SPLIT, None
        cut = size < len(before[file])
        return (Recovery.TRUNCATE, size) if cut else (Recovery.NOTHING, None)
    if kind in ("index", "timeindex", "txnindex"):
        other = Recovery.NOTHING if file in before else Recovery.RESET
        return (Recovery.REBUILD if is_recovered else other), None
    same = after[file] == before[file]
    return (Recovery.NOTHING if same else Recovery.REBUILD), None


def is_predicted(problem, action):
    """Return whether the prediction is the action; `RESET` may change memory only."""
    if problem.recovery == Recovery.RESET:
        return action[0] in (Recovery.RESET, Recovery.REBUILD, Recovery.NOTHING)
    if problem.recovery == Recovery.EXPIRE:  # loaded unchanged, and deleted later
        return action == (Recovery.NOTHING, None)
    truncated = action[0] == Recovery.TRUNCATE and problem.position is not None
    if problem.recovery == Recovery.NOTHING and truncated:
        return problem.position < action[1]
    return (problem.recovery, problem.recovery_position) == action


def check_prediction(root, broker=None):
    """Compare the predictions of `verify` with recovery; return the problems."""
    before = files_of(root / "t-0")
    found = verify(root, broker=broker).problems
    problems = [each for each in found if each.path.startswith("t-0/")]
    actions = recovery_actions(root, problems, before, broker or BrokerConfig())
    refused = any(each.recovery == Recovery.REFUSE for each in problems)
    assert refused == ((Recovery.REFUSE, None) in actions), problems
    for problem, action in zip(problems, actions, strict=True):
        assert refused or is_predicted(problem, action), (problem, action)
    return problems


def flip(byte, mask=1):
    def change(path):
        data = bytearray(path.read_bytes())
        data[byte] ^= mask
        path.write_bytes(data)

    return change


def put(byte, data):
    def change(path):
        path.write_bytes(
            path.read_bytes()[:byte] + data + path.read_bytes()[byte + len(data) :]
        )

    return change


def cut(size):
    return lambda path: path.write_bytes(path.read_bytes()[:size])


def add(data):
    return lambda path: path.write_bytes(path.read_bytes() + data)


def remove(path):
    path.unlink()


def text(content):
    return lambda path: path.write_text(content)


N, T, B, D, X, R = (
    Recovery.NOTHING,
    Recovery.TRUNCATE,
    Recovery.REBUILD,
    Recovery.DELETE,
    Recovery.RESET,
    Recovery.REFUSE,
)

KINDS = [
    # file, damage, cause, recovery after a clean shutdown, a crash, a crash at 30
    (f"{SECOND}.log", flip(-1), Cause.CRC, N, T, N),
    (f"{FOURTH}.log", flip(-1), Cause.CRC, N, T, T),
    (f"{THIRD}.log", flip(16, 4), Cause.MAGIC, N, N, N),
    (f"{THIRD}.log", flip(16, 128), Cause.MAGIC, N, T, T),
    (f"{THIRD}.log", flip(16, 1), Cause.MAGIC, N, N, N),
    (f"{THIRD}.log", put(8, bytes(4)), Cause.SIZE, N, T, T),
    (f"{LAST}.log", put(8, bytes(4)), Cause.SIZE, N, T, T),
    (f"{LAST}.log", put(242, bytes(4)), Cause.SIZE, R, T, T),
    (f"{LAST}.log", cut(-5), Cause.INCOMPLETE, N, T, T),
    (f"{SECOND}.log", cut(-5), Cause.INCOMPLETE, N, T, N),
    (f"{LAST}.log", add(bytes(99)), Cause.PREALLOCATED, R, T, T),
    (f"{LAST}.log", add(bytes(9)), Cause.PREALLOCATED, N, T, T),
    (f"{THIRD}.log", put(0, bytes(8)), Cause.OFFSET, N, R, R),
    (f"{THIRD}.log", flip(4, 32), Cause.OFFSET, N, N, N),
    (f"{THIRD}.log", flip(3), Cause.OFFSET, N, R, R),
    (f"{THIRD}.log", flip(15), Cause.LEADER_EPOCH, N, N, N),
    (f"{THIRD}.index", flip(7, 2), Cause.OFFSET_INDEX, N, B, B),
    (f"{THIRD}.index", flip(8, 128), Cause.ORDER, N, B, B),
    (f"{FIRST}.index", cut(-3), Cause.TRUNCATED, N, B, N),
    (f"{FIRST}.index", remove, Cause.MISSING, B, B, B),
    (f"{THIRD}.timeindex", flip(7, 2), Cause.TIME_INDEX, N, B, B),
    (f"{FIRST}.timeindex", remove, Cause.MISSING, X, B, X),
    (f"{THIRD}.log", remove, Cause.ORPHAN, D, D, D),
    (f"{SECOND}.txnindex", flip(9), Cause.TXN_INDEX, N, B, N),
    (f"{SECOND}.txnindex", put(18, bytes(8)), Cause.ORDER, B, B, B),
    (f"{SECOND}.txnindex", cut(-1), Cause.TRUNCATED, N, B, N),
    (END, flip(3), Cause.CRC, B, B, B),
    (END, cut(5), Cause.TRUNCATED, B, B, B),
    (END, flip(0), Cause.VERSION, B, B, B),
    (f"{SECOND}.snapshot", flip(3), Cause.CRC, N, B, N),
    (f"{THIRD}.snapshot", flip(3), Cause.CRC, N, B, B),
    ("leader-epoch-checkpoint", text("0\n1\nx 0\n"), Cause.FORMAT, R, R, R),
    ("leader-epoch-checkpoint", text("0\n2\n1 5\n0 9\n"), Cause.ORDER, X, X, X),
    ("leader-epoch-checkpoint", text("0\n1\n-1 5\n"), Cause.FORMAT, R, R, R),
    ("partition.metadata", text("version: 0\n"), Cause.FORMAT, R, R, R),
]


@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_the_prediction_for_each_kind_of_damage_is_the_recovery(damaged, kind, stop):
    file, damage, cause, *recoveries = KINDS[kind]
    root = damaged(stop)
    damage(root / "t-0" / file)
    found = [each for each in check_prediction(root) if each.cause == cause]
    assert found
    assert found[0].recovery == recoveries[list(STOPS).index(stop)]


@pytest.mark.parametrize("stop", STOPS)
def test_a_last_offset_too_far_above_is_split_off(damaged, stop):
    root = damaged(stop)
    log = root / "t-0" / f"{LAST}.log"
    begins = log.stat().st_size - MARKER_BYTES
    flip(begins + 3)(log)
    found = [each for each in check_prediction(root) if each.cause == Cause.OFFSET]
    assert found[0].position == begins
    assert found[0].recovery == (N if stop == "clean" else Recovery.SPLIT)


def test_a_marker_that_cannot_be_read_keeps_the_log_from_opening(damaged):
    root = damaged("crash")
    log = root / "t-0" / f"{FIRST}.log"
    data, begins = log.read_bytes(), 5 * DATA_BYTES
    bad = marker(ControlRecordType.COMMIT, b"\0\0")
    bad = (10).to_bytes(8) + bad[8:]
    log.write_bytes(data[:begins] + bad + data[begins + MARKER_BYTES :])
    [problem] = [each for each in check_prediction(root) if each.cause == Cause.CONTROL]
    assert (problem.position, problem.recovery) == (begins, R)
    assert problem.recovery_position is None


def test_everything_after_a_truncation_is_deleted(damaged):
    root = damaged("crash")
    place = root / "t-0"
    flip(200)(place / f"{SECOND}.log")
    flip(400)(place / f"{SECOND}.log")
    flip(200)(place / f"{FOURTH}.log")
    recoveries = {}
    for problem in check_prediction(root):
        recovery = problem.recovery, problem.recovery_position
        recoveries.setdefault(problem.path, []).append(recovery)
    truncations = recoveries[f"t-0/{SECOND}.log"]
    assert truncations == [(T, truncations[0][1])] * 2
    assert recoveries[f"t-0/{FOURTH}.log"] == [(D, None)]


def test_a_truncated_segment_without_an_index_keeps_later_segments(damaged):
    root = damaged("clean")
    (root / "t-0" / f"{SECOND}.index").unlink()
    flip(200)(root / "t-0" / f"{SECOND}.log")
    flip(200)(root / "t-0" / f"{FOURTH}.log")
    recoveries = {(each.path, each.recovery) for each in check_prediction(root)}
    assert (f"t-0/{SECOND}.log", T) in recoveries
    assert (f"t-0/{FOURTH}.log", N) in recoveries


@pytest.mark.parametrize("mark", ["deleted", "cleaned"])
def test_files_marked_for_removal_are_deleted_whatever_their_content(damaged, mark):
    root = damaged("clean")
    place = root / "t-0"
    (place / f"{99:020d}.log.{mark}").write_bytes(b"nonsense" * 9)
    found = check_prediction(root)
    assert {problem.recovery for problem in found} == {D}


CHECKPOINTS = ("recovery-point", "replication", "log-start", "cleaner")


@pytest.mark.parametrize("name", CHECKPOINTS)
def test_an_offset_checkpoint_that_cannot_be_parsed_fails_the_directory(damaged, name):
    root = damaged("clean")
    path = root / f"{name}-offset-checkpoint"
    path.write_text("nonsense")
    [found] = verify(root).problems
    assert (found.path, found.severity) == (path.name, Severity.ERROR)
    assert found.recovery == R
    with opened(root / "t-0") as log:
        assert (log.log_start_offset, log.log_end_offset) == (0, 66)


@pytest.mark.parametrize("is_cleaned", [False, True])
def test_a_swapped_segment_gets_an_index_and_is_not_recovered(damaged, is_cleaned):
    root = damaged("clean")
    place = root / "t-0"
    data = bytearray((place / LOGS[0]).read_bytes())
    data[100] ^= 1
    for name in (LOGS[0], f"{LOGS[0]}.swap"):
        (place / name).write_bytes(data)
    (place / LOGS[0]).with_suffix(".index").unlink()
    if is_cleaned:  # so that the swap is removed, and the index is missing
        (place / f"{LOGS[0]}.cleaned").touch()
    lost = sum(problem.lost_records for problem in verify(root).problems)
    with opened(place) as log:
        assert bool(log.report.recovered) == is_cleaned
    assert bool(lost) == is_cleaned


def test_a_log_start_after_the_end_deletes_the_log(damaged):
    root = damaged("clean")
    (root / "log-start-offset-checkpoint").write_text("0\n1\nt 0 99\n")
    readable = kafkalog.scan(root / "t-0", start_offset=0, control_records=True).count()
    [found] = verify(root).problems
    assert found.recovery == Recovery.DELETE_LOG
    assert (found.lost_from, found.lost_records) == (0, readable)
    assert found.message.endswith(f"{readable} readable records")
    with opened(root / "t-0") as log:
        assert (log.log_start_offset, log.log_end_offset) == (99, 99)


@pytest.mark.parametrize("name", ["recovery-point", "replication"])
def test_an_offset_after_the_end_is_lowered(damaged, name):
    root = damaged("clean")
    (root / f"{name}-offset-checkpoint").write_text("0\n1\nt 0 99\n")
    [found] = verify(root).problems
    assert found.recovery == X
    with opened(root / "t-0") as log:
        assert log.recovery_point <= log.log_end_offset == 66
        assert log.high_watermark <= 66


def test_an_unreadable_meta_properties_prevents_the_start(damaged):
    root = damaged("clean")
    (root / "meta.properties").write_text("version=7\n")
    [found] = verify(root).problems
    assert found.recovery == R


@pytest.mark.parametrize("stop", STOPS)
def test_the_prediction_for_any_flipped_bit_or_truncation_is_the_recovery(
    damaged, written, stop
):
    drawn = random.Random(f"{stop} 20241025")
    names = sorted(path.name for path in (written / "t-0").iterdir())
    assert names
    for name in names:
        size = (written / "t-0" / name).stat().st_size
        flips = [flip(drawn.randrange(size), 1 << drawn.randrange(8)) for _ in range(2)]
        for damage in (*flips, cut(drawn.randrange(size))):
            root = damaged(stop)
            damage(root / "t-0" / name)
            check_prediction(root)


OTHER_SETTINGS = [
    {"log_index_interval_bytes": 0},
    {"log_index_interval_bytes": 100},
    {"log_index_interval_bytes": 100, "log_index_size_max_bytes": 16},
    {"log_segment_bytes": 1 << 20, "log_index_interval_bytes": 400},
]


@pytest.mark.parametrize("settings", OTHER_SETTINGS)
def test_the_prediction_under_other_settings_is_the_recovery_under_them(
    damaged, written, settings
):
    drawn = random.Random(f"{settings} 20261127")
    for name in LOGS:
        size = (written / "t-0" / name).stat().st_size
        starts = range(0, size - MARKER_BYTES, DATA_BYTES)
        header = drawn.choice(starts) + drawn.randrange(16)
        at = drawn.randrange(size)
        for damage in (flip(header), flip(at, 1 << drawn.randrange(8)), cut(at)):
            root = damaged("crash")
            damage(root / "t-0" / name)
            check_prediction(root, BrokerConfig(**settings))


@pytest.mark.parametrize(("interval", "recovery"), [(100, T), (4096, N)])
def test_falling_offsets_empty_a_segment_if_they_get_index_entries(
    damaged, interval, recovery
):
    root = damaged("crash")
    flip(DATA_BYTES + 4, 32)(root / "t-0" / f"{THIRD}.log")
    broker = BrokerConfig(log_index_interval_bytes=interval)
    found = [
        each for each in check_prediction(root, broker) if each.cause == Cause.OFFSET
    ]
    assert {(each.recovery, each.recovery_position) for each in found} == {
        (recovery, 0 if recovery == T else None)
    }
    assert (max(each.lost_segments for each in found) == 2) == (recovery == T)


def test_the_settings_of_a_topic_in_the_metadata_of_the_cluster_count(damaged):
    root = damaged("crash")
    flip(DATA_BYTES + 4, 32)(root / "t-0" / f"{THIRD}.log")
    values = [topic("t", TOPIC_ID), setting("t", "index.interval.bytes", "100")]
    metadata_log(mark_as_brokers(root), values)
    found = [
        each
        for each in verify(root).problems
        if each.path == f"t-0/{THIRD}.log" and each.cause == Cause.OFFSET
    ]
    assert {each.recovery for each in found} == {T}


def test_an_index_without_room_for_its_entries_keeps_the_log_from_opening(damaged):
    root = damaged("crash")
    cut(-3)(root / "t-0" / f"{SECOND}.index")
    broker = BrokerConfig(log_index_interval_bytes=100, log_index_size_max_bytes=16)
    assert {each.recovery for each in check_prediction(root, broker)} == {R}


def test_other_problems_are_predicted_without_a_small_file_that_is_refused(damaged):
    root = damaged("clean")
    (root / "t-0" / "leader-epoch-checkpoint").write_text("nonsense")
    add(bytes(9))(root / "t-0" / f"{LAST}.log")
    found = {
        each.cause: (each.recovery, each.severity) for each in check_prediction(root)
    }
    assert found[Cause.FORMAT] == (R, Severity.ERROR)
    assert found[Cause.PREALLOCATED] == (N, Severity.ERROR)


def test_a_partition_without_its_log_directory_counts_as_crashed(damaged, tmp_path):
    root = damaged("clean")
    place = shutil.copytree(root / "t-0", tmp_path / "alone" / "t-0")
    flip(-1)(place / f"{SECOND}.log")
    for path in (place, place / f"{SECOND}.log"):
        found = verify(path).problems
        assert found[0].recovery == T
        assert found[0].recovery_position == found[0].position


def test_a_directory_marked_deleted_is_deleted(damaged):
    root = damaged("crash")
    place = root / f"t-0.{32 * 'a'}-delete"
    (root / "t-0").rename(place)
    flip(-1)(place / f"{SECOND}.log")
    (place / f"{THIRD}.index").unlink()
    assert {problem.recovery for problem in verify(root).problems} == {D}


def test_the_page_lists_every_cause_and_recovery():
    recoveries, _, causes = DOCUMENT.read_text().partition("## Causes")
    for text, words in ((causes, Cause), (recoveries, Recovery)):
        listed = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
        assert sorted(listed) == sorted(words)


def test_a_link_to_a_metadata_snapshot_counts_as_the_newest_snapshot(tmp_path):
    (tmp_path / "snapshot").write_bytes(b"\xff" * 100)
    place = tmp_path / "__cluster_metadata-0"
    place.mkdir()
    link = place / "00000000000000000012-0000000001.checkpoint"
    link.symlink_to("../snapshot")
    problems = verify(link).problems
    assert {problem.recovery for problem in problems} == {Recovery.REFUSE}


def test_partitions_of_a_directory_are_predicted_as_each_alone(damaged):
    root = damaged("crash")
    for number in range(1, 4):
        shutil.copytree(root / "t-0", root / f"t-{number}")
        flip(DATA_BYTES + 40)(root / f"t-{number}" / LOGS[number])
    points = "".join(f"t {number} 0\n" for number in range(4))
    (root / "recovery-point-offset-checkpoint").write_text(f"0\n4\n{points}")
    alone = [
        replace(problem, path=f"t-{number}/{problem.path}")
        for number in range(4)
        for problem in verify(root / f"t-{number}").problems
    ]
    assert sum(problem.lost_records is not None for problem in alone) == 3
    assert list(verify(root).problems) == alone


@pytest.mark.parametrize("place", [".", LOGS[0], ".."])
def test_a_path_that_does_not_name_the_partition_is_verified_as_one_that_does(
    place, damaged, monkeypatch
):
    partition = damaged("crash") / "t-0"
    flip(DATA_BYTES + 40)(partition / LOGS[0])
    (partition / "inside").mkdir()
    monkeypatch.chdir(partition / "inside" if place == ".." else partition)
    found = [problem.recovery for problem in verify(place).problems]
    assert Recovery.TRUNCATE in found
