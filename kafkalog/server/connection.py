"""One connection of a client: frames that come in, answers that go out, in order.

Source: ``SocketServer.scala``, ``NetworkReceive.java``.
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import Final

from kafkalog.broker.broker import Waiting
from kafkalog.broker.endpoint import Endpoint
from kafkalog.log.reading.followed_log import StoredRange
from kafkalog.protocol.frames import SIZE, Pieces
from kafkalog.storage.byte_source import FileSource

MOST_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Kafka's ``socket.request.max.bytes``: a larger frame closes the connection."""

READ_BYTES: Final = 1 << 16
MOST_SENT: Final = 1 << 20


class Connection:
    """A client's socket, which never blocks, and what is to be sent to it."""

    def __init__(self, client: socket.socket, address: Endpoint) -> None:
        self.socket = client
        self.address = address
        self.host = f"/{address.host}"
        self.waiting: Waiting | None = None
        self.is_ended = False
        self._read = bytearray()
        self._pieces: deque[bytes | bytearray | StoredRange] = deque()
        self._sent = 0

    @property
    def has_answer(self) -> bool:
        """Whether an answer has not been sent whole."""
        return bool(self._pieces)

    def receive(self) -> None:
        """Read what the client has sent; `is_ended` is set at the end."""
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return
        if data:
            self._read += data
            if len(self._read) > SIZE.size + MOST_FRAME_BYTES:
                raise ValueError(
                    "more requests than fit while one waits for its answer"
                )
        else:
            self.is_ended = True

    def next_frame(self) -> bytes | None:
        """Return the next frame that is complete; None if there is none.

        Raises `ValueError` for a size that no frame has.
        """
        if len(self._read) < SIZE.size:
            return None
        (size,) = SIZE.unpack_from(self._read)
        if not 0 <= size <= MOST_FRAME_BYTES:
            reason = f"frame of {size} bytes, expected 0 to {MOST_FRAME_BYTES}"
            raise ValueError(reason)
        end = SIZE.size + size
        if len(self._read) < end:
            return None
        frame = bytes(self._read[SIZE.size : end])
        del self._read[:end]
        return frame

    def answer(self, pieces: Pieces) -> None:
        """Take an answer to send."""
        self._pieces.extend(pieces)  # type: ignore[arg-type]

    def send(self) -> None:
        """Send as much as the client takes."""
        while self._pieces:
            piece = self._pieces[0]
            try:
                if isinstance(piece, StoredRange):
                    count, size = self._send_range(piece), piece.size
                else:
                    view = memoryview(piece)[self._sent :]
                    count, size = self.socket.send(view), len(piece)
            except BlockingIOError:
                return
            self._sent += count
            if self._sent >= size:
                self._pieces.popleft()
                self._sent = 0
                if isinstance(piece, StoredRange):
                    piece.done()

    def _send_range(self, piece: StoredRange) -> int:
        source, position = piece.source, piece.position + self._sent
        left = min(piece.size - self._sent, MOST_SENT)
        if not isinstance(source, FileSource):
            return self.socket.send(source.read(position, left).data)
        count = os.sendfile(self.socket.fileno(), source.fileno(), position, left)
        if not count:
            raise ConnectionAbortedError(
                f"{source.path} was truncated while it was sent"
            )
        return count

    def close(self) -> None:
        """Close the socket, and let the files of unsent answers be closed."""
        for piece in self._pieces:
            if isinstance(piece, StoredRange):
                piece.done()
        self._pieces.clear()
        self.socket.close()
