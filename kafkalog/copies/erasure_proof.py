"""`prove`: search a log directory for records that should not be in it.

All files with batches are read: those of live partitions, of directories marked
``-delete``, ``-stray`` and ``-future``, and files marked ``.deleted``, ``.cleaned`` and
``.swap``, and the originals that repairs have kept in the log directory or next to it.
Every record in them is tested, the ones below the log start offset and those of aborted
transactions included. Bytes that are in no valid batch, such as what lies
after the end of a log, are searched for the keys themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Int64s
from kafkalog.copies.record_selection import RecordSelection
from kafkalog.copies.repair_originals import kept_originals
from kafkalog.copies.selected_batches import contiguous_runs
from kafkalog.decoding.batch_decoder import RecordViews, decode, find_headers
from kafkalog.decoding.read_policy import SKIPPING, Bounds
from kafkalog.decoding.workspace import Workspace
from kafkalog.errors import LocatedError
from kafkalog.formats.batch_headers import have_flag
from kafkalog.formats.layout import CONTROL_FLAG, MAX_BATCH_BYTES
from kafkalog.log.ownership import Name
from kafkalog.messages.internal_records import INTERNAL_TOPICS
from kafkalog.query.sources import FILE_ENDINGS
from kafkalog.reports import ReportBase, ReportRow, counted
from kafkalog.segment.file_records import FileRecords, Step
from kafkalog.storage.file_names import MAX_OFFSET, parse_partition_dir
from kafkalog.storage.location import OpenedSource, is_directory, is_file, open_source
from kafkalog.storage.log_directory import is_partition, list_partitions

SEARCH_BYTES: Final = 4 << 20
MENTIONED_KEYS: Final = 100
"""Maximum number of keys whose mentions are counted, as each takes a search."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding(ReportRow):
    """A file with records that should not be in it.

    Attributes
    ----------
    path : str
        The file, relative to the searched path.
    records : int
        Records that should not be there.
    first_offset : int or None
        The offset of the first of them.
    occurrences : int
        Occurrences of an excluded key in bytes that are in no valid batch.
    position : int
        The byte of the first occurrence, or of the batch of the first record.
    """

    IMPORTANCE: ClassVar = ("path", "records", "first_offset", "occurrences")

    path: str
    records: int
    first_offset: int | None
    occurrences: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class ProofReport(ReportBase):
    """The result of a search for what should be gone.

    Attributes
    ----------
    findings : tuple of Finding
        The files in which something was found.
    files, records, bytes : int
        What was searched.
    unreadable_bytes : int
        Bytes in no valid batch. They were searched for excluded keys as they are: a
        compressed batch that is damaged cannot be searched otherwise.
    mentions : int or None
        Occurrences of excluded keys in the values and headers of other records; None if
        there are more than 100 keys, for which they are not counted. They are no
        findings, as a short key may occur anywhere, but nothing is proved with them.

    Examples
    --------
    >>> ProofReport(files=1, records=7)
    <ProofReport: 0 found in 7 records of 1 file>
    """

    ROWS: ClassVar = "findings"
    NOUN: ClassVar = "finding"

    findings: tuple[Finding, ...] = ()
    files: int = 0
    records: int = 0
    bytes: int = 0
    unreadable_bytes: int = 0
    mentions: int | None = 0

    @property
    def ok(self) -> bool:
        """Whether nothing was found, and no excluded key is mentioned."""
        return not self.findings and not self.mentions

    def __str__(self) -> str:
        found = sum(finding.records for finding in self.findings)
        found += sum(finding.occurrences for finding in self.findings)
        searched = f"{counted(self.records, 'record')} of {counted(self.files, 'file')}"
        text = f"{found:,} found in {searched}"
        if self.mentions is None:
            more = f"mentions of more than {MENTIONED_KEYS} keys are not counted"
            return f"{text}; {more}"
        if self.mentions:
            text += f"; {counted(self.mentions, 'mention')} in other records"
        return text


