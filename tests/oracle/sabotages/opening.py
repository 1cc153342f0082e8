"""Sabotages of opening a log, after a clean shutdown or a crash."""

from kafkalog.errors import CorruptSnapshotError
from kafkalog.log.leader_epochs import LeaderEpochs
from kafkalog.log.producers.producer_manager import ProducerStateManager
from kafkalog.log.producers.snapshot_files import SnapshotFiles
from kafkalog.log.recovery import (
    leftover_files,
    log_loader,
    log_loading,
    segment_recovery,
)
from kafkalog.log.recovery.log_loader import LogLoader
from kafkalog.segment.growing_segment import GrowingSegment
from kafkalog.segment.segment_files import SegmentFiles
from kafkalog.storage.file_names import CLEANED, DELETED
from tests.log import (
    test_snapshot_files,
    test_writable_log,
    test_writing,
)
from tests.oracle.sabotages.register import Built, do_nothing, sabotage


def load_with(patch, **changes):
    """Load logs with other arguments than their state requires."""
    patch.setattr(
        log_loading, "LogLoader", lambda **arguments: LogLoader(**arguments | changes)
    )


# Recovery


@sabotage("after a crash a log is recovered", "recovery-crash")
def _(patch):
    """It is treated as cleanly shut down."""
    load_with(patch, clean=True)


@sabotage("after a clean shutdown no segment is recovered", "recovery-damage-unnoticed")
def _(patch):
    """The log is treated as crashed."""
    load_with(patch, clean=False)


@sabotage(
    "no segment below the recovery point is recovered", "recovery-damage-unnoticed"
)
def _(patch):
    """Every segment is recovered."""
    load_with(patch, recovery_point=0)


@sabotage(
    "every segment from the recovery point on is recovered",
    "recovery-bit-in-the-middle",
)
def _(patch):
    """The recovery point is beyond the end."""
    load_with(patch, recovery_point=2**62)


@sabotage("an incomplete batch at the end is truncated", "recovery-torn-tail")
def _(patch):
    """It stays."""
    patch.setattr(SegmentFiles, "cut_for_good", lambda *_: 0)


@sabotage(
    "a log is truncated at a batch with a CRC mismatch", "recovery-bit-in-the-middle"
)
def _(patch):
    """CRCs are not verified."""
    patch.setattr(segment_recovery, "find_crc_mismatches", lambda *_: ())


@sabotage("segments after a truncated one are removed", "recovery-bit-in-the-middle")
def _(patch):
    """They are kept."""
    patch.setattr(LogLoader, "_drop_files", do_nothing)


@sabotage(
    "the report states what was truncated, and why",
    test_writing.test_the_report_of_a_crashed_log_states_the_truncation_and_its_reason,
)
def _(patch):
    """It states no reason."""
    recover = log_loader.recover_segment

    def recover_without_reason(*given):
        cut = recover(*given)
        return cut._replace(damage=cut.damage and "")

    patch.setattr(log_loader, "recover_segment", recover_without_reason)


# Indexes


@sabotage("recovery rebuilds the indexes", "recovery-crash")
def _(patch):
    """The indexes do not change."""
    patch.setattr(GrowingSegment, "forget_entries", do_nothing)
    patch.setattr(GrowingSegment, "make_entries", do_nothing)


@sabotage("a segment without its offset index is recovered", "recovery-missing-indexes")
def _(patch):
    """It gets an empty index."""
    patch.setattr(LogLoader, "_recover_alone", do_nothing)


@sabotage("segments after one recovered for its index are kept", "recovery-hole")
def _(patch):
    """They are removed, as after a truncation."""
    load = LogLoader._load_segments

    def load_and_drop(self):
        load(self)
        for one in self.report.recovered:
            if one.bytes_cut:
                self._drop_files(self.segments.above(one.base_offset))

    patch.setattr(LogLoader, "_load_segments", load_and_drop)


@sabotage("a missing time index is created empty", "recovery-missing-indexes")
def _(patch):
    """Its segment is recovered."""
    check = LogLoader._check

    def check_both(self, segment, stem, names):
        if f"{stem}.timeindex" not in names:
            names = names - {f"{stem}.index"}
        check(self, segment, stem, names)

    patch.setattr(LogLoader, "_check", check_both)


