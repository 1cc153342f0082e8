"""`serve` and `Server`: any Kafka client on log directories, for reading.

One thread owns all sockets and the broker. So nothing is locked, and the answers to one
client are in the order of its requests.

Source: ``SocketServer.scala``.
"""

from __future__ import annotations

import logging
import resource
import selectors
import socket
import threading
from contextlib import suppress
from typing import Final, Self

from kafkalog.broker.broker import Broker, Waiting
from kafkalog.broker.catalogue import Catalogue, most_open_files
from kafkalog.broker.endpoint import Endpoint
from kafkalog.errors import CorruptMessageError, UnsupportedVersionError
from kafkalog.log.clock import SystemClock
from kafkalog.progress import note_begun
from kafkalog.server.connection import Connection
from kafkalog.storage.location import AnyPath, locate
from kafkalog.storage.log_directory import PartitionSelection, Topics

ANY_PORT: Final = "127.0.0.1:0"
THREAD_NAME: Final = "kafkalog-server"
MOST_PENDING: Final = 128
POLL_MS: Final = 50
"""Time between two looks at logs for which a fetch waits."""

OTHER_FILES: Final = 32
"""Files that are open besides those of logs and connections, and some to spare."""

UNLIMITED: Final = 1 << 20
FAILURES: Final = logging.getLogger("kafkalog.server")
"""Has what no client should be able to cause."""


def serve(
    source: AnyPath | list[AnyPath],
    *,
    topics: Topics = None,
    exclude_topics: Topics = None,
    listen: str = ANY_PORT,
    advertise: str | None = None,
) -> Server:
    """Return a server of log directories over Kafka's protocol, for reading.

    Any Kafka client consumes what lies there: no broker and no cluster is needed, no
    lock is taken, and nothing is written. It is one node, and no production broker.

    Parameters
    ----------
    source : path, or list of paths
        Log directories, or directories of partitions.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    listen : str
        Host and port; port 0 is a free one. Whoever reaches the port can read
        everything.
    advertise : str, optional
        Host and port that clients are told to connect to; by default those of `listen`.

    Returns
    -------
    Server
        It listens already, and answers in a thread of its own until it is closed, which
        leaving its ``with`` block does.

    Raises
    ------
    FileNotFoundError, NotALogDirectoryError
        If there is no log directory at a path.
    OSError
        If the port is taken.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(Path(root, "orders-0"), "a") as log:
    ...         _ = log.append_records({"value": [b"v"]})
    ...     with serve(root) as server:
    ...         server.address.startswith("127.0.0.1:")
    True
    """
    paths = source if isinstance(source, list) else [source]
    places = [locate(path) for path in paths]
    selection = PartitionSelection.of(topics, None, exclude_topics)
    return Server(Catalogue(places, selection), listen, advertise)


