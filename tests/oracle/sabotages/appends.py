"""Sabotages of appends: as a leader, and as a follower."""

from dataclasses import replace

import numpy as np

from kafkalog._speedups import Status
from kafkalog.errors import InvalidRecordError
from kafkalog.formats.batch_headers import decode_error
from kafkalog.formats.layout import TimestampType
from kafkalog.log import appending
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.validation import append_analysis, batch_validation, leader_validation
from kafkalog.validation.append_policy import AppendRules, rules_of
from kafkalog.validation.appends import Appends, bounds_of
from kafkalog.validation.batch_conversion import rebuild
from tests.oracle.sabotages.register import nothing, one_by_one, sabotage
from tests.validation import test_leader_validation, test_validation_written

EVER = 2**63 - 1


def rules_with(patch, **changes):
    """Let a topic ask otherwise of appends than its settings say."""
    changed = lambda config: replace(rules_of(config), **changes)  # noqa: E731
    patch.setattr(appending, "rules_of", changed)


# As a leader


@sabotage("a leader gives each record the next offset", "append-offsets-and-epoch")
def _(patch):
    """Batches keep the offsets they came with."""
    one_by_one(patch)
    patch.setattr(Appends, "assign_offsets", nothing)


@sabotage("a leader stamps its epoch on each batch", "append-offsets-and-epoch")
def _(patch):
    """Every batch gets epoch 0."""
    one_by_one(patch)
    stamped = batch_validation._stamped
    patch.setattr(
        batch_validation,
        "_stamped",
        lambda append, one, by: stamped(append, one, by._replace(leader_epoch=0)),
    )


@sabotage("with LogAppendTime the clock is stamped", "append-log-append-time")
def _(patch):
    """The producer's time stays."""
    rules_with(patch, timestamp_type=TimestampType.CREATE_TIME)


@sabotage("a wrong greatest timestamp is put right", "append-max-timestamp-corrected")
def _(patch):
    """The header is believed."""
    one_by_one(patch)

    def stamped(append, found, as_leader):
        append.info["records"] = len(found.spans)
        append.info["max_timestamp"] = append.rows["max_timestamp"]
        batch_validation.stamp(append, as_leader)
        return append

    patch.setattr(batch_validation, "_stamped", stamped)


@sabotage(
    "no timestamp lies further back than message.timestamp.before.max.ms",
    "append-timestamp-range",
)
def _(patch):
    """Any age is taken."""
    rules_with(patch, timestamp_before_max_ms=EVER)


@sabotage(
    "no timestamp lies further ahead than message.timestamp.after.max.ms",
    "append-timestamp-range",
)
def _(patch):
    """Any future is taken."""
    rules_with(patch, timestamp_after_max_ms=EVER)


@sabotage("no producer stamps LogAppendTime itself", "append-timestamp-range")
def _(patch):
    """The flag is not looked at."""
    patch.setattr(batch_validation, "LOG_APPEND_TIME_FLAG", 0)


@sabotage("what is in another codec is packed anew", "append-recompressed")
def _(patch):
    """Each batch keeps its codec."""
    rules_with(patch, codec=None)


@sabotage("an uncompressed topic unpacks what comes", "append-uncompressed-topic")
def _(patch):
    """Each batch keeps its codec."""
    rules_with(patch, codec=None)


@sabotage(
    "what is in the topic's codec stays as it came, whatever its level",
    test_validation_written.test_another_level_does_not_cause_recompression,
    codec="gzip",
)
def _(patch):
    """It is packed anew all the same."""
    one_by_one(patch)
    patch.setattr(
        batch_validation, "_stamped", lambda append, one, by: rebuild(append, [one], by)
    )


@sabotage(
    "what is packed anew has the topic's level",
    test_validation_written.test_recompression_uses_the_level_of_the_topic,
    level=1,
)
def _(patch):
    """The codec's own level is taken."""
    target = AppendRules.target
    patch.setattr(
        AppendRules, "target", lambda self, codec: (target(self, codec)[0], None)
    )


@sabotage("a marker is not compressed", "append-recompressed")
def _(patch):
    """It is packed as data is."""
    patch.setattr(batch_validation, "CONTROL_FLAG", 0)


@sabotage("a compacted topic needs keys", "append-null-key-compacted")
def _(patch):
    """It is taken for one that is not compacted."""
    rules_with(patch, compacted=False)


@sabotage("no batch exceeds max.message.bytes", "append-max-message-bytes")
def _(patch):
    """The limit is as high as can be."""
    rules_with(patch, max_message_bytes=2**31 - 1)


@sabotage("messages of magic 0 and 1 are taken, and converted up", "append-old-formats")
def _(patch):
    """They are refused."""

    def refuse(*_):
        raise InvalidRecordError("an old format")

    patch.setattr(batch_validation, "rebuild", refuse)


