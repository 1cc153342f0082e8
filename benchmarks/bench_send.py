"""Sending a segment of 1 GB to a socket, beside reading it and sending what was read.

Fetches of 1 MB over a connection of this machine, which another thread drains. What is
compared is the processor time of the sending thread.
"""

import shutil
import socket
import threading
from contextlib import contextmanager
from time import thread_time

import pytest
from interleaved import compare
from segments import large_segment

import kafkalog

SEGMENT_BYTES = 1_000_000_000
FETCH_BYTES = 1 << 20
FETCHES = 200


@contextmanager
def drained():
    """Yield a socket whose other end a thread reads and discards."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        sender = socket.create_connection(server.getsockname())
        receiver, _ = server.accept()
    buffer = bytearray(1 << 20)

    def drain():
        while receiver.recv_into(buffer):
            pass

    thread = threading.Thread(target=drain)
    thread.start()
    with receiver:
        with sender:
            yield sender
            sender.shutdown(socket.SHUT_WR)
        thread.join()


@pytest.mark.parametrize("size", ["16k"])
@pytest.mark.parametrize("codec", ["none"])
@pytest.mark.parametrize("shape", ["log100"])
def bench_send(benchmark, tmp_path, shape, codec, size):
    source = large_segment(shape, codec, size, SEGMENT_BYTES)
    directory = tmp_path / "t-0"
    directory.mkdir()
    shutil.copyfile(source, directory / "00000000000000000000.log")
    config = kafkalog.LogConfig(retention_ms=-1)
    with kafkalog.open(directory, "a", config) as log, drained() as sender:
        offsets = []
        offset = 0
        for _ in range(FETCHES):
            offsets.append(offset)
            *_, last = log.read(offset, max_bytes=FETCH_BYTES).batches()
            offset = last.last_offset + 1

        def send():
            return sum(log.send_to(sender, at, FETCH_BYTES) for at in offsets)

        def read_and_send():
            for at in offsets:
                sender.sendall(log.read(at, max_bytes=FETCH_BYTES).data)

        assert benchmark.pedantic(send, rounds=1) > FETCHES * FETCH_BYTES * 0.9
        timing = compare(
            send, read_and_send, peer="read-and-send", of=FETCHES, clock=thread_time
        )
    benchmark.extra_info |= timing
