"""An interrupt at any line of any call completes it, undoes it, or closes the log.

`Interrupting` raises at the n-th line that a call runs in this package, as a signal
handler may. After any line the log accepts the next call or rejects it, can be closed,
and is opened again with all appends whose results were returned.
"""

from __future__ import annotations

import gc
import linecache
import os
import shutil
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import kafkalog
from kafkalog import LogConfig
from kafkalog.errors import (
    KafkaLogError,
    LogArgumentError,
    LogClosedError,
)
from kafkalog.log import ownership
from kafkalog.log.runtime import Guard
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.testing import ManualClock, open_log
from tests.log.writing import NOW, batch

PACKAGE = str(Path(kafkalog.__file__).parent)
CONFIG = LogConfig(
    internal_segment_bytes=1500, segment_index_bytes=240, index_interval_bytes=100
).with_changes({"file.delete.delay.ms": 0})
PRODUCER = {"producer_id": 7, "producer_epoch": 0}
MOST = 24
"""So many lines of a call are tried, evenly spread over all that it comes to."""


class HandlerError(Exception):
    """An error raised by a signal handler of the program."""


class Interrupting:
    """A tracer that raises `error` at the n-th line, and counts the lines.

    It does not raise where a ``with`` statement begins or ends, nor at a ``try``.
    Python's tracing puts these lines outside of the ``with`` block, but no signal
    handler runs there: at a ``try``, or between the end of a block and the call of
    ``__exit__``.
    """

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self.at = at
        self.error = error
        self.lines = 0

    def __enter__(self) -> Interrupting:
        self.before = sys.gettrace()
        sys.settrace(self.enter)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)

    def enter(self, frame, _event, _argument):
        return self.line if frame.f_code.co_filename.startswith(PACKAGE) else None

    def line(self, frame, event, _argument):
        if event != "line" or is_finalizing(frame):
            return self.line
        text = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
        if not text.lstrip().startswith(("with ", "try:")):
            self.lines += 1
            if self.lines == self.at:
                sys.settrace(None)
                raise self.error(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
        return self.line


def is_finalizing(frame):
    """Return whether a finalizer runs: Python only prints an error in it."""
    while frame is not None and frame.f_code.co_filename.startswith(PACKAGE):
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


class Story:
    """A log with some segments, and the results of the appends to it."""

    def __init__(self, root: Path, disk: Disk = DISK) -> None:
        self.disk = disk
        self.directory = root / "t-0"
        self.reported: list[tuple[int, int]] = []
        self.log = self.open()
        for number in range(4):
            self.note(self.log.append(batch(2, size=300)))
            sequence = {**PRODUCER, "base_sequence": 2 * number}
            self.note(self.log.append(batch(2, **sequence)))
        self.log.update_high_watermark(self.log.log_end_offset)

    def open(self):
        clock = ManualClock(NOW)
        return open_log(self.directory, CONFIG, clock=clock, disk=self.disk)

    def note(self, *results):
        self.reported += [
            (result.first_offset, result.last_offset) for result in results
        ]

    def append(self):
        self.note(self.log.append(batch(2, **PRODUCER, base_sequence=8)))

    def append_large(self):
        self.note(self.log.append(batch(1, size=1300)))

    def append_many(self):
        self.note(*self.log.append_many([batch(1), batch(2, codec="lz4"), batch(3)]))

    def append_records(self):
        self.note(*self.log.append_records({"value": [b"1", b"2"]}).outcomes)

    def append_as_follower(self):
        end = self.log.log_end_offset
        batches = batch(2, base_offset=end, leader_epoch=1)
        self.note(self.log.append_as_follower(batches, leader_epoch=1))
        batches = batch(2, base_offset=end + 2, leader_epoch=1)
        self.note(self.log.append_as_follower(batches, leader_epoch=1))

    def truncate_to(self):
        self.forget_from(5)
        self.log.truncate_to(5)

    def truncate_fully(self):
        self.forget_from(0)
        self.log.truncate_fully(30)

    def forget_from(self, offset):
        self.reported = [append for append in self.reported if append[1] < offset]

    def forget_before(self, offset):
        self.reported = [append for append in self.reported if append[0] >= offset]

    def retention(self):
        self.log.update_config(CONFIG.with_changes({"retention.bytes": 1}))
        self.forget_before(self.log.log_end_offset)
        self.log.delete_old_segments()

    def delete_records(self):
        self.forget_before(9)
        self.log.delete_records(9)

    def roll(self):
        self.log.roll()

    def flush(self):
        self.log.flush()

    def read(self):
        self.log.read(0)
        self.log.find_offset(NOW)

    def close(self):
        self.log.close()

    def opening(self):
        self.log.abandon()
        self.log.close()
        self.log = None
        self.log = self.open()


CALLS = (
    *("append", "append_large", "append_many", "append_records"),
    *("append_as_follower", "roll", "truncate_to", "truncate_fully", "retention"),
    *("delete_records", "flush", "read", "close", "opening"),
)
QUICK_CALLS = ("append", "append_many", "close")


def open_files(root):
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return [path for path in found if path.startswith(str(root))]


def interrupted(story, call, at, error=KeyboardInterrupt):
    """Interrupt a call; return the line, or None if the call was completed."""
    try:
        with Interrupting(at, error):
            getattr(story, call)()
    except error as raised:
        return str(raised)
    return None


def read_all(log):
    found, offset = [], log.log_start_offset
    while offset < log.log_end_offset:
        fetch = log.read(offset)
        found += [
            (stored.base_offset, stored.last_offset) for stored in fetch.batches()
        ]
        offset = fetch.next_offset
    return found


def go_on(story):
    """Use the log as if nothing had happened; return whether that succeeded."""
    log = story.log
    try:
        story.note(log.append(batch(3)), log.append(batch(1)))
    except LogClosedError:
        return False
    check(story, log)
    return True


def check(story, log):
    """Check that batches are contiguous up to the log end, each reported one once."""
    found = read_all(log)
    expected = found[0][0] if found else log.log_end_offset
    for first, last in found:
        assert first == expected
        expected = last + 1
    assert expected == log.log_end_offset
    for append in story.reported:
        assert found.count(append) == 1


def end(story):
    """Close the log twice; check that nothing of it stays open."""
    if story.log is not None:
        with suppress(KafkaLogError):
            story.log.close()
        story.log.abandon()
        story.log.close()
        story.log = None
    assert [t for t in threading.enumerate() if t.name == "kafkalog-scheduler"] == []
    assert story.directory.parent.resolve() not in ownership._owned
    # The lock is released with its descriptor; the file may stay.
    if open_files(story.directory.parent):
        gc.collect()  # an interrupted call may be in a reference cycle
    assert open_files(story.directory.parent) == []


def reopen(story):
    """Open the log again: check that reported appends are in it, and readers agree."""
    story.log = story.open()
    check(story, story.log)
    assert go_on(story)
    log_end = story.log.log_end_offset
    end(story)
    offsets = kafkalog.scan(story.directory).to_arrow()["offset"].to_pylist()
    assert offsets == list(range(offsets[0], log_end))


def lines_of(root, call):
    """Count the lines that a call runs once its caches are filled."""
    for directory in (root / "first", root / "second"):
        directory.mkdir()
        story = Story(directory)
        with Interrupting(0, KeyboardInterrupt) as counted:
            getattr(story, call)()
        end(story)
    return counted.lines


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(call, marks=[] if call in QUICK_CALLS else pytest.mark.slow)
        for call in CALLS
    ],
)
# A file that was just opened is closed with the frame that the interrupt ends; `end`
# checks that none stays open.
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
def test_whichever_line_is_interrupted_no_append_is_lost_or_doubled(
    tmp_path, monkeypatch, call
):
    monkeypatch.setattr(os, "fsync", lambda _: None)  # no power failure here
    lines = lines_of(tmp_path, call)
    hit = refused = 0
    for at in range(1, lines + 1, 1 + lines // MOST):
        root = tmp_path / f"{at}"
        root.mkdir()
        story = Story(root)
        error = (KeyboardInterrupt, HandlerError)[at % 2]
        hit += interrupted(story, call, at, error) is not None
        if story.log is not None:
            refused += not go_on(story)
        end(story)
        reopen(story)
        shutil.rmtree(root)
    assert hit  # a concurrent flush may leave fewer lines
    assert refused or call == "opening"


def test_a_refused_append_leaves_the_log_open(tmp_path):
    story = Story(tmp_path)
    with pytest.raises(kafkalog.InvalidAppendError):
        story.log.append(batch(2, **PRODUCER, base_sequence=40))
    with pytest.raises(ValueError, match="expected one of log_end"):
        story.log.read(0, isolation="dirty")
    assert go_on(story)
    end(story)


class InterruptingIn(Interrupting):
    """A tracer that raises at the first line of a function."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__(1, KeyboardInterrupt)
        self.code = function.__code__

    def enter(self, frame, _event, _argument):
        return self.line if frame.f_code is self.code else None


@pytest.mark.parametrize("function", [Guard.__enter__, Guard.__exit__])
def test_an_interrupt_before_or_after_the_work_leaves_the_log_open(tmp_path, function):
    story = Story(tmp_path)
    with pytest.raises(KeyboardInterrupt), InterruptingIn(function):
        story.log.append(batch(2))
    with ThreadPoolExecutor(1) as other:  # the lock is free
        assert other.submit(go_on, story).result()
    end(story)
    reopen(story)


class InterruptedDisk(Disk):
    """A disk that writes, and raises after that once `error` is set."""

    error: type[BaseException] | None = None

    def write_each(self, writes):
        super().write_each(writes)
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt, HandlerError])
@pytest.mark.parametrize("call", ["append", "append_records", "append_as_follower"])
def test_an_interrupt_after_a_write_closes_the_log(tmp_path, call, error):
    story = Story(tmp_path, InterruptedDisk())
    story.disk.error = error
    with pytest.raises(error):
        getattr(story, call)()
    story.disk.error = None
    message = f"a call was interrupted: {error.__name__}"
    with pytest.raises(LogClosedError, match=message):
        story.append()
    end(story)
    reopen(story)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda log: log.append("text"), TypeError),
        (lambda log: log.append_many([b"", None]), TypeError),
        (lambda log: log.append_as_follower(7), TypeError),
        (lambda log: log.append_many_as_follower([7]), TypeError),
        (lambda log: log.append(b"", origin="nobody"), LogArgumentError),
        (lambda log: log.read(0, isolation="none"), LogArgumentError),
        (lambda log: log.append(batch(), leader_epoch=2**31), LogArgumentError),
        (lambda log: log.append_as_follower(b"", leader_epoch="1"), LogArgumentError),
        (lambda log: log.assign_epoch(2**31), LogArgumentError),
        (lambda log: log.assign_epoch(5.0), LogArgumentError),
        (lambda log: log.assign_epoch(5, 2**63), LogArgumentError),
        (lambda log: log.update_high_watermark(1.0), LogArgumentError),
        (lambda log: log.increment_high_watermark(1.0), LogArgumentError),
        (lambda log: log.delete_records(0.5), LogArgumentError),
        (lambda log: log.truncate_to(0.5), LogArgumentError),
        (lambda log: log.truncate_fully(2**63), LogArgumentError),
        (lambda log: log.truncate_fully(5, -1), LogArgumentError),
        (lambda log: log.roll(2**63), LogArgumentError),
        (lambda log: log.flush(1.5), LogArgumentError),
        (lambda log: log.read(None), LogArgumentError),
        (lambda log: log.read(0, max_bytes=None), LogArgumentError),
        (lambda log: log.read(), TypeError),
        (lambda log: log.read(0, 100), TypeError),
        (lambda log: log.truncate_to(0, by=1), TypeError),
        (lambda log: log.send_to(None, 0, None), LogArgumentError),
        (lambda log: log.end_offset_for_epoch("0"), LogArgumentError),
        (lambda log: log.send_to(None, "0"), LogArgumentError),
        (lambda log: log.find_offset("now"), LogArgumentError),
        (lambda log: log.update_config({}), LogArgumentError),
    ],
)
def test_a_wrong_argument_leaves_the_log_open(tmp_path, call, error):
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.append(batch())
        with pytest.raises(error):
            call(log)
        assert log.append(batch()).first_offset == log.log_start_offset + 1


@pytest.mark.parametrize("one", [True, np.int64(1), np.uint8(1)])
def test_checkpoints_have_offsets_as_decimal_numbers(tmp_path, one):
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        log.append(batch())
        log.assign_epoch(one, one)
        log.update_high_watermark(one)
        assert log.delete_records(one)
        assert repr((log.log_start_offset, log.high_watermark)) == "(1, 1)"
    with kafkalog.open(tmp_path / "t-0", "a") as log:
        assert (log.log_start_offset, log.log_end_offset) == (1, 1)
