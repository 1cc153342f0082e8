"""`txns`: the transactions of each partition, and those that no coordinator ends.

An open transaction is hanging by the rule of ``kafka-transactions.sh find-hanging``:
its last batch is older than the maximum transaction timeout, and its producer id is not
that of a transactional id, or the coordinator's transaction does not include the
partition. No marker will be written then, and consumers with ``read_committed`` wait at
the first offset.

Source: ``TransactionsCommand.java``, ``TransactionCoordinator.scala``.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

import numpy as np

from kafkalog.analysis.internal_tables import (
    TIME,
    TRANSACTION_STATE,
    TRANSACTIONS,
    Row,
    table_of,
    transaction_rows,
)
from kafkalog.analysis.internal_tables import topics as topic_table
from kafkalog.decoding.read_policy import OnCorruption
from kafkalog.errors import LocatedError
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.log.reading.transaction_history import (
    UNKNOWN,
    ended_transactions,
    open_transactions,
)
from kafkalog.messages.internal_records import TRANSACTION_STATES
from kafkalog.optional_packages import require
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.readable_offsets import Replica, longest_replicas
from kafkalog.query.scan import Source, scan
from kafkalog.query.sources import find_sources
from kafkalog.storage.file_names import METADATA_TOPIC
from kafkalog.storage.location import locate_all
from kafkalog.storage.log_directory import Numbers, Topics

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = require("pyarrow", "arrow")

MAX_TIMEOUT_MS: Final = 15 * 60 * 1000
"""Kafka's default of ``transaction.max.timeout.ms``, and that of find-hanging."""

COMMAND: Final = (
    "kafka-transactions.sh --bootstrap-server {server} abort "
    "--topic {topic} --partition {partition} --start-offset {offset}"
)
SERVER: Final = "localhost:9092"


class TxnState(StrEnum):
    """What is known of a transaction."""

    OPEN = "open"
    HANGING = "hanging"
    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


UNDECIDED: Final = frozenset({TxnState.OPEN, TxnState.HANGING, TxnState.UNKNOWN})
TXNS: Final = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "producer_id": pa.int64(),
        "producer_epoch": pa.int16(),
        "transactional_id": pa.string(),
        "state": pa.string(),
        "first_offset": pa.int64(),
        "last_timestamp": TIME,
        "command": pa.string(),
    }
)
BY_IMPORTANCE: Final = (
    "topic",
    "partition",
    "state",
    "transactional_id",
    "first_offset",
    "last_timestamp",
)
"""The columns that a narrow table shows, the most important first."""
STATE: Final = TXNS.names.index("state")
PRODUCER_IDS: Final = ("previous_producer_id", "next_producer_id", "producer_id")
DEAD: Final = TRANSACTION_STATES[6]

Problems = list[ScanProblem]
Place = tuple[str, int]
"""A topic and the number of a partition."""


