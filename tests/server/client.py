"""A client that sends single requests and returns what is answered, decoded."""

from __future__ import annotations

import socket
from itertools import count

from kafkalog.messages.compiled_messages import MessageCodec
from kafkalog.protocol.frames import SIZE
from kafkalog.protocol.protocol_schemas import API_VERSIONS, api_of, header_schema


class Client:
    """A connection to a server."""

    def __init__(self, address):
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self._numbers = count(1)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, key, version, message):
        """Send a request; return its number."""
        number, api = next(self._numbers), api_of(key)
        self.send_frame(frame_of(key, version, message, number))
        assert api.lowest_version <= version
        return number

    def send_frame(self, frame):
        self.socket.sendall(SIZE.pack(len(frame)) + frame)

    def receive_frame(self):
        """Return the next frame; None if the connection was closed."""
        size = self._take(SIZE.size)
        return None if size is None else self._take(*SIZE.unpack(size))

    def receive(self, key, version, number):
        return parsed(key, version, self.receive_frame(), number)

    def ask(self, key, version, message):
        """Send a request and return the answer."""
        return self.receive(key, version, self.send(key, version, message))

    def _take(self, size):
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            if not part:
                return None
            data += part
        return data


def frame_of(key, version, message, number=1):
    """Return the bytes of a request, without their size."""
    api = api_of(key)
    header = MessageCodec.of(
        header_schema("RequestHeader"), 1 + api.is_flexible(version)
    ).encode(
        {
            "requestApiKey": key,
            "requestApiVersion": version,
            "correlationId": number,
            "clientId": "tests",
        }
    )[0]
    return bytes(header) + bytes(api.request_codec(version).encode(message)[0])


def parsed(key, version, frame, number):
    """Return the message of an answer."""
    api = api_of(key)
    flexible = api.is_flexible(version) and key != API_VERSIONS
    header, position = MessageCodec.of(
        header_schema("ResponseHeader"), int(flexible)
    ).decode(frame)
    assert header["correlationId"] == number
    message, end = api.response_codec(version).decode(frame, position)
    assert end == len(frame)
    return message
