"""Runs of batches found in an image, and the partitions that they are from.

A batch does not name its partition. Two batches are taken for the same partition's only
by these rules, where "follows" means a higher offset and no lower leader epoch:

    1. The bytes of one follow those of the other, within a sector: no other file
       begins there. It has to follow; a gap in the offsets is allowed, as compaction
       leaves gaps.
    2. The bytes of one follow those of the other, at the begin of a sector, where
       another file may begin. It has to follow with exactly the next offset, and the
       sequences of its producers must not contradict.
    3. Two runs have a copy of the same batch, and the same batches at all offsets that
       both have. Copies are written once.
    4. One run ends right before the offset at which another begins, no third one ends
       or begins there, and the sequences of a producer continue from one to the other.
       It must not have written two batches with the same sequence, as a producer does
       that writes to several partitions.

Everything else is separate, so one partition may become several, and never two one by
offsets alone.

The headers of all batches are in a temporary file; three numbers for each batch are in
memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from kafkalog.array_types import Bools, Int64s
from kafkalog.copies.image_search import SECTOR_BYTES
from kafkalog.errors import LogArgumentError
from kafkalog.formats.batch_headers import BatchHeaders
from kafkalog.formats.layout import BATCH, SEQUENCE_MASK

COMPARED_HEADERS: Final = 1024
"""Headers at an end of a run whose producers are compared."""

MAX_RUNS: Final = 1 << 20
"""Greatest number of runs in an image."""

MAX_COPIES: Final = 16
"""Number of copies of a batch that are compared."""

SAME: Final = ("base_offset", "last_offset", "size_in_bytes", "crc", "leader_epoch")
"""Fields that copies of a batch have in common. The CRC covers the others."""

UInt64s = npt.NDArray[np.uint64]


class Run(NamedTuple):
    """Batches that follow one another in the image: the first header, and the end."""

    first: int
    end: int
    first_offset: int
    last_offset: int


class HeaderFile:
    """The headers of batches, in a temporary file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0

    def append(self, rows: BatchHeaders) -> None:
        """Write headers after those before."""
        self._file.seek(self.count * BATCH.itemsize)
        self._file.write(rows.tobytes())
        self.count += len(rows)

    def read(self, first: int, end: int) -> BatchHeaders:
        """Return the headers from number `first` to `end`."""
        self._file.seek(first * BATCH.itemsize)
        return np.frombuffer(self._file.read((end - first) * BATCH.itemsize), BATCH)

    def blocks(self, first: int, end: int) -> Iterator[BatchHeaders]:
        """Yield the headers from number `first` to `end`, in blocks."""
        for start in range(first, end, COMPARED_HEADERS):
            yield self.read(start, min(start + COMPARED_HEADERS, end))


@dataclass(slots=True)
class Chain:
    """Runs of one partition, in order of offsets: numbers of headers."""

    runs: list[tuple[int, int]]
    first_offset: int
    last_offset: int


@dataclass(slots=True)
class RunFinder:
    """The runs of the batches of an image, in order of positions."""

    headers: HeaderFile
    runs: list[Run] = field(default_factory=list)
    _begin: int = 0
    _first_offset: int = 0
    _tail: BatchHeaders = field(default_factory=lambda: np.empty(0, BATCH))

    def add_all(self, found: Iterable[BatchHeaders]) -> list[Run]:
        """Add the headers of all batches, and return the runs."""
        for rows in found:
            self._add(rows)
        self._close()
        return self.runs

    def _add(self, rows: BatchHeaders) -> None:
        joined = np.concatenate((self._tail[-1:], rows))
        follow = np.zeros(len(rows), np.bool_)
        follow[len(rows) + 1 - len(joined) :] = follow_within(joined)
        at_sector = rows["position"] % SECTOR_BYTES == 0
        first = 0
        for i in np.flatnonzero(~follow | at_sector).tolist():
            self._write(rows[first:i])
            first = i
            if not follow[i] or continues(self._tail, rows[i : i + 1]) is False:
                self._close()
                self._first_offset = int(rows["base_offset"][i])
        self._write(rows[first:])

    def _write(self, rows: BatchHeaders) -> None:
        if len(rows):
            self.headers.append(rows)
            self._tail = np.concatenate((self._tail, rows))[-COMPARED_HEADERS:]

    def _close(self) -> None:
        if not len(self._tail):
            return
        if len(self.runs) == MAX_RUNS:
            raise LogArgumentError(
                f"more than {MAX_RUNS} runs of batches, expected an image of logs"
            )
        last = int(self._tail["last_offset"][-1])
        self.runs.append(Run(self._begin, self.headers.count, self._first_offset, last))
        self._begin = self.headers.count
        self._tail = self._tail[:0]