class Server:
    """A server that listens, and answers in a thread until it is closed.

    Attributes
    ----------
    address : str
        Host and port that it listens on.
    """

    def __init__(
        self, catalogue: Catalogue, listen: str, advertise: str | None
    ) -> None:
        self._clock = SystemClock()
        self._listener = socket.create_server(
            _parsed(listen), backlog=MOST_PENDING, family=_family(listen)
        )
        self._listener.setblocking(False)
        self._waker, self._awake = socket.socketpair()
        host, port = self._listener.getsockname()[:2]
        self.address = str(Endpoint(host, port))
        told = (
            Endpoint(host, port) if advertise is None else Endpoint(*_parsed(advertise))
        )
        self._broker = Broker(catalogue, told, self._clock)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._awake, selectors.EVENT_READ)
        self._connections: dict[socket.socket, Connection] = {}
        self._accepts = True
        self._most = most_connections()
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the thread, and close all connections and files."""
        self._is_closing = True
        with suppress(OSError):
            self._waker.send(b"\0")
        self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_closing:
                for key, _ in self._selector.select(self._timeout()):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.fileobj is not self._awake:
                        self._serve(self._connections[key.fileobj])  # type: ignore[index]
                self._poll()
        finally:
            for connection in list(self._connections.values()):
                self._drop(connection)
            self._selector.close()
            for opened in (self._listener, self._waker, self._awake):
                opened.close()
            self._broker.catalogue.close()

    def _timeout(self) -> float | None:
        """Return the seconds until a fetch that waits is looked at; None for no end."""
        due = [
            connection.waiting.deadline_ms
            for connection in self._connections.values()
            if connection.waiting is not None
            and connection.waiting.deadline_ms is not None
        ]
        most = [self._clock.now_ms() + POLL_MS] if due else []
        timer = self._broker.timers.next_ms
        times = [*due, *most, *([] if timer is None else [timer])]
        return max(0, min(times) - self._clock.now_ms()) / 1000 if times else None

    def _accept(self) -> None:
        try:
            client, address = self._listener.accept()
        except OSError:
            return  # the client has gone
        client.setblocking(False)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(client, Endpoint(*address[:2]))
        self._connections[client] = connection
        self._selector.register(client, selectors.EVENT_READ)
        note_begun(f"{connection.address}: connected")
        if len(self._connections) >= self._most:
            # Others wait in the queue until one has ended: logs need files, too.
            self._selector.unregister(self._listener)
            self._accepts = False

    def _serve(self, connection: Connection) -> None:
        """Read requests of a client, and answer them."""
        try:
            if connection.has_answer:
                connection.send()
            else:
                connection.receive()
            self._answer(connection)
        except (
            OSError,
            ValueError,
            CorruptMessageError,
            UnsupportedVersionError,
        ) as error:
            note_begun(f"{connection.address}: closed: {error}")
            self._drop(connection)
            return
        except Exception:
            self._fail(connection)
            return
        if connection.is_ended:
            note_begun(f"{connection.address}: disconnected")
            self._drop(connection)
            return
        # While an answer is sent, or waits, no further request is read.
        events = (
            selectors.EVENT_WRITE if connection.has_answer else selectors.EVENT_READ
        )
        self._selector.modify(connection.socket, events)

    def _answer(self, connection: Connection) -> None:
        while not connection.has_answer and connection.waiting is None:
            frame = connection.next_frame()
            if frame is None:
                return
            answer = self._broker.handle(frame, connection.host)
            if isinstance(answer, Waiting):
                connection.waiting = answer
            elif answer is not None:
                connection.answer(answer)
                connection.send()

    def _poll(self) -> None:
        """Run what is due, and look at the answers that wait."""
        now = self._clock.now_ms()
        self._broker.timers.run(now)
        for connection in list(self._connections.values()):
            waiting = connection.waiting
            if waiting is None:
                continue
            deadline = waiting.deadline_ms
            try:
                answer = waiting.poll(deadline is not None and now >= deadline)
            except Exception:
                self._fail(connection)
                continue
            if answer is not None:
                connection.waiting = None
                connection.answer(answer)
                self._selector.modify(connection.socket, selectors.EVENT_WRITE)

    def _fail(self, connection: Connection) -> None:
        """Report an error of this program, which ends one connection and no other."""
        FAILURES.exception("%s: closed by an error", connection.address)
        self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        del self._connections[connection.socket]
        self._selector.unregister(connection.socket)
        connection.close()
        if not self._accepts and not self._is_closing:
            self._selector.register(self._listener, selectors.EVENT_READ)
            self._accepts = True


def most_connections() -> int:
    """Return how many connections leave enough files for logs, and for the rest.

    >>> 0 < most_connections()
    True
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return UNLIMITED
    return max(1, limit - most_open_files() - OTHER_FILES)


def is_loopback(address: str) -> bool:
    """Return whether an address is reached from this machine alone.

    >>> is_loopback("127.0.0.1:9092"), is_loopback("0.0.0.0:9092")
    (True, False)
    """
    host, _ = _parsed(address)
    return host in ("localhost", "::1") or host.startswith("127.")


def _parsed(address: str) -> tuple[str, int]:
    """Return host and port of an address.

    >>> _parsed("127.0.0.1:9092"), _parsed("[::1]:0")
    (('127.0.0.1', 9092), ('::1', 0))
    """
    host, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        raise ValueError(f"address {address!r}, expected HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in _parsed(address)[0] else socket.AF_INET
