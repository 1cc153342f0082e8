"""Each remedy of ``docs/verify.md``, tried with a broker that starts afterwards.

A topic has a partition for each damage, all with the same records: three segments,
transactions of which half are aborted, and one that is open at the end, so that a
read_committed consumer shows the producer state of the broker. Every remedy is tried
after a clean shutdown and after a crash.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import OFFSET_END, KafkaError, Producer, TopicPartition

import kafkalog
from kafkalog import LogConfig
from kafkalog.codecs.checksum import crc32c
from kafkalog.errors import KafkaLogError
from kafkalog.formats.checkpoint import EpochEntry, parse_epochs
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.storage.checkpoint_file import (
    CLEANED_TO,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
)
from kafkalog.storage.file_names import CLEAN_SHUTDOWN, file_name
from kafkalog.verification.path_verification import verify
from tests.interop import writing
from tests.interop.broker import JARS, START_SECONDS, Broker
from tests.interop.clients import consumer_of, create, read

pytestmark = pytest.mark.interop

TOPIC = "corrected"
CONFIG = LogConfig(segment_bytes=1 << 20)
ROUNDS = 34
LATER = writing.T + 10_000
SIZE = 2_000
OPEN_PAYER = 7002
LEVELS = "read_uncommitted", "read_committed"
INDEXES = "index", "timeindex", "txnindex"
EPOCHS = "leader-epoch-checkpoint"
METADATA = "partition.metadata"
FOREIGN_LOG = "backup.log"
CHECKPOINTS = RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS, CLEANED_TO
MIDDLE, LAST = 1, 2
SNAPSHOT_HEADER, SNAPSHOT_ENTRY = 10, 46
TOO_LARGE = (256 << 20) + 12
Change = Callable[[Path], None]
Row = tuple[int, bytes | None, bytes | None]


# --- changes of a partition's directory or of a file in it ---------------------------


def segment_file(directory, place, kind):
    """Return the path of a file of the segment at a place."""
    logs = sorted(directory.glob("*.log"))
    return logs[place].with_suffix(f".{kind}")


def of(place, kind, change):
    """Return a change of a partition's directory: one of a file of a segment."""
    return lambda directory: change(segment_file(directory, place, kind))


def noise(path):
    path.write_bytes(random.Random(7).randbytes(path.stat().st_size))


def empty(path):
    path.write_bytes(b"")


def add(data):
    return lambda path: path.write_bytes(path.read_bytes() + data)


def cut(count):
    return lambda path: path.write_bytes(path.read_bytes()[:-count])


def flip(at, mask=1):
    """Return a change of the bits `mask` of one byte."""

    def change(path):
        data = bytearray(path.read_bytes())
        data[at] ^= mask
        path.write_bytes(data)

    return change


def grow(path):
    """Make a file larger than an index can be."""
    path.write_bytes(b"\1" * TOO_LARGE)


def write(name, content):
    return lambda directory: (directory / name).write_bytes(content)


def remove(*names):
    def change(directory):
        for name in names:
            (directory / name).unlink()

    return change


def remove_of(place, *kinds):
    """Return a change that removes the existing files of these kinds of a segment."""

    def change(directory):
        for kind in kinds:
            segment_file(directory, place, kind).unlink(missing_ok=True)

    return change


def remove_all_indexes(directory):
    for path in directory.glob("*.index"):
        path.unlink()


def each_snapshot(change):
    def on_all(directory):
        for path in directory.glob("*.snapshot"):
            change(path)

    return on_all


def newest_snapshot(change):
    return lambda directory: change(max(directory.glob("*.snapshot")))


def name_one_producer_twice(path):
    """Put a snapshot's first entry over its second."""
    data = path.read_bytes()
    assert len(data) == SNAPSHOT_HEADER + 2 * SNAPSHOT_ENTRY
    path.write_bytes(data[:-SNAPSHOT_ENTRY] + data[SNAPSHOT_HEADER:][:SNAPSHOT_ENTRY])


def sealed(change):
    """Return a change of a snapshot that keeps its checksum valid."""

    def on_snapshot(path):
        change(path)
        data = path.read_bytes()
        path.write_bytes(data[:2] + crc32c(data[6:]).to_bytes(4, "big") + data[6:])

    return on_snapshot


def copy_after_the_log(path):
    shutil.copyfile(path, path.with_name(file_name(10**6, "snapshot")))


