"""A commit appends all staged files or none, and once."""

import pytest

import kafkalog
from kafkalog.errors import (
    CommitConflictError,
    ConfigError,
    LogClosedError,
    LogLockedError,
    RecordTooLargeError,
    StagedFileError,
)
from kafkalog.sink import commit_steps
from kafkalog.sink.journal import JOURNAL, Journal
from kafkalog.sink.log_commit import abandon_late, abandon_staged, commit_staged
from kafkalog.sink.staging import CommitIdentity
from kafkalog.testing import FailingDisk, TracingDisk
from tests.sink.commits import (
    ROWS,
    build,
    committer,
    flat,
    plan,
    stage,
    staged_names,
    values,
)

FIRST = CommitIdentity("query:1", 0)
SECOND = CommitIdentity("query:1", 1)
CALLS_APART = 3
MORE = {("orders", 0): [[b"x0"], [b"x1"]], ("orders", 1): [[b"y0"]]}


class Killed(BaseException):
    """The end of the process."""


def commit(root, identity=FIRST, rows=ROWS, **options):
    return commit_staged(
        root, identity, stage(root, identity, rows), partitions=3, **options
    )


def interrupt(root, monkeypatch, identity=FIRST, rows=ROWS, step="end", **options):
    """Commit, and end the process in a step of `complete`, or at the journal's end."""

    def kill(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Journal if step == "end" else commit_steps, step, kill)
        with pytest.raises(Killed):
            commit(root, identity, rows, **options)


def check_whole(root, expected):
    """Check that the logs have these values, and that verification finds nothing."""
    assert values(root) == expected
    assert not kafkalog.verify(root).problems
    assert not staged_names(root)


@pytest.mark.parametrize("visibility", ["record", "transaction"])
def test_a_commit_appends_each_partition_in_the_order_of_the_files(
    tmp_path, visibility
):
    first, second = stage(tmp_path, FIRST), stage(tmp_path, FIRST, MORE, task=1)
    result = commit_staged(
        tmp_path, FIRST, [*first, *second], partitions=3, visibility=visibility
    )
    expected = flat()
    for name, rows in flat(MORE).items():
        expected.setdefault(name, []).extend(rows)
    markers = int(visibility == "transaction")
    ends = {name: (0, len(rows) + markers) for name, rows in expected.items()}
    assert result == (ends, False)
    check_whole(tmp_path, expected)


def test_an_identity_that_was_committed_writes_nothing_whatever_its_rows(tmp_path):
    commit(tmp_path, SECOND)
    for identity in (SECOND, FIRST):
        for rows in (ROWS, MORE, {}):
            assert commit(tmp_path, identity, rows) == ({}, True)
    check_whole(tmp_path, flat())


def test_a_commit_without_rows_counts_as_committed(tmp_path):
    assert commit(tmp_path, rows={}) == ({}, False)
    assert commit(tmp_path) == ({}, True)
    assert values(tmp_path) == {}


def test_later_epochs_are_appended_after_the_earlier_ones(tmp_path):
    commit(tmp_path)
    result = commit(tmp_path, SECOND, MORE)
    assert result.offsets == {("orders", 0): (5, 7), ("orders", 1): (0, 1)}
    check_whole(
        tmp_path,
        flat()
        | {("orders", 0): flat()["orders", 0] + [b"x0", b"x1"], ("orders", 1): [b"y0"]},
    )


def test_topics_are_created_with_all_their_partitions(tmp_path):
    commit(tmp_path)
    names = {f"{topic}-{n}" for topic in ("clicks", "orders") for n in range(3)}
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == names


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        ({("new", 0): [[b"a"]]}, {"partitions": None}, "topic new does not exist"),
        ({("new", 3): [[b"a"]]}, {"partitions": 3}, "partition 3 .* expected 0 to 2"),
        ({("old", 1): [[b"a"]]}, {"partitions": 3}, "one of its 1 partitions"),
        ({("..", 0): [[b"a"]]}, {"partitions": 3}, "topic '..', expected 1 to 249"),
        ({("a/b", 0): [[b"a"]]}, {"partitions": 3}, "topic 'a/b', expected"),
        ({("__cluster_metadata", 0): [[b"a"]]}, {"partitions": 1}, "belongs to the"),
        (
            {("old", 0): [[b"a"]]},
            {"topic_settings": {"segment.byte": "1"}},
            "segment.byte",
        ),
    ],
)
def test_what_cannot_be_written_is_refused_without_a_change(
    tmp_path, rows, options, expected
):
    commit_staged(
        tmp_path, SECOND, stage(tmp_path, SECOND, {("old", 0): [[b"o"]]}), partitions=1
    )
    files = stage(tmp_path, FIRST._replace(query="other"), rows)
    with pytest.raises(ConfigError, match=expected):
        commit_staged(tmp_path, FIRST._replace(query="other"), files, **options)
    assert values(tmp_path) == {("old", 0): [b"o"]}
    assert Journal(tmp_path).open is None


