"""Sabotages of the effects of a rejected append, and of its error."""

from kafkalog.errors import (
    InvalidRecordError,
    KafkaLogError,
    RecordBatchTooLargeError,
    RecordValidationError,
)
from kafkalog.log import appending
from kafkalog.log.producers.producer_updates import ProducerUpdates
from kafkalog.validation import batch_validation
from kafkalog.validation.appends import AppendOrigin
from tests.oracle.sabotages.register import sabotage


@sabotage("a rejected append adds no record", "producers-sequences")
def _(patch):
    """The batches are written."""
    add = ProducerUpdates.add

    def add_all(self, *batches, **place):
        try:
            return add(self, *batches, **place)
        except KafkaLogError:
            return None

    patch.setattr(ProducerUpdates, "add", add_all)


@sabotage(
    "a batch rejected for its size leaves its leader epoch",
    "append-larger-than-segment",
)
def _(patch):
    """The size is checked first."""
    note_epochs = appending._note_epochs

    def check_first(log, rows):
        if rows["size_in_bytes"].sum() > log.config.segment_size:
            raise RecordBatchTooLargeError("too early")
        note_epochs(log, rows)

    patch.setattr(appending, "_note_epochs", check_first)


@sabotage("a batch larger than a segment is rejected", "append-larger-than-segment")
def _(patch):
    """The size is not checked."""

    def make_room(log, size, first, last, max_timestamp):
        if appending.should_roll(log, size, max_timestamp, last):
            appending.roll(log, first)

    patch.setattr(appending, "_roll_if_needed", make_room)


@sabotage(
    "a batch rejected for its sequence leaves its roll", "roll-before-sequence-check"
)
def _(patch):
    """The sequence is checked first."""
    note_epochs = appending._note_epochs

    def check_first(log, rows):
        ProducerUpdates(log.producers, AppendOrigin.CLIENT).add(rows)
        note_epochs(log, rows)

    patch.setattr(appending, "_note_epochs", check_first)


@sabotage("an error lists every invalid record", "append-null-key-compacted")
def _(patch):
    """It lists only the first."""
    patch.setattr(
        batch_validation,
        "RecordValidationError",
        lambda cause, errors: RecordValidationError(cause, errors[:1]),
    )


@sabotage("an error has the name of Kafka's exception", "append-timestamp-range")
def _(patch):
    """Another error is raised."""
    patch.setattr(batch_validation, "InvalidTimestampError", InvalidRecordError)
