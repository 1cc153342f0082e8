"""Targets: a whole log directory, read, verified, listed, and opened to append."""

from __future__ import annotations

import shutil
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import kafkalog
from kafkalog.errors import KafkaLogError
from kafkalog.formats.layout import CODEC_MASK
from kafkalog.query.listing import list_path
from kafkalog.testing import ManualClock, ManualScheduler, open_log
from kafkalog.verification.path_verification import verify
from tests.fuzz.archives import PARTITION, unpack
from tests.fuzz.checksums import correct_checksums
from tests.fuzz.rows import LIMIT, read, typed
from tests.query.batches import build

NOW = 1_700_000_000_000
MEMORY = Path("/dev/shm")
SMALL = kafkalog.LogConfig(internal_segment_bytes=2_000, segment_index_bytes=240)


class Scratch:
    """A temporary directory, in memory if possible."""

    def __enter__(self) -> Path:
        where = MEMORY if MEMORY.is_dir() else None
        self.path = Path(tempfile.mkdtemp(prefix="kafkalog-fuzz-", dir=where))
        return self.path

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.path)


def check_directory(data: bytes) -> None:
    """Read a directory in each way; no byte of it may change."""
    with Scratch() as root:
        unpack(data, root)
        before = content(root)
        rows, error, _ = read(root)
        for options, taking in (
            ({}, {"views": True}),
            ({"threads": 2}, {}),
        ):
            other, again, _ = read(root, taking, **options)
            assert (other, str(again)) == (rows, str(error))
        kept, _, problems = read(root, on_corruption="skip")
        assert bool(problems) == (error is not None)
        if error is None:
            assert kept == rows
            assert count(root) == len(rows)
            check_bounds(root, rows)
        read(root, on_corruption="skip", isolation="read_committed")
        query_all(root)
        assert content(root) == before


def content(root: Path) -> dict[str, bytes]:
    """Return the content of all files of a directory."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
    }


def count(root: Path) -> int:
    """Count all records from batch headers."""
    scan = kafkalog.scan(root, control_records=True, max_batch_bytes=LIMIT)
    return scan.count()


def check_bounds(root: Path, rows: list[Any]) -> None:
    """Check that bounds return the rows within them, whatever the indexes contain."""
    for start, end in ((2, 9), (7, 2**40)):
        bounded, error, _ = read(root, start_offset=start, end_offset=end)
        assert error is not None or bounded == [
            row for row in rows if start <= row[2] < end
        ]
    timed, error, _ = read(root, start_timestamp=NOW + 4)
    assert error is not None or timed == [row for row in rows if row[3] >= NOW + 4]


def query_all(root: Path) -> None:
    """List and verify a directory; scan its indexes."""
    for place in (root, root / PARTITION):
        typed(lambda place=place: list(list_path(place)))
        typed(verify, place)
    for scan in (
        kafkalog.scan_indexes,
        partial(kafkalog.scan_indexes, kind="time"),
        partial(kafkalog.scan_indexes, kind="transaction"),
    ):
        typed(scan, root)
    typed(query_log, root / PARTITION)


def query_log(directory: Path) -> None:
    """Open a log to read, and call its lookups."""
    with kafkalog.open(directory) as log:
        assert log.log_start_offset <= log.log_end_offset
        typed(log.offsets_for_times, [0, NOW, 2**62])


def check_recovery(data: bytes) -> None:
    """Open a directory to append, as after a crash; nothing corrupt may remain.

    Batches with a valid checksum and inconsistent content remain, as in Kafka.
    """
    with Scratch() as root:
        unpack(data, root)
        for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
            (root / name).unlink(missing_ok=True)
        if typed(append_to, root / PARTITION) is None:
            return
        rows, error, _ = read(root / PARTITION)
        assert error is None or error.cause != "crc", error
        assert rows or error, "the record that was appended is not there"
        append_to(root / PARTITION)
        more, again, _ = read(root / PARTITION)
        assert more[: len(rows)] == rows
        assert str(again) == str(error)
        assert error or len(more) == len(rows) + 1


def check_salvage(data: bytes) -> None:
    """Salvage and heal a directory, and its files as an image; read what is written."""
    with Scratch() as root:
        logs = root / "logs"
        logs.mkdir()
        unpack(data, logs)
        before = content(logs)
        image = root / "image"
        image.write_bytes(b"".join(before.values()))
        first, second = image.with_name("first"), image.with_name("second")
        salvaged = typed(kafkalog.salvage, logs, first)
        if salvaged is not None:
            again = kafkalog.salvage(first, second)
            assert not any(row.missing for row in again.partitions)
            assert not any(row.bytes_unreadable for row in again.partitions)
        typed(kafkalog.salvage, image, root / "found")
        typed(kafkalog.salvage, image, root / "part", fragment=True)
        healed = typed(kafkalog.heal, [logs, logs], root / "healed")
        assert (root / "healed").exists() == bool(healed is not None and healed.ok)
        assert content(logs) == before
        for name in ("first", "found", "part", "healed"):
            if (root / name).exists():
                _, error, _ = read(root / name)
                assert error is None or error.cause != "crc", error


def append_to(directory: Path) -> int:
    """Open a log, append a batch, and close it."""
    clock = ManualClock(NOW)
    with open_log(
        directory, SMALL, clock=clock, scheduler=ManualScheduler(clock)
    ) as log:
        batch = kafkalog.RecordBatchBuilder(base_offset=0)
        batch.append(b"k", b"v", timestamp=NOW)
        return log.append(batch.build()).last_offset


def check_append(data: bytes) -> None:
    """Append the bytes as leader and as follower; accepted batches must be readable."""
    with Scratch() as root:
        for corrected in (data, correct_checksums(data)):
            for follower in (False, True):
                name = f"t-{int(follower)}{int(corrected is data)}"
                check_one_append(root / name, corrected, follower=follower)


def is_compressed(data: bytes) -> bool:
    """Return whether bytes begin with a compressed batch of magic 2."""
    return data[16:17] == b"\x02" and int.from_bytes(data[22:23]) & CODEC_MASK != 0


def check_one_append(directory: Path, data: bytes, *, follower: bool) -> None:
    """Append once; a rejected append leaves no record.

    A follower validates only headers and checksums. A leader validates the records of a
    compressed batch only as far as it needs them.
    """
    clock = ManualClock(NOW)
    with open_log(
        directory, SMALL, clock=clock, scheduler=ManualScheduler(clock)
    ) as log:
        log.append(build(2, "none", 0, 1, producer_id=-1, producer_epoch=-1))
        end = log.log_end_offset
        try:
            log.append_as_follower(data) if follower else log.append(data)
        except KafkaLogError as error:
            assert "\n" not in str(error), error
            assert log.log_end_offset == end
        last = log.log_end_offset
    rows, error, _ = read(directory)
    not_validated = follower or is_compressed(data)
    assert error is None or (not_validated and error.cause != "crc"), error
    assert [row[2] for row in rows[:1]] == [0]
    assert all(row[2] < last for row in rows)
