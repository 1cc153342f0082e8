"""The exceptions that end Kafka's tool: their names, and Java's report of one."""

from __future__ import annotations

from typing import Final

from kafkalog.codecs.java_streams import JavaError

KAFKA_ERRORS: Final = "org.apache.kafka.common.errors."
KAFKA_EXCEPTION: Final = "org.apache.kafka.common.KafkaException"
INVALID_RECORD: Final = "org.apache.kafka.common.InvalidRecordException"
CORRUPT_RECORD: Final = f"{KAFKA_ERRORS}CorruptRecordException"
CORRUPT_INDEX: Final = "org.apache.kafka.storage.internals.log.CorruptIndexException"
ILLEGAL_ARGUMENT: Final = "java.lang.IllegalArgumentException"
OUT_OF_BOUNDS: Final = "java.lang.IndexOutOfBoundsException"
NULL_POINTER: Final = "java.lang.NullPointerException"
UNDERFLOW: Final = "java.nio.BufferUnderflowException"
NO_ELEMENT: Final = "java.util.NoSuchElementException"
NO_FILE: Final = "java.nio.file.NoSuchFileException"
NUMBER_FORMAT: Final = "java.lang.NumberFormatException"


class ToolEnded(JavaError):
    """An exception that ends Kafka's tool."""

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
