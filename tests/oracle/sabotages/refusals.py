"""Sabotages of what is left of an append that is refused, and what is said of it."""

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


@sabotage("a refused append adds no record", "producers-sequences")
def _(patch):
    """What is refused is written all the same."""
    add = ProducerUpdates.add

    def add_all(self, *batches, **place):
        try:
            return add(self, *batches, **place)
        except KafkaLogError:
            return None

    patch.setattr(ProducerUpdates, "add", add_all)


@sabotage("what is refused for its size leaves its epoch", "append-larger-than-segment")
def _(patch):
    """The size is looked at first."""
    note_epochs = appending._note_epochs

    def judge_first(log, rows):
        if rows["size_in_bytes"].sum() > log.config.segment_size:
            raise RecordBatchTooLargeError("too early")
        note_epochs(log, rows)

    patch.setattr(appending, "_note_epochs", judge_first)


@sabotage("nothing larger than a segment is appended", "append-larger-than-segment")
def _(patch):
    """The size is not looked at."""

    def make_room(log, size, first, last, max_timestamp):
        if appending.should_roll(log, size, max_timestamp, last):
            appending.roll(log, first)

    patch.setattr(appending, "_make_room", make_room)


@sabotage(
    "what is refused for its sequence leaves its roll", "roll-before-sequence-check"
)
def _(patch):
    """The sequence is looked at first."""
    note_epochs = appending._note_epochs

    def judge_first(log, rows):
        ProducerUpdates(log.producers, AppendOrigin.CLIENT).add(rows)
        note_epochs(log, rows)

    patch.setattr(appending, "_note_epochs", judge_first)


@sabotage("a refusal names every record that is wrong", "append-null-key-compacted")
def _(patch):
    """Only the first is named."""
    patch.setattr(
        batch_validation,
        "RecordValidationError",
        lambda cause, errors: RecordValidationError(cause, errors[:1]),
    )


@sabotage("a refusal has the name of Kafka's error", "append-timestamp-range")
def _(patch):
    """One error stands for another."""
    patch.setattr(batch_validation, "InvalidTimestampError", InvalidRecordError)
