"""How keys and values are shown, by the decoder that was asked for.

Knows: decoders, by the names of Kafka's classes. Does not know: lines.
Source: ``DumpLogSegments.java``; ``Decoder`` and its classes of ``tools-api``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kafkalog.codecs.java_text import repair_utf8
from kafkalog.dump.ending import RUNTIME, UNDERFLOW, ToolEnded
from kafkalog.dump.options import STRING_DECODER, DumpOptions
from kafkalog.errors import InvalidRecordError

Show = Callable[[bytes], str]
Describe = Callable[[bytes | None, bytes | None, int], tuple[str | None, str | None]]
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
    return "[B"


DECODERS: Final[dict[str, Show]] = {
    STRING_DECODER: repair_utf8,
    f"{PACKAGE}DefaultDecoder": _show_array,
    f"{PACKAGE}IntegerDecoder": _show_number(4),
    f"{PACKAGE}LongDecoder": _show_number(8),
}


def describe_text(
    key: bytes | None, value: bytes | None, offset: int
) -> tuple[str | None, str | None]:
    """Show key and value as the text that they are."""
    del offset
    return (
        None if key is None else repair_utf8(key),
        None if value is None else repair_utf8(value),
    )


def describer(options: DumpOptions) -> Describe | None:
    """Return what describes a record; None where key and value are just text.

    Raises `ToolEnded` for a decoder class that does not exist.
    """
    if options.decoder is not None:
        return _describer_of(options.decoder)
    show_value, show_key = map(_show, (options.value_decoder, options.key_decoder))
    if show_key is repair_utf8 and show_value is repair_utf8:
        return None

    def describe(
        key: bytes | None, value: bytes | None, offset: int
    ) -> tuple[str | None, str | None]:
        del offset
        return (
            None if key is None else show_key(key),
            None if value is None else show_value(value),
        )

    return describe


def _show(decoder: str) -> Show:
    if decoder not in DECODERS:
        missing = ToolEnded("java.lang.ClassNotFoundException", decoder)
        raise ToolEnded(RUNTIME, "Failed to load decoder class", missing)
    return DECODERS[decoder]


def _describer_of(kind: str) -> Describe:
    from kafkalog.formats.internal_topics import describe_record

    def describe(
        key: bytes | None, value: bytes | None, offset: int
    ) -> tuple[str | None, str | None]:
        try:
            return describe_record(kind, key, value, offset)
        except InvalidRecordError as error:
            raise ToolEnded(RUNTIME, str(error)) from None

    return describe
