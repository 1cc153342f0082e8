"""Commits of staged files to a log directory, and their recovery.

    1  lock the log directory, load its logs as a broker does
    2  complete or undo the commit that the journal has as open
    3  if the journal has the identity as committed, write nothing
    4  journal: the identity, the staged files, the log end offset of each partition
    5  append the batches, force the logs to disk; markers of a transaction last
    6  journal: the identity is committed
    7  remove the staged files, checkpoint, release the lock

After an interruption before step 4 nothing is written. After it, the next commit of any
identity finds the open entry in step 2.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from kafkalog.config import BrokerConfig
from kafkalog.errors import (
    CommitConflictError,
    ConfigError,
    CorruptRecordError,
    InvalidAppendError,
    KafkaLogError,
    LogClosedError,
    StagedFileError,
)
from kafkalog.log.ownership import Name
from kafkalog.manager.log_manager import LogManager
from kafkalog.sink import commit_steps
from kafkalog.sink.journal import Journal, OpenCommit, Visibility
from kafkalog.sink.staging import (
    CommitIdentity,
    StagedFile,
    check_staged,
    list_removable,
    list_staged,
)
from kafkalog.storage.durable_file import DISK, Disk
from kafkalog.storage.file_names import METADATA_TOPIC, PartitionDir

LOGGER: Final = logging.getLogger("kafkalog")
APPENDS_ONLY: Final = BrokerConfig(
    log_cleaner_enable=False,
    log_initial_task_delay_ms=1 << 40,  # no retention while the logs are open
    log_segment_delete_delay_ms=0,
    transaction_partition_verification_enable=False,
)
"""Settings of a broker that does nothing but append."""

NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


class CommitResult(NamedTuple):
    """The result of a commit.

    `offsets` has the first offset of each (topic, partition) and the one after the
    last, with the transaction marker. It is empty for a replay, which writes nothing.
    """

    offsets: Mapping[Name, tuple[int, int]]
    is_replay: bool


def commit_staged(
    directory: Path,
    identity: CommitIdentity,
    files: Iterable[StagedFile],
    *,
    partitions: int | None = None,
    topic_settings: Mapping[str, str] = NO_SETTINGS,
    visibility: Visibility = "record",
    assigned: Iterable[tuple[str, int]] = (),
) -> CommitResult:
    """Append staged files to the logs of a directory, all of them or none.

    Threads named ``kafkalog-commit``, one for each processor, append to the partitions,
    and have ended when this returns, like the threads of the `LogManager` it opens.

    Parameters
    ----------
    directory : Path
        The log directory; it is created if it is missing.
    identity : CommitIdentity
        If it, or a later epoch of its query, was committed before, nothing is written.
    files : iterable of StagedFile
        The staged files, in the order in which to append those of a partition.
    partitions : int, optional
        The number of partitions of topics that do not exist. By default a missing topic
        is an error.
    topic_settings : mapping of str to str
        Settings of the topics, by Kafka's names, while the commit is written.
    visibility : {"record", "transaction"}
        With ``transaction`` the batches are one transaction, so that readers with
        ``read_committed`` see all of them or none.
    assigned : iterable of (str, int)
        The topics whose rows were assigned to partitions by key, or spread, with the
        number of partitions then. The same key would be in two partitions if it is
        another number now.

    Returns
    -------
    CommitResult
        The offsets of the records.

    Raises
    ------
    LogLockedError
        If a broker or kafkalog has the directory open for writing.
    ConfigError
        If a topic or partition does not exist, a setting is invalid, or a topic has
        another number of partitions than rows were assigned to.
    StagedFileError
        If a staged file is missing, or is not what its task wrote.
    CommitConflictError
        If an interrupted commit can neither be completed nor undone.
    InvalidAppendError
        If a log rejects a batch.
    OSError
        If the disk fails.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> from kafkalog.sink.staging import StagingWriter
    >>> batch, identity = kafkalog.RecordBatchBuilder(), CommitIdentity("batch:1")
    >>> batch.append(b"k", b"v")
    >>> with tempfile.TemporaryDirectory() as root:
    ...     with StagingWriter(Path(root), identity, 0, 0) as writer:
    ...         writer.write("orders", 0, [batch.build()])
    ...         files = writer.finish()
    ...     for attempt in range(2):
    ...         print(commit_staged(Path(root), identity, files, partitions=1))
    CommitResult(offsets={('orders', 0): (0, 1)}, is_replay=False)
    CommitResult(offsets={}, is_replay=True)
    """
    committer = LogCommitter(directory)
    plan = CommitPlan(
        identity,
        tuple(files),
        partitions,
        topic_settings,
        visibility,
        tuple(sorted({*assigned})),
    )
    return committer.commit(plan)


def abandon_staged(directory: Path, identity: CommitIdentity) -> None:
    """Remove the staged files of an identity, unless its commit has begun."""
    open_commit = Journal(directory).open
    if open_commit is None or open_commit.identity != identity:
        for name in list_staged(directory, identity):
            DISK.remove_if_there(directory / name)


def abandon_late(
    directory: Path, identity: CommitIdentity, files: Iterable[StagedFile]
) -> None:
    """Remove files that a task has finished after the commit of its identity.

    That is a speculative attempt, or a repetition. A commit that ends after this call
    removes the files itself.
    """
    if Journal(directory).is_committed(identity):
        for file in files:
            DISK.remove_if_there(directory / file.name)


def open_to_commit(directory: Path) -> LogManager:
    """Open a log directory without retention and compaction."""
    return LogManager(directory, broker=APPENDS_ONLY)


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """The arguments of `commit_staged`."""

    identity: CommitIdentity
    files: tuple[StagedFile, ...]
    partitions: int | None
    settings: Mapping[str, str]
    visibility: Visibility
    assigned: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class LogCommitter:
    """Commits to one log directory; tests pass a disk and open the logs themselves."""

    directory: Path
    disk: Disk = DISK
    open_logs: Callable[[Path], LogManager] = open_to_commit

    def commit(self, plan: CommitPlan) -> CommitResult:
        """Complete what was interrupted, then commit; see `commit_staged`."""
        result: CommitResult | None = None
        try:
            with self.open_logs(self.directory) as logs:
                journal = Journal(self.directory, self.disk)
                self._recover(logs, journal)
                result = self._commit(logs, journal, plan)
                self._remove_staged(plan.identity)
        except (OSError, LogClosedError) as error:
            if result is not None:
                error.add_note(_COMPLETE)
            else:
                self._undo_after(error, plan.identity)
            raise
        return result

    def _commit(
        self, logs: LogManager, journal: Journal, plan: CommitPlan
    ) -> CommitResult:
        if journal.is_committed(plan.identity):
            return CommitResult({}, is_replay=True)
        commit = self._begin(logs, journal, plan)
        if not commit.files:
            journal.end(commit)
            return CommitResult({}, is_replay=False)
        journal.begin(commit)
        try:
            offsets = commit_steps.complete(logs, commit, self.directory, self.disk)
        except LogClosedError:  # the disk failed in the background
            raise
        except KafkaLogError:
            # The lock is held since the commit began: all after that is its own.
            commit_steps.undo(logs, commit)
            journal.cancel(commit)
            raise
        journal.end(commit)
        return CommitResult(offsets, is_replay=False)

    def _begin(
        self, logs: LogManager, journal: Journal, plan: CommitPlan
    ) -> OpenCommit:
        """Check a commit against the logs, without a change to them."""
        for file in plan.files:
            check_staged(self.directory, file)
        names = sorted({(file.topic, file.partition) for file in plan.files})
        existing = _partitions_in(logs)
        created = _topics_to_create(logs, existing, names, plan.partitions)
        _check_assigned(existing, created, plan.assigned)
        for topic in {topic for topic, _ in names}:
            logs.config_of(topic).with_changes(plan.settings)
        producer = None
        if plan.visibility == "transaction" and names:
            producer = journal.next_producer(plan.identity.query)
        return OpenCommit(
            identity=plan.identity,
            files=plan.files,
            begins=commit_steps.plan_begins(logs, names),
            created=created,
            settings=dict(plan.settings),
            producer=producer,
        )

    def _recover(self, logs: LogManager, journal: Journal) -> None:
        """Complete the open commit of the journal, or undo it if that is impossible."""
        commit = journal.open
        if commit is None:
            return
        try:
            commit_steps.complete(logs, commit, self.directory, self.disk)
        except (StagedFileError, InvalidAppendError, CorruptRecordError) as error:
            self._undo(logs, journal, commit)
            LOGGER.warning(
                "undid an interrupted commit of %s: %s", commit.identity, error
            )
        except CommitConflictError as error:
            error.add_note(_GIVE_UP)
            raise
        else:
            journal.end(commit)
            LOGGER.info("completed the interrupted %s", commit.identity)
            self._remove_staged(commit.identity)

    def _undo(self, logs: LogManager, journal: Journal, commit: OpenCommit) -> None:
        try:
            commit_steps.check_stored(logs, commit, self.directory, self.disk)
        except StagedFileError as error:
            conflict = CommitConflictError(
                f"an interrupted commit can neither be completed nor undone: {error}"
            )
            conflict.add_note(_GIVE_UP)
            raise conflict from error
        commit_steps.undo(logs, commit)
        journal.cancel(commit)

    def _undo_after(self, error: Exception, identity: CommitIdentity) -> None:
        """Undo a commit that a disk failed for; leave it open if that fails, too."""
        try:
            with self.open_logs(self.directory) as logs:
                journal = Journal(self.directory, self.disk)
                if journal.is_committed(identity):
                    error.add_note(_COMPLETE)
                elif journal.open is not None and journal.open.identity == identity:
                    self._undo(logs, journal, journal.open)
        except (OSError, KafkaLogError):
            error.add_note("The next write to the log directory completes the commit.")

    def _remove_staged(self, committed: CommitIdentity) -> None:
        with suppress(OSError):  # a later commit removes them
            for name in list_removable(self.directory, committed):
                self.disk.remove_if_there(self.directory / name)


_COMPLETE: Final = "The commit is complete and on disk."
_GIVE_UP: Final = (
    "Removing kafkalog-journal gives the commit up: what is in the logs of it stays."
)


def _partitions_in(logs: LogManager) -> dict[str, set[int]]:
    """Return the partitions of each topic."""
    existing: dict[str, set[int]] = {}
    for topic, partition in logs:
        existing.setdefault(topic, set()).add(partition)
    return existing


def _topics_to_create(
    logs: LogManager,
    existing: Mapping[str, set[int]],
    names: Iterable[Name],
    partitions: int | None,
) -> dict[str, int]:
    """Return the partitions of each topic to create.

    Raises `ConfigError` for a partition that does not exist, and for an invalid name.
    """
    created = {}
    for topic, partition in names:
        check_topic(topic)
        if topic in existing:
            if partition not in existing[topic]:
                count = len(existing[topic])
                raise ConfigError(
                    f"partition {partition} of topic {topic}, expected one of its "
                    f"{count} partitions in {logs}"
                )
        elif partitions is None:
            error = ConfigError(f"topic {topic} does not exist in {logs}")
            error.add_note("The option partitions creates it.")
            raise error
        elif not 0 <= partition < partitions:
            raise ConfigError(
                f"partition {partition} of topic {topic}, expected 0 to "
                f"{partitions - 1}"
            )
        else:
            created[topic] = partitions
    return created


def _check_assigned(
    existing: Mapping[str, set[int]],
    created: Mapping[str, int],
    assigned: Iterable[tuple[str, int]],
) -> None:
    """Raise `ConfigError` for a topic of other partitions than rows were assigned to.

    Another writer may have created the topic since.
    """
    for topic, count in assigned:
        found = len(existing.get(topic, ())) or created.get(topic, 0)
        if found != count:
            error = ConfigError(
                f"topic {topic} has {found} partitions, expected the {count} that its "
                "rows were assigned to"
            )
            error.add_note("Another writer has changed it. Nothing is written.")
            raise error


def check_topic(topic: str) -> None:
    """Raise `ConfigError` if a topic cannot be written, by name."""
    try:
        PartitionDir(topic, 0)
        is_valid = topic not in (".", "..")
    except ValueError:
        is_valid = False
    if not is_valid:
        raise ConfigError(
            f"topic {topic!r}, expected 1 to 249 of the characters a-z, A-Z, 0-9, "
            "'.', '_' and '-', and not '.' or '..'"
        )
    if topic == METADATA_TOPIC:
        raise ConfigError(f"topic {topic} belongs to the controller of a cluster")