def test_settings_of_topics_apply_to_the_commit(tmp_path):
    rows = {("orders", 0): [[b"%09d" % number] for number in range(300)]}
    commit(tmp_path, rows=rows, topic_settings={"internal.segment.bytes": "14000"})
    logs = sorted((tmp_path / "orders-0").glob("*.log"))
    assert len(logs) == 2
    check_whole(tmp_path, flat(rows))


def test_a_directory_that_is_open_for_writing_is_refused(tmp_path):
    files = stage(tmp_path, FIRST)
    with kafkalog.LogManager(tmp_path), pytest.raises(LogLockedError):
        commit_staged(tmp_path, FIRST, files, partitions=3)
    assert values(tmp_path) == {}
    assert not commit_staged(tmp_path, FIRST, files, partitions=3).is_replay


@pytest.mark.parametrize("assigned", [[("orders", 2)], [("orders", 3), ("orders", 4)]])
@pytest.mark.parametrize("exists", [False, True])
def test_rows_assigned_to_another_number_of_partitions_are_rejected(
    tmp_path, assigned, exists
):
    if exists:
        commit(tmp_path, FIRST._replace(query="creator"))
    before = values(tmp_path) if exists else {}
    with pytest.raises(ConfigError, match="topic orders has 3 partitions, expected th"):
        commit(tmp_path, assigned=assigned)
    assert (values(tmp_path) if exists else {}) == before
    assert not commit(tmp_path, assigned=[("orders", 3), ("clicks", 3)]).is_replay


def test_a_rejected_batch_undoes_the_whole_commit(tmp_path):
    commit(tmp_path)
    rows = {**MORE, ("orders", 2): [[b"v" * 2_000_000]], ("new", 1): [[b"n"]]}
    with pytest.raises(RecordTooLargeError, match="Partition 2 of topic orders"):
        commit(tmp_path, SECOND, rows)
    assert values(tmp_path) == flat()
    assert not list(tmp_path.glob("new-*"))
    assert Journal(tmp_path).open is None
    assert not commit(tmp_path, SECOND, MORE).is_replay


@pytest.mark.parametrize("visibility", ["record", "transaction"])
def test_a_corrupt_staged_batch_undoes_the_whole_commit(tmp_path, visibility):
    files = stage(tmp_path, FIRST)
    path = tmp_path / files[-1].name
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(kafkalog.KafkaLogError, match="CRC"):
        commit_staged(tmp_path, FIRST, files, partitions=3, visibility=visibility)
    assert values(tmp_path) == {}
    assert Journal(tmp_path).open is None


def test_a_missing_staged_file_is_refused_before_anything_is_written(tmp_path):
    files = stage(tmp_path, FIRST)
    (tmp_path / files[1].name).unlink()
    with pytest.raises(StagedFileError, match="no file, expected"):
        commit_staged(tmp_path, FIRST, files, partitions=3)
    assert not (tmp_path / JOURNAL).exists()
    assert values(tmp_path) == {}


@pytest.mark.parametrize("visibility", ["record", "transaction"])
@pytest.mark.parametrize("next_identity", [FIRST, SECOND, CommitIdentity("other")])
def test_an_interrupted_commit_is_completed_by_the_next(
    tmp_path, monkeypatch, visibility, next_identity
):
    interrupt(tmp_path, monkeypatch, visibility=visibility)
    assert Journal(tmp_path).open.identity == FIRST
    result = commit(tmp_path, next_identity, MORE, visibility=visibility)
    assert result.is_replay == (next_identity == FIRST)
    expected = flat()
    if not result.is_replay:
        for name, rows in flat(MORE).items():
            expected.setdefault(name, []).extend(rows)
    check_whole(tmp_path, expected)
    assert values(tmp_path, "read_committed") == expected


def test_an_interrupted_commit_to_a_log_that_rewrites_batches_is_completed(
    tmp_path, monkeypatch
):
    settings = {"message.timestamp.type": "LogAppendTime", "compression.type": "zstd"}
    interrupt(tmp_path, monkeypatch, topic_settings=settings)
    assert commit(tmp_path).is_replay
    check_whole(tmp_path, flat())