@dataclass(frozen=True, slots=True)
class Coordinators:
    """The state of the transaction coordinators, from ``__transaction_state``.

    `ids` has the transactional id of each producer id, former ones included, and
    `ongoing` the partitions of each current producer id's transaction. `is_complete` is
    whether all partitions of the topic were read.
    """

    ids: Mapping[int, str]
    ongoing: Mapping[int, frozenset[Place]]
    is_complete: bool

    def decide(self, place: Place, producer_id: int) -> TxnState:
        """Return whether the coordinator ends an old transaction of a partition."""
        if producer_id in self.ongoing:
            is_included = place in self.ongoing[producer_id]
            return TxnState.OPEN if is_included else TxnState.HANGING
        return TxnState.HANGING if self.is_complete else TxnState.UNKNOWN


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What decides whether a transaction is hanging, and the server to end it at.

    Transactions with a batch after `oldest_ms` are too young.
    """

    coordinators: Coordinators
    oldest_ms: int
    bootstrap_server: str

    def decide(self, place: Place, producer_id: int, last_ms: int) -> TxnState:
        """Return the state of an open transaction."""
        if last_ms >= self.oldest_ms:
            return TxnState.OPEN
        return self.coordinators.decide(place, producer_id)

    def command(self, place: Place, first_offset: int) -> str:
        """Return the command line that ends a hanging transaction."""
        topic, partition = place
        return COMMAND.format(
            server=shlex.quote(self.bootstrap_server),
            topic=topic,
            partition=partition,
            offset=first_offset,
        )


def txns(
    source: Source,
    *,
    topics: Topics = None,
    exclude_topics: Topics = None,
    partitions: Numbers = None,
    states: Iterable[str] | None = None,
    max_transaction_timeout_ms: int = MAX_TIMEOUT_MS,
    bootstrap_server: str = SERVER,
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Return the transactions of each partition: hanging, open, aborted, committed.

    Parameters
    ----------
    source : path, URL, or list of these
        A log directory, or several. Of a partition that several have, that with the
        highest offset is read.
    topics, exclude_topics : str or iterable of str, optional
        Only these topics, and not these; ``*``, ``?`` and ``[...]`` match as in a
        shell.
    partitions : int or iterable of int, optional
        Only partitions with these numbers.
    states : iterable of str, optional
        The states to report; by default all. Without ``committed`` and ``aborted``,
        logs are read from the newest producer snapshot only.
    max_transaction_timeout_ms : int
        The age of the last batch up to which an open transaction is not hanging.
    bootstrap_server : str
        The server in the commands.
    filesystem, storage_options : optional
        The file system of the paths, or options of that of a URL, as for `scan`.

    Returns
    -------
    pyarrow.Table
        A row for each transaction in a partition, by partition; ended ones in order of
        their markers, then open ones. The columns are ``topic``, ``partition``,
        ``producer_id``, ``producer_epoch``, ``transactional_id`` (null if unknown),
        ``state``, ``first_offset``, ``last_timestamp`` (of the marker, or of the last
        batch) and ``command``, which ends a hanging transaction and is null otherwise.

        The state is ``committed``, ``aborted``, ``open``, ``hanging``, or ``unknown``:
        open, where a partition of ``__transaction_state`` that may have its
        transactional id is missing. ``first_offset`` is null if no record of the
        transaction is left, or if retention may have removed its first ones.

    Raises
    ------
    FileNotFoundError
        If a path, topic or partition does not exist.
    CorruptRecordError
        If a batch is corrupt, with file and byte.
    ValueError
        If a state is not one of the five.
    MissingDependencyError
        If pyarrow is not installed.

    Examples
    --------
    >>> import kafkalog
    >>> table = kafkalog.txns("tests/golden/k431-clean/logs", states=["open"])
    >>> table.select(["partition", "producer_id", "first_offset"]).to_pylist()
    [{'partition': 0, 'producer_id': 4, 'first_offset': 107}, ...
    """
    table, _ = readable_txns(
        source,
        topics=topics,
        exclude_topics=exclude_topics,
        partitions=partitions,
        states=tuple(states or ()),
        max_transaction_timeout_ms=max_transaction_timeout_ms,
        bootstrap_server=bootstrap_server,
        on_corruption="raise",
        filesystem=filesystem,
        storage_options=storage_options,
    )
    return table


def readable_txns(
    source: Source,
    *,
    topics: Topics,
    exclude_topics: Topics,
    partitions: Numbers,
    states: Sequence[str],
    max_transaction_timeout_ms: int,
    bootstrap_server: str,
    on_corruption: OnCorruption = "skip",
    filesystem: object = None,
    storage_options: Mapping[str, str] | None = None,
) -> tuple[pa.Table, Problems]:
    """Return the transactions, and the damage that is skipped.

    If a part of the coordinators' state cannot be read, old transactions that are open
    and that the rest does not have are unknown.
    """
    for state in states:
        if state not in tuple(TxnState):
            raise ValueError(f"state {state!r}, expected one of {', '.join(TxnState)}")
    wanted = set(states or TxnState)
    located = locate_all(source, filesystem, storage_options)
    chosen = scan(
        located, topics=topics, exclude_topics=exclude_topics, partitions=partitions
    )
    replicas = longest_replicas(part for part, _ in chosen.sources)
    problems = Problems()
    try:
        coordinators = read_coordinators(located, on_corruption, problems)
    except LocatedError as error:
        if on_corruption == "raise":
            raise
        problems.append(ScanProblem.of(error, None, None))
        coordinators = Coordinators({}, {}, is_complete=False)
    inquiry = Inquiry(
        coordinators=coordinators,
        oldest_ms=time.time_ns() // 1_000_000 - max_transaction_timeout_ms,
        bootstrap_server=bootstrap_server,
    )

    def rows() -> Iterator[Row]:
        for place in sorted(replicas):
            errors = None if on_corruption == "raise" else list[LocatedError]()
            try:
                for row in _rows_of(place, replicas[place], wanted, inquiry, errors):
                    if row[STATE] in wanted:
                        yield row
            except LocatedError as error:
                if errors is None:
                    raise
                errors.append(error)
            # What one reading of a log found, another one has found before.
            found = {str(error): error for error in errors or ()}
            problems.extend(
                ScanProblem.of(error, None, None) for error in found.values()
            )

    return table_of(rows(), TXNS), problems