SelectionOf = Callable[[Name], tuple[RecordSelection, Bounds]]
"""Returns the selection, and the bounds of offsets, of a partition's records."""


def search(path: Path, selection_of: SelectionOf) -> ProofReport:
    """Return where a log directory, or a partition's, has records not selected.

    The originals that repairs have kept of it are searched as well.
    """
    search_of = _Search(path, selection_of)
    for name, file in _files_in(path):
        search_of.add(name, file)
    only = path.absolute().name if is_partition(path) else None
    root = path if only is None else path.absolute().parent
    for originals in kept_originals(root):
        for name, file in _files_of_repair(originals, only):
            search_of.add(name, file)
    return search_of.report()


def search_originals(originals: Path, selection_of: SelectionOf) -> ProofReport:
    """Return where the originals of a repair have records not selected."""
    search_of = _Search(originals, selection_of)
    for name, file in _files_of_repair(originals, None):
        search_of.add(name, file)
    return search_of.report()


def _files_in(path: Path) -> Iterator[tuple[Name, Path]]:
    """Yield each file with batches, and the partition that it is of."""
    if is_partition(path):
        parsed = parse_partition_dir(path.absolute().name)
        name = ("", -1) if parsed is None else (parsed.topic, parsed.partition)
        directories = [(name, path)]
    else:
        directories = [
            ((each.topic, each.partition), Path(path, each.name))
            for each, _ in list_partitions(path, marked=True)
        ]
    for name, directory in directories:
        yield from ((name, file) for file in _logs_in(directory))


def _files_of_repair(originals: Path, only: str | None) -> Iterator[tuple[Name, Path]]:
    """Yield the original files with batches; `only` those of one directory."""
    for directory in sorted(filter(is_directory, originals.iterdir())):
        parsed = parse_partition_dir(directory.name)
        if parsed is not None and only in (None, directory.name):
            for file in _logs_in(directory):
                yield (parsed.topic, parsed.partition), file


def _logs_in(directory: Path) -> Iterator[Path]:
    for file in sorted(directory.iterdir()):
        if file.name.endswith(FILE_ENDINGS) and is_file(file):
            yield file


class _Search:
    """A search of one file after another; it adds up what was found."""

    def __init__(self, root: Path, selection_of: SelectionOf) -> None:
        self._root = root
        self._selection_of = selection_of
        self._workspace = Workspace()
        self._findings: list[Finding] = []
        self._files = self._records = self._bytes = 0
        self._unreadable = 0
        self._mentions: int | None = 0

    def add(self, name: Name, path: Path) -> None:
        """Search a file."""
        if name[0] in INTERNAL_TOPICS:
            return
        selection, bounds = self._selection_of(name)
        self._files += 1
        with open_source(path, links=False) as source:
            file = _FileSearch(source, selection, bounds, name, self._workspace)
            file.run()
            self._bytes += source.size
        self._records += file.records
        self._unreadable += file.unreadable
        if len(file.keys) > MENTIONED_KEYS:
            self._mentions = None
        elif self._mentions is not None:
            self._mentions += file.mentions
        if file.found or file.occurrences:
            self._findings.append(
                Finding(
                    path=os.path.relpath(path, self._root),
                    records=file.found,
                    first_offset=file.first_offset,
                    occurrences=file.occurrences,
                    position=file.position,
                )
            )

    def report(self) -> ProofReport:
        """Return what was found so far."""
        return ProofReport(
            findings=tuple(self._findings),
            files=self._files,
            records=self._records,
            bytes=self._bytes,
            unreadable_bytes=self._unreadable,
            mentions=self._mentions,
        )


