r"""Java's ``.properties`` files, and ``meta.properties``: the owner of a log directory.

    #                                   lines that begin with # or ! are comments
    #Sat Nov 21 14:40:52 UTC 2026
    node.id=1                           key, then = or : or blanks, then value
    cluster.id=Zm9yLWRldmVsb3BlcnMtMQ

The charset is ISO-8859-1. A backslash escapes one character (``\t \n \r \f`` and
``\uXXXX`` are as in Java); at the end of a line it continues that line on the next.

``meta.properties`` has ``version=1`` with ``node.id`` and ``cluster.id`` (KRaft), or
version 0, also if there is none, with ``broker.id`` (ZooKeeper). Both may have a
``directory.id``. Other keys are ignored.

Source: ``java.util.Properties``, ``MetaProperties.java``, ``PropertiesUtils.java``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, Self

from kafkalog.errors import CorruptCheckpointError, UnsupportedFormatError
from kafkalog.text.decimal_text import int_from_text
from kafkalog.text.uuid_text import canonical_uuid, uuid_from_text

_BLANKS: Final = " \t\f"
_NATURAL_LINE: Final = re.compile(r"([^\r\n]*)(\r\n|\r|\n|\Z)")
_KEY: Final = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR: Final = re.compile(r"[ \t\f]*(?:[=:][ \t\f]*)?")
_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)
_CONTROLS: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPECIAL: Final = re.compile(r"[\\=:#!\t\n\r\f]|[^\x20-\x7e]|\A ")
_SPECIAL_KEY: Final = re.compile(r"[\\=:#! \t\n\r\f]|[^\x20-\x7e]")
_LETTERS: Final = {text: letter for letter, text in _CONTROLS.items()}


class Property(NamedTuple):
    """A value, and the position of its line."""

    value: str
    position: int


def parse_properties(data: bytes) -> dict[str, Property]:
    r"""Return the properties of a file; of a repeated key the last value counts.

    Raises `CorruptCheckpointError` for a ``\u`` without four hex digits. Any other text
    is a properties file.

    >>> parse_properties(b"node.id=1\n")
    {'node.id': Property(value='1', position=0)}
    """
    return {key: Property(value, at) for at, key, value in _entries(data)}


def format_properties(properties: Mapping[str, str], written: datetime) -> bytes:
    r"""Return the bytes of a properties file, in the order of `properties`.

    The second line has the aware datetime `written`, in UTC. Characters outside ASCII
    are escaped, so that they do not depend on the charset.

    >>> epoch = datetime(1970, 1, 1, tzinfo=UTC)
    >>> format_properties({"node.id": "1"}, epoch)
    b'#\n#Thu Jan 01 00:00:00 UTC 1970\nnode.id=1\n'
    """
    at = written.astimezone(UTC)
    day, month = at.ctime().split()[:2]  # strftime depends on the locale
    lines = ["#", f"#{day} {month} {at:%d %H:%M:%S} UTC {at.year:04d}"]
    lines += [
        f"{_SPECIAL_KEY.sub(_escaped, key)}={_SPECIAL.sub(_escaped, value)}"
        for key, value in properties.items()
    ]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """The content of ``meta.properties``; None for ids that version 0 lacks.

    `node_id` is the ``broker.id`` of version 0. The directory id is in Kafka's base64
    form.

    >>> MetaProperties(version=1, node_id=1, cluster_id="c").properties()
    {'node.id': '1', 'version': '1', 'cluster.id': 'c'}
    """

    version: int
    node_id: int | None = None
    cluster_id: str | None = None
    directory_id: str | None = None

    def __post_init__(self) -> None:
        """Raise `ValueError` for an unknown version, or version 1 without its ids."""
        if self.version not in (0, 1):
            raise ValueError(f"meta.properties version {self.version}, expected 0 or 1")
        if self.version and (self.node_id is None or self.cluster_id is None):
            raise ValueError("version 1 without ids, expected node_id and cluster_id")
        if self.directory_id is not None:
            uuid_from_text(self.directory_id)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        r"""Return the content of ``meta.properties``.

        Raises `CorruptCheckpointError`, and `UnsupportedFormatError` for a version
        that is neither 0 nor 1.

        >>> MetaProperties.parse(b"broker.id=7\n").node_id
        7
        """
        properties = parse_properties(data)
        version = _integer(properties, "version")
        if version not in (None, 0, 1):
            reason = f"meta.properties version {version}, expected 0 or 1"
            at = properties["version"].position
            raise UnsupportedFormatError(reason, position=at)
        if version and (missing := {"node.id", "cluster.id"} - properties.keys()):
            reason = f"version 1 without {' and '.join(sorted(missing))}"
            raise CorruptCheckpointError(reason, position=0)
        return cls(
            version=version or 0,
            node_id=_integer(properties, "node.id" if version else "broker.id"),
            cluster_id=properties["cluster.id"].value
            if "cluster.id" in properties
            else None,
            directory_id=_uuid(properties, "directory.id"),
        )

    def format(self, written: datetime) -> bytes:
        """Return the bytes of ``meta.properties``, dated `written`."""
        return format_properties(self.properties(), written)

    def properties(self) -> dict[str, str]:
        """Return keys and values with Kafka's names, in its order."""
        named = {
            "node.id" if self.version else "broker.id": self.node_id,
            "directory.id": self.directory_id,
            "version": self.version,
            "cluster.id": self.cluster_id,
        }
        return {key: str(value) for key, value in named.items() if value is not None}