@sabotage("an append is one batch", "append-one-batch-only")
def _(patch):
    """The first is taken, and the others are dropped."""
    judge = batch_validation.validate_append

    def judge_first(append, *how):
        rows, size = append.rows[:1], int(append.rows["size_in_bytes"][0])
        bounds = bounds_of([1]), bounds_of([size])
        first = Appends(append.data[:size], rows, *bounds, append.info, {})
        return judge(first, *how)

    patch.setattr(leader_validation, "validate_append", judge_first)


@sabotage("a client's batch begins at offset 0", "append-client-offsets")
def _(patch):
    """It may begin anywhere."""
    patch.setattr(append_analysis, "_check_origin", nothing)


@sabotage(
    "a client's offsets have no gap",
    test_leader_validation.test_offset_gaps_are_rejected_only_from_clients,
)
def _(patch):
    """Headers are not held to their records."""
    patch.setattr(batch_validation, "_check_batch", nothing)


@sabotage(
    "clients write no control records",
    test_leader_validation.test_control_records_from_a_client_are_rejected,
)
def _(patch):
    """The flag is not looked at."""
    fault = batch_validation.header_fault
    control = 4
    patch.setattr(
        batch_validation,
        "header_fault",
        lambda row: 0 if fault(row) == control else fault(row),
    )


@sabotage("a Raft leader brings its own epoch", "append-raft-leader")
def _(patch):
    """Any epoch is taken."""
    patch.setattr(append_analysis, "_check_origin", nothing)


@sabotage("a batch's checksum is looked at", "append-checksum")
def _(patch):
    """All are taken for sound."""
    patch.setattr(
        append_analysis, "find_crc_mismatches", lambda *_: np.empty(0, np.int64)
    )


@sabotage("a result tells the first offset given", "append-offsets-and-epoch")
def _(patch):
    """It tells the last."""
    one_by_one(patch)
    result = appending._result

    def result_of_last(*appended):
        found = result(*appended)
        return found._replace(first_offset=found.last_offset)

    patch.setattr(appending, "_result", result_of_last)


# As a follower


@sabotage("a follower takes offsets as they come", "follower-gaps-and-epochs")
def _(patch):
    """It gives offsets, as a leader."""

    def assign(terms):
        object.__setattr__(terms, "assigns", True)

    one_by_one(patch)
    patch.setattr(appending.AppendTerms, "__post_init__", assign)
    patch.setattr(appending, "terms_of", appending.terms_of.__wrapped__)


@sabotage("a follower takes no offset below the log's end", "follower-refused")
def _(patch):
    """It is not asked where the log ends."""
    patch.setattr(appending, "_check_follows", nothing)


@sabotage("offsets of one append rise", "follower-refused")
def _(patch):
    """Batches are not held to each other."""
    analyze = append_analysis.analyze_appends
    patch.setattr(
        appending,
        "analyze_appends",
        lambda pieces, **how: analyze(pieces, **how | {"monotonic": False}),
    )


@sabotage("a follower is not held to max.message.bytes", "append-max-message-bytes")
def _(patch):
    """It is, to 100."""
    one_by_one(patch)
    analyze = append_analysis.analyze_appends

    def held(pieces, **how):
        return analyze(pieces, **how | {"max_message_bytes": 100})

    patch.setattr(appending, "analyze_appends", held)


@sabotage("leader epochs are entered, batch by batch", "follower-gaps-and-epochs")
def _(patch):
    """None is."""
    patch.setattr(appending, "_note_epochs", nothing)


@sabotage("batches of an old format clear the leader epochs", "append-old-formats")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "clear_and_flush", nothing)


@sabotage(
    "batches of a higher epoch than the follower knows are left out",
    "follower-higher-epoch-skipped",
)
def _(patch):
    """They are taken."""
    patch.setattr(append_analysis, "_is_newer", lambda *_: False)


@sabotage("a partial tail is trimmed without an error", "append-partial-tail")
def _(patch):
    """It is taken for damage."""
    whole_batch = append_analysis._entry_size

    def whole(data, position):
        size = whole_batch(data, position)
        if size is None and position < len(data):
            raise decode_error(Status.ENTRY_TOO_SMALL, position)
        return size

    patch.setattr(append_analysis, "_entry_size", whole)


@sabotage(
    "a follower's roll is named for the offset that comes", "follower-gaps-and-epochs"
)
def _(patch):
    """The segment begins at the log's end."""
    roll = appending.roll
    patch.setattr(appending, "roll", lambda log, _: roll(log))


@sabotage(
    "many batches at once make index entries one by one", "follower-index-per-batch"
)
def _(patch):
    """They make one, as a single batch."""
    one_by_one(patch)
    make_entries = GrowingSegment.make_entries

    def make_one(self, rows, position):
        last = rows[-1:].copy()
        last["size_in_bytes"] = rows["size_in_bytes"].sum()
        make_entries(self, last, position)

    patch.setattr(GrowingSegment, "make_entries", make_one)
