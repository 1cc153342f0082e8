"""Keys and values as typed columns: of a table, or of a stream as it is read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Literal, TypedDict, get_args

from kafkalog.errors import InvalidValueError
from kafkalog.optional_packages import require
from kafkalog.query.scan import Scan, warn_of_internal, without_internal

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkalog.values.value_format import Faults, Sample, ValueFormat

Format = Literal["json", "avro", "protobuf"]
OnFault = Literal["raise", "column"]
FORMATS: Final = get_args(Format)
COLUMNS: Final = ("key", "value")
PLACE: Final = ("topic", "partition", "offset")
"""Columns that an error about a value names."""
BLOCK_ROWS: Final = 1 << 16
BLOCK_BYTES: Final = 16 << 20
"""Values of a block that is decoded at once."""
INFERRED_FROM: Final = 10_000


def decode(
    source: Any,
    format: Format,
    *,
    schemas: Any = None,
    schema: Any = None,
    column: str | Iterable[str] = "value",
    errors: OnFault = "raise",
    flatten: bool = False,
    infer_schema_length: int = INFERRED_FROM,
) -> Any:
    r"""Return a table or a stream with keys or values as typed columns.

    The other columns stay as they are. A header of a schema registry is skipped. Of a
    log directory, Kafka's internal topics are read only if they are named.

    Parameters
    ----------
    source : Scan, pyarrow.Table, pyarrow.RecordBatchReader, or any Arrow stream
        Records. Of a table the result is a table. Of all others it is a stream, which
        is decoded as it is read, in blocks of at most 16 MiB.
    format : {"json", "avro", "protobuf"}
        The format of the values. Avro needs the extra ``avro``, Protobuf the extra
        ``protobuf``.
    schemas : path, URL, mapping or bytes, optional
        Avro: the schemas that values were written with, by the id in their header. A
        directory with a file ``<id>.avsc`` for each; the ``http://`` or ``https://``
        URL of a schema registry, which may have ``USER:PASSWORD@``; or a mapping of ids
        to schemas. Without it, values have no header and were written with `schema`.
        Protobuf: a descriptor set with all imports, as a file or as bytes.
    schema : optional
        The schema of the result. JSON: an Arrow schema or type; by default it is
        inferred from the first values. Avro: a schema to which the values are resolved,
        as a dictionary, JSON text or a ``pathlib.Path``; by default the newest version
        of the first value's schema, which is the latest one of its subject in a
        registry, and elsewhere the one of the same name with the greatest id. Protobuf:
        the full name of the message type; by default that of the first value.
    column : str or iterable of str
        The columns to decode: ``"value"``, ``"key"``, or both.
    errors : {"raise", "column"}
        What is done about a value that cannot be decoded. With ``"column"`` it is null,
        and a column ``value_error`` (or ``key_error``) has a struct of the ``reason``
        and the ``bytes``, null for all others.
    flatten : bool
        Whether the members of a value become columns, in place of the column itself. A
        name that is taken gets the column's name in front, such as ``value_offset``.
    infer_schema_length : int
        Number of values from which a schema is inferred for JSON.

    Returns
    -------
    pyarrow.Table or pyarrow.RecordBatchReader
        The records, in the same order.

    Raises
    ------
    InvalidValueError
        If a value cannot be decoded, with its topic, partition and offset; of a stream,
        when it is read.
    ConfigError
        If a schema has no type in Arrow, as one that contains itself.
    TypeError, ValueError
        If an argument is invalid, or no schema can be found for the values.
    MissingDependencyError
        If a package is not installed.

    Warns
    -----
    InternalTopicsWarning
        If a log directory has internal topics that are not read.

    Examples
    --------
    >>> import kafkalog
    >>> batch = kafkalog.RecordBatchBuilder(base_offset=7)
    >>> batch.append(b"k", b'{"id": 1, "tags": ["a", "b"]}', timestamp=1)
    >>> batch.append(b"k", b"ping", timestamp=1)
    >>> scan = kafkalog.scan(batch.build(), columns=["offset", "value"])
    >>> table = kafkalog.values.decode(scan, "json", errors="column").read_all()
    >>> table["value"].to_pylist()
    [{'id': 1, 'tags': ['a', 'b']}, None]
    >>> table["value_error"][1].as_py()
    {'reason': 'JSON parse error: Invalid value.', 'bytes': b'ping'}
    """
    pa = require("pyarrow", "arrow")
    names = (column,) if isinstance(column, str) else tuple(column)
    request = DecodeOptions(
        formats=dict.fromkeys(names, format),
        schemas=schemas,
        schema=schema,
        errors=errors,
        flatten=flatten,
        infer_schema_length=infer_schema_length,
    )
    hidden: tuple[str, ...] = ()
    if isinstance(source, Scan):
        request.check(source.columns)
        _, left_out = without_internal(source)
        warn_of_internal(left_out)
        hidden = tuple(name for name in PLACE if name not in source.columns)
        read, batches = _open_scan(source, hidden)
    else:
        stream = _stream_of(source)
        read, batches = stream.schema, iter(stream)
        request.check(read.names)
    decoder, batches = request.prepare(read, batches, hidden)
    decoded = decoder.stream(batches)
    if isinstance(source, pa.Table):
        return pa.Table.from_batches(decoded, decoder.schema)
    from kafkalog.export.batch_streams import stream_of

    return stream_of(decoder.schema, decoded)


class DecodeArguments(TypedDict, total=False):
    """The options of `decode` where keys and values each may have a format."""

    key_format: str | None
    value_format: str | None
    schemas: Any
    schema: Any
    errors: OnFault
    flatten: bool


def read_options(
    *, key_format: str | None = None, value_format: str | None = None, **others: Any
) -> DecodeOptions | None:
    """Return how columns are decoded, None if neither has a format.

    >>> read_options(value_format="avro", schemas="schemas").formats
    {'value': 'avro'}
    """
    given = {"key": key_format, "value": value_format}
    formats = {name: form for name, form in given.items() if form is not None}
    if formats:
        return DecodeOptions(formats=formats, **others)
    if others:
        raise ValueError(f"{min(others)}, expected with key_format or value_format")
    return None


def decoder_of(scan: Scan, options: DecodeOptions) -> ValueDecoder:
    """Return the decoder of a scan, from whose first records schemas are found.

    Its batches have to have the columns of the scan, and may have more.
    """
    options.check(scan.columns)
    read, batches = _open_scan(scan, ())
    decoder, _ = options.prepare(read, batches)
    return decoder


def _open_scan(scan: Scan, more: tuple[str, ...]) -> tuple[pa.Schema, Iterator[Any]]:
    """Return the schema and the batches of a scan with more columns."""
    from kafkalog.export.arrow import to_batches

    kept, _ = without_internal(scan)
    placed = replace(kept, columns=(*scan.columns, *more))

    def batches() -> Iterator[Any]:
        for batch in to_batches(placed):
            scan.problems = placed.problems
            yield batch
        scan.problems = placed.problems

    return placed.schema, batches()


def _stream_of(source: Any) -> Any:
    """Return a table or a stream of Arrow as a ``RecordBatchReader``."""
    pa = require("pyarrow", "arrow")
    if isinstance(source, pa.Table):
        return source.to_reader()
    if isinstance(source, pa.RecordBatchReader):
        return source
    if not hasattr(source, "__arrow_c_stream__"):
        raise TypeError(
            f"source of type {type(source).__name__}, expected a Scan, a table or a "
            "stream of Arrow"
        )
    return pa.RecordBatchReader.from_stream(source)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeOptions:
    """How columns are decoded: the format of each, and what `decode` takes.

    >>> DecodeOptions(formats={"value": "xml"}).check(["value"])
    Traceback (most recent call last):
    ValueError: format 'xml', expected one of json, avro, protobuf
    """

    formats: Mapping[str, str]
    schemas: Any = None
    schema: Any = None
    errors: str = "raise"
    flatten: bool = False
    infer_schema_length: int = INFERRED_FROM

    def check(self, columns: Sequence[str]) -> None:
        """Raise an error for invalid options, or a column that is not there."""
        for name, format in self.formats.items():
            if name not in COLUMNS:
                raise ValueError(f"column {name!r}, expected key or value")
            if name not in columns:
                raise ValueError(f"no column {name}, expected it in the source")
            _check_word("format", format, FORMATS)
        _check_word("errors", self.errors, get_args(OnFault))
        if self.infer_schema_length < 1:
            raise ValueError(
                f"infer_schema_length {self.infer_schema_length}, expected 1 or more"
            )

    def prepare(
        self, schema: pa.Schema, batches: Iterator[Any], hidden: Sequence[str] = ()
    ) -> tuple[ValueDecoder, Iterator[Any]]:
        """Return the decoder of a stream, and its batches with those read for it.

        Batches are read only as far as they are needed to find a schema. The decoder
        leaves out the columns `hidden`.
        """
        from kafkalog.values.value_format import Sample

        for name in self.formats:
            _check_bytes(name, schema.field(name).type)
        held: list[Any] = []

        def again() -> Iterator[Any]:
            return chain(tuple(held), _holding(batches, held))

        formats = {
            name: self._make(format, Sample(name, again()))
            for name, format in self.formats.items()
        }
        return ValueDecoder(self, schema, formats, hidden), chain(held, batches)

    def _make(self, format: str, sample: Sample) -> ValueFormat:
        if format == "json":
            from kafkalog.values.json_values import json_format

            return json_format(sample, self.schema, self.infer_schema_length)
        if format == "protobuf":
            from kafkalog.values.protobuf_values import protobuf_format

            return protobuf_format(sample, self.schemas, self.schema)
        from kafkalog.values.avro_values import avro_format

        return avro_format(sample, self.schemas, self.schema)


def _check_word(name: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        raise ValueError(f"{name} {value!r}, expected one of {', '.join(known)}")


def _holding(batches: Iterator[Any], held: list[Any]) -> Iterator[Any]:
    """Yield batches, and add each to `held` before."""
    for batch in batches:
        held.append(batch)
        yield batch


def _check_bytes(name: str, kind: pa.DataType) -> None:
    pa = require("pyarrow", "arrow")
    types = pa.types
    is_bytes = types.is_binary(kind) or types.is_large_binary(kind)
    is_text = types.is_string(kind) or types.is_large_string(kind)
    is_view = types.is_binary_view(kind) or types.is_string_view(kind)
    if not (is_bytes or is_text or is_view):
        raise TypeError(f"{name} of type {kind}, expected bytes or text")


class ValueDecoder:
    """Decodes columns of record batches, each with its format.

    `schema` is that of the decoded batches.
    """

    def __init__(
        self,
        options: DecodeOptions,
        read: pa.Schema,
        formats: Mapping[str, ValueFormat],
        hidden: Sequence[str],
    ) -> None:
        self._options, self._formats, self._hidden = options, formats, hidden
        pa = require("pyarrow", "arrow")
        fields: list[Any] = []
        for field in read:
            format = formats.get(field.name)
            if format is None:
                fields += [field] * (field.name not in hidden)
            else:
                taken = {*read.names, *(one.name for one in fields)} - {field.name}
                fields += self._fields(field.name, format.type, taken)
        self.schema = pa.schema(fields)

    def _fields(self, name: str, kind: Any, taken: set[str]) -> list[Any]:
        """Return the fields of a decoded column."""
        pa = require("pyarrow", "arrow")
        fields = [pa.field(name, kind)]
        if self._options.flatten and pa.types.is_struct(kind):
            fields = [
                one.with_name(f"{name}_{one.name}") if one.name in taken else one
                for one in kind
            ]
        if self._options.errors == "column":
            fields.append(pa.field(f"{name}_error", _error_type()))
        return fields

    def stream(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Yield decoded batches. Raise `InvalidValueError` as `decode` does."""
        row = 0
        for batch in batches:
            for block in _blocks(batch, tuple(self._formats)):
                yield self.decode(block, row)
                row += len(block)

    def values(self, batch: pa.RecordBatch) -> Iterator[tuple[str, Any, Faults]]:
        """Yield the name, the values and the faults of each decoded column."""
        pa = require("pyarrow", "arrow")
        for name, format in self._formats.items():
            array = batch[name]
            values = array if array.type == pa.binary() else array.cast(pa.binary())
            yield name, *format.decode(values)

    def decode(self, batch: pa.RecordBatch, first_row: int = 0) -> pa.RecordBatch:
        """Return a decoded batch, whose first row is `first_row` of its stream.

        Raises `InvalidValueError`, unless errors go to a column.
        """
        pa = require("pyarrow", "arrow")
        found = {name: (values, faults) for name, values, faults in self.values(batch)}
        arrays: list[Any] = []
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            if name not in found:
                arrays += [array] * (name not in self._hidden)
                continue
            decoded, faults = found[name]
            if self._options.flatten and pa.types.is_struct(decoded.type):
                arrays += decoded.flatten()
            else:
                arrays.append(decoded)
            if self._options.errors == "column":
                arrays.append(_error_column(array, faults))
            elif faults:
                row = min(faults)
                raise self._invalid(
                    name, faults[row], batch.slice(row, 1), first_row + row
                )
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _invalid(
        self, name: str, reason: str, record: pa.RecordBatch, row: int
    ) -> InvalidValueError:
        """Return the error about the value of a record, the only one of its batch."""
        [found] = record.select(
            [one for one in PLACE if one in record.schema.names]
        ).to_pylist()
        topic, partition = found.get("topic") or "", found.get("partition", -1)
        offset = found.get("offset", -1)
        place = f"row {row}" if offset < 0 else f"offset {offset}"
        if topic:
            place = f"{topic}-{partition} at {place}"
        format = self._options.formats[name]
        error = InvalidValueError(
            f"expected {format} in the {name}: {reason}: {place}",
            column=name,
            topic=topic,
            partition=partition,
            offset=offset,
        )
        error.add_note('with errors="column", such values go to a column of their own')
        return error


def _blocks(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts, each small enough to be decoded at once."""
    size = sum(batch[name].nbytes for name in names)
    parts = max(size // BLOCK_BYTES, 1)
    rows = max(min(BLOCK_ROWS, len(batch) // parts), 1)
    for begin in range(0, len(batch), rows):
        yield batch.slice(begin, rows)


def _error_type() -> pa.DataType:
    pa = require("pyarrow", "arrow")
    return pa.struct([("reason", pa.string()), ("bytes", pa.binary())])


def _error_column(values: pa.Array, faults: Mapping[int, str]) -> pa.Array:
    """Return the reasons and bytes of values that have a fault, null for all others."""
    pa = require("pyarrow", "arrow")
    if not faults:
        return pa.nulls(len(values), _error_type())
    rows: list[Any] = [None] * len(values)
    for row, reason in faults.items():
        value = values[row].cast(pa.binary()).as_py()
        rows[row] = {"reason": reason, "bytes": value}
    return pa.array(rows, _error_type())
