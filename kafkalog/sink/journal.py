"""The journal of commits in a log directory: ``kafkalog-journal``.

It has the last committed epoch of each query, and the commit in progress, if any:

    1                                        version
    5ab31c07                                 CRC32C of all that follows, in hex
    {"queries": {...}, "open": {...}}        JSON

Each change replaces the file and forces it to disk. The journal belongs to the process
that has locked the log directory.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from kafkalog.codecs.checksum import crc32c
from kafkalog.errors import CorruptJournalError
from kafkalog.log.ownership import Name
from kafkalog.sink.staging import STAGED, CommitIdentity, StagedFile
from kafkalog.storage.contained_path import contained_names
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.file_names import MAX_OFFSET, PartitionDir
from kafkalog.storage.location import read_small

JOURNAL: Final = "kafkalog-journal"
VERSION: Final = b"1"
MAX_QUERIES: Final = 10_000
"""Queries that are remembered; then the one that committed longest ago is forgotten."""

MAX_EPOCH: Final = 2**15 - 2
"""The last epoch of a producer id: at the next one, Kafka takes a new id."""

Visibility: TypeAlias = Literal["record", "transaction"]


class Producer(NamedTuple):
    """The producer of a transaction. Its id is above those that a cluster assigns."""

    producer_id: int
    epoch: int

    @classmethod
    def new(cls) -> Producer:
        """Return a producer with a random id of 2**62 or more."""
        return cls(2**62 + secrets.randbits(62), 0)

    def next(self) -> Producer:
        """Return the producer of the next transaction."""
        return Producer.new() if self.epoch >= MAX_EPOCH else self.bumped()

    def bumped(self) -> Producer:
        """Return the producer with the next epoch."""
        return self._replace(epoch=self.epoch + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenCommit:
    """A commit in progress, with all that is needed to complete or undo it.

    `begins` has the log end offset of each partition before the commit, and `created`
    the number of partitions of each topic that the commit creates. `producer` is None
    if the records are not in a transaction.
    """

    identity: CommitIdentity
    files: tuple[StagedFile, ...]
    begins: Mapping[Name, int]
    created: Mapping[str, int] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    producer: Producer | None = None

    def files_of(self, name: Name) -> list[StagedFile]:
        """Return the staged files of a partition, in the order of the commit."""
        return [file for file in self.files if (file.topic, file.partition) == name]


@dataclass(frozen=True, slots=True)
class QueryState:
    """The last committed epoch of a query, and its last producer."""

    epoch: int
    producer: Producer | None = None


class Journal:
    """The journal of a log directory, read from its file."""

    def __init__(self, directory: Path, disk: Disk = DISK) -> None:
        """Read the journal; a missing file is an empty one.

        Raises `CorruptJournalError`.
        """
        self._path = directory / JOURNAL
        self._disk = disk
        self.queries: dict[str, QueryState] = {}
        self.open: OpenCommit | None = None
        try:
            data = read_small(self._path)
        except FileNotFoundError:
            return
        try:
            self.queries, self.open = parse_journal(data)
        except CorruptJournalError as error:
            error.add_note("If the file is removed, repeated commits write again.")
            raise error.located(self._path) from None

    def is_committed(self, identity: CommitIdentity) -> bool:
        """Return whether an epoch of the query, or a later one, was committed."""
        state = self.queries.get(identity.query)
        return state is not None and identity.epoch <= state.epoch

    def next_producer(self, query: str) -> Producer:
        """Return the producer of a query's next transaction."""
        state = self.queries.get(query)
        if state is None or state.producer is None:
            return Producer.new()
        return state.producer.next()

    def begin(self, commit: OpenCommit) -> None:
        """Record a commit as in progress."""
        self._write(self.queries, commit)

    def end(self, commit: OpenCommit) -> None:
        """Record a commit as complete."""
        query, epoch = commit.identity
        queries = {name: one for name, one in self.queries.items() if name != query}
        before = self.queries.get(query)
        producer = commit.producer
        if producer is None and before is not None:
            producer = before.producer
        queries[query] = QueryState(epoch, producer)
        for oldest in list(queries)[:-MAX_QUERIES]:
            del queries[oldest]
        self._write(queries, None)

    def cancel(self, commit: OpenCommit) -> None:
        """Record that a commit was undone. Its producer's epoch is not used again."""
        queries, (query, _) = dict(self.queries), commit.identity
        if commit.producer is not None:
            state = queries.pop(query, QueryState(-1))
            queries[query] = replace(state, producer=commit.producer)
        self._write(queries, None)

    def _write(self, queries: dict[str, QueryState], open_: OpenCommit | None) -> None:
        self._disk.replace(self._path, format_journal(queries, open_))
        self.queries, self.open = queries, open_


