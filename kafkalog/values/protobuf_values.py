"""Protobuf values as columns of Arrow: protobuf parses them, and fields become columns.

The messages of a block are parsed first, and then read field by field, so that each
field is one loop over all messages.

| Protobuf | Arrow |
|---|---|
| numbers, ``bool``, ``string``, ``bytes`` | the same |
| ``enum`` | ``string``: its name, or the number of a value without a name |
| a message | ``struct``, null where it is missing |
| ``repeated``, ``map`` | ``list``, ``map`` |
| ``google.protobuf.Timestamp`` | ``timestamp[us]`` in UTC; what is below is cut |
| ``google.protobuf.StringValue`` and the like | their value, null where it is missing |
| ``google.protobuf.Struct``, ``Value``, ``ListValue``, ``Any`` | ``string``: JSON |

A field with presence (``optional``, or in a ``oneof``) is null where it is missing; any
other has its default value.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from kafkalog.errors import ConfigError
from kafkalog.optional_packages import require
from kafkalog.values.schema_headers import message_indexes, payloads
from kafkalog.values.value_format import Faults, Sample, missing_schema, with_nulls

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

pc: Any = require("pyarrow.compute", "arrow")
pb: Any = require("google.protobuf.descriptor_pb2", "protobuf")

TYPES: Final = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "double": pa.float64(),
    "float": pa.float32(),
    "bool": pa.bool_(),
}
"""By the names of `FieldDescriptor.CPPTYPE_*`; strings and bytes are one of these."""
CPP_TYPES: Final = (
    *("", "int32", "int64", "uint32", "uint64", "double", "float", "bool"),
    *("enum", "string", "message"),
)
BYTES_TYPE: Final = 12
"""`FieldDescriptor.TYPE_BYTES`."""
TIMESTAMP: Final = "google.protobuf.Timestamp"
AS_JSON: Final = tuple(
    f"google.protobuf.{name}" for name in ("Struct", "Value", "ListValue", "Any")
)
WRAPPERS: Final = tuple(
    f"google.protobuf.{name}Value"
    for name in (
        *("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String"),
        "Bytes",
    )
)
POOL: Final = 1000
"""Messages that are parsed before their fields are read."""
INVALID_INDEXES: Final = "expected message indexes after the magic byte 0"

Column = Callable[[Sequence[Any]], pa.Array]
"""Returns values of a field as an array; none is None."""


class ProtobufFormat:
    """Messages of one type, without a header, or with that of a schema registry.

    A value that begins with the byte 0 has a header: no message begins with it. Its
    message indexes have to be those of the type in its file.
    """

    def __init__(self, descriptor: Any) -> None:
        messages = require("google.protobuf.message_factory", "protobuf")
        made = messages.GetMessageClass(descriptor)
        self._pool = [made() for _ in range(POOL)]
        self._decode_error = require("google.protobuf.message", "protobuf").DecodeError
        self._name = descriptor.full_name
        self._file, self._path = descriptor.file, _path_of(descriptor)
        self.type, self._column = _message_column(descriptor, ())

    def decode(self, values: pa.Array) -> tuple[pa.Array, Faults]:
        """Return values of `type`; null where a value is null, or has a fault."""
        faults: Faults = {}
        framed = pc.starts_with(values, b"\0").fill_null(False)
        if pc.any(framed).as_py():
            values = self._unframed(values, framed, faults)
        rows, pieces = list[int](), [self._column([])]
        column, room = values.to_pylist(), len(self._pool)
        for begin in range(0, len(column), room):
            found = self._parse(column[begin : begin + room], begin, rows, faults)
            pieces.append(self._column(found))
        decoded = pa.concat_arrays(pieces)
        return with_nulls(decoded, np.array(rows, np.int64), len(column)), faults

    def _parse(
        self, values: list[bytes | None], first: int, rows: list[int], faults: Faults
    ) -> list[Any]:
        """Return the messages of values, and add their rows, or their faults.

        They are valid until the next call, as making messages takes longer than parsing
        them.
        """
        parsed, pool = list[Any](), iter(self._pool)
        message = next(pool)
        for row, value in enumerate(values, first):
            if value is None:
                continue
            try:
                message.ParseFromString(value)
            except self._decode_error as error:
                faults[row] = f"no {self._name}: {error}"
                continue
            rows.append(row)
            parsed.append(message)
            message = next(pool, None)
        return parsed

    def _unframed(self, values: pa.Array, framed: pa.Array, faults: Faults) -> pa.Array:
        """Return values without headers; null if it is not that of the type."""
        paths = message_indexes(values)
        wrong = framed.to_numpy(zero_copy_only=False) & ~_are_equal(paths, self._path)
        for row in np.flatnonzero(wrong).tolist():
            path = paths[row].as_py()
            faults[row] = INVALID_INDEXES
            if path is not None:
                found = type_at(self._file, path)
                name = "no type of the file" if found is None else found.full_name
                faults[row] = f"expected a {self._name}, found {name}"
        rest = pc.if_else(framed, payloads(values, protobuf=True), values)
        return pc.if_else(pa.array(wrong), pa.scalar(None, pa.binary()), rest)


def _are_equal(paths: pa.Array, path: list[int]) -> npt.NDArray[np.bool_]:
    """Return whether each list is `path`, which is not empty."""
    starts = paths.offsets.to_numpy()[:-1]
    equal: npt.NDArray[np.bool_] = np.diff(paths.offsets.to_numpy()) == len(path)
    found = paths.values.to_numpy()[starts[equal][:, np.newaxis] + np.arange(len(path))]
    equal[equal] = (found == path).all(axis=1)
    return equal


def protobuf_format(
    sample: Sample, schemas: str | os.PathLike[str] | bytes | None, schema: str | None
) -> ProtobufFormat:
    """Return the format of a message type, by name or by the first value's indexes."""
    if schemas is None:
        raise ValueError(
            "protobuf without schemas, expected a descriptor set, which protoc writes "
            "with --descriptor_set_out and --include_imports"
        )
    pool, last = _read_descriptors(schemas)
    if schema is not None:
        try:
            return ProtobufFormat(pool.FindMessageTypeByName(schema))
        except KeyError:
            some = ", ".join(sorted(last.message_types_by_name))
            raise ValueError(
                f"no message type {schema!r}, expected one of the descriptor set, such "
                f"as {some}, with its package"
            ) from None
    for values in sample.values():
        for path in message_indexes(values).drop_null()[:1].to_pylist():
            found = type_at(last, path)
            if found is not None:
                return ProtobufFormat(found)
    if len(last.message_types_by_name) == 1:
        return ProtobufFormat(*last.message_types_by_name.values())
    raise missing_schema(sample.name, "schema, the name of a message type")