@sabotage("the last segment's indexes are enlarged when it is opened", "recovery-clean")
def _(patch):
    """They stay trimmed."""
    patch.setattr(SegmentFiles, "resize_indexes", do_nothing)


# Producers and epochs


@sabotage(
    "the producer state is rebuilt from snapshots and batches", "recovery-transaction"
)
def _(patch):
    """It is empty."""
    patch.setattr(LogLoader, "_rebuild", do_nothing)


@sabotage(
    "after a clean shutdown without a snapshot no batch is read", "recovery-no-snapshot"
)
def _(patch):
    """All batches are read for their producers."""
    rebuild = log_loader.rebuild_producers

    def rebuild_all(*given, clean):
        return rebuild(*given, clean=False)

    patch.setattr(log_loader, "rebuild_producers", rebuild_all)


@sabotage(
    "a corrupt snapshot is removed, and an older one is used", "recovery-snapshot"
)
def _(patch):
    """It is treated as one without producers."""
    read = SnapshotFiles.read

    def read_any(self, offset):
        try:
            return read(self, offset)
        except CorruptSnapshotError:
            return []

    patch.setattr(SnapshotFiles, "read", read_any)


@sabotage("recovery takes producer snapshots", "recovery-crash")
def _(patch):
    """It takes none."""
    patch.setattr(ProducerStateManager, "take_snapshot", do_nothing)


@sabotage(
    "snapshots without a segment are removed",
    test_snapshot_files.test_stray_snapshots_are_removed_except_the_newest_above_the_last_segment,
)
def _(patch):
    """They are kept."""
    patch.setattr(SnapshotFiles, "remove_strays", do_nothing)


@sabotage(
    "leader epochs missing in the checkpoint are recovered from batches",
    "recovery-epochs",
)
def _(patch):
    """Only the checkpoint is used."""
    patch.setattr(segment_recovery._Pass, "_note_epochs", do_nothing)


@sabotage("leader epochs beyond the recovered end are removed", "recovery-epochs")
def _(patch):
    """They stay."""
    patch.setattr(LeaderEpochs, "truncate_from_end", do_nothing)


@sabotage(
    "a log that ends before its start offset restarts there",
    "recovery-start-beyond-end",
)
def _(patch):
    """It continues at its end."""

    def end(self):
        return self.segments.active.next_offset() if len(self.segments) else None

    patch.setattr(LogLoader, "_end_or_none", end)


# Files of interrupted tasks


def remove_all_but(patch, mark):
    """Keep files with a mark."""
    remove = leftover_files._remove

    def remove_others(directory, disk, name, report):
        if not name.endswith(mark):
            remove(directory, disk, name, report)

    patch.setattr(leftover_files, "_remove", remove_others)


@sabotage("files marked .deleted are removed", "recovery-leftovers")
def _(patch):
    """They are kept."""
    remove_all_but(patch, DELETED)


@sabotage("files marked .cleaned are removed", "recovery-leftovers")
def _(patch):
    """They are kept."""
    remove_all_but(patch, CLEANED)


@sabotage("an index without its segment is removed", "recovery-leftovers")
def _(patch):
    """It is kept."""
    patch.setattr(log_loader, "_is_in", lambda *_: True)


@sabotage("a complete .swap replaces the segments it covers", "recovery-swap")
def _(patch):
    """The segments are kept."""
    patch.setattr(leftover_files, "_remove_between", do_nothing)


@sabotage("a .swap is ignored if a .cleaned has a lower offset", "recovery-swap")
def _(patch):
    """It is used."""
    sort = leftover_files.sort_leftovers

    def sort_as_complete(names):
        found = sort(names)
        swaps = sorted([*found.swaps, *found.incomplete])
        return found._replace(incomplete=[], swaps=swaps)

    patch.setattr(leftover_files, "sort_leftovers", sort_as_complete)


@sabotage(
    "files that interrupted work left are removed at the next start",
    "recovery-pending-tasks",
)
def _(patch):
    """They stay."""
    patch.setattr(log_loader, "clear_leftovers", do_nothing)


@sabotage(
    "a segment whose offsets are too far apart is split",
    test_writable_log.test_a_segment_whose_offsets_are_too_far_apart_is_split,
    load=Built(test_writable_log.Loading),
)
def _(patch):
    """No distance is too far."""
    patch.setattr(segment_recovery, "MAX_OFFSET_DELTA", 2**62)