def read_coordinators(
    source: Source, on_corruption: OnCorruption, problems: Problems
) -> Coordinators:
    """Return what ``__transaction_state`` has, and whether that is all of it.

    Damage that is skipped is appended to `problems`.
    """
    found = {
        place.partition
        for place in find_sources(source)
        if place.topic == TRANSACTION_STATE
    }
    if not found:
        return Coordinators({}, {}, is_complete=False)
    ids, ongoing, skipped = {}, {}, Problems()
    states = scan(source, on_corruption=on_corruption)
    for values in transaction_rows(states, skipped):
        row = dict(zip(TRANSACTIONS.names, values, strict=True))
        for name in PRODUCER_IDS:
            if row[name] is not None:
                ids[row[name]] = row["transactional_id"]
        if row["state"] != DEAD:
            ongoing[row["producer_id"]] = frozenset(
                (part["topic"], part["partition"]) for part in row["partitions"]
            )
    problems += skipped
    is_complete = not skipped and len(found) == _partitions_of(source)
    return Coordinators(ids, ongoing, is_complete)


def _partitions_of(source: Source) -> int | None:
    """Return the number of partitions of ``__transaction_state``; None if unknown."""
    if not any(place.topic == METADATA_TOPIC for place in find_sources(source)):
        return None
    for row in topic_table(source).to_pylist():
        if row["topic"] == TRANSACTION_STATE:
            return int(row["partitions"])
    return None


def _rows_of(
    place: Place,
    log: Replica,
    wanted: Collection[str],
    inquiry: Inquiry,
    errors: list[LocatedError] | None,
) -> Iterator[Row]:
    """Yield the rows of one partition; its log is read as far as `wanted` needs it.

    With a list for errors, corrupt batches are skipped and their errors appended.
    """
    if not UNDECIDED.issuperset(wanted):
        for ended in ended_transactions(log.directory, log.log_start_offset, errors):
            for entry in ended.tolist():
                yield _ended_row(place, entry, inquiry.coordinators)
    if not UNDECIDED.isdisjoint(wanted):
        for entry in open_transactions(log.directory, log.log_end_offset, errors):
            yield _open_row(place, entry, inquiry)


def _ended_row(place: Place, entry: Row, coordinators: Coordinators) -> Row:
    producer_id, epoch, first, _, last_ms, marker = entry
    is_aborted = marker == ControlRecordType.ABORT
    return (
        *place,
        producer_id,
        epoch,
        coordinators.ids.get(producer_id),
        TxnState.ABORTED if is_aborted else TxnState.COMMITTED,
        None if first == UNKNOWN else first,
        None if last_ms < 0 else last_ms,
        None,
    )


def _open_row(place: Place, entry: np.void, inquiry: Inquiry) -> Row:
    producer_id, last_ms = int(entry["producer_id"]), int(entry["timestamp"])
    first = int(entry["current_txn_first_offset"])
    state = inquiry.decide(place, producer_id, last_ms)
    return (
        *place,
        producer_id,
        int(entry["producer_epoch"]),
        inquiry.coordinators.ids.get(producer_id),
        state,
        first,
        None if last_ms < 0 else last_ms,
        inquiry.command(place, first) if state == TxnState.HANGING else None,
    )
