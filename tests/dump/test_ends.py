"""Logs that end inside a header, or are truncated during the dump: how Kafka ends."""

import struct

import pytest

from kafkalog import RecordBatchBuilder
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.java_exceptions import ToolEnded
from kafkalog.dump.log_slices import SlicedLog
from tests.dump.dump_command import dump

NAME = 20 * "0"
CHANNEL = "from file channel `sun.nio.ch.FileChannelImpl@0`"


def whole():
    builder = RecordBatchBuilder()
    builder.append(None, b"value", timestamp=5)
    return builder.build()


def short(magic, size_in_bytes):
    """Return a batch of this many bytes, all zeros except for size and magic."""
    entry = struct.pack(">qiib", 0, size_in_bytes - 12, 0, magic)
    return entry + bytes(size_in_bytes - len(entry))


def cannot_load(position, in_all, path, start=0):
    return (
        'Exception in thread "main" org.apache.kafka.common.KafkaException: Failed to '
        f"load record batch at position {position} from "
        f"FileRecords(size={in_all - start}, file={path}, start={start}, "
        f"end={in_all})\n"
        "Caused by: java.io.EOFException: Failed to read `record batch header` "
        f"{CHANNEL}. Expected to read 61 bytes, but reached end of file after reading "
        f"{in_all - position} bytes. Started read from position {position}.\n"
    )


@pytest.mark.parametrize("size", [26, 30, 60])
@pytest.mark.parametrize("magic", [2, 3, 127])
@pytest.mark.parametrize("before", [b"", whole()])
def test_a_last_batch_shorter_than_its_header_ends_it(size, magic, before, tmp_path):
    path = tmp_path / f"{NAME}.log"
    data = before + short(magic, size)
    path.write_bytes(data)
    for flags in ([], ["--print-data-log"]):
        ran = dump(*flags, "--files", path)
        assert ran.exit_code == 1
        assert ran.stderr == cannot_load(len(before), len(data), path)
        assert ran.stdout.count(b"baseOffset: ") == bool(before)
        assert b"invalid bytes" not in ran.stdout


def test_a_truncated_batch_is_invalid_bytes(tmp_path):
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(short(2, 60)[:59])
    ran = dump("--files", path)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert b"Found 59 invalid bytes at the end of " in ran.stdout


@pytest.mark.parametrize("size", [26, 33, 34])
def test_a_last_message_may_be_as_short_as_its_header(size, tmp_path):
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(short(1, size))
    ran = dump("--files", path)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert f" CreateTime: 0 size: {size} magic: 1 ".encode() in ran.stdout
    deep = dump("--deep-iteration", "--files", path)
    has_sizes = size == 34
    assert deep.exit_code == (not has_sizes)
    assert ("IndexOutOfBoundsException" in deep.stderr) != has_sizes


@pytest.mark.parametrize("size", [26, 30, 34, 61])
def test_a_last_entry_of_negative_magic_ends_it(size, tmp_path):
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(short(-1, size))
    ran = dump("--files", path)
    assert ran.exit_code == 1
    reason = "java.lang.IllegalArgumentException: Invalid magic used in LegacyRecord"
    assert ran.stderr == f'Exception in thread "main" {reason}: -1\n'
    assert ran.stdout.endswith(b"\noffset: 0")


def test_an_index_entry_of_a_batch_shorter_than_its_header_ends_it(tmp_path):
    first = whole()
    data = first + short(2, 30)
    (tmp_path / f"{NAME}.log").write_bytes(data)
    entry = struct.pack(">ii", 1, len(first))
    (tmp_path / f"{NAME}.index").write_bytes(entry)
    (tmp_path / f"{NAME}.timeindex").write_bytes(struct.pack(">qi", 5, 0))
    ran = dump("--files", tmp_path / f"{NAME}.index")
    path = tmp_path / f"{NAME}.log"
    assert ran.stderr == cannot_load(len(first), len(data), path, start=len(first))
    ran = dump("--files", tmp_path / f"{NAME}.timeindex")  # found before the short one
    assert (ran.exit_code, ran.stderr) == (0, "")
    (tmp_path / f"{NAME}.timeindex").write_bytes(struct.pack(">qi", 5, 9))
    for index, start in ((entry, len(first)), (b"", 0)):
        (tmp_path / f"{NAME}.index").write_bytes(index)
        ran = dump("--files", tmp_path / f"{NAME}.timeindex")
        assert ran.stderr == cannot_load(len(first), len(data), path, start=start)


@pytest.mark.parametrize("left", [0, 5, 16])
def test_a_log_that_is_cut_while_its_index_is_dumped_ends_it(left, tmp_path):
    path = tmp_path / f"{NAME}.log"
    path.write_bytes(whole())
    with SlicedLog(DumpedFile(str(path))) as log:
        end = log.slice_end(0, 1 << 20)
        path.write_bytes(whole()[:left])
        with pytest.raises(ToolEnded) as ended:
            log.batch_at(0, end)
    assert str(ended.value) == (
        "org.apache.kafka.common.errors.CorruptRecordException: Unexpected EOF while "
        "attempting to read the next batch"
    )
    assert str(ended.value.because) == (
        f"java.io.EOFException: Failed to read `log header` {CHANNEL}. Expected to "
        f"read 17 bytes, but reached end of file after reading {left} bytes. Started "
        "read from position 0."
    )
