"""Avro values as columns of Arrow: fastavro decodes and resolves them.

The payloads of a block are read one after another as one file. A value that does not
end where its payload does has a fault.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalog.optional_packages import require
from kafkalog.values.avro_types import (
    arrow_type,
    has_choices,
    readable,
    union_converter,
)
from kafkalog.values.schema_headers import payloads, rows_of_arrow, schema_ids
from kafkalog.values.schema_registry import (
    Schemas,
    SchemaStore,
    WrittenSchema,
    as_json,
    open_schemas,
)
from kafkalog.values.value_format import (
    NOT_FRAMED,
    Faults,
    Sample,
    missing_schema,
)

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

avro: Any = require("fastavro", "avro")

NO_ID: Final = -1
SHOWN: Final = 200
"""Characters of a reason."""

ReadDatum = Callable[[io.BytesIO], Any]


class AvroFormat:
    """Avro values of the schemas in `store`, resolved to the schema `reader`.

    Without a store, values have no header, and were written with `reader`.
    """

    def __init__(self, reader: WrittenSchema, store: SchemaStore | None) -> None:
        expanded = _expanded(reader)
        self.type = arrow_type(expanded)
        self._store = store
        self._reader = _parsed(reader)
        self._choices = has_choices(expanded)
        self._convert = union_converter(expanded) if self._choices else None
        self._reads: dict[int, ReadDatum | None] = {}

    def decode(self, values: pa.Array) -> tuple[pa.Array, Faults]:
        """Return values of `type`; null where a value is null, or has a fault."""
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        if self._store is None:
            ids = np.where(valid, 0, NO_ID)
        else:
            ids = schema_ids(values).fill_null(NO_ID).to_numpy()
            values = payloads(values)
        rows: list[Any] = [None] * len(values)
        others = np.flatnonzero(valid & (ids == NO_ID)).tolist()
        faults = dict.fromkeys(others, NOT_FRAMED)
        for schema_id in np.unique(ids).tolist():
            if schema_id == NO_ID:
                continue
            chosen = np.flatnonzero(ids == schema_id)
            read = self._read_of(schema_id)
            if read is None:
                faults |= dict.fromkeys(
                    chosen.tolist(), f"no schema with id {schema_id}"
                )
            else:
                _read_values(values, chosen, read, rows, faults)
        return _to_arrow(rows, self.type, faults), faults

    def _read_of(self, schema_id: int) -> ReadDatum | None:
        """Return what reads a value with a schema's id, None if there is no schema."""
        if schema_id not in self._reads:
            self._reads[schema_id] = self._make_read(schema_id)
        return self._reads[schema_id]

    def _make_read(self, schema_id: int) -> ReadDatum | None:
        writer, reader = self._reader, None
        if self._store is not None:
            written = self._store.get(schema_id)
            if written is None:
                return None
            writer = _parsed(written)
            reader = None if writer == self._reader else self._reader
        schemaless_reader, convert = avro.schemaless_reader, self._convert
        if convert is None:
            return lambda file: schemaless_reader(file, writer, reader)
        return lambda file: convert(
            schemaless_reader(file, writer, reader, return_named_type=True)
        )


def avro_format(sample: Sample, schemas: Schemas | None, schema: Any) -> AvroFormat:
    """Return the format of schemas by id, resolved to a schema or to the newest."""
    reader = None if schema is None else WrittenSchema(as_json(schema))
    if schemas is None:
        if reader is None:
            raise ValueError(
                "avro without schemas and schema, expected one: schemas by id, or the "
                "schema of values without a header"
            )
        return AvroFormat(reader, None)
    store = open_schemas(schemas)
    return AvroFormat(reader or _newest(sample, store), store)


def _newest(sample: Sample, store: SchemaStore) -> WrittenSchema:
    """Return the newest schema of the type of the first value that has one."""
    for values in sample.values():
        for schema_id in schema_ids(values).drop_null().unique().to_pylist():
            if store.get(schema_id) is not None:
                return store.newest(schema_id, f"{sample.topic}-{sample.name}")
    raise missing_schema(sample.name, "schema, the one to resolve values to")


def _parsed(written: WrittenSchema) -> Any:
    """Return a schema as the library reads with it."""
    named: dict[str, Any] = {}
    for reference in written.references:
        avro.parse_schema(readable(reference), named)
    return avro.parse_schema(readable(written.schema), named)


def _expanded(written: WrittenSchema) -> Any:
    """Return a schema with the types that it names in place of their names."""
    named: dict[str, Any] = {}
    expand = require("fastavro.schema", "avro").expand_schema
    for reference in written.references:
        avro.parse_schema(reference, named)
    return expand(avro.parse_schema(written.schema, named, expand=False))


def _read_values(
    values: pa.Array,
    chosen: np.ndarray,
    read: ReadDatum,
    rows: list[Any],
    faults: Faults,
) -> None:
    """Read the values of some rows into `rows`, or add their faults."""
    places = rows_of_arrow(values)
    file = io.BytesIO(places.data.data)
    begins, ends = places.begins[chosen].tolist(), places.ends[chosen].tolist()
    seek, tell = file.seek, file.tell
    for row, begin, end in zip(chosen.tolist(), begins, ends, strict=True):
        seek(begin)
        try:
            value = read(file)
        # The library raises what Python does at what it meets.
        except Exception as error:
            faults[row] = f"{type(error).__name__}: {error}"[:SHOWN]
            continue
        if tell() == end:
            rows[row] = value
        else:
            size = tell() - begin
            faults[row] = f"expected a value of {end - begin} bytes, found {size}"


def _to_arrow(rows: list[Any], kind: pa.DataType, faults: Faults) -> pa.Array:
    """Return rows as an array; a row that is not of its type is null, and a fault."""
    try:
        return pa.array(rows, kind)
    except (pa.ArrowException, ArithmeticError, ValueError, TypeError):
        for i, row in enumerate(rows):
            try:
                pa.array([row], kind)
            except (pa.ArrowException, ArithmeticError, ValueError, TypeError) as error:
                faults[i] = str(error)[:SHOWN]
                rows[i] = None
        return pa.array(rows, kind)
