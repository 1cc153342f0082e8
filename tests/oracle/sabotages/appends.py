"""Sabotages of appends: as a leader, and as a follower."""

from dataclasses import replace

from kafkalog._speedups import (
    EntryFault,
    HeaderFault,
    RecordFault,
    Status,
    stamp_batches,
)
from kafkalog.errors import InvalidRecordError
from kafkalog.formats.batch_headers import decode_error
from kafkalog.formats.layout import CONTROL_FLAG, TimestampType
from kafkalog.log import appending
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.validation import append_analysis, batch_validation, leader_validation
from kafkalog.validation.append_policy import AppendPolicy, AppendRules, rules_of
from kafkalog.validation.appends import Appends, bounds_of
from kafkalog.validation.batch_conversion import rebuild
from tests.oracle.sabotages.register import disable_fast_path, do_nothing, sabotage
from tests.validation import test_leader_validation, test_validation_written

EVER = 2**63 - 1


def rules_with(patch, **changes):
    """Change the rules for appends that follow from a topic's settings."""
    changed = lambda config: replace(rules_of(config), **changes)  # noqa: E731
    patch.setattr(appending, "rules_of", changed)


def ignore_fault(patch, ignored):
    """Accept an entry with this fault, checking nothing after it."""
    read = append_analysis.read_required_entry

    def read_any(*entry):
        fault = read(*entry)
        return EntryFault.NO_FAULT if fault == ignored else fault

    patch.setattr(append_analysis, "read_required_entry", read_any)


# As a leader


@sabotage("a leader assigns the next offset to each record", "append-offsets-and-epoch")
def _(patch):
    """Batches keep the offsets that the client sent."""
    disable_fast_path(patch)
    patch.setattr(Appends, "assign_offsets", do_nothing)


@sabotage("a leader writes its epoch into each batch", "append-offsets-and-epoch")
def _(patch):
    """Every batch gets epoch 0."""
    disable_fast_path(patch)
    stamped = batch_validation._stamped

    def stamp_0(append, records, policy):
        required = policy.record_requirements._replace(leader_epoch=0)
        return stamped(append, records, policy._replace(record_requirements=required))

    patch.setattr(batch_validation, "_stamped", stamp_0)


@sabotage("with LogAppendTime records get the broker's time", "append-log-append-time")
def _(patch):
    """Records keep the producer's time."""
    rules_with(patch, timestamp_type=TimestampType.CREATE_TIME)


@sabotage(
    "a wrong max timestamp in a header is corrected", "append-max-timestamp-corrected"
)
def _(patch):
    """The header is not checked."""
    disable_fast_path(patch)

    def stamped(append, found, as_leader):
        append.info["records"] = len(found.spans)
        append.info["max_timestamp"] = append.rows["max_timestamp"]
        stamp_batches(append.arrays, as_leader.record_requirements, as_leader.now_ms)
        return append

    patch.setattr(batch_validation, "_stamped", stamped)


@sabotage(
    "no timestamp is earlier than message.timestamp.before.max.ms allows",
    "append-timestamp-range",
)
def _(patch):
    """Any earlier timestamp is accepted."""
    rules_with(patch, timestamp_before_max_ms=EVER)


@sabotage(
    "no timestamp is later than message.timestamp.after.max.ms allows",
    "append-timestamp-range",
)
def _(patch):
    """Any later timestamp is accepted."""
    rules_with(patch, timestamp_after_max_ms=EVER)


@sabotage("a client cannot set LogAppendTime itself", "append-timestamp-range")
def _(patch):
    """The flag is not checked."""
    find = batch_validation._find_faults
    patch.setattr(
        batch_validation,
        "_find_faults",
        lambda *records: find(*records) & (0xFF - RecordFault.TIMESTAMP_TYPE),
    )


@sabotage("a batch in another codec is recompressed", "append-recompressed")
def _(patch):
    """Each batch keeps its codec."""
    rules_with(patch, codec=None)


@sabotage(
    "a topic with compression.type=uncompressed decompresses batches",
    "append-uncompressed-topic",
)
def _(patch):
    """Each batch keeps its codec."""
    rules_with(patch, codec=None)


@sabotage(
    "a batch in the topic's codec is not recompressed, whatever its level",
    test_validation_written.test_another_level_does_not_cause_recompression,
    codec="gzip",
)
def _(patch):
    """It is recompressed."""
    disable_fast_path(patch)
    patch.setattr(
        batch_validation, "_stamped", lambda append, one, by: rebuild(append, [one], by)
    )


@sabotage(
    "a recompressed batch has the topic's compression level",
    test_validation_written.test_recompression_uses_the_level_of_the_topic,
    level=1,
)
def _(patch):
    """The codec's default level is used."""
    target = AppendRules.target
    patch.setattr(
        AppendRules, "target", lambda self, codec: (target(self, codec)[0], None)
    )


@sabotage("a marker is not compressed", "append-recompressed")
def _(patch):
    """It is compressed like data."""
    disable_fast_path(patch)
    stays = batch_validation.stays_in_format
    patch.setattr(
        batch_validation,
        "stays_in_format",
        lambda row, rules: not row["attributes"] & CONTROL_FLAG and stays(row, rules),
    )


@sabotage("a compacted topic requires keys", "append-null-key-compacted")
def _(patch):
    """The topic is treated as one that is not compacted."""
    rules_with(patch, compacted=False)