def follow_within(rows: BatchHeaders) -> Bools:
    """Return which batches, without the first, follow by position and offset."""
    before, after = rows[:-1], rows[1:]
    exact = after["base_offset"] == before["last_offset"] + 1
    inside = after["position"] % SECTOR_BYTES != 0
    follow: Bools = (
        (after["position"] == before["position"] + before["size_in_bytes"])
        & (after["base_offset"] > before["last_offset"])
        & (after["leader_epoch"] >= before["leader_epoch"])
        & (exact | inside)
    )
    return follow


def continues(
    before: BatchHeaders, after: BatchHeaders, several: Collection[int] = ()
) -> bool | None:
    """Return whether the sequences of producers continue from batches to later ones.

    None if no producer is in both, without those of `several` partitions.
    """
    known = before[(before["producer_id"] >= 0) & (before["base_sequence"] >= 0)]
    new = after[(after["producer_id"] >= 0) & (after["base_sequence"] >= 0)]
    found = None
    for producer in np.intersect1d(known["producer_id"], new["producer_id"]).tolist():
        last = known[known["producer_id"] == producer][-1]
        first = new[new["producer_id"] == producer][0]
        if first["producer_epoch"] > last["producer_epoch"]:
            if first["base_sequence"] == 0:
                continue
            return False
        delta = int(last["last_offset"]) - int(last["base_offset"])
        expected = (int(last["base_sequence"]) + delta + 1) & SEQUENCE_MASK
        if (
            first["producer_epoch"] < last["producer_epoch"]
            or int(first["base_sequence"]) != expected
        ):
            return False
        if producer not in several:
            found = True
    return found


def chains_of(headers: HeaderFile, runs: list[Run]) -> list[Chain]:
    """Return the partitions that runs are from, in order of positions."""
    identity, sequence, producers = _numbers(headers)
    copies = _copied_batches(identity)
    several = _producers_of_several(identity, sequence, producers)
    del identity, sequence, producers
    chains = _join(headers, _without_copies(headers, runs, copies), several)
    return sorted(chains, key=lambda chain: min(chain.runs))


def _without_copies(
    headers: HeaderFile, runs: list[Run], copies: dict[int, list[int]]
) -> list[Chain]:
    """Return chains of which no two have copies of each other's first batch."""
    starts = [run.first for run in runs]
    chains: list[Chain] = []
    chain_of: dict[int, int] = {}
    order = sorted(
        range(len(runs)),
        key=lambda i: (runs[i].first_offset, -runs[i].last_offset, runs[i].first),
    )
    for i in order:
        run = runs[i]
        for copy in copies.get(run.first, ()):
            owner = int(np.searchsorted(starts, copy, side="right")) - 1
            if owner in chain_of and _merge(
                headers, chains[chain_of[owner]], run, copy
            ):
                chain_of[i] = chain_of[owner]
                break
        else:
            chain_of[i] = len(chains)
            chains.append(
                Chain([(run.first, run.end)], run.first_offset, run.last_offset)
            )
    return chains


