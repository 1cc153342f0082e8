"""Keys and values of Avro and Protobuf as JSON, for the commands that print records."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kafkalog.cli import exits
from kafkalog.export.internal_topic_json import on_one_line, undecoded_json
from kafkalog.query.scan import without_internal
from kafkalog.text.bytes_text import bytes_as_data
from kafkalog.values.value_decoding import DecodeOptions, decoder_of

if TYPE_CHECKING:
    from kafkalog.query.records import Records
    from kafkalog.query.scan import Scan


def named_only(scan: Scan) -> Scan:
    """Return a scan without internal topics that are not named, and report them."""
    kept, left_out = without_internal(scan)
    if left_out:
        exits.print_error(
            f"internal topics are read only if they are named: {', '.join(left_out)}"
        )
    return kept


class ValueCells:
    """Decodes columns of a scan's chunks; each cell is JSON, None for null.

    What cannot be decoded is an object with the reason and base64.
    """

    def __init__(self, scan: Scan, options: DecodeOptions) -> None:
        from kafkalog.export import arrow

        self._names = tuple(options.formats)
        self._read = arrow.schema_of(self._names)
        self._to_batch = arrow.to_batch
        self._decoder = decoder_of(scan, options)

    def __call__(self, records: Records) -> dict[str, list[str | None]]:
        """Return the cells of each decoded column."""
        batch = self._to_batch(records, self._read)
        cells: dict[str, list[str | None]] = {name: [] for name in self._names}
        for name, values, faults in self._decoder.values(batch):
            for row, value in enumerate(values.to_pylist(maps_as_pydicts="strict")):
                cells[name].append(
                    undecoded_json(batch[name][row].as_py(), faults[row])
                    if row in faults
                    else value_json(value)
                )
        return cells


def value_json(value: Any) -> str | None:
    """Return a decoded value as JSON on one line, None for null.

    >>> value_json({"id": 7, "at": datetime.date(2026, 1, 2), "data": b"text"})
    '{"id": 7, "at": "2026-01-02", "data": "text"}'
    """
    if value is None:
        return None
    return on_one_line(json.dumps(value, ensure_ascii=False, default=_plain))


def _plain(value: object) -> Any:
    if isinstance(value, bytes):
        return bytes_as_data(value)
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} as JSON")
