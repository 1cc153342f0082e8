"""Sabotages of opening a log, in order or after a crash."""

from kafkalog.errors import CorruptSnapshotError
from kafkalog.log.deletion import DELETED
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.snapshot_files import SnapshotFiles
from kafkalog.log.recovery import (
    leftover_files,
    log_loader,
    log_loading,
    segment_recovery,
)
from kafkalog.log.recovery.leftover_files import CLEANED, SWAP
from kafkalog.log.recovery.log_loader import LogLoader
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.segment_files import SegmentFiles
from tests.log import (
    test_snapshot_files,
    test_writable_log,
    test_writing,
)
from tests.oracle.sabotages.register import Made, nothing, sabotage


def load_with(patch, **changes):
    """Let a log be loaded with other words about it than there are."""
    patch.setattr(
        log_loading, "LogLoader", lambda **given: LogLoader(**given | changes)
    )


# What is read through


@sabotage("after a crash a log is read through", "recovery-crash")
def _(patch):
    """It is taken for one that was closed in order."""
    load_with(patch, clean=True)


@sabotage("of a log closed in order nothing is read", "recovery-damage-unnoticed")
def _(patch):
    """It is taken for one after a crash."""
    load_with(patch, clean=False)


@sabotage("nothing below the recovery point is read", "recovery-damage-unnoticed")
def _(patch):
    """All is."""
    load_with(patch, recovery_point=0)


@sabotage("all from the recovery point on is read", "recovery-bit-in-the-middle")
def _(patch):
    """The recovery point is taken to be the end."""
    load_with(patch, recovery_point=2**62)


@sabotage("a torn batch at the end is cut off", "recovery-torn-tail")
def _(patch):
    """It stays."""
    patch.setattr(SegmentFiles, "cut_for_good", lambda *_: 0)


@sabotage("a log ends at a batch with a wrong checksum", "recovery-bit-in-the-middle")
def _(patch):
    """Checksums are not looked at."""
    patch.setattr(segment_recovery, "find_crc_mismatches", lambda *_: ())


@sabotage("segments behind a cut are dropped", "recovery-bit-in-the-middle")
def _(patch):
    """They stay."""
    patch.setattr(LogLoader, "_drop_files", nothing)


@sabotage(
    "what was cut, and why, is told",
    test_writing.test_a_log_that_crashed_says_what_was_cut_and_why,
)
def _(patch):
    """No reason is told."""
    recover = log_loader.recover_segment

    def recover_silently(*given):
        cut = recover(*given)
        return cut._replace(damage=cut.damage and "")

    patch.setattr(log_loader, "recover_segment", recover_silently)


# Indexes


@sabotage("indexes are made anew where a log is read through", "recovery-crash")
def _(patch):
    """They stay as they are."""
    patch.setattr(GrowingSegment, "forget_entries", nothing)
    patch.setattr(GrowingSegment, "make_entries", nothing)


@sabotage("a segment without its index is read through", "recovery-missing-indexes")
def _(patch):
    """It gets an empty one."""
    patch.setattr(LogLoader, "_recover_alone", nothing)


@sabotage("what is behind a segment read for its index stays", "recovery-hole")
def _(patch):
    """It goes, as it would behind a cut."""
    load = LogLoader._load_segments

    def load_and_drop(self):
        load(self)
        for one in self.report.recovered:
            if one.bytes_cut:
                self._drop_files(self.segments.above(one.base_offset))

    patch.setattr(LogLoader, "_load_segments", load_and_drop)


@sabotage(
    "a time index that is missing is made anew, empty", "recovery-missing-indexes"
)
def _(patch):
    """Its segment is read through."""
    check = LogLoader._check

    def check_both(self, segment, stem, names):
        if f"{stem}.timeindex" not in names:
            names = names - {f"{stem}.index"}
        check(self, segment, stem, names)

    patch.setattr(LogLoader, "_check", check_both)


@sabotage("the last segment's indexes get room again", "recovery-clean")
def _(patch):
    """They stay trimmed."""
    patch.setattr(SegmentFiles, "resize_indexes", nothing)