def _read_descriptors(schemas: str | os.PathLike[str] | bytes) -> tuple[Any, Any]:
    """Return a pool with the types of a descriptor set, and its last file."""
    if isinstance(schemas, bytes):
        data, place = schemas, "descriptors"
    elif isinstance(schemas, (str, os.PathLike)):
        data, place = Path(schemas).read_bytes(), str(schemas)
    else:
        raise TypeError(
            f"schemas of type {type(schemas).__name__}, expected the file of a "
            "descriptor set, or its bytes"
        )
    pools = require("google.protobuf.descriptor_pool", "protobuf")
    errors = require("google.protobuf.message", "protobuf")
    try:
        files = pb.FileDescriptorSet.FromString(data).file
    except errors.DecodeError as error:
        raise ValueError(f"expected a descriptor set: {place}: {error}") from None
    if not files:
        raise ValueError(f"expected a descriptor set with a file: {place}")
    pool = pools.DescriptorPool()
    for file in files:
        try:
            pool.Add(file)
        except TypeError as error:
            raise ValueError(
                f"expected a descriptor set with all imports: {place}: {error}"
            ) from None
    return pool, pool.FindFileByName(files[-1].name)


def _path_of(descriptor: Any) -> list[int]:
    """Return the message indexes of a type."""
    above = descriptor.containing_type
    if above is None:
        types = descriptor.file.message_types_by_name.values()
        return [list(types).index(descriptor)]
    return [*_path_of(above), list(above.nested_types).index(descriptor)]


def type_at(file: Any, path: list[int]) -> Any:
    """Return the message type at message indexes, None if there is none."""
    found, types = None, list(file.message_types_by_name.values())
    for index in path:
        if not 0 <= index < len(types):
            return None
        found = types[index]
        types = list(found.nested_types)
    return found


