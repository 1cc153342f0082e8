"""Exceptions of Java: how it ends when one escapes, and what is printed then.

Knows: their names, and the form of such a report. Does not know: what went wrong.
"""

from __future__ import annotations

from typing import Final

KAFKA_ERRORS: Final = "org.apache.kafka.common.errors."
KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"
INVALID_RECORD: Final = "org.apache.kafka.common.InvalidRecordException"
CORRUPT_RECORD: Final = f"{KAFKA_ERRORS}CorruptRecordException"
CORRUPT_INDEX: Final = "org.apache.kafka.storage.internals.log.CorruptIndexException"
ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
RUNTIME: Final = "java.lang.RuntimeException"
OUT_OF_BOUNDS: Final = "java.lang.IndexOutOfBoundsException"
NULL_POINTER: Final = "java.lang.NullPointerException"
UNDERFLOW: Final = "java.nio.BufferUnderflowException"
NO_ELEMENT: Final = "java.util.NoSuchElementException"
END_OF_FILE: Final = "java.io.EOFException"
NO_FILE: Final = "java.nio.file.NoSuchFileException"
NUMBER_FORMAT: Final = "java.lang.NumberFormatException"


class ToolEnded(Exception):
    """An exception by which Kafka's tool ends, under its Java name.

    `because` is the one that caused it, if any.
    """

    def __init__(
        self,
        java_name: str,
        reason: str | None = None,
        because: ToolEnded | None = None,
    ) -> None:
        super().__init__(java_name, reason)
        self.java_name = java_name
        self.reason = reason
        self.because = because

    def __str__(self) -> str:
        """Spell it as Java does: the name, and what there is to say.

        >>> str(ToolEnded("java.lang.RuntimeException", "no such decoder"))
        'java.lang.RuntimeException: no such decoder'
        """
        if self.reason is None:
            return self.java_name
        return f"{self.java_name}: {self.reason}"

    def report(self) -> str:
        """Give the lines on standard error, without those of Java's stack."""
        lines = [f'Exception in thread "main" {self}\n']
        cause = self.because
        while cause is not None:
            lines.append(f"Caused by: {cause}\n")
            cause = cause.because
        return "".join(lines)


def unknown_codec(codec: int) -> ToolEnded:
    """Say that there is no such compression type."""
    return ToolEnded(ILLEGAL_ARGUMENT, f"Unknown compression type id: {codec}")
