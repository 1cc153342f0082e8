"""How keys and values are shown, by the decoder that was asked for.

Knows: decoders, by the names of Kafka's classes. Does not know: lines.
Source: ``DumpLogSegments.java``; ``Decoder`` and its classes of ``tools-api``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkalog.codecs.java_exceptions import RUNTIME, UNDERFLOW, ToolEnded
from kafkalog.codecs.java_text import repair_utf8
from kafkalog.dump.options import STRING_DECODER, DumpOptions
from kafkalog.errors import InvalidRecordError

Show = Callable[[bytes], str]
Read = Callable[[], bytes | None]
"""Reads a key or value when it is called: it may have no room in its record."""

Describe = Callable[[Read, Read, int], tuple[str | None, str | None]]
"""What is shown of a record's key and value, given these and its offset."""

PACKAGE: Final = "org.apache.kafka.tools.api."


def _show_number(width: int) -> Show:
    def show(data: bytes) -> str:
        if len(data) < width:
            raise ToolEnded(UNDERFLOW)
        return str(int.from_bytes(data[:width], signed=True))

    return show


def _show_array(data: bytes) -> str:
    """Show an array of bytes as Java does: by its type; where it lies is not ours."""
    del data
    return "[B@0"


DECODERS: Final[dict[str, Show]] = {
    STRING_DECODER: repair_utf8,
    f"{PACKAGE}DefaultDecoder": _show_array,
    f"{PACKAGE}IntegerDecoder": _show_number(4),
    f"{PACKAGE}LongDecoder": _show_number(8),
}


def describer(options: DumpOptions) -> Describe | None:
    """Return what describes a record; None where key and value are just text.

    Raises `ToolEnded` for a decoder class that does not exist.
    """
    if options.decoder is not None:
        return _topic_describer(options.decoder)
    show_value = _show(options.value_decoder.text())
    show_key = _show(options.key_decoder.text())
    if show_key is repair_utf8 and show_value is repair_utf8:
        return None
    return _class_describer(show_key, show_value)


def _show(decoder: str) -> Show:
    if decoder not in DECODERS:
        missing = ToolEnded("java.lang.ClassNotFoundException", decoder)
        raise ToolEnded(RUNTIME, "Failed to load decoder class", missing)
    return DECODERS[decoder]


def _class_describer(show_key: Show, show_value: Show) -> Describe:
    def describe(
        read_key: Read, read_value: Read, offset: int
    ) -> tuple[str | None, str | None]:
        del offset
        key = read_key()
        shown = None if key is None else show_key(key)
        value = read_value()
        return shown, None if value is None else show_value(value)

    return describe


describe_text: Final = _class_describer(repair_utf8, repair_utf8)
"""Shows key and value as the text that they are."""


def _topic_describer(kind: str) -> Describe:
    from kafkalog.messages.internal_topics import describe_record

    def describe(
        read_key: Read, read_value: Read, offset: int
    ) -> tuple[str | None, str | None]:
        try:
            key, value = read_key(), read_value()
        except ToolEnded as fault:
            return _unread(kind, offset, fault)
        try:
            return describe_record(kind, key, value, offset)
        except InvalidRecordError as error:
            raise ToolEnded(RUNTIME, str(error)) from None

    return describe


def _unread(kind: str, offset: int, fault: ToolEnded) -> tuple[str | None, str | None]:
    """Show what the decoders of topics make of a key or value that has no room."""
    reason = "null" if fault.reason is None else fault.reason
    if kind == "cluster-metadata":
        return None, f"Error at {offset}, skipping. {reason}"
    told = f"Error at offset {offset}, skipping. {reason}"
    return (None, told) if kind == "remote-log-metadata" else (told, None)