# ------------------------------------------------------------------------- columns


def _message_column(
    descriptor: Any, above: tuple[str, ...]
) -> tuple[pa.DataType, Column]:
    """Return the type of messages as an array, and what makes one of them."""
    name = descriptor.full_name
    if name == TIMESTAMP:
        return pa.timestamp("us", tz="UTC"), _timestamps
    if name in AS_JSON:
        return pa.string(), _json_texts
    if name in WRAPPERS:
        kind, column = _value_column(descriptor.fields_by_name["value"], above)
        return kind, lambda messages: column([one.value for one in messages])
    if name in above:
        raise ConfigError(
            f"the type {name} contains itself, which columns cannot: expected schema, "
            "one without it"
        )
    fields, columns = [], []
    for one in descriptor.fields:
        kind, column = _field_column(one, (*above, name))
        fields.append(pa.field(one.name, kind))
        columns.append(column)

    def struct(messages: Sequence[Any]) -> pa.Array:
        if not fields:
            return pa.array([{}] * len(messages), pa.struct([]))
        arrays = [column(messages) for column in columns]
        return pa.StructArray.from_arrays(arrays, fields=fields)

    return pa.struct(fields), struct


def _field_column(field: Any, above: tuple[str, ...]) -> tuple[pa.DataType, Column]:
    """Return the type of a field of messages as an array, and what makes one."""
    get = attrgetter(field.name)
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        parts = [_value_column(part, above) for part in message.fields]
        return _map_column(get, *parts)
    kind, column = _value_column(field, above)
    if field.is_repeated:
        return pa.list_(kind), _list_column(get, kind, column)
    if not field.has_presence:
        return kind, lambda messages: column(list(map(get, messages)))
    name = field.name

    def optional(messages: Sequence[Any]) -> pa.Array:
        kept = [i for i, one in enumerate(messages) if one.HasField(name)]
        values = column([get(messages[i]) for i in kept])
        return with_nulls(values, np.array(kept, np.int64), len(messages))

    return kind, optional


def _value_column(field: Any, above: tuple[str, ...]) -> tuple[pa.DataType, Column]:
    """Return the type of a field's values, and what makes an array of them."""
    cpp_type = CPP_TYPES[field.cpp_type]
    if cpp_type == "message":
        return _message_column(field.message_type, above)
    if cpp_type == "enum":
        names = {one.number: one.name for one in field.enum_type.values}
        return pa.string(), lambda numbers: pa.array(
            [names.get(number) or str(number) for number in numbers], pa.string()
        )
    if cpp_type == "string":
        kind = pa.binary() if field.type == BYTES_TYPE else pa.string()
    else:
        kind = TYPES[cpp_type]
    return kind, lambda values: pa.array(values, kind)


def _ends(lists: Sequence[Any]) -> pa.Array:
    """Return n + 1 offsets of lists."""
    ends = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(list(map(len, lists)), out=ends[1:])
    return pa.array(ends)


def _list_column(
    get: Callable[[Any], Any], kind: pa.DataType, column: Column
) -> Column:
    def lists(messages: Sequence[Any]) -> pa.Array:
        found = list(map(get, messages))
        items = list(chain.from_iterable(found))
        return pa.ListArray.from_arrays(_ends(found), column(items), pa.list_(kind))

    return lists


def _map_column(
    get: Callable[[Any], Any],
    key: tuple[pa.DataType, Column],
    value: tuple[pa.DataType, Column],
) -> tuple[pa.DataType, Column]:
    kind = pa.map_(key[0], value[0])

    def maps(messages: Sequence[Any]) -> pa.Array:
        found = list(map(get, messages))
        keys = list(chain.from_iterable(found))
        values = [one[name] for one in found for name in one]
        return pa.MapArray.from_arrays(
            _ends(found), key[1](keys), value[1](values), kind
        )

    return kind, maps


def _timestamps(messages: Sequence[Any]) -> pa.Array:
    micros = [one.seconds * 1_000_000 + one.nanos // 1000 for one in messages]
    return pa.array(micros, pa.timestamp("us", tz="UTC"))


def _json_texts(messages: Sequence[Any]) -> pa.Array:
    to_json = require("google.protobuf.json_format", "protobuf").MessageToJson
    return pa.array([to_json(one, indent=None) for one in messages], pa.string())
