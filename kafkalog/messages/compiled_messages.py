"""Readers and writers of one version of a message, generated as Python on first use.

A server decodes a request and encodes a response for each exchange, most of them small.
Generated functions know the fields, and take a third of the time of
`MessageReader` and `MessageWriter`, which look at the schema for each value.

A generated reader knows messages that are valid and have no tagged field, as nearly all
requests. It gives any other to `Schema.decode`, which reads it, or raises the error.
So both accept the same bytes, and there is one text for each error.

A generated writer fills in the default of a field that is missing, and leaves out those
that the version does not have: the caller makes one message for all versions. Records
may be a `FileRange`, of which only the size is written; the caller sends its bytes.

Source: ``MessageDataGenerator.java``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from struct import Struct, error
from typing import Any, Final, Protocol, Self

from kafkalog.messages.message import Schema
from kafkalog.messages.message_reader import MAX_STRING_BYTES
from kafkalog.messages.schema import (
    FIXED_WIDTH,
    UNKNOWN_TAGS,
    Array,
    Field,
    FieldType,
    Message,
)
from kafkalog.text.uuid_text import uuid_from_text, uuid_to_text

ReadMessage = Callable[[bytes, int, int], tuple[Message, int]]
WriteMessage = Callable[[Mapping[str, Any], bytearray, "Ranges"], None]

LAYOUTS: Final = {name: code[1:] for name, code in FIXED_WIDTH.items()} | {
    "uuid": "16s"
}
"""Formats in `struct` of the types of a fixed size."""

RAISED: Final = (error, IndexError, UnicodeDecodeError)
"""Errors of a generated reader at bytes that end early, or are no UTF-8."""


class FileRange(Protocol):
    """Bytes that are sent from elsewhere: only their number is needed here."""

    size: int


Ranges = list[tuple[int, FileRange]]
"""Ranges of files, and the positions in a message before which their bytes belong."""


class NotPlainError(Exception):
    """The message is left to the general decoder."""


@dataclass(frozen=True, slots=True)
class MessageCodec:
    r"""Reads and writes one version of a message.

    >>> point = Schema(
    ...     "Point", (Field("x", "int16"), Field("y", "int16", since=1)), 0, 1
    ... )
    >>> old, new = MessageCodec.of(point, 0), MessageCodec.of(point, 1)
    >>> old.decode(b"\0\7")
    ({'x': 7}, 2)
    >>> old.encode({"x": 7, "y": 1})[0].hex(), new.encode({"x": 7})[0].hex()
    ('0007', '00070000')
    """

    schema: Schema
    version: int
    read: ReadMessage
    write: WriteMessage

    @classmethod
    def of(cls, schema: Schema, version: int) -> Self:
        """Generate the two functions for a version of a message."""
        return cls(
            schema, version, reader_of(schema, version), writer_of(schema, version)
        )

    def decode(self, data: bytes, position: int = 0) -> tuple[Message, int]:
        """Decode a message as `Schema.decode` does, with the same errors."""
        try:
            return self.read(data, position, len(data))
        except (NotPlainError, *RAISED):
            return self.schema.decode(data, self.version, position)

    def encode(self, message: Mapping[str, Any]) -> tuple[bytearray, Ranges]:
        """Return a message, encoded, and the ranges of files that belong into it.

        The message is not checked: a value of a wrong type raises any error.
        """
        out, ranges = bytearray(), Ranges()
        self.write(message, out, ranges)
        return out, ranges


def reader_of(schema: Schema, version: int) -> ReadMessage:
    """Return a function that reads a message: of (bytes, position, end of the bytes).

    It raises `NotPlainError`, or one of `RAISED`, for a message that is not plain.
    """
    source = _Source(version, schema.flexible_since <= version)
    read: ReadMessage = source.compiled(_struct_reader(source, schema.fields))
    return read


def writer_of(schema: Schema, version: int) -> WriteMessage:
    """Return a function that writes a message: of (message, bytearray, ranges)."""
    source = _Source(version, schema.flexible_since <= version)
    write: WriteMessage = source.compiled(_struct_writer(source, schema.fields))
    return write


@dataclass(slots=True)
class _Source:
    """Generated functions, with the names that they use."""

    version: int
    flexible: bool
    names: dict[str, Any] = field(default_factory=dict)
    functions: list[str] = field(default_factory=list)

    def name(self, value: Any) -> str:
        """Return a name for a value that generated code uses."""
        name = f"c{len(self.names)}"
        self.names[name] = value
        return name

    def function(self, parameters: str, lines: Iterable[str]) -> str:
        """Add a function; return its name."""
        name = f"f{len(self.functions)}"
        body = "\n    ".join(lines)
        self.functions.append(f"def {name}({parameters}):\n    {body}\n")
        return name

    def compiled(self, name: str) -> Any:
        """Compile all functions, and return one of them."""
        names = {
            **self.names,
            "NotPlainError": NotPlainError,
            "Struct": Struct,
            "read_varint": _read_varint,
            "write_varint": _write_varint,
            "write_tags": _write_tags,
            "uuid_from_text": uuid_from_text,
            "uuid_to_text": uuid_to_text,
        }
        exec("\n".join(self.functions), names)  # made of schemas of Kafka alone
        return names[name]

    def is_fixed(self, schema_field: Field) -> bool:
        """Return whether a field has a fixed size."""
        return isinstance(schema_field.type, str) and schema_field.type in LAYOUTS


def _fields_of(source: _Source, fields: tuple[Field, ...]) -> list[Field]:
    here = (item for item in fields if item.tag is None)
    return [item for item in here if item.exists(source.version)]


# --- readers ------------------------------------------------------------------------


def _struct_reader(source: _Source, fields: tuple[Field, ...]) -> str:
    """Add a function that reads a struct; return its name."""
    lines: list[str] = []
    names: dict[str, str] = {}
    here = _fields_of(source, fields)
    for is_fixed, run in groupby(here, source.is_fixed):
        if is_fixed:
            lines += _read_fixed(source, [*run], names)
            continue
        for item in run:
            names[item.name] = f"v{len(names)}"
            lines += _read_field(source, item, names[item.name])
    if source.flexible:
        lines += ["if data[at]: raise NotPlainError", "at += 1"]
    members = ", ".join(f"{name!r}: {value}" for name, value in names.items())
    lines.append(f"return {{{members}}}, at")
    return source.function("data, at, end", lines)


def _read_fixed(
    source: _Source, fields: list[Field], names: dict[str, str]
) -> Iterable[str]:
    layout = Struct(">" + "".join(LAYOUTS[str(item.type)] for item in fields))
    unpack = source.name(layout.unpack_from)
    targets = [f"v{len(names) + i}" for i in range(len(fields))]
    yield f"{', '.join(targets)}, = {unpack}(data, at)"
    yield f"at += {layout.size}"
    for item, target in zip(fields, targets, strict=True):
        names[item.name] = target
        if item.type == "uuid":
            yield f"{target} = uuid_to_text({target})"


def _read_field(source: _Source, item: Field, target: str) -> Iterable[str]:
    nullable = item.nullable(source.version)
    flexible = source.flexible and not item.is_classic
    if isinstance(item.type, tuple):
        read = f"{target}, at = {_struct_reader(source, item.type)}(data, at, end)"
        if not nullable:
            yield read
            return
        yield "n = data[at]; at += 1"
        yield f"if n > 127: {target} = None"
        yield f"else: {read}"
        return
    of = item.type.of if isinstance(item.type, Array) else None
    yield from _read_length(
        "int16" if item.type == "string" else "int32", source, flexible
    )
    yield "if n < 0:"
    yield f"    {target} = None" if nullable else "    raise NotPlainError"
    yield "elif n > end - at: raise NotPlainError"
    if of is not None:
        yield "else:"
        yield from (f"    {line}" for line in _read_elements(source, of, target))
        return
    if item.type == "string":
        yield f"elif n > {MAX_STRING_BYTES}: raise NotPlainError"
    decoded = ".decode()" if item.type == "string" else ""
    yield f"else: {target} = data[at:at + n]{decoded}; at += n"


def _read_length(classic: str, source: _Source, flexible: bool) -> Iterable[str]:
    """Yield lines that read a length or count into `n`; below zero it is null."""
    if flexible:
        yield "n = data[at] - 1; at += 1"
        yield "if n > 126: n, at = read_varint(data, at - 1)"
        return
    layout = Struct(FIXED_WIDTH[classic])
    yield f"n, = {source.name(layout.unpack_from)}(data, at); at += {layout.size}"


def _read_elements(source: _Source, of: FieldType, target: str) -> Iterable[str]:
    """Yield lines that read `n` elements into a list."""
    if isinstance(of, str) and of in FIXED_WIDTH:
        layout = Struct(FIXED_WIDTH[of])
        yield f"if n * {layout.size} > end - at: raise NotPlainError"
        yield f"{target} = [*Struct(f'>{{n}}{LAYOUTS[of]}').unpack_from(data, at)]"
        yield f"at += n * {layout.size}"
        return
    element = Field("element", of)
    inner = f"{target}e"
    yield f"{target} = []"
    yield f"for {target}i in range(n):"
    lines: Iterable[str]
    if of == "uuid":
        lines = [
            "if end - at < 16: raise NotPlainError",
            f"{inner} = uuid_to_text(data[at:at + 16]); at += 16",
        ]
    else:
        lines = _read_field(source, element, inner)
    yield from (f"    {line}" for line in lines)
    yield f"    {target}.append({inner})"


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Read a length of more than one byte; return it and the position after it."""
    value = 0
    for i in range(5):
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if not 0 < value < 1 << 31:
                break
            return value - 1, at + i + 1
    raise NotPlainError