def _entries(data: bytes) -> Iterator[tuple[int, str, str]]:
    """Yield the position, key and value of each logical line."""
    for at, line in _logical_lines(data.decode("latin-1")):
        key = _KEY.match(line)
        assert key is not None  # it matches the empty string
        separator = _SEPARATOR.match(line, key.end())
        assert separator is not None
        value = line[separator.end() :]
        yield at, _unescape(key[0], at), _unescape(value, at)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield the position of each logical line, and its text."""
    parts: list[str] = []
    start = 0
    for match in _NATURAL_LINE.finditer(text):
        line = match[1].lstrip(_BLANKS)
        if not any(parts):
            parts, start = [], match.start()
            if not line or line[0] in "#!":
                continue
        backslashes = len(line) - len(line.rstrip("\\"))
        parts.append(line[: len(line) - backslashes % 2])
        if backslashes % 2 == 0:
            yield start, "".join(parts)
            parts = []


def _unescape(text: str, at: int) -> str:
    def unescaped(match: re.Match[str]) -> str:
        if match[1] is not None:
            return chr(int(match[1], 16))
        if (letter := match[2]) == "u":
            reason = "\\u without four hex digits"
            raise CorruptCheckpointError(reason, position=at)
        return _CONTROLS.get(letter, letter)

    units = _ESCAPE.sub(unescaped, text).encode("utf-16-be", "surrogatepass")
    # Two escapes may be the surrogates of one character.
    return units.decode("utf-16-be", "surrogatepass")


def _escaped(match: re.Match[str]) -> str:
    text = match[0]
    if text in _LETTERS:
        return "\\" + _LETTERS[text]
    if " " <= text <= "~":
        return "\\" + text
    units = text.encode("utf-16-be", "surrogatepass").hex().upper()
    return "".join(f"\\u{units[i : i + 4]}" for i in range(0, len(units), 4))


def _integer(found: Mapping[str, Property], key: str) -> int | None:
    if key not in found:
        return None
    text, at = found[key]
    try:
        return int_from_text(text, 32)
    except ValueError as error:
        raise CorruptCheckpointError(f"{key} {error}", position=at) from None


def _uuid(found: Mapping[str, Property], key: str) -> str | None:
    if key not in found:
        return None
    text, at = found[key]
    try:
        return canonical_uuid(text)
    except ValueError as error:
        raise CorruptCheckpointError(f"{key} {error}", position=at) from None
