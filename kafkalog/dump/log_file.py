"""A log or KRaft snapshot, as the tool prints it: its batches and their records.

A kernel writes the lines of many batches in one call. It halts for what it does not
handle: compressed batches, messages of old formats, contents that need a decoder.

Source: ``DumpLogSegments.java``, its ``dumpLog``; ``FileLogInputStream.java``.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from kafkalog import _speedups
from kafkalog._speedups import DumpFlag, Halt
from kafkalog.array_types import Bytes
from kafkalog.codecs.java_streams import java_stream
from kafkalog.dump.batch_faults import (
    batch_stream_fault,
    entry_fault,
    is_cut_header,
    load_fault,
    records_fault,
)
from kafkalog.dump.dump_report import PairFindings
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.java_exceptions import OUT_OF_BOUNDS, ToolEnded
from kafkalog.dump.legacy_records import message_clock, message_metadata, records_of
from kafkalog.dump.printing import Printer, header_keys
from kafkalog.formats.batch_headers import (
    attributes_field,
    count_field,
    magic_field,
    size_field,
)
from kafkalog.formats.layout import (
    CODEC_MASK,
    CONTROL_FLAG,
    LOG_OVERHEAD,
    RECORD_BATCH_OVERHEAD,
)
from kafkalog.storage.buffers import KeptBuffer
from kafkalog.storage.byte_source import ByteSource

RUN: Final = np.dtype(
    [
        ("entry", np.int64),
        ("origin", np.int64),
        ("record", np.int64),
        ("next", np.int64),
        ("last_offset", np.int64),
        ("written", np.int64),
        ("pairs", np.int64),
        ("need", np.int64),
        ("max_timestamp", np.int64),
        ("key_start", np.int32),
        ("key_length", np.int32),
        ("value_start", np.int32),
        ("value_length", np.int32),
        ("headers_start", np.int32),
        ("header_count", np.int32),
    ]
)
"""State of the dump kernel: ``Run`` of ``_speedups/dump_lines.pyx``, field by field."""

BLOCK_BYTES: Final = 1 << 20
OUT_BYTES: Final = 1 << 20
PAIRS: Final = 1 << 12


class LogDump:
    """One pass over the batches in a source.

    `gaps` receives pairs of offsets that are not consecutive.
    """

    def __init__(self, file: DumpedFile, printer: Printer, gaps: PairFindings) -> None:
        self._file = file
        self._printer = printer
        self._gaps = gaps
        self._run = np.zeros(1, RUN)
        self._out = np.empty(OUT_BYTES, np.uint8)
        self._pairs = np.empty((PAIRS, 2), np.int64)

    def dump(self, source: ByteSource, end: int) -> int:
        """Print the batches up to `end`; return the position after the last whole one.

        Raises `ToolEnded` where Kafka's tool ends; all lines before that are printed.
        """
        buffer = KeptBuffer()
        for name in ("record", "last_offset", "max_timestamp"):
            self._run[name] = -1
        position, length = 0, BLOCK_BYTES
        try:
            while True:
                end = min(end, source.size)
                data = source.read(position, min(length, end - position), buffer.take)
                self._run["origin"], self._run["entry"] = position, 0
                self._batches(data)
                position += self._at("entry")
                if position + self._at("need") > end:
                    break
                length = max(BLOCK_BYTES, self._at("need"))
            header = source.read(position, RECORD_BATCH_OVERHEAD)
            if is_cut_header(header, end - position):
                raise load_fault(position, len(header), self._file, (0, end))
        finally:
            self._flush()
        return position

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of the records so far, in ms; -1 for none."""
        return self._at("max_timestamp")

    def _at(self, name: str) -> int:
        return int(self._run[name][0])

    def _batches(self, data: Bytes) -> None:
        """Print the batches that are whole in `data`."""
        flags, schemas = self._printer.flags, self._printer.schemas
        while True:
            halt = _speedups.dump_batches(
                data, self._run, self._out, self._pairs, flags, schemas
            )
            if halt == Halt.MORE:
                return
            if halt == Halt.RECORDS:
                self._records(data[self._at("entry") :])
            elif halt == Halt.CONTENTS:
                self._contents(data, is_control=False)
            elif halt == Halt.FULL:
                self._grow()
            else:
                entry = entry_at(data, self._at("entry"))
                payload = data[: self._at("entry") + len(entry)]
                place = self._at("next")
                if halt in (Halt.SIZE, Halt.HEADER):
                    raise entry_fault(halt, data, self._at("entry"), self._file)
                raise records_fault(halt, entry, payload, place, decompressed=False)

    def _records(self, data: Bytes) -> None:
        """Print the records of the batch at the start of `data`, line by line."""
        entry = entry_at(data, 0)
        if magic_field(entry) < 2:
            self._messages(entry)
            return
        if len(entry) < RECORD_BATCH_OVERHEAD:
            raise ToolEnded(OUT_OF_BOUNDS)
        attributes = attributes_field(entry)
        payload = self._payload(entry, attributes & CODEC_MASK)
        is_control = bool(attributes & CONTROL_FLAG)
        flags = self._printer.flags | (DumpFlag.STOP if is_control else 0)
        schemas = None if is_control else self._printer.schemas
        self._run["next"] = 0
        while True:
            halt = _speedups.dump_records(
                entry, payload, self._run, self._out, self._pairs, flags, schemas
            )
            if halt == Halt.DONE:
                return
            if halt == Halt.CONTENTS:
                self._contents(payload, is_control=is_control)
            elif halt == Halt.FULL:
                self._grow()
            else:
                decompressed = bool(attributes & CODEC_MASK)
                place = self._at("next")
                raise records_fault(
                    halt, entry, payload, place, decompressed=decompressed
                )

    def _messages(self, entry: Bytes) -> None:
        """Print the records of a message of magic 0 or 1."""
        self._flush()
        clock = message_clock(entry)
        for message in records_of(entry.data):
            before = self._at("last_offset")
            if message.offset != before + 1:
                self._gaps.add(self._file.absolute, before, message.offset)
            self._run["last_offset"] = message.offset
            latest = max(self._at("max_timestamp"), message.timestamp)
            self._run["max_timestamp"] = latest
            if not self._printer.flags & DumpFlag.BARE:
                metadata = message_metadata(message, clock).encode()
                self._printer.lines(memoryview(metadata))
            reads = message.read_key, message.read_value
            self._printer.record(*reads, message.offset, None)
        self._run["entry"] += len(entry)
        self._run["record"] = -1

    def _payload(self, entry: Bytes, codec: int) -> Bytes:
        stored = entry[RECORD_BATCH_OVERHEAD:]
        if not codec or not count_field(entry):
            return stored
        stream = java_stream(codec, stored.data, 2)
        if stream.fault is not None:
            raise batch_stream_fault(entry, stream, self._run)
        return np.frombuffer(stream.content, np.uint8)

    def _contents(self, payload: Bytes, *, is_control: bool) -> None:
        """Print the end of the line of a record that the kernel did not print."""
        key, value = (self._part(payload, name) for name in ("key", "value"))
        self._flush()
        if is_control:
            self._printer.control(key, value)
            return
        places = self._at("headers_start"), self._at("header_count")
        headers = header_keys(payload, *places) if places[1] else []
        offset = self._at("last_offset")
        self._printer.record(lambda: key, lambda: value, offset, headers)

    def _part(self, payload: Bytes, name: str) -> bytes | None:
        start, length = self._at(f"{name}_start"), self._at(f"{name}_length")
        return None if length < 0 else payload[start : start + length].tobytes()

    def _grow(self) -> None:
        self._flush()
        if len(self._out) < self._at("need"):
            self._out = np.empty(self._at("need"), np.uint8)

    def _flush(self) -> None:
        """Print the kernel's lines, and add the gaps that it found."""
        if written := self._at("written"):
            self._printer.lines(self._out[:written].data)
        if pairs := self._at("pairs"):
            self._gaps.add_all(self._file.absolute, self._pairs[:pairs])
        self._run["written"], self._run["pairs"] = 0, 0


def entry_at(data: Bytes, place: int) -> Bytes:
    """Return the batch that begins at `place`, as long as its size field states."""
    return data[place : place + LOG_OVERHEAD + size_field(data, place)]
