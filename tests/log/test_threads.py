"""The thread of a log ends with the log, however that is closed."""

import threading
from itertools import count

import pytest

import kafkalog
from kafkalog.log.ownership import OwnedDirectory
from kafkalog.testing import FailingDisk, open_log
from tests.log.writing import SMALL, batch


def close(log):
    log.close()


def close_twice(log):
    log.close()
    log.close()


def abandon(log):
    log.abandon()


def abandon_after_closing(log):
    log.close()
    log.abandon()


def delete(log):
    log.delete()


@pytest.mark.parametrize(
    "end", [close, close_twice, abandon, abandon_after_closing, delete]
)
def test_no_thread_remains_after_the_end(tmp_path, end):
    before = threading.enumerate()
    log = kafkalog.open(tmp_path / "t-0", "a", SMALL)
    log.append(batch())
    log.roll()
    assert threading.enumerate() != before  # one to force the segment to disk
    end(log)
    assert threading.enumerate() == before


@pytest.mark.parametrize("end", ["close", "abandon"])
def test_no_thread_of_a_manager_remains(tmp_path, end):
    before = threading.enumerate()
    manager = kafkalog.LogManager(tmp_path, SMALL)
    manager.open("t", 0).append(batch())
    assert threading.enumerate() != before
    getattr(manager, end)()
    assert threading.enumerate() == before


def test_no_thread_remains_whichever_call_fails_while_opening_or_closing(tmp_path):
    before = threading.enumerate()
    for call in count():
        disk = FailingDisk(call)
        (tmp_path / str(call)).mkdir()
        try:
            directory = tmp_path / str(call) / "logs" / "t-0"
            open_log(directory, SMALL, disk=disk).close()
        except OSError:
            pass
        assert threading.enumerate() == before
        if len(disk.calls) <= call:
            break
    assert call > 10


def test_no_thread_remains_if_abandoning_fails(tmp_path, monkeypatch):
    before = threading.enumerate()
    log = kafkalog.open(tmp_path / "t-0", "a", SMALL)
    real = OwnedDirectory.release

    def release(*arguments, **options):
        real(*arguments, **options)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(OwnedDirectory, "release", release)
    with pytest.raises(OSError, match="Input/output error"):
        log.abandon()
    assert threading.enumerate() == before
