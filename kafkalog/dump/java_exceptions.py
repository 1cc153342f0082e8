"""Java's exceptions: their names, and Java's report of one that is not caught."""

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
    """An exception that ends Kafka's tool, with its Java name.

    `because` is the exception that caused it, if any.
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
        """Return it as Java prints it: the name, and the message if there is one.

        >>> str(ToolEnded("java.lang.RuntimeException", "no such decoder"))
        'java.lang.RuntimeException: no such decoder'
        """
        if self.reason is None:
            return self.java_name
        return f"{self.java_name}: {self.reason}"

    def report(self) -> str:
        """Return the lines on standard error, without those of Java's stack."""
        lines = [f'Exception in thread "main" {self}\n']
        cause = self.because
        while cause is not None:
            lines.append(f"Caused by: {cause}\n")
            cause = cause.because
        return "".join(lines)


def unknown_codec(codec: int) -> ToolEnded:
    """Return the exception for an unknown compression type."""
    return ToolEnded(ILLEGAL_ARGUMENT, f"Unknown compression type id: {codec}")