# --- writers ------------------------------------------------------------------------


def _struct_writer(source: _Source, fields: tuple[Field, ...]) -> str:
    """Add a function that writes a struct; return its name."""
    lines: list[str] = []
    for is_fixed, run in groupby(_fields_of(source, fields), source.is_fixed):
        if is_fixed:
            lines.append(_write_fixed(source, [*run]))
            continue
        for item in run:
            lines.append(f"v = {_value(source, item)}")
            lines += _write_field(source, item)
    if source.flexible:
        lines += _write_tagged(source, fields)
    return source.function("m, out, ranges", lines or ["pass"])


def _value(source: _Source, item: Field) -> str:
    default: Any = {}
    if not isinstance(item.type, tuple) or item.default is None:
        default = item.default_in(source.version)
    return f"m.get({item.name!r}, {source.name(default)})"


def _write_fixed(source: _Source, fields: list[Field]) -> str:
    layout = Struct(">" + "".join(LAYOUTS[str(item.type)] for item in fields))
    values = (
        f"uuid_from_text({_value(source, item)})"
        if item.type == "uuid"
        else _value(source, item)
        for item in fields
    )
    return f"out += {source.name(layout.pack)}({', '.join(values)})"


def _write_field(source: _Source, item: Field) -> Iterable[str]:
    """Yield lines that write `v`, a value that has no fixed size."""
    nullable = item.nullable(source.version)
    flexible = source.flexible and not item.is_classic
    if isinstance(item.type, tuple):
        write = f"{_struct_writer(source, item.type)}(v, out, ranges)"
        if not nullable:
            yield write
            return
        yield r"if v is None: out += b'\xff'"
        yield rf"else: out += b'\1'; {write}"
        return
    classic = "int16" if item.type == "string" else "int32"
    if nullable:
        null = b"\0" if flexible else Struct(FIXED_WIDTH[classic]).pack(-1)
        yield f"if v is None: out += {null!r}"
        yield "else:"
        yield from (f"    {line}" for line in _write_sized(source, item, flexible))
        return
    yield from _write_sized(source, item, flexible)


