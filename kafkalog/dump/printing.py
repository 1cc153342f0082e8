"""Output of batches and records: as the lines that the tool prints, or as data.

A printer receives the lines that a kernel wrote. The last one may have only a record's
metadata; `record` or `control` then completes it.
"""

from __future__ import annotations

import json
from typing import Any, Final, Protocol

import numpy as np

from kafkalog import _speedups
from kafkalog._speedups import DumpFlag
from kafkalog.array_types import Bytes
from kafkalog.dump.dump_options import DumpOptions
from kafkalog.dump.record_text import Describe, Read, control_text, describe_text
from kafkalog.dump.streams import Row, Streams, members_of
from kafkalog.messages.schema_compiler import compile_schemas
from kafkalog.text.bytes_text import AsData, bytes_as_data, repair_utf8

RECORD: Final = "| "
"""The start of a record's line; no line of a batch starts like this."""


class Printer(Protocol):
    """An output of lines; `flags` and `schemas` are options of the kernel."""

    flags: int
    schemas: Any

    def lines(self, text: memoryview) -> None:
        """Output the lines that the kernel wrote."""

    def record(
        self, read_key: Read, read_value: Read, offset: int, headers: list[str] | None
    ) -> None:
        """Complete the line of a data record."""

    def control(self, key: bytes | None, value: bytes | None) -> None:
        """Complete the line of a control record."""


def printer(
    options: DumpOptions, describe: Describe | None, streams: Streams
) -> Printer:
    """Return the printer for lines, or for rows of data."""
    if streams.take_row is None:
        return LinePrinter(options, describe, streams)
    return DataPrinter(options, describe, streams)


def _flags(options: DumpOptions, *, stops: bool) -> int:
    return int(
        DumpFlag.DEEP * (options.deep or options.print_contents)
        | DumpFlag.PRINT * options.print_contents
        | DumpFlag.BARE * options.skip_metadata
        | DumpFlag.STOP * stops
    )


class LinePrinter:
    """A printer of lines, as the tool prints them."""

    def __init__(
        self, options: DumpOptions, describe: Describe | None, streams: Streams
    ) -> None:
        stops = options.print_contents and describe is not None
        self.flags = _flags(options, stops=stops)
        self.schemas = (
            None if options.decoder is None else compile_schemas(options.decoder)
        )
        self._prints, self._bare = options.print_contents, options.skip_metadata
        self._describe = describe or describe_text
        self._streams = streams

    def lines(self, text: memoryview) -> None:
        """Print the lines that the kernel wrote."""
        self._streams.write(text)

    def record(
        self, read_key: Read, read_value: Read, offset: int, headers: list[str] | None
    ) -> None:
        """Print key and value after the metadata, which include `headers`."""
        del headers
        text, before = "", RECORD if self._bare else " "
        if self._prints:
            key, value = self._describe(read_key, read_value, offset)
            if key is not None:
                text, before = f"{before}key: {key}", " "
            if value is not None:
                text += f"{before}payload: {value}"
        self._streams.print(text)

    def control(self, key: bytes | None, value: bytes | None) -> None:
        """Print a control record after its metadata, or only the end of the line."""
        self._streams.print("" if self._bare else control_text(key, value))


class DataPrinter:
    """A printer of batches and records as rows of data."""

    def __init__(
        self, options: DumpOptions, describe: Describe | None, streams: Streams
    ) -> None:
        self.flags = _flags(options, stops=options.deep or options.print_contents)
        self.schemas = None
        self._prints, self._bare = options.print_contents, options.skip_metadata
        self._describe = describe
        self._spells_json = options.decoder is not None
        self._streams = streams
        self._metadata = ""

    def lines(self, text: memoryview) -> None:
        """Output the rows of batches, and keep a record's metadata."""
        whole = text.tobytes().decode()
        batches, bar, metadata = whole.partition(RECORD)
        for line in batches.splitlines():
            self._streams.print(line, "batch")
        self._metadata = bar + metadata

    def record(
        self, read_key: Read, read_value: Read, offset: int, headers: list[str] | None
    ) -> None:
        """Output the row of a data record."""
        row = self._row(headers)
        if self._prints and self._describe is not None:
            shown = self._describe(read_key, read_value, offset)
            row["key"], row["payload"] = map(self._as_data, shown)
        elif self._prints:
            row["key"], row["payload"] = map(_as_data, (read_key(), read_value()))
        self._streams.print("", "record", **row)

    def control(self, key: bytes | None, value: bytes | None) -> None:
        """Output the row of a control record."""
        row = self._row([])
        if not self._bare:
            row |= control_members(control_text(key, value))
        self._streams.print("", "control", **row)

    def _row(self, headers: list[str] | None) -> Row:
        if self._bare:
            return {}
        row = members_of(self._metadata.partition(" headerKeys: ")[0])
        return row if headers is None else row | {"headerKeys": headers}

    def _as_data(self, shown: str | None) -> Any:
        """Return the object for a topic decoder's JSON; other text unchanged."""
        if shown is None or not self._spells_json or not shown.startswith("{"):
            return shown
        return json.loads(shown)


def _as_data(value: bytes | None) -> AsData | None:
    return None if value is None else bytes_as_data(value)


def header_keys(payload: Bytes, start: int, count: int) -> list[str]:
    """Return the keys of a record's `count` headers, which begin at `start`."""
    places = np.empty((4, count), np.int32)
    if count:
        bounds = np.array([0, count], np.int32)
        _speedups.decode_headers(payload, np.array([start], np.int32), bounds, places)
    return [
        repair_utf8(payload[key : key + length].tobytes())
        for key, length in places[:2].T.tolist()
    ]


def control_members(text: str) -> Row:
    """Return the members in the text of a control record.

    >>> control_members(" endTxnMarker: COMMIT coordinatorEpoch: 9")
    {'endTxnMarker': 'COMMIT', 'coordinatorEpoch': 9}
    >>> control_members(' KRaftVersion {"version":0,"kRaftVersion":1}')
    {'KRaftVersion': {'version': 0, 'kRaftVersion': 1}}
    """
    name, _, rest = text.strip().partition(" ")
    if rest.startswith("{"):
        return {name.removesuffix(":"): json.loads(rest)}
    return members_of(text.strip())
