"""Crashes and power cuts at each step of moves between two log directories.

Nothing that was forced to disk is lost, nothing is there twice, and the move can be
finished.
"""

from collections import Counter

import pytest

from kafkalog.manager import log_manager
from kafkalog.manager.managed_directory import ManagedDirectory
from kafkalog.manager.moving import Copy
from tests.crash import recorded_move
from tests.crash.recording import RecordingDisk
from tests.crash.state_checks import InvalidStateError


@pytest.fixture
def move(roots):
    move = recorded_move.RecordedMove(roots[0])
    yield move
    move.manager.abandon()


def check_all(move, root, kinds=None, share=1.0):
    figures = Counter()
    for event, kind, tree in recorded_move.states(move, kinds, share):
        figures[kind] += 1
        try:
            recorded_move.check(move, root, event, tree)
        except InvalidStateError as error:
            happened = move.disk.events[event - 1] if event else None
            raise InvalidStateError(
                f"event {event} ({happened}), {kind}: {error}"
            ) from error
    return figures


def test_a_move_killed_at_each_step_loses_nothing(move, roots):
    recorded_move.there_and_back(move)
    figures = check_all(move, roots[1], {"all kept"}, 0.5)
    assert figures.total() > 80


def test_a_crash_between_the_renames_of_a_swap_leaves_one_log_and_no_mark(move, roots):
    for _ in range(3):
        move.append()
    move.move("b")
    while move.manager.moves:
        move.advance(1 << 20)
    both = 0
    for event, _, tree in recorded_move.states(move, None, 1.0):
        marks = [path for path in tree if path.endswith(".kafkalog-move")]
        if {"a/orders-0", "b/orders-0"} <= tree.keys():
            both += 1
            assert marks == ["a/orders-0.kafkalog-move"]
        if marks:
            recorded_move.check(move, roots[1], event, tree)
    assert both


@pytest.mark.slow
def test_a_power_cut_at_each_step_of_a_move_loses_nothing(move, roots, figure):
    recorded_move.there_and_back(move)
    figures = check_all(move, roots[1], share=0.5)
    assert figures.total() > 400
    figure("crash states", "moves", figures.total())


def finds(roots, make_disk=RecordingDisk):
    """Return the first state that is not allowed; None if there is none."""
    move = recorded_move.RecordedMove(roots[0], make_disk)
    try:
        recorded_move.there_and_back(move)
        check_all(move, roots[1])
    except InvalidStateError as error:
        return str(error)
    finally:
        move.manager.abandon()
    return None


def do_nothing(*_, **__):
    """Replace a step that is removed."""


@pytest.mark.slow
def test_a_swap_without_its_mark_leaves_two_directories(roots, monkeypatch):
    monkeypatch.setattr(ManagedDirectory, "begin_departure", do_nothing)
    assert "two directories of one partition" in finds(roots)


@pytest.mark.slow
def test_a_mark_that_is_not_heeded_leaves_two_directories(roots, monkeypatch):
    monkeypatch.setattr(log_manager, "find_superseded", do_nothing)
    assert "two directories of one partition" in finds(roots)


class DiskForcingNoFutureLogs(RecordingDisk):
    """A disk that does not sync the segments of future logs."""

    def sync(self, file):
        if "-future" not in str(file.path) or file.path.suffix != ".log":
            super().sync(file)


@pytest.mark.slow
def test_a_future_log_that_is_not_synced_before_the_swap_is_found(roots):
    assert finds(roots, DiskForcingNoFutureLogs)


@pytest.mark.slow
def test_a_future_log_that_is_not_compared_is_found(roots, monkeypatch):
    advance = Copy._advance

    def advance_without_comparison(copy, max_bytes):
        copy.equal_to = copy.future.log_end_offset
        return advance(copy, max_bytes)

    monkeypatch.setattr(Copy, "_advance", advance_without_comparison)
    assert finds(roots)