def format_journal(
    queries: Mapping[str, QueryState], open_commit: OpenCommit | None
) -> bytes:
    """Return the bytes of a journal."""
    content = {
        "queries": {
            query: [state.epoch, state.producer] for query, state in queries.items()
        },
        "open": None if open_commit is None else _members(open_commit),
    }
    body = json.dumps(content, separators=(",", ":")).encode() + b"\n"
    return b"%b\n%08x\n%b" % (VERSION, crc32c(body), body)


def _members(commit: OpenCommit) -> dict[str, Any]:
    return {
        "identity": commit.identity,
        "files": commit.files,
        "begins": [[*name, offset] for name, offset in commit.begins.items()],
        "created": commit.created,
        "settings": commit.settings,
        "producer": commit.producer,
    }


def parse_journal(data: bytes) -> tuple[dict[str, QueryState], OpenCommit | None]:
    """Return the queries and the open commit in the bytes of a journal.

    Raises `CorruptJournalError`.

    >>> parse_journal(format_journal({"batch:7": QueryState(0)}, None))
    ({'batch:7': QueryState(epoch=0, producer=None)}, None)
    """
    version, _, rest = data.partition(b"\n")
    if version != VERSION:
        reason = f"version {version[:20]!r}, expected {VERSION!r}"
        raise CorruptJournalError(reason, position=0)
    stored, _, body = rest.partition(b"\n")
    computed = crc32c(body)
    if stored != b"%08x" % computed:
        text = stored[:8].decode("ascii", "replace")
        reason = f"CRC mismatch: stored {text!r}, computed {computed:08x}"
        raise CorruptJournalError(reason, position=len(VERSION) + 1)
    try:
        content: Any = json.loads(body)
        queries = {
            query: QueryState(epoch, producer and Producer(*producer))
            for query, (epoch, producer) in content["queries"].items()
        }
        return queries, content["open"] and _open_commit(content["open"])
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        position = len(data) - len(body)
        reason = "expected the JSON of a journal of version 1"
        raise CorruptJournalError(reason, position=position) from None


def _open_commit(members: Mapping[str, Any]) -> OpenCommit:
    """Return an open commit, all of whose files are in the log directory."""
    files = tuple(StagedFile(*file) for file in members["files"])
    for file in files:
        [name] = contained_names(file.name, 1)
        if not name.startswith(STAGED):
            raise ValueError(f"file name {name!r}, expected one that begins {STAGED}")
        PartitionDir(file.topic, file.partition)
    begins = {
        (topic, partition): offset for topic, partition, offset in members["begins"]
    }
    for partition, offset in begins.items():
        PartitionDir(*partition)
        if not 0 <= offset <= MAX_OFFSET:
            raise ValueError(f"offset {offset}, expected 0 to {MAX_OFFSET}")
    for topic, count in members["created"].items():
        PartitionDir(topic, count - 1)
    return OpenCommit(
        identity=CommitIdentity(*members["identity"]),
        files=files,
        begins=begins,
        created=members["created"],
        settings=members["settings"],
        producer=members["producer"] and Producer(*members["producer"]),
    )