def _write_sized(source: _Source, item: Field, flexible: bool) -> Iterable[str]:
    classic = "int16" if item.type == "string" else "int32"
    if item.type == "string":
        yield "v = v.encode()"
    size = "len(v)"
    if item.type == "records":
        size = "(len(v) if type(v) is bytes else v.size)"
    if flexible:
        yield f"n = {size} + 1"
        yield "if n < 128: out.append(n)"
        yield "else: write_varint(out, n)"
    else:
        pack = source.name(Struct(FIXED_WIDTH[classic]).pack)
        yield f"out += {pack}({size})"
    if not isinstance(item.type, Array):
        if item.type == "records":
            yield "if type(v) is not bytes: ranges.append((len(out), v))"
            yield "else: out += v"
        else:
            yield "out += v"
        return
    of = item.type.of
    if isinstance(of, str) and of in FIXED_WIDTH:
        yield f"out += Struct(f'>{{len(v)}}{LAYOUTS[of]}').pack(*v)"
        return
    yield "for v in v:"
    if of == "uuid":
        yield "    out += uuid_from_text(v)"
        return
    element = Field("element", of)
    yield from (f"    {line}" for line in _write_field(source, element))


def _write_tagged(source: _Source, fields: tuple[Field, ...]) -> Iterable[str]:
    """Yield lines that write the tagged fields that are not at their defaults."""
    tagged = [
        item for item in fields if item.tag is not None and item.exists(source.version)
    ]
    unknown = f"m[{UNKNOWN_TAGS!r}]"
    if not tagged:
        yield f"if {UNKNOWN_TAGS!r} in m: write_tags(out, {unknown})"
        yield "else: out.append(0)"
        return
    yield f"tags = {{**{unknown}}} if {UNKNOWN_TAGS!r} in m else {{}}"
    for item in tagged:
        default = source.name(item.default_in(source.version))
        writer = _field_writer(source, item)
        yield f"v = m.get({item.name!r}, {default})"
        yield f"if v != {default}:"
        yield f"    tags[{item.tag}] = bytearray()"
        yield f"    {writer}(v, tags[{item.tag}], ranges)"
    yield "write_tags(out, tags)"


def _field_writer(source: _Source, item: Field) -> str:
    """Add a function that writes the value of a tagged field; return its name."""
    if source.is_fixed(item):
        layout = Struct(">" + LAYOUTS[str(item.type)])
        value = "uuid_from_text(v)" if item.type == "uuid" else "v"
        lines = [f"out += {source.name(layout.pack)}({value})"]
    elif isinstance(item.type, tuple) and item.nullable(source.version):
        # In a tag the marker of a struct that may be null is a varint.
        write = f"{_struct_writer(source, item.type)}(v, out, ranges)"
        lines = [
            "if v is None: out.append(0)",
            f"else: out.append(1); {write}",
        ]
    else:
        lines = [*_write_field(source, item)]
    return source.function("v, out, ranges", lines)


def _write_tags(out: bytearray, tags: Mapping[int, bytes]) -> None:
    """Write tagged fields, in the order of their tags."""
    _write_varint(out, len(tags))
    for tag, data in sorted(tags.items()):
        _write_varint(out, tag)
        _write_varint(out, len(data))
        out += data


def _write_varint(out: bytearray, value: int) -> None:
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
