"""The types of settings: how text is parsed, and which values are valid.

Text is trimmed as Java trims it. Numbers are parsed as in Java, except for hexadecimal
doubles; ``true`` and ``false`` may be in any case, words may not; elements of a list
are separated by commas and optional blanks, and duplicates are dropped. Python values
of the right type are accepted as they are.

Source: ``ConfigDef.java``, ``CompressionType.java``,
``ThrottledReplicaListValidator.java``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, Protocol

from kafkalog.text.decimal_text import int_from_text

_BLANKS: Final = "".join(map(chr, range(33)))  # what String.trim removes
_COMMA: Final = re.compile(r"[ \t\n\v\f\r]*,[ \t\n\v\f\r]*")
_DOUBLE: Final = re.compile(
    r"([+-]?)(?:(NaN)|(Infinity)|((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[fFdD]?)",
    re.ASCII,
)
_REPLICAS: Final = re.compile(r"([0-9]+:[0-9]+)?")


class Kind(Enum):
    """A type of ``ConfigDef``, with its name in Kafka's documentation."""

    BOOLEAN = "boolean"
    INT = "int"
    LONG = "long"
    DOUBLE = "double"
    STRING = "string"
    LIST = "list"


BOOLEAN, INT, LONG, DOUBLE, STRING, LIST = Kind


class Valid(Protocol):
    """The valid values of a setting; its text is that of Kafka's documentation."""

    def fault(self, value: Any) -> str | None:
        """Return what was expected instead of `value`, or None if it is valid."""


@dataclass(frozen=True, slots=True)
class Range:
    """Numbers from `least` to `most`, inclusive; `apart` is one more valid number.

    >>> str(Range(1)), str(Range(1, 9, apart=-1))
    ('[1,...]', '[1,...,9] or -1')
    >>> Range(1).fault(0)
    'Value must be at least 1'
    """

    least: int
    most: int | None = None
    apart: int | None = None

    def fault(self, value: float) -> str | None:
        """Return the bound that `value` violates; NaN violates none."""
        low = value < self.least
        high = self.most is not None and value > self.most
        if not (low or high) or value == self.apart:
            return None
        if self.apart is not None:
            bounds = f"between {self.least} and {self.most}"
            return f"Value must be {bounds} or equal to {self.apart}"
        if low:
            return f"Value must be at least {self.least}"
        return f"Value must be no more than {self.most}"

    def __str__(self) -> str:
        most = "" if self.most is None else f",{self.most}"
        apart = "" if self.apart is None else f" or {self.apart}"
        return f"[{self.least},...{most}]{apart}"


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several words, case-sensitive.

    >>> OneOf(("CreateTime", "LogAppendTime")).fault("createtime")
    'String must be one of: CreateTime, LogAppendTime'
    """

    words: tuple[str, ...]

    def fault(self, value: str) -> str | None:
        """Return the list of words unless `value` is one of them."""
        known = value in self.words
        return None if known else f"String must be one of: {', '.join(self.words)}"

    def __str__(self) -> str:
        return f"[{', '.join(self.words)}]"


@dataclass(frozen=True, slots=True)
class Elements:
    """A list of `words`, or of any text if there are none; no element may be empty.

    >>> Elements(("compact", "delete")).fault(("delete", "drop"))
    'String must be one of: compact, delete'
    """

    words: tuple[str, ...] = ()
    may_be_empty: bool = True

    def fault(self, value: tuple[str, ...]) -> str | None:
        """Return what is invalid about the list, or about its first invalid element."""
        if not value and not self.may_be_empty:
            return "must not be empty"
        if "" in value:
            return "values must not be empty"
        known = not self.words or set(value) <= set(self.words)
        return None if known else OneOf(self.words).fault("")

    def __str__(self) -> str:
        return str(OneOf(self.words)) if self.words else ""


@dataclass(frozen=True, slots=True)
class ThrottledReplicas:
    """``partition:broker`` for each replica, or ``*`` for all.

    >>> ThrottledReplicas().fault(("0:1", "*"))
    'must be * or [partitionId]:[brokerId],[partitionId]:[brokerId],...'
    """

    def fault(self, value: tuple[str, ...]) -> str | None:
        """Return the valid form unless all elements have it; elements may be empty."""
        elements = [element.strip(_BLANKS) for element in value]
        if "".join(elements) == "*" or all(map(_REPLICAS.fullmatch, elements)):
            return None
        return f"must be * or {self}"

    def __str__(self) -> str:
        return "[partitionId]:[brokerId],[partitionId]:[brokerId],..."


def parse_value(kind: Kind, value: object) -> Any:
    """Return `value`, a text or a Python value, parsed. Raise `ValueError` if invalid.

    >>> parse_value(LONG, " +86400000 "), parse_value(BOOLEAN, "TRUE")
    (86400000, True)
    >>> parse_value(LIST, "compact , delete"), parse_value(LIST, " ")
    (('compact', 'delete'), ())
    >>> parse_value(INT, "1 MiB")
    Traceback (most recent call last):
    ValueError: Not a number of type INT
    """
    match kind, value:
        case _, str():
            return _PARSERS[kind](value.strip(_BLANKS))
        case Kind.BOOLEAN, bool():
            return value
        case _, bool():  # a subclass of int
            pass
        case ((Kind.INT | Kind.LONG), int()):
            return _PARSERS[kind](str(value))
        case Kind.DOUBLE, int() | float():
            return float(value)
        case Kind.LIST, [*elements] if all(
            isinstance(element, str) for element in elements
        ):
            return tuple(elements)
    kind_of_value = "null" if value is None else f"a {type(value).__name__}"
    raise ValueError(f"Expected value to be {_NAMES[kind]}, but it was {kind_of_value}")


def _boolean(text: str) -> bool:
    if (lower := text.lower()) in ("true", "false"):
        return lower == "true"
    raise ValueError("Expected value to be either true or false")


def _int(text: str) -> int:
    return _integer(text, Kind.INT, 32)


def _long(text: str) -> int:
    return _integer(text, Kind.LONG, 64)


def _integer(text: str, kind: Kind, bits: int) -> int:
    try:
        return int_from_text(text, bits)
    except ValueError:
        raise ValueError(f"Not a number of type {kind.name}") from None


def _double(text: str) -> float:
    if match := _DOUBLE.fullmatch(text):
        return float(match[1] + (match[2] or match[3] or match[4]))
    raise ValueError(f"Not a number of type {Kind.DOUBLE.name}")


def _list(text: str) -> tuple[str, ...]:
    return tuple(_COMMA.split(text)) if text else ()


_PARSERS: Final[dict[Kind, Callable[[str], Any]]] = {
    Kind.BOOLEAN: _boolean,
    Kind.INT: _int,
    Kind.LONG: _long,
    Kind.DOUBLE: _double,
    Kind.STRING: str,
    Kind.LIST: _list,
}
_NAMES: Final = {
    Kind.BOOLEAN: "either true or false",
    Kind.INT: "a 32-bit integer",
    Kind.LONG: "a 64-bit integer",
    Kind.DOUBLE: "a double",
    Kind.STRING: "a string",
    Kind.LIST: "a list of strings",
}
