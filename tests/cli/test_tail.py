"""``tail``: the last records, as ``cat`` prints them; and following growing logs."""

import json
import os
import select
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.messages.control_records import end_transaction_marker
from kafkalog.storage.byte_source import FileSource
from kafkalog.testing import ManualClock, ManualScheduler, open_log
from tests import golden_data
from tests.log.writing import NOW, SMALL, batch
from tests.query import batches
from tests.query.big_segment import write_segment

from . import golden
from .shell import COMMAND, call, objects

PATIENCE = 20.0


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
@pytest.mark.parametrize("name", golden_data.SETS)
def test_the_last_records_are_those_that_cat_prints_last(name, isolation):
    place = golden_data.logs(name)
    whole = objects(call("cat", place, "--isolation-level", isolation).stdout)
    by_partition = {}
    for row in whole:
        by_partition.setdefault((row["topic"], row["partition"]), []).append(row)
    for count in (0, 1, 3, 17, 10_000):
        ran = call("tail", place, "-n", count, "--isolation-level", isolation)
        rows = [row for rows in by_partition.values() for row in rows[-count:] if count]
        assert (ran.exit_code, objects(ran.stdout)) == (0, rows)


@pytest.mark.parametrize(("magic", "codec"), batches.KINDS)
def test_the_last_of_every_magic_and_codec(tmp_path, magic, codec):
    path = tmp_path / "00000000000000000000.log"
    built = [batches.build(magic, codec, first) for first in range(0, 30, 3)]
    path.write_bytes(b"".join(built))
    for count in (0, 1, 2, 4, 7, 30, 31):
        rows = objects(call("tail", path, "-n", count).stdout)
        assert [row["offset"] for row in rows] == list(range(max(0, 30 - count), 30))


def test_control_records_count_if_they_are_included():
    place = golden.CLEAN / "ledger-0"
    rows = objects(call("cat", place, "--control-records").stdout)
    shown = call("tail", place, "--control-records", "-n", 4)
    assert objects(shown.stdout) == rows[-4:]


def test_a_long_log_is_not_read_for_its_last_records(tmp_path, monkeypatch):
    written = write_segment(tmp_path / "orders-0", 64 << 20, index_every=1)
    read = []
    real = FileSource.read

    def counted(self, position, length, *rest):
        data = real(self, position, length, *rest)
        read.append(len(data))
        return data

    monkeypatch.setattr(FileSource, "read", counted)
    rows = objects(call("tail", written.place, "-n", 5, "--columns", "offset").stdout)
    end = written.records
    assert [row["offset"] for row in rows] == list(range(end - 5, end))
    assert sum(read) < 8 << 20


def test_damage_at_the_end_is_raised_or_skipped_as_requested(tmp_path):
    path = tmp_path / "00000000000000000000.log"
    built = [bytearray(batches.build(2, "none", first)) for first in range(0, 12, 3)]
    built[2][-1] ^= 1
    path.write_bytes(b"".join(built))
    for option, offsets in (("stop", [4, 5]), ("skip", [4, 5, 9, 10, 11])):
        ran = call("tail", path, "-n", 5, "--on-corruption", option)
        assert ran.exit_code == 1
        assert [row["offset"] for row in objects(ran.stdout)] == offsets
        assert f"{path} at byte" in ran.stderr


class Following:
    """A running ``tail -f``, whose rows are read as they arrive."""

    def __init__(self, process):
        self.process = process
        self._text = b""

    def rows(self, count):
        """Wait for this many rows."""
        found = []
        until = time.monotonic() + PATIENCE
        while len(found) < count:
            line, newline, rest = self._text.partition(b"\n")
            if newline:
                self._text = rest
                found.append(json.loads(line))
                continue
            ready, _, _ = select.select(
                [self.process.stdout], [], [], max(0, until - time.monotonic())
            )
            assert ready, (found, self._text)
            chunk = os.read(self.process.stdout.fileno(), 1 << 16)
            assert chunk, (found, self.process.stderr.read())
            self._text += chunk
        return found

    def offsets(self, count):
        return [row["offset"] for row in self.rows(count)]

    def stop(self):
        """Interrupt it; return its code, its last output, and its messages."""
        self.process.send_signal(signal.SIGINT)
        rest, messages = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, self._text + rest, messages.decode()


