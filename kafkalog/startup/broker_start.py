"""`preflight`: what a broker's start on its log directories would do.

1. The metadata log is loaded, as the controller loads it after every start. It has the
   cluster's partitions and the settings of topics.
2. Each log is loaded on a `RehearsalDisk`, with the settings of its topic.
3. Logs that the cluster does not assign to the broker are strays. Future logs that the
   cluster has accepted become current logs.

Nothing in the log directories is changed. Temporary files have rebuilt indexes and the
content of the metadata log; no other ``.log`` is copied, unless it must be split.

Source: ``KafkaRaftServer.scala``, ``LogManager.scala``,
``BrokerMetadataPublisher.initializeManagers``, ``KafkaRaftLog.createLog``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kafkalog.cleaner.log_copies import try_cleaning
from kafkalog.config import BrokerConfig, LogConfig
from kafkalog.errors import ConfigError, KafkaLogError
from kafkalog.log.reading.cluster_metadata import METADATA_PARTITION
from kafkalog.log.reading.log_segments import list_first
from kafkalog.log.recovery.log_loading import check_log
from kafkalog.log.topic_settings import PartitionSettings, TopicSettings
from kafkalog.manager.cluster_image import ClusterImage
from kafkalog.manager.identity import Owner
from kafkalog.progress import note_begun
from kafkalog.rehearsal.log_rehearsal import (
    CheckpointedOffsets,
    LogRehearsal,
    LogStartError,
    describe_error,
    rehearse,
)
from kafkalog.renamed import renamed_arguments
from kafkalog.reports import counted
from kafkalog.startup.found_directories import (
    FoundDirectory,
    check_owner,
    find_directories,
)
from kafkalog.startup.loaded_log import LoadedLog, expire_early, place_future
from kafkalog.startup.missing_logs import (
    describe_lost,
    is_lost,
    is_rejected,
    place_missing,
)
from kafkalog.startup.start_checks import (
    find_oversize,
    find_stops,
    find_unwritable,
)
from kafkalog.startup.start_report import (
    DirectoryStart,
    FreeableKind,
    PartitionStart,
    StartReport,
    StartState,
)
from kafkalog.storage.durable_file import UNSYNCED
from kafkalog.storage.file_names import (
    MAX_OFFSET,
    META_PROPERTIES,
    METADATA_TOPIC,
    PartitionDir,
    parse_file_name,
)
from kafkalog.storage.location import AnyPath, local_path
from kafkalog.verification.name_checks import describe_misnamed

ONE_BROKER: Final = (
    "the directories are not those of one broker: give the log.dirs of one at a time"
)
CONTROLLER: Final = "controller"
EMPTY_CLUSTER: Final = (
    f"no {METADATA_PARTITION}: unless other controllers have it, the broker begins an "
    "empty cluster, and each partition becomes a stray"
)
NO_CLUSTER: Final = (
    "strays are unknown without the cluster's metadata: no readable "
    f"{METADATA_PARTITION} was found, and none was passed"
)


@renamed_arguments(paths="path")
def preflight(
    path: AnyPath | Iterable[AnyPath],
    *,
    cluster: ClusterImage | AnyPath | None = None,
    cluster_id: str | None = None,
    node_id: int | None = None,
    broker: BrokerConfig | None = None,
    roles: Collection[str] = (),
    read_rate: float | None = None,
    check_cleaner: bool = True,
    threads: int = 1,
) -> StartReport:
    """Return what a broker does to its log directories when it starts on them.

    Nothing in the directories is changed. Each log is loaded by the code that
    `LogManager` runs, and all changes are made to temporary files. The segments that a
    broker reads are read, and nothing else, except by `check_cleaner`.

    Parameters
    ----------
    path : path, or iterable of paths
        The log directories of the broker, all of ``log.dirs``.
    cluster : ClusterImage or path, optional
        The partitions of the cluster, or the path of a ``__cluster_metadata-0``. By
        default the one in the log directories is read.
    cluster_id : str, optional
        The id of the cluster that the directories must have.
    node_id : int, optional
        The id of the broker; by default that in ``meta.properties``.
    broker : BrokerConfig, optional
        The settings of ``server.properties``; by default Kafka's defaults.
    roles : collection of str
        The ``process.roles`` of the broker, if they are known. A controller without its
        metadata log begins an empty cluster.
    read_rate : float, optional
        The bytes a second that the broker will read. By default the rate of this call.
    check_cleaner : bool
        Whether the cleanable part of compacted logs is read for batches that would stop
        the log cleaner.
    threads : int
        Number of logs that are loaded at the same time.

    Returns
    -------
    StartReport
        The report, with an entry for each log directory and each partition's directory.

    Raises
    ------
    FileNotFoundError
        If there is no such directory.
    NotALogDirectoryError
        If a path is not a log directory, or there is no metadata log in `cluster`.
    CorruptRecordError
        If the metadata log in `cluster` is corrupt.
    ConfigError
        If there is no path, or one twice; or if `read_rate` is not above 0.

    Examples
    --------
    >>> import tempfile, kafkalog
    >>> with tempfile.TemporaryDirectory() as root:
    ...     log = kafkalog.open(f"{root}/orders-0", "a")
    ...     _ = log.append_records({"value": [b"one", b"two"]})
    ...     log.abandon()
    ...     report = kafkalog.preflight(root)
    >>> [start] = report.partitions
    >>> str(start.state), start.log_end_offset, start.records_lost
    ('recover', 2, 0)
    """
    if read_rate is not None and not read_rate > 0:
        raise ConfigError(f"read rate {read_rate}, expected one above 0")
    directories = find_directories(path)
    with ExitStack() as stack:
        start = _BrokerStart(
            directories,
            Owner(cluster, cluster_id, node_id),
            broker,
            roles=roles,
            check_cleaner=check_cleaner,
        )
        start.load(stack, threads)
    return start.report(read_rate)


class _BrokerStart:
    """The start of a broker on its log directories."""

    def __init__(
        self,
        directories: Sequence[FoundDirectory],
        owner: Owner,
        broker: BrokerConfig | None,
        *,
        roles: Collection[str],
        check_cleaner: bool,
    ) -> None:
        self._directories = directories
        self._owner = owner
        self._passed_broker = broker
        self._broker = BrokerConfig() if broker is None else broker
        self._roles = roles
        self._check_cleaner = check_cleaner
        self._is_cluster_passed = owner.cluster is not None
        places = [each.path for each in directories]
        if owner.cluster is not None and not isinstance(owner.cluster, ClusterImage):
            places.append(_log_directory_of(local_path(owner.cluster)))
        self._settings = TopicSettings(places, None, None, broker)
        self._logs: list[LoadedLog] = []
        self._stops: list[str] = []

    def load(self, stack: ExitStack, threads: int) -> None:
        """Load all logs; `stack` removes the temporary files."""
        foreign = list(check_owner(self._directories, self._owner))
        self._stops += foreign
        if foreign and len(self._directories) > 1:
            self._note_all(ONE_BROKER)
        for found in self._directories:
            self._stops += found.stops
            self._stops += find_stops(found.path)
            if not found.failures:
                found.failures += find_unwritable(found.path)
        self._load_metadata(stack)
        self._read_cluster()
        listed = [
            (found, name, path)
            for found in self._directories
            for name, path in found.partitions
            if name.topic != METADATA_TOPIC
        ]
        with ThreadPoolExecutor(threads, "kafkalog-preflight") as pool:
            self._logs += pool.map(lambda each: self._load_log(*each), listed)
        self._find_duplicates()
        self._place_futures()
        self._find_unserved()
        self._place_missing()
        self._take_offline()

    # The cluster

    def _load_metadata(self, stack: ExitStack) -> None:
        """Load the metadata log, which a controller recovers at every start."""
        metadata_logs = [
            (LoadedLog(found, name, _unread(name, path)), path)
            for found in self._directories
            for name, path in found.partitions
            if name.topic == METADATA_TOPIC
        ]
        offsets = CheckpointedOffsets(clean=False)
        for loaded, path in metadata_logs:
            self._logs.append(loaded)
            settings = self._settings.of(METADATA_TOPIC)
            try:
                rehearsal = stack.enter_context(
                    rehearse(path, offsets, settings, self._broker)
                )
            except LogStartError as error:
                self._fail(loaded, error)
                continue
            self._describe(loaded, rehearsal, settings.config)
            self._use_snapshot(loaded)
            for file in rehearsal.copy.iterdir():
                if file.is_file() and not file.is_symlink():
                    rehearsal.disk.copy_content(file)
            self._use_metadata(loaded.found, rehearsal.copy)

    def _use_snapshot(self, loaded: LoadedLog) -> None:
        """Move the end of a metadata log to its newest snapshot, if that is later.

        Source: ``KafkaRaftLog.truncateToLatestSnapshot``.
        """
        names = [
            parse_file_name(path.name)
            for path in Path(loaded.start.directory).glob("*.checkpoint")
        ]
        offsets = [name.base_offset for name in names if name is not None]
        latest, end = max(offsets, default=0), loaded.start.log_end_offset or 0
        if latest > end:
            loaded.note(
                f"emptied, as it ends at {end}, before its newest snapshot; the "
                f"records up to {latest} are in that",
                log_start_offset=latest,
                log_end_offset=latest,
            )

    def _use_metadata(self, found: FoundDirectory, copy: Path) -> None:
        """Read the settings and partitions of the cluster from a recovered copy."""
        ids = found.path / META_PROPERTIES
        if ids.is_file():
            UNSYNCED.replace(copy.parent / META_PROPERTIES, ids.read_bytes())
        self._settings = TopicSettings([copy.parent], None, None, self._passed_broker)
        if self._owner.cluster is None:
            self._owner.cluster = copy

    def _read_cluster(self) -> None:
        """Read the partitions that the cluster assigns to this broker."""
        identities = {
            found.path: found.identity
            for found in self._directories
            if found.identity is not None
        }
        for identity in identities.values():
            if self._owner.node_id is None:
                self._owner.node_id = identity.node_id
        cluster = self._owner.cluster
        if cluster is None and CONTROLLER in self._roles:
            cluster = self._owner.cluster = ClusterImage({})
            self._note_all(EMPTY_CLUSTER)
        if cluster is None or self._owner.node_id is None:
            self._owner.cluster = None
            self._note_all(NO_CLUSTER)
        elif not isinstance(cluster, ClusterImage):
            try:
                self._owner.cluster = ClusterImage.read(cluster)
            except (KafkaLogError, OSError) as error:
                if self._is_cluster_passed:
                    raise
                self._owner.cluster = None
                self._note_all(f"{NO_CLUSTER}: {describe_error(error)}")

    def _note_all(self, note: str) -> None:
        for found in self._directories:
            found.notes.append(note)

    # One log

    def _load_log(
        self, found: FoundDirectory, name: PartitionDir, path: Path
    ) -> LoadedLog:
        note_begun(path)
        loaded = LoadedLog(found, name, _unread(name, path))
        stops = list(find_oversize(path))
        if stops:
            loaded.note(f"cannot be loaded: {stops[0]}")
            self._stops += stops
            return loaded
        try:
            topic_id = check_log(path)
        except (KafkaLogError, OSError) as error:
            self._fail(loaded, LogStartError.of(error, path, path))
            return loaded
        if name.state == "delete":
            loaded.removed.append(path)
            loaded.note("removed after file.delete.delay.ms", state=StartState.DELETED)
            return loaded
        settings = self._settings.of(name.topic, topic_id)
        offsets = found.offsets_of(loaded.key)
        try:
            with rehearse(path, offsets, settings, self._broker) as rehearsal:
                self._describe(loaded, rehearsal, settings.config)
                self._find_owner(loaded, rehearsal)
                if loaded.is_current:
                    expire_early(loaded, rehearsal, settings)
                if loaded.is_current and self._is_compacted(settings):
                    self._try_cleaning(loaded, rehearsal, offsets.cleaned_to)
        except LogStartError as error:
            self._fail(loaded, error)
        return loaded

    def _try_cleaning(
        self, loaded: LoadedLog, rehearsal: LogRehearsal, cleaned_to: int | None
    ) -> None:
        error, keyless = try_cleaning(rehearsal, cleaned_to, self._broker)
        loaded.note(cleaner_error=error)
        if keyless:
            records = counted(keyless, "record")
            loaded.note(f"compaction removes {records} without a key")

    def _is_compacted(self, settings: PartitionSettings) -> bool:
        return (
            self._check_cleaner
            and self._broker.log_cleaner_enable
            and settings.config.compact
        )

    def _fail(self, loaded: LoadedLog, error: LogStartError) -> None:
        """Note the error of a log, which takes its directory or the broker down."""
        path = loaded.start.directory
        loaded.note(f"cannot be loaded: {error}", state=StartState.OFFLINE)
        if error.is_disk:
            loaded.found.failures.append(str(error))
        else:
            self._stops.append(f"{path} cannot be loaded: {error}")

    def _describe(
        self, loaded: LoadedLog, rehearsal: LogRehearsal, config: LogConfig
    ) -> None:
        """Set what loading reads, cuts and writes."""
        losses, read = rehearsal.count_losses(), rehearsal.read
        loaded.read_seconds = rehearsal.seconds if read else 0.0
        loaded.topic_id = rehearsal.log.topic_id
        loaded.removed += [
            Path(loaded.start.directory, name)
            for name in rehearsal.report.removed
            if name.endswith((".deleted", ".cleaned", ".swap"))
        ]
        if (missing := rehearsal.log.missing_start) is not None:
            loaded.note(str(missing))
        indexes = 2 * config.segment_index_bytes + config.initial_file_size
        loaded.note(
            *rehearsal.notes(losses),
            state=StartState.RECOVER if read else StartState.CLEAN,
            segments_to_read=len({base for base, _ in read}),
            bytes_to_read=sum(size for _, size in read),
            cut_from_offset=losses.first_offset,
            bytes_cut=losses.size,
            records_lost=losses.records,
            segments_dropped=losses.segments,
            bytes_trailing=losses.trailing,
            log_start_offset=rehearsal.log.log_start_offset,
            log_end_offset=rehearsal.log.log_end_offset,
            bytes_to_write=rehearsal.bytes_written,
            bytes_needed=rehearsal.bytes_added + indexes,
        )

    def _find_owner(self, loaded: LoadedLog, rehearsal: LogRehearsal) -> None:
        """Set the state of a log that is a stray, or the target of a move."""
        log, name = rehearsal.log, loaded.name
        is_stray = self._owner.strays_or(None)
        if name.state == "stray":
            loaded.note("a stray already: kept as it is", state=StartState.STRAY)
        elif is_stray is not None and is_stray(log):
            loaded.note(self._why_stray(loaded), state=StartState.STRAY)
        elif name.state == "future":
            loaded.accepted = self._owner.is_accepted_in(log, loaded.found.identity)
            loaded.note(state=StartState.FUTURE)

    def _why_stray(self, loaded: LoadedLog) -> str:
        name, topic_id, node_id = loaded.name, loaded.topic_id, self._owner.node_id
        renamed = f"renamed to {name.topic}-{name.partition}.<32 hex>-stray"
        if topic_id is None:
            return f"{renamed}: it has no topic id"
        image = self._owner.cluster
        assert isinstance(image, ClusterImage)
        replicas = image.partitions.get((topic_id, name.partition))
        if replicas is None:
            return f"{renamed}: the cluster has no partition of topic id {topic_id}"
        brokers = ", ".join(map(str, replicas.brokers))
        return f"{renamed}: its replicas are on {brokers}, not on node {node_id}"

    # All logs

    def _by_key(self, *states: StartState) -> dict[tuple[str, int], list[LoadedLog]]:
        found: dict[tuple[str, int], list[LoadedLog]] = {}
        for loaded in self._logs:
            if loaded.start.state in states:
                found.setdefault(loaded.key, []).append(loaded)
        return found

    def _find_duplicates(self) -> None:
        """Note the partitions with two current or two future logs."""
        current = self._by_key(StartState.CLEAN, StartState.RECOVER)
        for logs in (*current.values(), *self._by_key(StartState.FUTURE).values()):
            if len(logs) > 1:
                both = " and ".join(each.start.directory for each in logs)
                stop = f"two directories of one partition: {both}"
                self._stops.append(stop)
                for loaded in logs:
                    loaded.note(stop)

    def _place_futures(self) -> None:
        """Note what becomes of the targets of moves.

        One that the cluster has accepted replaces the current log of the same topic. A
        move is from one log directory to another: within one, the name is taken.
        """
        current = self._by_key(StartState.CLEAN, StartState.RECOVER)
        has_failed = any(found.failures for found in self._directories)
        for key, futures in self._by_key(StartState.FUTURE).items():
            logs = [log for log in current.get(key, []) if log.topic_id is not None]
            for future in futures:
                place_future(future, logs, has_failed=has_failed)

    def _find_unserved(self) -> None:
        """Note the current logs that are loaded, and are not served.

        One is under the name of another topic than that of its id. Another one is in a
        directory with another id than the cluster has recorded, which is none of the
        broker's.
        """
        image, ids = self._owner.cluster, self._directory_ids()
        if not isinstance(image, ClusterImage):
            return
        expected = {
            (topic, number): directory_id
            for topic, number, directory_id in self._assigned(image)
        }
        topic_ids = image.topic_ids
        for logs in self._by_key(StartState.CLEAN, StartState.RECOVER).values():
            for log in logs:
                if log.name.topic == METADATA_TOPIC or not topic_ids:
                    continue
                recorded = expected.get(log.key)
                if topic_ids.get(log.name.topic) != log.topic_id:
                    log.unserve(describe_misnamed(topic_ids, log.name, log.topic_id))
                elif recorded is not None and is_lost(recorded, ids):
                    actual = log.found.identity
                    found = None if actual is None else actual.directory_id
                    log.unserve(describe_lost(recorded, found))
                    self._note_lost(log.found, recorded, found)

        if any(is_rejected(log, topic_ids) for log in self._logs):
            self._reject_all()

    def _reject_all(self) -> None:
        """Note that no partition is served, as one log has the id of another topic.

        The broker ends the update of its partitions at the first such log.
        """
        for log in self._logs:
            is_served = log.start.unserved is None and log.name.topic != METADATA_TOPIC
            if log.is_current and is_served:
                log.unserve("the log of another partition has a wrong topic id")

    def _note_lost(
        self, found: FoundDirectory, recorded: str, directory_id: str | None
    ) -> None:
        """Note once that a directory has another id than the recorded one."""
        note = (
            f"directory.id {directory_id}, but the cluster's metadata has {recorded} "
            "for its partitions, which have no leader: write that id into "
            f"{META_PROPERTIES}"
        )
        if note not in found.notes:
            found.notes.append(note)

    def _directory_ids(self) -> dict[str, FoundDirectory]:
        """Return the log directories by the ids that they have."""
        return {
            found.identity.directory_id: found
            for found in self._directories
            if found.identity is not None and found.identity.directory_id is not None
        }

    def _assigned(self, image: ClusterImage) -> list[tuple[str, int, str | None]]:
        node_id = self._owner.node_id
        return [] if node_id is None else image.assigned_to(node_id)

    def _place_missing(self) -> None:
        """Add the partitions of the broker that have no directory.

        The broker creates an empty log, unless a directory fails that may have it.
        """
        image, ids = self._owner.cluster, self._directory_ids()
        if not isinstance(image, ClusterImage):
            return
        here = {
            loaded.key
            for loaded in self._logs
            if loaded.name.state in (None, "future")
            and loaded.start.state != StartState.DELETED
        }
        for topic, number, recorded in self._assigned(image):
            if (topic, number) in here:
                continue
            found = ids.get(recorded or "", self._directories[0])
            name = PartitionDir(topic, number)
            loaded = LoadedLog(found, name, _unread(name, found.path / name.name))
            self._logs.append(loaded)
            if recorded is not None and is_lost(recorded, ids):
                actual = found.identity
                directory_id = None if actual is None else actual.directory_id
                loaded.note(state=StartState.MISSING)
                loaded.unserve(describe_lost(recorded, directory_id))
            else:
                place_missing(loaded)

    def _take_offline(self) -> None:
        """Set the state of all logs in directories that fail."""
        for loaded in self._logs:
            if loaded.found.failures and loaded.start.state != StartState.OFFLINE:
                loaded.note("its log directory fails", state=StartState.OFFLINE)
        failed = [found for found in self._directories if found.failures]
        if len(failed) == len(self._directories):
            self._stops.append("all log directories fail")
        else:
            self._stops += [
                f"the log directory with {METADATA_PARTITION} fails: {found.path}"
                for found in failed
                if (found.path / METADATA_PARTITION).exists()
            ]

    # The report

    def report(self, read_rate: float | None) -> StartReport:
        """Return the report; without a rate, the measured one is used."""
        read = sum(loaded.start.bytes_to_read for loaded in self._logs)
        seconds = sum(loaded.read_seconds for loaded in self._logs)
        rate = read / seconds if read_rate is None and read else read_rate
        for loaded in self._logs:
            if rate is not None:
                loaded.note(seconds=loaded.start.bytes_to_read / rate)
            directory = Path(loaded.start.directory)
            for path, kind in _kinds_of(loaded.removed, directory):
                loaded.found.add_freeable(path, kind)
            if loaded.name.state == "stray":
                loaded.found.add_freeable(directory, FreeableKind.STRAY)
        directories = tuple(map(self._directory, self._directories))
        return StartReport(
            directories=directories,
            partitions=tuple(
                loaded.start
                for loaded in sorted(self._logs, key=lambda each: each.start.directory)
            ),
            stops=tuple(dict.fromkeys(self._stops)),
            not_checked=tuple(self._not_checked()),
            bytes_free=_total_free(self._directories),
            bytes_needed=sum(each.bytes_needed for each in directories),
            read_rate=rate,
        )

    def _not_checked(self) -> Iterator[str]:
        """Yield what the prediction does not cover."""
        clean = self._by_key(StartState.CLEAN)
        if clean:
            count = counted(sum(map(len, clean.values())), "clean log")
            yield (
                f"the records of {count}: a broker does not read them when it starts, "
                "and serves corrupt ones. `kafkalog verify` reads them"
            )
        if self._owner.cluster is None:
            yield "which partitions become strays, or are created: no cluster metadata"
        if self._passed_broker is None:
            yield (
                "the settings in server.properties, such as node.id, log.dirs and "
                "log.retention.ms: Kafka's defaults are assumed (--server-properties)"
            )

    def _directory(self, found: FoundDirectory) -> DirectoryStart:
        starts = [loaded.start for loaded in self._logs if loaded.found is found]
        times = [each.seconds for each in starts if each.seconds is not None]
        threads = self._broker.num_recovery_threads_per_data_dir
        order = list(FreeableKind)
        freeable = sorted(
            found.freeable, key=lambda each: (order.index(each.kind), each.path)
        )
        identity = found.identity
        to_write = sum(each.bytes_to_write for each in starts)
        notes = [f"fails: {failure}" for failure in found.failures] + found.notes
        if to_write > found.bytes_free:
            notes.append(
                f"{to_write} bytes to write, expected at most {found.bytes_free} free"
            )
        return DirectoryStart(
            directory=str(found.path),
            online=not found.failures,
            clean_shutdown=found.clean,
            cluster_id=None if identity is None else identity.cluster_id,
            node_id=None if identity is None else identity.node_id,
            directory_id=None if identity is None else identity.directory_id,
            bytes_free=found.bytes_free,
            bytes_to_write=to_write,
            bytes_needed=sum(each.bytes_needed for each in starts),
            bytes_freeable=sum(each.bytes for each in freeable),
            seconds=sum(times) / threads if times else None,
            freeable=tuple(freeable),
            notes=tuple(notes),
        )


def _log_directory_of(metadata: Path) -> Path:
    """Return the log directory of a metadata log, which may be given itself."""
    is_partition = metadata.absolute().name == METADATA_PARTITION
    return metadata.absolute().parent if is_partition else metadata


def _unread(name: PartitionDir, path: Path) -> PartitionStart:
    return PartitionStart(
        topic=name.topic,
        partition=name.partition,
        directory=str(path),
        state=StartState.OFFLINE,
    )


def _kinds_of(
    paths: Sequence[Path], directory: Path
) -> Iterator[tuple[Path, FreeableKind]]:
    """Yield what a start removes of a partition, and why each can be freed."""
    has_logs = any(path.name.endswith(".log.deleted") for path in paths)
    first_base = _first_base(directory) if has_logs else 0
    for path in paths:
        yield path, _kind_of(path, first_base)


def _kind_of(path: Path, first_base: int) -> FreeableKind:
    """Return why a file or directory of a partition can be freed.

    `first_base` is the base offset of the partition's first segment.
    """
    if path.name.endswith("-delete"):
        return FreeableKind.DELETED_PARTITION
    if path.name.endswith(".deleted"):
        is_log = path.name.endswith(".log.deleted")
        if is_log and _base_of(path) < first_base:
            return FreeableKind.DELETED_SEGMENT
        return FreeableKind.DELETED_FILE
    return FreeableKind.UNFINISHED


def _base_of(path: Path) -> int:
    name = parse_file_name(path.name)
    return MAX_OFFSET if name is None else name.base_offset


def _first_base(directory: Path) -> int:
    """Return the base offset of a log's first segment; 0 without any."""
    first = list_first(directory)
    return first[0].base_offset if first else 0


def _total_free(directories: Sequence[FoundDirectory]) -> int:
    """Return the bytes that are available on the file systems of directories."""
    free = {found.path.stat().st_dev: found.bytes_free for found in directories}
    return sum(free.values())
