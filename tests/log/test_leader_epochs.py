"""Leader epochs: Kafka's rules for assignment, truncation and lookup, and the file."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.errors import CorruptCheckpointError, LogArgumentError
from kafkalog.formats.checkpoint import parse_epochs
from kafkalog.log.leader_epochs import LeaderEpochs, certain_epoch
from kafkalog.testing import FailingDisk, TracingDisk
from tests import golden_data

NAME = "leader-epoch-checkpoint"


class Tasks:
    """A scheduler that keeps tasks until they are run."""

    def __init__(self):
        self.kept = []

    def later(self, name, work):
        self.kept.append((name, work))

    def run(self):
        while self.kept:
            self.kept.pop(0)[1]()


def opened(directory, *entries, **options):
    epochs = LeaderEpochs(directory / NAME, **options)
    for entry in entries:
        epochs.assign(*entry)
    return epochs


def kept(directory):
    return parse_epochs((directory / NAME).read_bytes())


def test_opening_creates_an_empty_file(tmp_path):
    epochs = opened(tmp_path)
    assert (tmp_path / NAME).read_bytes() == b""
    assert epochs.entries == []
    assert epochs.earliest is None
    assert epochs.latest_epoch is None
    assert epochs.epoch_for_offset(0) is None
    epochs.truncate_from_start(5)
    epochs.truncate_from_end(0)
    assert (tmp_path / NAME).read_bytes() == b""


def test_an_assigned_epoch_is_on_disk(tmp_path):
    disk = TracingDisk()
    epochs = opened(tmp_path, disk=disk)
    disk.calls.clear()
    epochs.assign(2, 6)
    assert (tmp_path / NAME).read_bytes() == b"0\n1\n2 6\n"
    assert [call[0] for call in disk.calls] == [
        "open",
        "write",
        "sync",
        "rename",
        "sync_directory",
    ]


@pytest.mark.parametrize(
    ("assigned", "left"),
    [
        ([(2, 6), (2, 6), (2, 9)], [(2, 6)]),  # the first start wins
        ([(2, 6), (2, 5)], [(2, 5)]),  # except an earlier one
        ([(2, 6), (3, 5)], [(3, 5)]),
        ([(2, 6), (3, 6)], [(3, 6)]),
        ([(1, 5), (2, 6), (1, 7)], [(1, 7)]),  # epochs increase
        ([(0, 0), (2, 6), (4, 9), (3, 8)], [(0, 0), (2, 6), (3, 8)]),
        ([(0, 0), (2, 6), (4, 9), (5, 3)], [(0, 0), (5, 3)]),
    ],
)
def test_an_assigned_epoch_replaces_conflicting_ones(tmp_path, assigned, left):
    epochs = opened(tmp_path, *assigned)
    assert epochs.entries == left
    assert kept(tmp_path) == left
    assert opened(tmp_path).entries == left


def test_an_assignment_without_a_change_is_not_written(tmp_path):
    disk = TracingDisk()
    epochs = opened(tmp_path, (2, 6), disk=disk)
    disk.calls.clear()
    epochs.assign(2, 6)
    epochs.assign(2, 7)
    epochs.truncate_from_end(7)
    epochs.truncate_from_end(-1)
    epochs.truncate_from_start(5)
    assert disk.calls == []


@pytest.mark.parametrize("entry", [(-1, 0), (0, -1)])
def test_negative_numbers_are_refused(tmp_path, entry):
    with pytest.raises(LogArgumentError, match="expected at least 0"):
        opened(tmp_path).assign(*entry)
    assert (tmp_path / NAME).read_bytes() == b""


@pytest.mark.parametrize(
    ("requested", "expected"),
    [
        (-1, None),
        (0, (0, 11)),  # before all: the start of the first
        (2, (2, 15)),
        (3, (3, 16)),
        (4, (3, 16)),  # unknown: the previous one
        (7, (7, 20)),  # the last ends with the log
        (8, None),
    ],
)
def test_an_epoch_ends_where_the_next_begins(tmp_path, requested, expected):
    epochs = opened(tmp_path, (2, 11), (3, 15), (7, 16))
    assert epochs.end_offset_for(requested, 20) == expected
    assert opened(tmp_path).end_offset_for(requested, 20) == expected


def test_nothing_is_known_of_an_empty_log(tmp_path):
    assert opened(tmp_path).end_offset_for(0, 0) is None


def test_each_offset_has_the_epoch_with_which_it_was_written(tmp_path):
    epochs = opened(tmp_path, (2, 10), (4, 15), (5, 20))
    requested = (9, 10, 14, 15, 19, 20, 900)
    found = [epochs.epoch_for_offset(offset) for offset in requested]
    assert found == [None, 2, 2, 4, 4, 5, 5]


SMALL = st.integers(-1, 6)


@given(SMALL, st.none() | SMALL, st.none() | SMALL)
def test_an_epoch_is_certain_if_it_is_stated_or_the_only_one_that_fits(
    least, most, stated
):
    fitting = [epoch for epoch in range(-1, 20) if epoch >= least]
    if most is not None:
        fitting = [epoch for epoch in fitting if epoch <= most]
    expected = stated if stated in fitting else None
    if len(fitting) == 1:
        [expected] = fitting
    assert certain_epoch(least, most, stated) == expected


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (12, [(2, 6), (3, 8), (4, 11)]),
        (11, [(2, 6), (3, 8)]),
        (9, [(2, 6), (3, 8)]),
        (0, []),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_epochs_truncated_from_the_end_are_removed_from_the_file_later(
    tmp_path, offset, left
):
    tasks = Tasks()
    epochs = opened(tmp_path, (2, 6), (3, 8), (4, 11), later=tasks.later)
    epochs.truncate_from_end(offset)
    assert epochs.entries == left
    assert kept(tmp_path) == [(2, 6), (3, 8), (4, 11)]
    names = [name for name, _ in tasks.kept]
    assert names == [f"leader-epoch-cache-flush-{tmp_path.name}"] * (len(left) < 3)
    tasks.run()
    assert kept(tmp_path) == left


@pytest.mark.parametrize(
    ("offset", "left"),
    [
        (1, [(2, 6), (3, 8), (4, 11)]),
        (6, [(2, 6), (3, 8), (4, 11)]),
        (7, [(2, 7), (3, 8), (4, 11)]),
        (8, [(3, 8), (4, 11)]),
        (9, [(3, 9), (4, 11)]),
        (11, [(4, 11)]),
        (15, [(4, 15)]),
        (-1, [(2, 6), (3, 8), (4, 11)]),
    ],
)
def test_epochs_truncated_from_the_start_are_removed_from_the_file_later(
    tmp_path, offset, left
):
    tasks = Tasks()
    epochs = opened(tmp_path, (2, 6), (3, 8), (4, 11), later=tasks.later)
    epochs.truncate_from_start(offset)
    assert epochs.entries == left
    assert epochs.earliest == left[0]
    assert len(tasks.kept) == (offset >= 6)  # even where nothing changed
    tasks.run()
    assert kept(tmp_path) == left


def test_a_late_write_has_the_epochs_of_that_time(tmp_path):
    tasks = Tasks()
    epochs = opened(tmp_path, (2, 6), (3, 8), later=tasks.later)
    epochs.truncate_from_end(8)
    epochs.assign(5, 7)
    tasks.run()
    assert kept(tmp_path) == [(2, 6), (5, 7)]


def test_a_log_that_was_removed_is_not_written_to(tmp_path):
    directory = tmp_path / "orders-0"
    directory.mkdir()
    tasks = Tasks()
    epochs = opened(directory, (2, 6), later=tasks.later)
    epochs.truncate_from_end(0)
    (directory / NAME).unlink()
    directory.rmdir()
    tasks.run()
    assert not directory.exists()
    with pytest.raises(FileNotFoundError):
        epochs.assign(3, 7)


def test_epochs_are_cleared_in_memory_or_on_disk(tmp_path):
    epochs = opened(tmp_path, (2, 6))
    epochs.clear()
    assert epochs.entries == []
    assert kept(tmp_path) == [(2, 6)]
    epochs.clear_and_flush()
    assert (tmp_path / NAME).read_bytes() == b"0\n0\n"


def test_a_directory_may_be_renamed_under_the_file(tmp_path):
    (tmp_path / "a").mkdir()
    epochs = opened(tmp_path / "a", (2, 6))
    (tmp_path / "a").rename(tmp_path / "b")
    epochs.move_to(tmp_path / "b")
    epochs.assign(3, 9)
    assert kept(tmp_path / "b") == [(2, 6), (3, 9)]


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"0\n5\n0 0\n", CorruptCheckpointError),
        (b"1\n0\n", CorruptCheckpointError),
        (b"0\n1\n-3 0\n", LogArgumentError),
    ],
)
def test_a_corrupt_checkpoint_is_an_error(tmp_path, content, error):
    (tmp_path / NAME).write_bytes(content)
    with pytest.raises(error, match=NAME):
        opened(tmp_path)
    assert CorruptCheckpointError.kafka_name == "KafkaStorageException"


@pytest.mark.parametrize("step", range(5))
def test_a_failing_disk_leaves_the_epochs_before_or_after(tmp_path, step):
    epochs = opened(tmp_path, (2, 6))
    disk = FailingDisk(1 + step)  # the first call opens the file
    failing = opened(tmp_path, disk=disk)
    with pytest.raises(OSError, match="No space left"):
        failing.assign(3, 9)
    assert kept(tmp_path) == (epochs.entries if step <= 3 else failing.entries)


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path / NAME, id=f"{name}/{path.name}")
        for name in golden_data.SETS
        for path in golden_data.partitions(name)
        if (path / NAME).exists()
    ],
)
def test_golden_files_are_written_again_byte_for_byte(tmp_path, path):
    opened(tmp_path, *parse_epochs(path.read_bytes()))
    assert (tmp_path / NAME).read_bytes() == path.read_bytes()


SMALL = st.integers(0, 12)


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["assign", "start", "end"]), SMALL, SMALL),
        max_size=20,
    )
)
def test_epochs_increase_in_number_and_offset(tmp_path_factory, steps):
    directory = tmp_path_factory.mktemp("log")
    epochs, model = opened(directory), []
    for act, epoch, offset in steps:
        if act == "assign":
            epochs.assign(epoch, offset)
            if not (model and model[-1][0] == epoch and offset >= model[-1][1]):
                while model and (model[-1][0] >= epoch or model[-1][1] >= offset):
                    model.pop()
                model.append((epoch, offset))
        elif act == "end":
            epochs.truncate_from_end(offset)
            model = [entry for entry in model if entry[1] < offset]
        else:
            epochs.truncate_from_start(offset)
            gone = [entry for entry in model if entry[1] <= offset]
            moved = [(gone[-1][0], offset)] if gone else []
            model = moved + model[len(gone) :]
        assert epochs.entries == model
    assert (kept(directory) if model else epochs.entries) == model
    assert opened(directory).entries == model