@contextmanager
def following(*arguments):
    process = subprocess.Popen(
        [*COMMAND, "tail", "-f", "--interval", "0.05", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield Following(process)
    finally:
        process.kill()
        process.communicate()


def opened(place, config=SMALL):
    clock = ManualClock(NOW)
    scheduler = ManualScheduler(clock)
    return open_log(place, config, clock=clock, scheduler=scheduler)


def test_a_log_is_followed_across_new_segments(tmp_path):
    with opened(tmp_path / "t-0") as log:
        log.append(batch(5))
        with following(tmp_path / "t-0", "-n", "2") as tail:
            assert tail.offsets(2) == [3, 4]
            for _ in range(30):
                log.append(batch(2))
            assert len(log.segments) > 3
            assert tail.offsets(60) == list(range(5, 65))
            code, rest, messages = tail.stop()
    assert (code, rest, messages) == (130, b"", "kafkalog: interrupted\n")


def test_a_truncation_is_reported_and_what_follows_it_is_printed(tmp_path):
    with opened(tmp_path / "t-0") as log:
        log.append(batch(5))
        log.append(batch(5))
        with following(tmp_path / "t-0") as tail:
            assert tail.offsets(10) == list(range(10))
            log.truncate_to(5)
            time.sleep(0.5)
            log.append(batch(2, size=9))
            assert tail.offsets(2) == [5, 6]
            _, _, messages = tail.stop()
    place = tmp_path / "t-0"
    cut = f"kafkalog: log was truncated to offset 5: {place}: records returned from 5"
    assert messages.startswith(cut)


def test_a_truncation_that_was_overwritten_is_detected_by_leader_epoch(tmp_path):
    place = tmp_path / "t-0"
    with opened(place) as log:
        log.append_as_follower(batch(5, base_offset=0, leader_epoch=1), leader_epoch=1)
        log.append_as_follower(batch(5, base_offset=5, leader_epoch=1), leader_epoch=1)
        log.flush(include_active=True)
        with following(place) as tail:
            assert tail.offsets(10) == list(range(10))
            tail.process.send_signal(signal.SIGSTOP)
            log.truncate_to(5)
            log.append_as_follower(
                batch(9, base_offset=5, leader_epoch=2), leader_epoch=2
            )
            log.flush(include_active=True)
            tail.process.send_signal(signal.SIGCONT)
            assert tail.offsets(9) == list(range(5, 14))
            _, _, messages = tail.stop()
    assert "truncated to offset 5" in messages


def test_records_deleted_by_retention_are_skipped(tmp_path):
    with opened(tmp_path / "t-0") as log:
        log.append(batch(5))
        with following(tmp_path / "t-0", "-n", "1") as tail:
            assert tail.offsets(1) == [4]
            tail.process.send_signal(signal.SIGSTOP)
            for _ in range(10):
                log.append(batch(5))
            log.update_high_watermark(log.log_end_offset)
            log.delete_records(42)
            log.delete_old_segments()
            start = log.growing_segments[0].base_offset
            assert start > 5
            tail.process.send_signal(signal.SIGCONT)
            rows = tail.offsets(55 - max(start, 5))
            assert rows == list(range(start, 55))
            log.append(batch(1))
            assert tail.offsets(1) == [55]
            _, _, messages = tail.stop()
    skipped = f"skipped offsets 5 to {start - 1} of t-0"
    assert messages.count("skipped") == 1
    assert messages.startswith(
        f"kafkalog: {skipped}: the log was deleted up to {start} "
    )


def test_records_printed_before_retention_deletes_them_are_not_reported(tmp_path):
    with opened(tmp_path / "t-0") as log:
        log.append(batch(5))
        with following(tmp_path / "t-0") as tail:
            assert tail.offsets(5) == list(range(5))
            log.append(commit(PRODUCER), origin="coordinator", transaction_version=0)
            log.roll()
            time.sleep(0.5)
            log.update_high_watermark(log.log_end_offset)
            log.delete_records(log.log_end_offset)
            log.delete_old_segments()
            assert log.log_start_offset == 6
            log.append(batch(1))
            assert tail.offsets(1) == [6]
            _, _, messages = tail.stop()
    assert "skipped" not in messages


def test_partitions_come_and_go(tmp_path):
    with opened(tmp_path / "t-0") as log:
        log.append(batch(1))
    with opened(tmp_path / "t-1") as log:
        log.append(batch(1))
    with following(tmp_path, "--topic", "t", "-n", "1") as tail:
        assert [row["partition"] for row in tail.rows(2)] == [0, 1]
        with opened(tmp_path / "t-2") as log:
            log.append(batch(2))
        with opened(tmp_path / "other-0") as log:
            log.append(batch(2))
        assert [row["partition"] for row in tail.rows(2)] == [2, 2]
        shutil.rmtree(tmp_path / "t-1")
        time.sleep(0.5)
        with opened(tmp_path / "t-0") as log:
            log.append(batch(1))
        assert [(row["partition"], row["offset"]) for row in tail.rows(1)] == [(0, 1)]
        code, _, messages = tail.stop()
    assert code == 130
    assert f"removed: {tmp_path / 't-1'}" in messages


PRODUCER = {"producer_id": 7, "producer_epoch": 0}


def commit(producer):
    """Return the encoded marker that commits a producer's transaction."""
    builder = RecordBatchBuilder(is_transactional=True, is_control=True, **producer)
    key, value = end_transaction_marker(ControlRecordType.COMMIT, 0)
    builder.append(key, value, timestamp=NOW)
    return builder.build()


def test_uncommitted_records_are_not_printed_yet(tmp_path):
    place = tmp_path / "t-0"
    with opened(place) as log:
        log.append(batch(1))
        with following(place, "--isolation-level", "read_committed") as tail:
            assert tail.offsets(1) == [0]
            undecided = batch(2, is_transactional=True, base_sequence=0, **PRODUCER)
            log.append(undecided, guard=log.start_verification(7, 0, 0))
            log.append(batch(1))
            time.sleep(0.3)
            assert not select.select([tail.process.stdout], [], [], 0)[0]
            end = commit(PRODUCER)
            log.append(end, origin="coordinator", transaction_version=1)
            assert tail.offsets(3) == [1, 2, 3]


def test_a_closed_pipe_ends_tail_quietly(tmp_path):
    with opened(tmp_path / "t-0") as log:
        log.append(batch(3))
    with following(tmp_path / "t-0", "-n", "1") as tail:
        assert tail.offsets(1) == [2]
        tail.process.stdout.close()
        assert tail.process.wait(PATIENCE) == 0
        assert tail.process.stderr.read() == b""
        tail.process.stdout = None


def test_waiting_takes_no_processor_time(tmp_path):
    with opened(tmp_path / "t-0") as log:
        log.append(batch(3))
    with following(tmp_path / "t-0", "-n", "1") as tail:
        tail.rows(1)
        before = spent(tail.process.pid)
        time.sleep(2)
        assert spent(tail.process.pid) - before < 0.4


def spent(pid):
    """Return the processor seconds that a process has used."""
    cells = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(cells[11]) + int(cells[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.parametrize("form", ["json", "csv", "table"])
def test_every_format_can_be_followed(tmp_path, form):
    with opened(tmp_path / "t-0") as log:
        log.append(batch(3))
        arguments = (tmp_path / "t-0", "-n", "1", "--format", form)
        with following(*arguments, "--columns", "offset") as tail:
            sent = b""
            while b"2" not in sent:
                sent += os.read(tail.process.stdout.fileno(), 1 << 16)
            log.append(batch(1))
            while b"3" not in sent:
                sent += os.read(tail.process.stdout.fileno(), 1 << 16)
            code, rest, _ = tail.stop()
    assert code == 130
    text = (sent + rest).decode()
    if form == "json":
        assert json.loads(text) == [{"offset": 2}, {"offset": 3}]
    else:
        assert [line.strip() for line in text.splitlines()] == ["offset", "2", "3"]
