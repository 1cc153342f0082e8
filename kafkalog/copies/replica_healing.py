"""`heal`: one valid log from replicas that are each damaged elsewhere.

The replica with the greatest last leader epoch, and of those the one with the greatest
end offset, defines the true history, as in a leader election. Its valid batches are
taken. Offsets of which it has none are taken from the other replicas, where these have
a valid batch of the same history: see `replica_batches`. Offsets of which no replica
has any, and two valid batches with different records of the same offset and epoch, are
a reason to refuse.

Replicas are compacted on their own, so a valid batch may have fewer records in one than
in another. The records that both have must be equal.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bools
from kafkalog.copies.copy_directory import (
    SOURCE_SEGMENTS,
    CopiedLog,
    CopyDirectory,
    topic_id_of,
)
from kafkalog.copies.epoch_repair import restore_header
from kafkalog.copies.heal_report import HealedPartition, HealReport
from kafkalog.copies.offset_coverage import OffsetInterval
from kafkalog.copies.replica_batches import ReplicaBatches
from kafkalog.errors import (
    CorruptRecordError,
    LogArgumentError,
    NotALogDirectoryError,
)
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.log.ownership import Name
from kafkalog.parallel import mapping
from kafkalog.progress import note_begun
from kafkalog.query.record_differences import (
    COMPARED,
    differing_columns,
    match_offsets,
)
from kafkalog.query.scan import scan
from kafkalog.renamed import renamed_arguments
from kafkalog.segment.file_records import STEP_BYTES
from kafkalog.storage.file_names import METADATA_TOPIC, parse_partition_dir
from kafkalog.storage.location import AnyPath, local_path, no_such_path
from kafkalog.storage.log_directory import (
    Numbers,
    PartitionSelection,
    Topics,
    is_partition,
    list_partitions,
)
from kafkalog.storage.pending_directory import destination_of
from kafkalog.verification.index_checks import runs

SAME_BATCH: Final = ("base_offset", "last_offset", "size_in_bytes", "crc")


class TakenRange(NamedTuple):
    """Offsets that are taken from one replica."""

    replica: ReplicaBatches
    first: int
    last: int


@renamed_arguments(sources="source", dst="destination")
def heal(
    source: Sequence[AnyPath],
    destination: str | os.PathLike[str],
    *,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    dry_run: bool = False,
    threads: int = 1,
) -> HealReport:
    """Write one valid log from replicas that are each damaged elsewhere.

    The replica with the greatest last leader epoch, and of those the one with the
    greatest end offset, defines the true history. Batches that it lacks are taken from
    the others, if they are of the same history by their leader epochs and have valid
    CRCs. All batches keep their bytes. Nothing in `source` is changed.

    A partition that cannot be healed is not written, and the report states why. If
    there is no other one, nothing is written.

    Parameters
    ----------
    source : sequence of path
        Log directories with replicas of the same partitions, or directories of
        replicas of one partition.
    destination : path
        The log directory to write, which is missing or empty. It is written as
        ``<destination>.incomplete``, and renamed at the end.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers.
    dry_run : bool
        Whether nothing is written to `destination`. The copy is written to a temporary
        directory, and removed.
    threads : int
        Number of partitions that are healed at the same time. The threads end with the
        call.

    Returns
    -------
    HealReport
        For each partition the replicas that its batches are from, or why it cannot be
        healed.

    Raises
    ------
    FileNotFoundError
        If a source does not exist, or the parent of `destination`, or if no partition
        matches a topic or a number.
    NotALogDirectoryError
        If a source is neither a partition nor a log directory.
    LogArgumentError
        If there is no source, or if sources are of different kinds or partitions.
    LogStateError
        If `destination` is not empty, or is inside of a source.
    DiskSpaceError
        If there is not enough free space for the batches of a partition. Nothing is
        left then.

    Examples
    --------
    >>> import shutil, tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with kafkalog.open(f"{root}/a/orders-0", "a") as log:
    ...         for value in (b"one", b"two", b"three"):
    ...             _ = log.append_records({"value": [value]})
    ...         [segment] = log.segments
    ...     _ = shutil.copytree(f"{root}/a", f"{root}/b")
    ...     with open(segment.path, "r+b") as file:
    ...         _ = file.seek(segment.path.stat().st_size // 2), file.write(b"?")
    ...     with open(f"{root}/b/orders-0/{segment.path.name}", "r+b") as file:
    ...         _ = file.seek(40), file.write(b"?")
    ...     report = kafkalog.heal([f"{root}/a", f"{root}/b"], f"{root}/healed")
    >>> report
    <HealReport: 1 partition healed>
    """
    places = [local_path(one).absolute() for one in source]
    target = local_path(destination).absolute()
    found = _replicas_of(places)
    names = sorted(found)
    chosen = PartitionSelection.of(topics, partitions, exclude_topics).choose(names)
    with (
        destination_of(target, places, dry_run=dry_run) as written,
        CopyDirectory(written, places) as copy,
    ):
        for place in places:
            if not is_partition(place):
                copy.copy_identity(place)
        with mapping(threads, "heal") as run:
            healed = run(
                lambda name: _heal(name, found[name], copy), [names[i] for i in chosen]
            )
            rows = tuple(healed)
        if not any(row.ok for row in rows):
            copy.discard()
    return HealReport(rows)


def _replicas_of(places: Sequence[Path]) -> dict[Name, list[Path]]:
    """Return the directories of each partition's replicas."""
    if not places:
        raise LogArgumentError("no source, expected at least one")
    found: dict[Name, list[Path]] = {}
    kinds = set()
    for place in places:
        if not place.is_dir():
            raise no_such_path(place)
        is_one = is_partition(place)
        kinds.add(is_one)
        if is_one:
            parsed = parse_partition_dir(place.name)
            if parsed is None:
                raise NotALogDirectoryError(
                    f"name {place.name!r}, expected a topic and a partition: {place}"
                )
            found.setdefault((parsed.topic, parsed.partition), []).append(place)
            continue
        for name, directory in list_partitions(place):
            assert isinstance(directory, Path)
            found.setdefault((name.topic, name.partition), []).append(directory)
    if len(kinds) > 1 or (kinds == {True} and len(found) > 1):
        raise LogArgumentError(
            "sources of different kinds or partitions, expected log directories, or "
            "replicas of one partition"
        )
    return found


def _heal(
    name: Name, directories: Sequence[Path], copy: CopyDirectory
) -> HealedPartition:
    """Write one partition if it can be healed."""
    replicas, failures = _read(name, directories)
    if not replicas:
        return HealedPartition(*name, 0, 0, (), 0, {}, "; ".join(failures))
    true = max(replicas, key=_precedence)  # the first of equal ones
    shared = [true.shares(replica) for replica in replicas]
    unreadable = sum(replica.bytes_unreadable for replica in replicas)
    taken, missing = _plan(true, replicas, shared)
    why = _missing_text(missing) or _epoch_conflict(true, replicas)
    why = why or _conflict(replicas, shared)
    log: CopiedLog | None = None
    if not why:
        topic_ids = [topic_id_of(directory) for directory in directories]
        known_ids = {topic_id for topic_id in topic_ids if topic_id is not None}
        if len(known_ids) > 1:
            why = f"different topic ids: {', '.join(sorted(known_ids))}"
        else:
            copy.check_space_for(
                replica.rows[replica.between(*ends)] for replica, *ends in taken
            )
            try:
                with copy.open(name, SOURCE_SEGMENTS, *known_ids) as log:
                    _write(log, true, taken)
                    if name[0] == METADATA_TOPIC:
                        log.copy_quorum_files(true.directory)
            except CorruptRecordError as error:
                copy.remove(name)
                why = str(error)
    is_written = log is not None and not why
    notes = [*failures, *([] if why else _unneeded(true, replicas, taken))]
    return HealedPartition(
        *name,
        records=log.records if log is not None and is_written else 0,
        batches=log.batches if log is not None and is_written else 0,
        missing=tuple(missing),
        bytes_unreadable=unreadable,
        sources=dict(_sources(taken)) if not why else {},
        why=why,
        notes=tuple(notes),
    )


def _read(
    name: Name, directories: Sequence[Path]
) -> tuple[list[ReplicaBatches], list[str]]:
    """Return the replicas of a partition, and the errors of those that fail to read."""
    replicas, failures = [], []
    for directory in directories:
        note_begun(directory)
        try:
            replicas.append(ReplicaBatches.read(directory, name))
        except OSError as error:
            failures.append(f"{directory} cannot be read: {error}")
    return replicas, failures


def _unneeded(
    true: ReplicaBatches,
    replicas: Sequence[ReplicaBatches],
    taken: Sequence[TakenRange],
) -> Iterator[str]:
    """Yield the reason why all batches are from one replica, if they are."""
    if any(replica is not true for replica, _, _ in taken) or true.is_damaged:
        return
    damaged = [str(each.directory) for each in replicas if each.is_damaged]
    if damaged:
        others = ", ".join(damaged)
        yield f"{true.directory} needs nothing of the others; damaged: {others}"
        return
    shorter = [
        f"{each.directory} at offset {each.end}"
        for each in replicas
        if each.end < true.end
    ]
    behind = f"; behind its end at offset {true.end}: {', '.join(shorter)}"
    yield f"nothing to heal: no replica is damaged{behind if shorter else ''}"


def _precedence(replica: ReplicaBatches) -> tuple[int, int, bool, int, int]:
    """Return the order in which replicas define the true history, the greatest first.

    Of equal ones, it is the one that knows more of it.
    """
    reached = int(replica.rows["last_offset"].max(initial=-1))
    has_epochs = bool(replica.epochs)
    order = replica.last_epoch, replica.end, has_epochs, reached
    return (*order, -len(replica.missing))


def _plan(
    true: ReplicaBatches, replicas: Sequence[ReplicaBatches], shared: Sequence[Bools]
) -> tuple[list[TakenRange], list[OffsetInterval]]:
    """Return which offsets to take from which replica, and which none of them has."""
    taken: list[TakenRange] = []
    missing: list[OffsetInterval] = []
    at = min([true.start, *true.rows["base_offset"][:1].tolist()])
    for lost in true.missing:
        if lost.first > at:
            taken.append(TakenRange(true, at, lost.first - 1))
        at = lost.first
        while at <= lost.last:
            last, replica = max(
                (
                    (replica.covered_to(at, flags, lost.last), replica)
                    for replica, flags in zip(replicas, shared, strict=True)
                    if replica is not true
                ),
                key=lambda pair: pair[0],
                default=(at - 1, true),
            )
            if last >= at:
                taken.append(TakenRange(replica, at, last))
            else:
                last = _before_next_batch(replicas, at, lost.last)
                missing.append(OffsetInterval(at, last))
            at = last + 1
    if at < true.end:
        taken.append(TakenRange(true, at, true.end - 1))
    return taken, missing


def _before_next_batch(
    replicas: Sequence[ReplicaBatches], offset: int, most: int
) -> int:
    """Return the offset before the first batch after `offset`, at most `most`."""
    following = [
        int(base)
        for replica in replicas
        for base in replica.rows["base_offset"]
        if offset < base <= most
    ]
    return min(following, default=most + 1) - 1


def _same_batches(
    a: BatchHeaders, b: BatchHeaders, places: npt.NDArray[np.intp], chosen: Bools
) -> Bools:
    """Return which of the `chosen` batches of `a` equal those of `b` at `places`.

    The leader epochs are not compared.
    """
    same = chosen.copy()
    for field in SAME_BATCH:
        same[same] = a[field][same] == b[field][places[same]]
    return same


def _missing_text(missing: Sequence[OffsetInterval]) -> str:
    """Return the reason for offsets that are missing, or nothing."""
    if not missing:
        return ""
    texts = ", ".join(f"{first} to {last}" for first, last in missing)
    return f"no replica has a valid batch of the true history for offsets {texts}"


def _epoch_conflict(true: ReplicaBatches, replicas: Sequence[ReplicaBatches]) -> str:
    """Return where another replica has a batch in another leader epoch, or nothing.

    The epoch checkpoint of the true replica, if no batch contradicts it, decides which
    one is correct.
    """
    if true.epochs:
        return ""
    a = true.rows
    for replica in replicas:
        b = replica.rows
        places = np.searchsorted(b["last_offset"], a["last_offset"])
        same = _same_batches(a, b, places, places < len(b))
        same[same] = a["leader_epoch"][same] != b["leader_epoch"][places[same]]
        if same.any():
            i = int(same.argmax())
            epochs = a["leader_epoch"][i], b["leader_epoch"][places[i]]
            return (
                f"leader epochs {epochs[0]} and {epochs[1]} of the batch at offset "
                f"{a['base_offset'][i]}, and no valid epoch checkpoint: "
                f"{true.directory} and {replica.directory}"
            )
    return ""


def _conflict(replicas: Sequence[ReplicaBatches], shared: Sequence[Bools]) -> str:
    """Return where two replicas have different records of an offset, or nothing."""
    for i, a in enumerate(replicas):
        for j in range(i):
            b = replicas[j]
            for first, last in _unequal(a.rows[shared[i]], b.rows[shared[j]]):
                columns = _differing(a.directory, b.directory, first, last)
                if columns is not None:
                    offset, names = columns
                    return (
                        f"different {', '.join(names)} at offset {offset}: "
                        f"{b.directory} and {a.directory}"
                    )
    return ""


def _unequal(a: BatchHeaders, b: BatchHeaders) -> Iterator[OffsetInterval]:
    """Yield ranges of offsets that both have, in batches that are not the same."""
    places = np.searchsorted(b["last_offset"], a["base_offset"])
    overlap = places < len(b)
    overlap[overlap] = b["base_offset"][places[overlap]] <= a["last_offset"][overlap]
    same = _same_batches(a, b, places, overlap)
    for first, last in runs(overlap & ~same):
        yield OffsetInterval(int(a["base_offset"][first]), int(a["last_offset"][last]))


def _differing(a: Path, b: Path, first: int, last: int) -> tuple[int, list[str]] | None:
    """Return the first offset in a range at which two replicas' records differ."""
    sides = [
        scan(
            side,
            columns=("offset", *COMPARED),
            start_offset=first,
            end_offset=last + 1,
            control_records=True,
            on_corruption="skip",
        ).chunks()
        for side in (a, b)
    ]
    left, right = (next(side, None) for side in sides)
    while left is not None and right is not None:
        match_a, match_b = match_offsets(left.offset, right.offset)
        columns = differing_columns(left, match_a, right, match_b)
        if columns:
            place = min(int(column.argmax()) for column in columns.values())
            offset = int(left.offset[match_a[place]])
            return offset, [name for name in columns if columns[name][place]]
        if left.offset[-1] <= right.offset[-1]:
            left = next(sides[0], None)
        else:
            right = next(sides[1], None)
    return None


def _write(log: CopiedLog, true: ReplicaBatches, taken: Iterable[TakenRange]) -> None:
    """Write the batches of the ranges, in segments as those of the true replica."""
    bases, begun = true.bases, 0
    for replica, first, last in taken:
        for part in _parts(replica, replica.between(first, last), bases):
            rows = replica.rows[part]
            segment = replica.segments[int(replica.numbers[part.start])]
            while begun < len(bases) and bases[begun] <= rows["base_offset"][0]:
                log.begin_segment(bases[begun])
                begun += 1
            start = int(rows["position"][0])
            end = int(rows["position"][-1] + rows["size_in_bytes"][-1])
            with segment.open() as source:
                data = source.read(start, end - start)
            for i in np.flatnonzero(replica.restored[part]).tolist():
                restore_header(data, int(rows["position"][i]) - start, rows[i])
            for index, error in log.append(data, start, rows):
                changed = CorruptRecordError(
                    f"batch that was valid before: {error}",
                    position=int(rows["position"][index]),
                )
                raise changed.located(segment.path)
    for base in bases[begun:]:
        log.begin_segment(base)
    known = true.known
    log.finish(known.log_start_offset, known.high_watermark, known.epochs)


def _parts(replica: ReplicaBatches, chosen: slice, bases: list[int]) -> Iterator[slice]:
    """Yield slices of batches that are read together.

    They are adjacent in one segment, and are written to one segment.
    """
    rows = replica.rows[chosen]
    ends = rows["position"] + rows["size_in_bytes"]
    divided = rows["position"][1:] != ends[:-1]
    divided |= np.diff(replica.numbers[chosen]) != 0
    divided |= np.diff(np.searchsorted(bases, rows["base_offset"], side="right")) != 0
    divided |= np.diff(rows["position"] // STEP_BYTES) != 0
    edges = [0, *(np.flatnonzero(divided) + 1).tolist(), len(rows)]
    for first, end in pairwise(edges):
        if end > first:
            yield slice(chosen.start + first, chosen.start + end)


def _sources(taken: Iterable[TakenRange]) -> Iterator[tuple[int, str]]:
    """Yield the first offset of each range of one replica, and its directory."""
    previous = None
    for replica, first, last in taken:
        chosen = replica.between(first, last)
        if replica is not previous and chosen.start < chosen.stop:
            yield first, str(replica.directory)
            previous = replica