@dataclass(slots=True)
class _FileSearch:
    """A search of one file: its valid batches, and the bytes between them."""

    source: OpenedSource
    selection: RecordSelection
    bounds: Bounds
    name: Name
    workspace: Workspace
    found: int = 0
    first_offset: int | None = None
    occurrences: int = 0
    position: int = MAX_OFFSET
    records: int = 0
    unreadable: int = 0
    mentions: int = 0

    @property
    def keys(self) -> frozenset[bytes]:
        """The keys that are searched for in bytes."""
        return frozenset(key for key in self.selection.excluded_keys if key)

    def run(self) -> None:
        """Search the file."""
        end = 0
        for step in _steps(self.source):
            self._search_bytes(end, int(step.rows["position"][0]))
            self._search_records(step)
            end = _end_of(step.rows[-1])
        self._search_bytes(end, self.source.size)

    def _search_records(self, step: Step) -> None:
        rows = step.rows[~have_flag(step.rows, CONTROL_FLAG)]
        keys = self.keys
        for views in decode(
            step.data,
            step.origin,
            rows,
            bounds=Bounds(),
            limit=MAX_BATCH_BYTES,
            workspace=self.workspace,
        ):
            if isinstance(views, LocatedError):
                damaged = rows[rows["position"] <= views.position][-1]
                self._search_bytes(int(damaged["position"]), _end_of(damaged))
                continue
            self.records += len(views.records)
            found = ~self.selection.select(views, self.bounds, self.name)
            self.found += int(found.sum())
            if found.any() and self.first_offset is None:
                row = int(found.argmax())
                batch = int(np.searchsorted(np.cumsum(views.counts), row, "right"))
                self.first_offset = int(views.records["offset"][row])
                position = int(views.rows["position"][batch])
                self.position = min(self.position, position)
            if 0 < len(keys) <= MENTIONED_KEYS:
                self.mentions += count_mentions(views, ~found, keys)

    def _search_bytes(self, start: int, end: int) -> None:
        """Count the excluded keys in bytes, a part at a time; parts overlap."""
        keys = self.keys
        self.unreadable += end - start
        longest = max(map(len, keys), default=0)
        for at in range(start, end if keys else start, SEARCH_BYTES):
            length = min(SEARCH_BYTES + longest - 1, end - at)
            data = self.source.read(at, length).tobytes()
            for key in keys:
                place = data.find(key)
                while 0 <= place < SEARCH_BYTES:
                    self.occurrences += 1
                    self.position = min(self.position, at + place)
                    place = data.find(key, place + 1)


def _end_of(row: np.void) -> int:
    """Return the position after a batch."""
    return int(row["position"]) + int(row["size_in_bytes"])


def count_mentions(
    views: RecordViews, among: npt.NDArray[np.bool_], keys: frozenset[bytes]
) -> int:
    """Count the occurrences of keys in values and headers of some records."""
    data = views.data.tobytes()
    places = [
        (match.start(), len(key))
        for key in keys
        for match in re.finditer(re.escape(key), data)
    ]
    if not places:
        return 0
    starts, lengths = np.array(sorted(places), np.int64).T
    records = views.records
    values = records["value_start"][among], records["value_length"][among]
    count = _count_within(starts, lengths, *values)
    offsets, headers = find_headers(views)
    chosen = np.repeat(among, np.diff(offsets))
    for start, length in (headers[:2], headers[2:]):
        count += _count_within(starts, lengths, start[chosen], length[chosen])
    return count


def _count_within(
    starts: Int64s,
    lengths: Int64s,
    field_starts: npt.NDArray[np.int32],
    field_lengths: npt.NDArray[np.int32],
) -> int:
    """Return how many places are within one of some fields, which ascend."""
    if not len(field_starts):
        return 0
    present = field_lengths > 0
    begins, ends = field_starts[present], (field_starts + field_lengths)[present]
    fields = np.searchsorted(begins, starts, side="right") - 1
    within = (fields >= 0) & (starts + lengths <= ends[fields])
    return int(within.sum())


def _steps(source: OpenedSource) -> Iterator[Step]:
    """Yield the valid batches of a file, in runs without bytes between them."""
    for step in FileRecords(source=source, policy=SKIPPING):
        if not isinstance(step, Step):
            continue
        for run in contiguous_runs(step.rows):
            yield Step(step.data, step.origin, run, step.before)