def test_an_interrupted_commit_whose_files_are_gone_is_undone_if_nothing_is_written(
    tmp_path, monkeypatch
):
    interrupt(tmp_path, monkeypatch, step="find_progress")
    for name in staged_names(tmp_path):
        (tmp_path / name).unlink()
    assert not commit(tmp_path).is_replay
    check_whole(tmp_path, flat())


def test_an_interrupted_commit_whose_files_are_gone_is_a_conflict_if_some_is_written(
    tmp_path, monkeypatch
):
    interrupt(tmp_path, monkeypatch)
    before = values(tmp_path)
    for name in staged_names(tmp_path):
        (tmp_path / name).unlink()
    with pytest.raises(CommitConflictError, match="neither be completed nor undone"):
        commit(tmp_path, SECOND)
    assert values(tmp_path) == before


@pytest.mark.parametrize("visibility", ["record", "transaction"])
@pytest.mark.parametrize("step", ["end", "_commit_marker"])
def test_batches_of_another_writer_may_follow_all_batches_of_an_interrupted_commit(
    tmp_path, monkeypatch, visibility, step
):
    if (visibility, step) == ("record", "_commit_marker"):
        step = "end"
    interrupt(tmp_path, monkeypatch, step=step, visibility=visibility)
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        log.append(build([b"foreign"]))
    assert commit(tmp_path).is_replay
    expected = flat()
    expected["orders", 0].append(b"foreign")
    check_whole(tmp_path, expected)
    assert values(tmp_path, "read_committed") == expected


def test_batches_of_another_writer_after_a_part_of_a_commit_are_a_conflict(
    tmp_path, monkeypatch
):
    interrupt(tmp_path, monkeypatch)
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        log.truncate_to(3)
        log.append(build([b"foreign"]))
    before = values(tmp_path)
    with pytest.raises(CommitConflictError, match="offset 3 is not of the") as raised:
        commit(tmp_path, SECOND)
    assert JOURNAL in raised.value.__notes__[0]
    assert values(tmp_path) == before
    (tmp_path / JOURNAL).unlink()
    assert not commit(tmp_path, SECOND, MORE).is_replay


def test_batches_of_another_writer_are_not_truncated_with_a_commit_that_is_undone(
    tmp_path, monkeypatch
):
    interrupt(tmp_path, monkeypatch)
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        log.append(build([b"foreign"]))
    with kafkalog.open(tmp_path / "orders-2", "a") as log:
        log.truncate_to(0)
    before = values(tmp_path)
    [path] = tmp_path.glob("kafkalog-staged-*-2")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CommitConflictError, match="offset 5 is not of the"):
        commit(tmp_path, SECOND)
    assert values(tmp_path) == before


def test_another_batch_in_the_place_of_an_interrupted_one_is_a_conflict(
    tmp_path, monkeypatch
):
    interrupt(tmp_path, monkeypatch, step="find_progress")
    with kafkalog.open(tmp_path / "orders-2", "a") as log:
        log.append(build([b"B%d" % number for number in range(7)]))
    with pytest.raises(CommitConflictError, match="offset 0 is not of the"):
        commit(tmp_path, SECOND)


def test_a_log_that_was_truncated_below_an_interrupted_commit_is_a_conflict(
    tmp_path, monkeypatch
):
    commit(tmp_path)
    interrupt(tmp_path, monkeypatch, SECOND, MORE)
    with kafkalog.open(tmp_path / "orders-0", "a") as log:
        log.truncate_to(2)
    with pytest.raises(CommitConflictError, match="expected the offset 5"):
        commit(tmp_path, SECOND, MORE)


def test_files_of_other_attempts_of_a_task_are_removed_by_the_commit(tmp_path):
    speculative = stage(tmp_path, FIRST)
    files = stage(tmp_path, FIRST)
    commit_staged(tmp_path, FIRST, files, partitions=3)
    assert not {file.name for file in speculative} & set(staged_names(tmp_path))
    late = stage(tmp_path, FIRST)
    commit(tmp_path, SECOND, MORE)
    assert not {file.name for file in late} & set(staged_names(tmp_path))
    assert values(tmp_path)["clicks", 0] == flat()["clicks", 0]


def test_staged_files_are_abandoned_unless_their_commit_has_begun(
    tmp_path, monkeypatch
):
    stage(tmp_path, FIRST)
    abandon_staged(tmp_path, FIRST)
    assert not staged_names(tmp_path)
    interrupt(tmp_path, monkeypatch)
    needed = staged_names(tmp_path)
    stage(tmp_path, SECOND)
    abandon_staged(tmp_path, FIRST)
    abandon_staged(tmp_path, SECOND)
    assert staged_names(tmp_path) == needed