def _numbers(headers: HeaderFile) -> tuple[UInt64s, UInt64s, Int64s]:
    """Return three numbers for each batch: its identity, its sequence, its producer.

    Copies of a batch have the same identity. Batches with the same producer, producer
    epoch and sequence have the same number of the sequence. The producer is -1 if there
    is none, or no sequence.
    """
    identity = np.empty(headers.count, np.uint64)
    sequence = np.empty(headers.count, np.uint64)
    producers = np.empty(headers.count, np.int64)
    at = 0
    for rows in headers.blocks(0, headers.count):
        part = slice(at, at + len(rows))
        identity[part] = _mixed(rows["base_offset"], rows["crc"])
        epoch_and_sequence = rows["producer_epoch"].astype(np.int64) << 32
        epoch_and_sequence |= rows["base_sequence"]
        sequence[part] = _mixed(rows["producer_id"], epoch_and_sequence)
        has_sequence = rows["base_sequence"] >= 0
        producers[part] = np.where(has_sequence, rows["producer_id"], -1)
        at += len(rows)
    return identity, sequence, producers


def _mixed(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> UInt64s:
    """Return a hash of two columns."""
    mixed = a.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return mixed ^ b.astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)


def _copied_batches(identity: UInt64s) -> dict[int, list[int]]:
    """Return the first copies of each batch that has any, by number of header."""
    order = np.argsort(identity, kind="stable")
    copies: dict[int, list[int]] = {}
    group: list[int] = []
    same = identity[order[1:]] == identity[order[:-1]]
    for place in np.flatnonzero(same).tolist():
        earlier, later = int(order[place]), int(order[place + 1])
        if earlier not in copies:
            group = copies[earlier] = [earlier]
        if len(group) < MAX_COPIES:
            group.append(later)
        copies[later] = group
    return copies


def _producers_of_several(
    identity: UInt64s, sequence: UInt64s, producers: Int64s
) -> set[int]:
    """Return the producers of different batches with the same sequence."""
    order = np.lexsort((identity, sequence))
    before, after = order[:-1], order[1:]
    several = sequence[after] == sequence[before]
    several &= identity[after] != identity[before]
    several &= producers[after] >= 0
    return set(np.unique(producers[after[several]]).tolist())


def _merge(headers: HeaderFile, chain: Chain, run: Run, copy: int) -> bool:
    """Return whether a run and a chain have the same batches from `copy` on.

    `copy` is the number of a header in the chain, that of a copy of the run's first
    batch. One may end before the other; what the run has beyond is added to the chain.
    """
    place = next(
        (i for i, (first, end) in enumerate(chain.runs) if first <= copy < end), None
    )
    if place is None:
        return False
    own = run.first
    for first, end in [(copy, chain.runs[place][1]), *chain.runs[place + 1 :]]:
        count = min(end - first, run.end - own)
        mine = headers.blocks(own, own + count)
        theirs = headers.blocks(first, first + count)
        for a, b in zip(mine, theirs, strict=True):
            if any((a[name] != b[name]).any() for name in SAME):
                return False
        own += count
        if own == run.end:
            return True
    chain.runs.append((own, run.end))
    chain.last_offset = run.last_offset
    return True


def _join(
    headers: HeaderFile, chains: list[Chain], several: Collection[int]
) -> list[Chain]:
    """Return the chains, with those joined that certainly continue one another.

    `several` are the producers that write to several partitions.
    """
    begins, ends = defaultdict[int, list[Chain]](list), defaultdict[int, int](int)
    for chain in chains:
        begins[chain.first_offset].append(chain)
        ends[chain.last_offset] += 1
    after: dict[int, Chain] = {}
    later = set[int]()
    for chain in chains:
        candidates = begins[chain.last_offset + 1]
        if len(candidates) != 1 or ends[chain.last_offset] != 1:
            continue
        [candidate] = candidates
        first, end = chain.runs[-1]
        tail = headers.read(max(first, end - COMPARED_HEADERS), end)
        first, end = candidate.runs[0]
        head = headers.read(first, min(first + COMPARED_HEADERS, end))
        if head["leader_epoch"][0] >= tail["leader_epoch"][-1] and continues(
            tail, head, several
        ):
            after[id(chain)] = candidate
            later.add(id(candidate))
    joined = []
    for chain in chains:
        if id(chain) in later:
            continue
        following = after.get(id(chain))
        while following is not None:
            chain.runs.extend(following.runs)
            chain.last_offset = following.last_offset
            following = after.get(id(following))
        joined.append(chain)
    return joined