# Producers and epochs


@sabotage("producers are rebuilt from snapshot and log", "recovery-transaction")
def _(patch):
    """None is known."""
    patch.setattr(LogLoader, "_rebuild", nothing)


@sabotage(
    "closed in order, and without a snapshot, a log is not read", "recovery-no-snapshot"
)
def _(patch):
    """It is read for its producers."""
    rebuild = log_loader.rebuild_producers

    def rebuild_all(*given, clean):
        rebuild(*given, clean=False)

    patch.setattr(log_loader, "rebuild_producers", rebuild_all)


@sabotage("a damaged snapshot goes, and an older one is taken", "recovery-snapshot")
def _(patch):
    """It is taken for one of no producers."""
    read = SnapshotFiles.read

    def read_any(self, offset):
        try:
            return read(self, offset)
        except CorruptSnapshotError:
            return []

    patch.setattr(SnapshotFiles, "read", read_any)


@sabotage("a log that is read through leaves snapshots", "recovery-crash")
def _(patch):
    """It leaves none."""
    patch.setattr(ProducerStateManager, "take_snapshot", nothing)


@sabotage(
    "snapshots that belong to no segment go",
    test_snapshot_files.test_strays_go_but_for_the_newest_beyond_the_last_segment,
)
def _(patch):
    """They stay."""
    patch.setattr(SnapshotFiles, "remove_strays", nothing)


@sabotage("epochs missing in the file are found in the batches", "recovery-epochs")
def _(patch):
    """The file is believed."""
    patch.setattr(segment_recovery._Pass, "_note_epochs", nothing)


@sabotage("epochs beyond what was recovered go", "recovery-epochs")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "truncate_from_end", nothing)


@sabotage("a log that ends before its start begins anew", "recovery-start-beyond-end")
def _(patch):
    """It goes on at its end."""

    def end(self):
        return self.segments.active.next_offset() if len(self.segments) else None

    patch.setattr(LogLoader, "_end_or_none", end)


# What interrupted tasks left


def remove_all_but(patch, mark):
    """Let files with a mark stay."""
    remove = leftover_files._remove

    def remove_others(directory, disk, name, report):
        if not name.endswith(mark):
            remove(directory, disk, name, report)

    patch.setattr(leftover_files, "_remove", remove_others)


@sabotage("files marked .deleted go", "recovery-leftovers")
def _(patch):
    """They stay."""
    remove_all_but(patch, DELETED)


@sabotage("files marked .cleaned go", "recovery-leftovers")
def _(patch):
    """They stay."""
    remove_all_but(patch, CLEANED)


@sabotage("an index without its log goes", "recovery-leftovers")
def _(patch):
    """It stays."""
    patch.setattr(log_loader, "_is_in", lambda *_: True)


@sabotage("a finished swap takes the place of what it stands for", "recovery-swap")
def _(patch):
    """What it stands for stays beside it."""
    patch.setattr(leftover_files, "_remove_between", nothing)


@sabotage("with a .cleaned below it a swap is not finished", "recovery-swap")
def _(patch):
    """It counts all the same."""
    remove_unfinished = leftover_files._remove_unfinished

    def remove_apart(directory, names, *rest):
        swaps = [name for name in names if name.endswith(SWAP)]
        others = [name for name in names if not name.endswith(SWAP)]
        remove_unfinished(directory, others, *rest)
        return remove_unfinished(directory, swaps, *rest)

    patch.setattr(leftover_files, "_remove_unfinished", remove_apart)


@sabotage("what a crash kept from being done is done", "recovery-pending-tasks")
def _(patch):
    """It is left undone."""
    patch.setattr(log_loader, "clear_leftovers", nothing)


@sabotage(
    "a segment whose offsets are too far apart is split",
    test_writable_log.test_a_segment_whose_offsets_are_too_far_apart_is_split,
    load=Made(test_writable_log.Loading),
)
def _(patch):
    """No offset is too far."""
    patch.setattr(segment_recovery, "MAX_OFFSET_DELTA", 2**62)