def make_orphan(path):
    shutil.copyfile(path, path.with_name(file_name(5, "index")))


def in_order(*changes):
    def change(directory):
        for one in changes:
            one(directory)

    return change


def from_replica(directory):
    """Copy all segments with their indexes from another replica."""
    for kind in ("log", *INDEXES):
        for path in directory.glob(f"*.{kind}"):
            path.unlink()
        for path in (directory.parent.parent / "replica").glob(f"*.{kind}"):
            shutil.copyfile(path, directory / path.name)


def metadata_of_another_partition(directory):
    shutil.copyfile(directory.parent / f"{TOPIC}-0" / METADATA, directory / METADATA)


def leave(directory):
    """Do nothing."""


@dataclass(frozen=True)
class Case:
    """A damage, the cause that `verify` reports for it, and the remedy.

    The last `lost` records of the log are lost with the damage.
    """

    name: str
    cause: str | None
    damage: Change
    remedy: Change
    lost: int = 0


ADDED = b"\1\2\3"
HALF_A_BATCH = bytes(8) + (5_000).to_bytes(4, "big") + bytes(4) + b"\2" + bytes(90)
PLACES = {"middle": MIDDLE, "last": LAST}
CASES = [
    Case("nothing", None, leave, leave),
    *(
        Case(
            f"{name} {where} {kind}",
            cause,
            of(place, kind, change),
            remove_of(place, "index", kind),
        )
        for where, place in PLACES.items()
        for kind, noisy in (
            ("index", "order"),
            ("timeindex", "time_index"),
            ("txnindex", "txn_index"),
        )
        for name, cause, change in (
            ("noise in the", noisy, noise),
            ("three more bytes in the", "truncated", add(ADDED)),
        )
    ),
    *(
        Case(
            f"an entry of the {where} {kind} changed",
            cause,
            of(place, kind, flip(at)),
            remove_of(place, "index"),
        )
        for where, place in PLACES.items()
        for kind, cause, at in (
            ("index", "offset_index", 7),
            ("timeindex", "time_index", 7),
            ("txnindex", "txn_index", 9),
        )
    ),
    Case(
        "no middle txnindex",
        "txn_index",
        remove_of(MIDDLE, "txnindex"),
        remove_of(MIDDLE, "index"),
    ),
    Case(
        "no middle timeindex",
        "missing",
        remove_of(MIDDLE, "timeindex"),
        remove_of(MIDDLE, "index"),
    ),
    Case(
        "too large a timeindex",
        "too_large",
        of(MIDDLE, "timeindex", grow),
        remove_of(MIDDLE, "index", "timeindex"),
    ),
    Case("no middle index", "missing", remove_of(MIDDLE, "index"), leave),
    Case("an index without a log", "orphan", of(MIDDLE, "index", make_orphan), leave),
    *(
        Case(f"{cause} wrong in a middle batch", cause, of(MIDDLE, "log", change), then)
        for cause, change, then in (
            ("size", flip(8, 128), from_replica),
            ("magic", flip(16, 4), from_replica),
            ("crc", flip(200), from_replica),
            ("offset", flip(6, 32), from_replica),
        )
    ),
    *(
        Case(
            f"{name} at the {where} log's end",
            cause,
            of(place, "log", add(data)),
            remove_of(place, "index"),
        )
        for where, place in PLACES.items()
        for name, cause, data in (
            ("half a batch", "offset", HALF_A_BATCH),
            ("zeros", "preallocated", bytes(4096)),
        )
    ),
    Case(
        "the last batch cut, to which the index points",
        "incomplete",
        of(LAST, "log", cut(3)),
        remove_of(LAST, "index"),
        lost=writing.RECORDS,
    ),
    *(
        Case(f"{cause} of the newest snapshot", cause, newest_snapshot(change), leave)
        for cause, change in (
            ("version", flip(1)),
            ("crc", flip(SNAPSHOT_HEADER)),
            ("truncated", empty),
            ("count", sealed(flip(9, 64))),
        )
    ),
    Case("noise in all snapshots", "version", each_snapshot(noise), leave),
    Case(
        "a producer twice in the newest snapshot",
        "producer_state",
        newest_snapshot(sealed(name_one_producer_twice)),
        newest_snapshot(empty),
    ),
    Case(
        "a snapshot after the log end",
        "log_end",
        newest_snapshot(copy_after_the_log),
        leave,
    ),
    *(
        Case(
            f"{name} leader epochs",
            cause,
            write(EPOCHS, content),
            in_order(remove(EPOCHS), remove_all_indexes),
        )
        for name, cause, content in (
            ("unreadable", "format", b"what\n"),
            ("falling", "order", b"0\n2\n1 0\n0 10\n"),
        )
    ),
    Case(
        "unreadable partition.metadata",
        "format",
        write(METADATA, b"what\n"),
        metadata_of_another_partition,
    ),
    Case(
        "another topic id",
        "topic_id",
        write(METADATA, b"version: 0\ntopic_id: AAAAAAAAQACAAAAAAAAABB\n"),
        metadata_of_another_partition,
    ),
    Case("a foreign log", "foreign", write(FOREIGN_LOG, b""), remove(FOREIGN_LOG)),
]
PARTITIONS = {case.name: number for number, case in enumerate(CASES)}
assert len(PARTITIONS) == len(CASES)
BEGINNINGS = dict.fromkeys(PARTITIONS.values(), 0)


