"""What the formats of values have in common: JSON, Avro, Protobuf."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from kafkalog.optional_packages import require

if TYPE_CHECKING:
    import pyarrow as pa

Faults = dict[int, str]
"""The rows that are not of the format, and why."""

NOT_FRAMED: Final = "expected the magic byte 0 and a schema id"
SAMPLE_BYTES: Final = 64 << 20
"""Bytes of a source after which no more is read to find a schema."""


class ValueFormat(Protocol):
    """A format of values, with the Arrow type that they are decoded to."""

    type: pa.DataType

    def decode(self, values: pa.Array) -> tuple[pa.Array, Faults]:
        """Return values of `type`; null where a value is null, or has a fault.

        `values` are of type ``binary``.
        """


class Sample:
    """The first values of a column, read from a source as far as they are needed.

    `topic` is that of the first record, once values are read; empty if it is unknown.
    """

    def __init__(self, name: str, batches: Iterator[pa.RecordBatch]) -> None:
        self.name, self.topic = name, ""
        self._batches = batches

    def values(self) -> Iterator[pa.Array]:
        """Yield arrays of type ``binary`` without nulls, none of them empty."""
        pa = require("pyarrow", "arrow")
        seen = 0
        for batch in self._batches:
            if not self.topic and len(batch) and "topic" in batch.schema.names:
                self.topic = batch["topic"][0].as_py() or ""
            values = batch[self.name].drop_null().cast(pa.binary())
            if len(values):
                yield values
            seen += batch.nbytes
            if seen >= SAMPLE_BYTES:
                return


def missing_schema(name: str, needed: str) -> ValueError:
    """Return the error for a column whose first values do not tell a schema."""
    return ValueError(f"no {name} tells the schema, expected {needed}")


def with_nulls(values: pa.Array, kept: np.ndarray, length: int) -> pa.Array:
    """Return values at the rows `kept` of an array of `length`, null elsewhere."""
    pa = require("pyarrow", "arrow")
    if len(values) == length:
        return values
    places = np.zeros(length, np.int64)
    places[kept] = np.arange(len(kept))
    missing = np.ones(length, bool)
    missing[kept] = False
    return values.take(pa.array(places, mask=missing))