@sabotage("no batch exceeds max.message.bytes", "append-max-message-bytes")
def _(patch):
    """The limit is the greatest int32."""
    rules_with(patch, max_message_bytes=2**31 - 1)


@sabotage("messages of magic 0 and 1 are accepted and converted", "append-old-formats")
def _(patch):
    """They are rejected."""

    def refuse(*_):
        raise InvalidRecordError("an old format")

    patch.setattr(batch_validation, "rebuild", refuse)


@sabotage("an append is one batch", "append-one-batch-only")
def _(patch):
    """The first batch is accepted, and the others are dropped."""
    validate = batch_validation.validate_append

    def validate_first(append, *how):
        rows, size = append.rows[:1], int(append.rows["size_in_bytes"][0])
        bounds = bounds_of([1]), bounds_of([size])
        first = Appends(append.data[:size], rows, *bounds, append.info, {})
        return validate(first, *how)

    patch.setattr(leader_validation, "validate_append", validate_first)


@sabotage("a client's batch has base offset 0", "append-client-offsets")
def _(patch):
    """Any base offset is accepted."""
    ignore_fault(patch, EntryFault.BASE_OFFSET)


@sabotage(
    "a client's offsets have no gap",
    test_leader_validation.test_offset_gaps_are_rejected_only_from_clients,
)
def _(patch):
    """Headers are not compared with their records."""
    patch.setattr(batch_validation, "_check_batch", do_nothing)


@sabotage(
    "a client's control records are rejected",
    test_leader_validation.test_control_records_from_a_client_are_rejected,
)
def _(patch):
    """The control flag is not checked."""
    fault = batch_validation.header_fault

    def allow_control(row):
        found = fault(row)
        return HeaderFault.VALID if found == HeaderFault.CONTROL_BATCH else found

    patch.setattr(batch_validation, "header_fault", allow_control)


@sabotage("a Raft leader's batches have its own epoch", "append-raft-leader")
def _(patch):
    """Any epoch is accepted."""
    ignore_fault(patch, EntryFault.LEADER_EPOCH)


@sabotage("a batch's CRC is verified", "append-checksum")
def _(patch):
    """Every CRC is accepted."""
    ignore_fault(patch, EntryFault.WRONG_CRC)


@sabotage("a result has the first offset assigned", "append-offsets-and-epoch")
def _(patch):
    """It has the last offset."""
    disable_fast_path(patch)
    result = appending._result

    def result_of_last(*appended):
        found = result(*appended)
        return found._replace(first_offset=found.last_offset)

    patch.setattr(appending, "_result", result_of_last)


# As a follower


@sabotage("a follower keeps the offsets of the leader", "follower-gaps-and-epochs")
def _(patch):
    """It assigns offsets, as a leader does."""
    disable_fast_path(patch)
    patch.setattr(AppendPolicy, "assigns_offsets", True)


@sabotage("a follower rejects offsets below the log end offset", "follower-refused")
def _(patch):
    """The log end offset is not checked."""
    patch.setattr(appending, "_check_follows", do_nothing)


@sabotage("offsets within one append increase", "follower-refused")
def _(patch):
    """Batches are not compared with each other."""
    analyze = append_analysis.analyze_appends
    patch.setattr(
        appending,
        "analyze_appends",
        lambda views, required, memory: analyze(
            views, required._replace(ascending=False), memory
        ),
    )


@sabotage("max.message.bytes does not apply to a follower", "append-max-message-bytes")
def _(patch):
    """A limit of 100 bytes applies."""
    disable_fast_path(patch)
    analyze = append_analysis.analyze_appends

    def held(views, required, memory):
        return analyze(views, required._replace(max_bytes=100), memory)

    patch.setattr(appending, "analyze_appends", held)


@sabotage("the leader epoch of each batch is recorded", "follower-gaps-and-epochs")
def _(patch):
    """None is recorded."""
    patch.setattr(appending, "_note_epochs", do_nothing)


@sabotage("batches of an old format clear the leader epochs", "append-old-formats")
def _(patch):
    """The epochs stay."""
    patch.setattr(LeaderEpochs, "clear_and_flush", do_nothing)


@sabotage(
    "a follower ignores batches of an epoch newer than its leader's",
    "follower-higher-epoch-skipped",
)
def _(patch):
    """They are appended."""
    ignore_fault(patch, EntryFault.NEWER_EPOCH)


@sabotage(
    "an incomplete batch at the end is ignored without an error", "append-partial-tail"
)
def _(patch):
    """It is treated as corruption."""
    whole_batch = append_analysis._entry_size

    def whole(data, position):
        size = whole_batch(data, position)
        if size is None and position < len(data):
            raise decode_error(Status.ENTRY_TOO_SMALL, position)
        return size

    patch.setattr(append_analysis, "_entry_size", whole)


@sabotage(
    "a follower's new segment is named by the first offset appended",
    "follower-gaps-and-epochs",
)
def _(patch):
    """The segment begins at the log end offset."""
    roll = appending.roll
    patch.setattr(appending, "roll", lambda log, _: roll(log))


@sabotage("index entries are made batch by batch", "follower-index-per-batch")
def _(patch):
    """One entry is made for all batches."""
    disable_fast_path(patch)
    make_entries = GrowingSegment.make_entries

    def make_one(self, rows, position):
        last = rows[-1:].copy()
        last["size_in_bytes"] = rows["size_in_bytes"].sum()
        make_entries(self, last, position)

    patch.setattr(GrowingSegment, "make_entries", make_one)