# --- the records, written and served --------------------------------------------------


@dataclass(kw_only=True)
class Written:
    """The log directory as written, and its records by isolation level."""

    logs: Path
    end: int
    records: dict[str, list[Row]]
    times: dict[int, int]
    epochs: list[EpochEntry]


@dataclass(kw_only=True)
class Served:
    """The records that a broker serves; causes `found` before the remedies."""

    logs: Path
    found: dict[str, set[str]]
    left: dict[str, list[str]]
    epochs: dict[str, list[EpochEntry]]
    records: dict[str, dict[int, list[Row]]]
    times: dict[int, dict[int, int]]


def fill(log):
    """Append batches and transactions, the last one open, and two batches more."""
    number, sequence = 0, 0
    for turn in range(ROUNDS):
        leader = {"leader_epoch": 2 * turn // ROUNDS}
        log.append(writing.batch(number, SIZE), **leader)
        number += writing.RECORDS
        kind = (ControlRecordType.COMMIT, ControlRecordType.ABORT)[turn % 2]
        pay(log, number, writing.PAYER, sequence, leader)
        number, sequence = number + writing.RECORDS, sequence + writing.RECORDS
        log.append(
            writing.marker(kind, writing.T + number),
            origin="coordinator",
            transaction_version=0,
            **leader,
        )
    pay(log, number, OPEN_PAYER, 0, leader)
    for _ in range(2):
        number += writing.RECORDS
        log.append(writing.batch(number, SIZE), **leader)
    log.flush()


def pay(log, number, producer_id, sequence, leader):
    settings = {"producer_id": producer_id, "producer_epoch": 0}
    settings |= {"base_sequence": sequence, "is_transactional": True}
    guard = log.start_verification(producer_id, sequence, 0)
    log.append(writing.batch(number, SIZE, **settings), guard=guard, **leader)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Have a broker make a topic, write to one partition, and copy it to all others."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    broker = Broker(tmp_path_factory.mktemp("written")).start()
    create(broker, TOPIC, len(CASES), segment_bytes=CONFIG.segment_bytes)
    broker.stop()
    first = broker.logs / f"{TOPIC}-0"
    with kafkalog.open(first, mode="a", config=CONFIG) as log:
        fill(log)
        end = log.log_end_offset
        times_ms = [writing.T + n for n in range(0, ROUNDS * 40, 100)]
        found = log.offsets_for_times(times_ms).tolist()
        times = dict(zip(times_ms, found, strict=True))
    assert len(list(first.glob("*.log"))) == 3
    for number in range(1, len(CASES)):
        shutil.copytree(first, broker.logs / f"{TOPIC}-{number}", dirs_exist_ok=True)
    broker.start()
    broker.stop()
    return Written(
        logs=broker.logs,
        end=end,
        records={level: read(first, level) for level in LEVELS},
        times=times,
        epochs=epochs_of(first),
    )


def epochs_of(directory):
    return parse_epochs((directory / EPOCHS).read_bytes())


def copied(written, folder, *, clean):
    """Return a broker on a copy of the log directory, after a clean stop or not."""
    shutil.copytree(written.logs, folder / "logs")
    shutil.copytree(written.logs / f"{TOPIC}-0", folder / "replica")
    if not clean:
        (folder / "logs" / CLEAN_SHUTDOWN).unlink()
    return Broker(folder)


def produce_one_each(broker):
    """Produce a record to every partition."""
    producer = Producer({"bootstrap.servers": broker.address, "log_level": 0})
    for number in range(len(CASES)):
        producer.produce(TOPIC, b"later", partition=number, timestamp=LATER)
    assert producer.flush(START_SECONDS) == 0


def consume_all(broker, level, starts):
    """Read partitions to their ends; `starts` has the first offset of each."""
    consumer = consumer_of(broker, level)
    seen = {number: [] for number in starts}
    consumer.assign([TopicPartition(TOPIC, *start) for start in starts.items()])
    open_ones = set(seen)
    deadline = time.monotonic() + START_SECONDS
    while open_ones and time.monotonic() < deadline:
        for message in consumer.consume(500, 1):
            if message.error() is None:
                row = message.offset(), message.key(), message.value()
                seen[message.partition()].append(row)
            elif message.error().code() == KafkaError._PARTITION_EOF:
                open_ones.discard(message.partition())
    consumer.close()
    assert not open_ones, f"partitions not read to their end: {open_ones}"
    return seen


def offsets_by_time(broker, times):
    """Return a broker's first offset at or after each time, of every partition."""
    consumer = consumer_of(broker)
    end_offsets = {number: {} for number in range(len(CASES))}
    for at in times:
        requests = [TopicPartition(TOPIC, number, at) for number in end_offsets]
        for one in consumer.offsets_for_times(requests, timeout=START_SECONDS):
            end_offsets[one.partition][at] = one.offset
    consumer.close()
    return end_offsets


def problems_of(logs):
    """Verify a log directory; return the problems of each case's partition."""
    found = {case.name: [] for case in CASES}
    for problem in verify(logs, topics=[TOPIC], threads=2).problems:
        name = problem.path.split("/")[0]
        if name.startswith(f"{TOPIC}-"):
            found[CASES[int(name.rsplit("-", 1)[1])].name].append(problem)
    return found


def start_on(written, folder, *, clean, remedy, starts=BEGINNINGS):
    """Damage every partition, apply the remedies, and read from `starts` on."""
    broker = copied(written, folder, clean=clean)
    places = {case.name: broker.logs / f"{TOPIC}-{n}" for n, case in enumerate(CASES)}
    for case in CASES:
        case.damage(places[case.name])
    found = {
        name: {str(one.cause) for one in problems}
        for name, problems in problems_of(broker.logs).items()
    }
    for case in CASES:
        remedy(case)(places[case.name])
    broker.start()
    try:
        produce_one_each(broker)
        records = {level: consume_all(broker, level, starts) for level in LEVELS}
        times = offsets_by_time(broker, written.times)
    finally:
        broker.stop()
    return Served(
        logs=broker.logs,
        found=found,
        left={
            name: [f"{one.path}: {one.message}" for one in problems]
            for name, problems in problems_of(broker.logs).items()
        },
        epochs={name: epochs_of(place) for name, place in places.items()},
        records=records,
        times=times,
    )


@pytest.fixture(scope="module", params=[True, False], ids=["clean stop", "crash"])
def served(request, written, tmp_path_factory):
    folder = tmp_path_factory.mktemp("served")
    return start_on(
        written, folder, clean=request.param, remedy=lambda case: case.remedy
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_broker_serves_all_records_after_the_remedy(case, written, served):
    number = PARTITIONS[case.name]
    if case.cause is not None:
        assert case.cause in served.found[case.name]
    end = written.end - case.lost
    everything = [row for row in written.records[LEVELS[0]] if row[0] < end]
    later = (end, None, b"later")
    assert served.records[LEVELS[0]][number] == [*everything, later]
    assert served.records[LEVELS[1]][number] == written.records[LEVELS[1]]
    assert served.times[number] == written.times
    assert served.epochs[case.name][:2] == written.epochs[:2]
    assert served.left[case.name] == []


# --- less than the remedy ------------------------------------------------------------

INSTEAD = {
    "noise in the middle timeindex": remove_of(MIDDLE, "timeindex"),
    "no middle timeindex": leave,
    "noise in the middle txnindex": remove_of(MIDDLE, "txnindex"),
    "no middle txnindex": leave,
    "noise in all snapshots": each_snapshot(Path.unlink),
    "a producer twice in the newest snapshot": leave,
    "unreadable leader epochs": remove(EPOCHS),
    "half a batch at the last log's end": leave,
    "the last batch cut, to which the index points": leave,
}
WRITTEN_OVER = list(INSTEAD)[-2:]
"""Cases in which no consumer can read the records appended later."""


@pytest.fixture(scope="module")
def unrepaired(written, tmp_path_factory):
    """Start a broker after a clean shutdown, with less done than the page says."""
    folder = tmp_path_factory.mktemp("unrepaired")
    return start_on(
        written,
        folder,
        clean=True,
        remedy=lambda case: INSTEAD.get(case.name, case.remedy),
        starts={PARTITIONS[name]: 0 for name in INSTEAD if name not in WRITTEN_OVER},
    )


@pytest.mark.parametrize("name", list(INSTEAD)[:2])
def test_a_time_index_removed_without_its_offset_index_stays_empty(
    name, written, unrepaired
):
    number = PARTITIONS[name]
    place = unrepaired.logs / f"{TOPIC}-{number}"
    assert segment_file(place, MIDDLE, "timeindex").stat().st_size == 0
    found = unrepaired.times[number]
    missed = [at for at, offset in written.times.items() if found[at] != offset]
    assert missed
    assert {found[at] for at in missed} == {OFFSET_END}


@pytest.mark.parametrize("name", list(INSTEAD)[2:4])
def test_aborted_records_are_served_without_the_txnindex(name, written, unrepaired):
    everything, committed = (written.records[level] for level in LEVELS)
    served = unrepaired.records[LEVELS[1]][PARTITIONS[name]]
    assert len(served) > len(committed)
    assert set(committed) < set(served) < set(everything)
    assert any("no entry for the abort" in problem for problem in unrepaired.left[name])


@pytest.mark.parametrize("name", list(INSTEAD)[4:6])
def test_an_open_transaction_is_served_without_snapshots(name, written, unrepaired):
    everything, committed = (written.records[level] for level in LEVELS)
    served = unrepaired.records[LEVELS[1]][PARTITIONS[name]]
    following = [row for row in everything if row[0] > committed[-1][0]]
    later = (written.end, None, b"later")
    assert served == [*committed, *following[-3 * writing.RECORDS :], later]


def test_leader_epochs_removed_without_indexes_are_lost(written, unrepaired):
    begun = [one.start_offset for one in unrepaired.epochs["unreadable leader epochs"]]
    assert begun == [written.end]


@pytest.mark.parametrize("name", WRITTEN_OVER)
def test_records_after_a_partial_batch_cannot_be_read(name, unrepaired):
    directory = unrepaired.logs / f"{TOPIC}-{PARTITIONS[name]}"
    with pytest.raises(KafkaLogError):
        read(directory, LEVELS[0])
    assert unrepaired.left[name]


# --- the log directory's own files ----------------------------------------------------

START = 41


def test_a_broker_starts_once_files_of_the_log_directory_are_repaired(
    written, tmp_path
):
    broker = copied(written, tmp_path, clean=True)
    starts = broker.logs / LOG_STARTS
    starts.write_text(f"0\n1\n{TOPIC} 1 1000000\n")
    found = {(one.path, str(one.cause)) for one in verify(broker.logs).problems}
    assert (LOG_STARTS, "log_end") in found
    properties = (broker.logs / "meta.properties").read_text().splitlines()
    state = "__cluster_metadata-0/quorum-state"
    damaged = *CHECKPOINTS, "meta.properties", state
    for name in damaged:
        (broker.logs / name).write_bytes(b"version=?\n")
    (broker.logs / "lost+found").mkdir()
    found = {(one.path, str(one.cause)) for one in verify(broker.logs).problems}
    assert found >= {(name, "format") for name in damaged}

    for name in (*CHECKPOINTS, state):
        (broker.logs / name).unlink()
    (broker.logs / "lost+found").rmdir()
    starts.write_text(f"0\n1\n{TOPIC} 1 {START}\n")
    known = [line for line in properties if not line.startswith("#")]
    (broker.logs / "meta.properties").write_text("\n".join(known))
    broker.start()
    try:
        produce_one_each(broker)
        starts_at = BEGINNINGS | {1: START}
        served = {level: consume_all(broker, level, starts_at) for level in LEVELS}
    finally:
        broker.stop()
    for number in range(len(CASES)):
        everything, committed = (
            [row for row in written.records[level] if row[0] >= starts_at[number]]
            for level in LEVELS
        )
        later = (written.end, None, b"later")
        assert served[LEVELS[0]][number] == [*everything, later]
        assert served[LEVELS[1]][number] == committed
    assert verify(broker.logs).problems == ()