def test_files_that_a_task_finishes_after_its_commit_are_removed(tmp_path):
    early = stage(tmp_path, SECOND)
    abandon_late(tmp_path, SECOND, early)
    assert len(staged_names(tmp_path)) == len(early)
    commit_staged(tmp_path, SECOND, early, partitions=3)
    for identity in (FIRST, SECOND):
        late = stage(tmp_path, identity)
        other = stage(tmp_path, SECOND._replace(epoch=2))
        abandon_late(tmp_path, identity, late)
        assert {file.name for file in other} >= set(staged_names(tmp_path)) > set()
        for file in other:
            (tmp_path / file.name).unlink()
    check_whole(tmp_path, flat())


def test_a_directory_that_does_not_exist_has_nothing_to_abandon(tmp_path):
    abandon_staged(tmp_path / "missing", FIRST)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("visibility", ["record", "transaction"])
def test_a_disk_that_fails_once_leaves_all_rows_or_none(memory_path, visibility):
    disk = TracingDisk()
    whole = memory_path / "whole"
    files = stage(whole, FIRST)
    committer(whole, disk).commit(plan(FIRST, files, visibility=visibility))
    assert disk.calls
    for number in range(0, len(disk.calls), CALLS_APART):
        root = memory_path / str(number)
        failing = FailingDisk(number)
        files = stage(root, FIRST)
        try:
            committer(root, failing).commit(plan(FIRST, files, visibility=visibility))
        except (OSError, LogClosedError) as error:
            notes = getattr(error, "__notes__", [])
            is_complete = any("The commit is complete" in note for note in notes)
        else:
            is_complete = True
        assert values(root) == (flat() if is_complete else {}), disk.calls[number]
        files = stage(root, FIRST)
        commit_staged(root, FIRST, files, partitions=3, visibility=visibility)
        check_whole(root, flat())


def test_transactions_of_a_query_have_one_producer_and_ascending_epochs(tmp_path):
    commit(tmp_path, visibility="transaction")
    commit(tmp_path, SECOND, MORE, visibility="transaction")
    columns = ["producer_id", "producer_epoch", "sequence", "is_transactional"]
    table = kafkalog.scan(tmp_path / "orders-0", columns=columns).to_arrow()
    producers, epochs, sequences, transactional = table.to_pydict().values()
    assert len(set(producers)) == 1
    assert epochs == [0] * 5 + [1] * 2
    assert sequences == [0, 1, 2, 3, 4, 0, 1]
    assert all(transactional)


def test_a_transaction_is_not_visible_to_read_committed_before_its_markers(
    tmp_path, monkeypatch
):
    interrupt(tmp_path, monkeypatch, step="_commit_marker", visibility="transaction")
    assert values(tmp_path) == flat()
    assert values(tmp_path, "read_committed") == {}


def test_sequences_continue_at_zero_after_the_last(tmp_path):
    [file] = stage(tmp_path, FIRST, {("orders", 0): [[b"a", b"b"], [b"c"]]})
    [batches] = commit_steps.read_staged(tmp_path, file)
    of_producer = commit_steps._of_producer(
        batches, commit_steps.Producer(2**62, 3), 2**31 - 1
    )
    assert of_producer.rows["base_sequence"].tolist() == [2**31 - 1, 1]
    assert not len(
        kafkalog.formats.batch_headers.find_crc_mismatches(
            of_producer.data, 0, of_producer.rows
        )
    )


def test_the_lock_is_released_and_the_directory_clean_after_a_commit(tmp_path):
    commit(tmp_path)
    assert not (tmp_path / ".lock").exists()
    assert (tmp_path / ".kafka_cleanshutdown").exists()
    with kafkalog.LogManager(tmp_path) as logs:
        assert all(log.report.clean for log in logs.values())
        assert {log.high_watermark for log in logs.values()} == {0, 4 - 1, 5, 7}


def test_nothing_is_retained_or_compacted_by_a_commit(tmp_path):
    commit(tmp_path)
    old = {
        "retention.ms": "1",
        "internal.segment.bytes": "14000",
        "cleanup.policy": "compact,delete",
    }
    commit(tmp_path, SECOND, MORE, topic_settings=old)
    assert values(tmp_path)["orders", 0] == flat()["orders", 0] + [b"x0", b"x1"]


def test_directories_that_were_marked_as_deleted_are_kept(tmp_path):
    marked = tmp_path / f"gone-0.{32 * 'a'}-delete"
    marked.mkdir(parents=True)
    commit(tmp_path)
    assert marked.is_dir()
