"""Batches are sent to a socket as they are on disk."""

import itertools
import shutil
import socket
import threading
from contextlib import contextmanager

import pytest

import kafkalog
from kafkalog import errors
from kafkalog.storage.byte_source import FileSource
from kafkalog.testing import ManualClock, ManualScheduler, open_log
from tests import golden_data
from tests.log.writing import NOW, SMALL, batch

PARTITIONS = ["orders.zstd-0", "orders.none-0", "state.txn-0", "state.gzip-0"]


@contextmanager
def receiving():
    """Yield a socket, and a function that closes it and returns what was sent."""
    sender, receiver = socket.socketpair()
    received = bytearray()

    def receive():
        while data := receiver.recv(1 << 16):
            received.extend(data)

    thread = threading.Thread(target=receive)
    thread.start()

    def close():
        sender.close()
        thread.join()
        return bytes(received)

    try:
        yield sender, close
    finally:
        close()
        receiver.close()


def send_all(log, max_bytes, **options):
    """Send a log batch by batch from its start; return the bytes of each call."""
    sent, offset = [], log.log_start_offset
    while True:
        with receiving() as (sender, close):
            size = log.send_to(sender, offset, max_bytes, **options)
            data = close()
        assert len(data) == size
        if not size:
            return sent
        sent.append(data)
        offset = offset_after(data)


def offset_after(data):
    """Return the offset after whole batches; fail if the last one is incomplete."""
    position = 0
    while position < len(data):
        header = kafkalog.RecordBatch(data, position)
        position += header.size_in_bytes
    assert position == len(data)
    return header.last_offset + 1


def read_all(log, max_bytes, **options):
    """Return the whole batches of each read, from the log's start on."""
    reads, offset = [], log.log_start_offset
    while (read := log.read(offset, max_bytes=max_bytes, **options)).data:
        size = sum(one.size_in_bytes for one in read.batches())
        reads.append(read.data[:size])
        offset = read.next_offset
    return reads


@pytest.mark.parametrize("isolation", ["log_end", "read_committed"])
@pytest.mark.parametrize("max_bytes", [1, 700, 1 << 20])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_what_is_sent_is_what_is_read(partition, max_bytes, isolation):
    with kafkalog.open(golden_data.logs("k431-clean") / partition) as log:
        sent = send_all(log, max_bytes, isolation=isolation)
        assert sent == read_all(log, max_bytes, isolation=isolation)
        assert sent


@pytest.mark.parametrize("isolation", ["log_end", "high_watermark", "read_committed"])
@pytest.mark.parametrize("max_bytes", [1, 700, 1 << 20])
@pytest.mark.parametrize("partition", PARTITIONS)
def test_a_log_open_for_writing_sends_what_it_reads(
    tmp_path, partition, max_bytes, isolation
):
    shutil.copytree(golden_data.logs("k431-clean") / partition, tmp_path / partition)
    clock = ManualClock(NOW)
    with open_log(
        tmp_path / partition,
        kafkalog.LogConfig(retention_ms=-1),
        clock=clock,
        scheduler=ManualScheduler(clock),
    ) as log:
        log.update_high_watermark((log.log_start_offset + log.log_end_offset) // 2)
        sent = send_all(log, max_bytes, isolation=isolation)
        assert sent == read_all(log, max_bytes, isolation=isolation)


@pytest.fixture
def log(tmp_path):
    clock = ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    with open_log(tmp_path / "t-0", SMALL, clock=clock, scheduler=scheduler) as opened:
        for count in range(1, 8):
            opened.append(batch(count))
        yield opened


def test_a_socket_that_is_closed_raises_and_leaves_the_log_open(log):
    sender, receiver = socket.socketpair()
    receiver.close()
    with sender, pytest.raises(BrokenPipeError):
        log.send_to(sender, 0)
    assert log.append(batch()).first_offset == 28


def test_a_socket_that_does_not_block_is_refused(log):
    sender, receiver = socket.socketpair()
    sender.setblocking(False)
    with sender, receiver, pytest.raises(ValueError, match="non-blocking"):
        log.send_to(sender, 0)


@pytest.mark.parametrize("offset", [-1, 29])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_an_offset_outside_of_the_log_is_an_error(log, offset, mode):
    opened = log if mode == "a" else kafkalog.Log(log.path)
    with receiving() as (sender, close):
        with pytest.raises(errors.OffsetOutOfRangeError):
            opened.send_to(sender, offset)
        assert close() == b""


def test_a_file_that_was_truncated_is_an_error(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(batch())
    size = path.stat().st_size
    with receiving() as (sender, _), FileSource(path) as source:
        with open(path, "rb+") as file:  # noqa: PTH123
            file.truncate(size - 10)
        expected = f"{size - 10} of {size} bytes sent, as the file was truncated"
        with pytest.raises(OSError, match=expected):
            source.send_to(sender, 0, size)


def test_batches_are_sent_while_others_are_appended_and_segments_are_deleted(log):
    def write():
        for count in itertools.islice(itertools.cycle([1, 5, 3]), 100):
            log.append(batch(count))

    thread = threading.Thread(target=write)
    thread.start()
    offsets, offset = [], 0
    while thread.is_alive() or offset < log.log_end_offset:
        with receiving() as (sender, close):
            sent = log.send_to(sender, offset, 500)
            data = close()
        if sent:
            offsets.append(offset)
            offset = offset_after(data)
    thread.join()
    assert offset == log.log_end_offset
    assert offsets == sorted(offsets)


def test_a_log_behind_a_url_is_read_and_sent():
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    store.pipe("/send-to/t-0/00000000000000000000.log", batch(3))
    with receiving() as (sender, close):
        sent = kafkalog.Log("memory://send-to/t-0").send_to(sender, 0)
        data = close()
    store.rm("/send-to", recursive=True)
    assert data == batch(3)
    assert sent == len(data)
