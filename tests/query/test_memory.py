"""Peak memory of scans, each measured in a process of its own."""

from __future__ import annotations

import gzip
import os
import shutil
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import crc32c
import lz4.frame
import pytest
import snappy
import zstandard

from tests.query.big_segment import write_segment

pytestmark = pytest.mark.slow

MIB = 1 << 20
MAX_BATCH_BYTES = 64 * MIB
CHUNKS_MIB = 128
BOMB_SLACK_MIB = 16
ROOT = Path(__file__).parents[2]
# VmHWM of a process is its peak resident memory.
PROLOGUE = """
import sys
import numpy, pyarrow, lz4.frame, snappy, zstandard
import kafkalog, kafkalog.export.arrow, kafkalog.query.scan_run

def peak():
    with open("/proc/self/status") as status:
        return next(int(l.split()[1]) >> 10 for l in status if l[:5] == "VmHWM")

def reset():
    with open("/proc/self/clear_refs", "w") as clear:
        clear.write("5")

reset()
before = peak()
"""


def measured(script, *arguments):
    """Run a script after the prologue; return the integers it prints."""
    done = subprocess.run(
        [sys.executable, "-c", PROLOGUE + script, *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return list(map(int, done.stdout.split()))


@pytest.fixture(scope="module")
def gibibyte(tmp_path_factory):
    written = write_segment(tmp_path_factory.mktemp("big") / "big-0", 1 << 30)
    yield written
    shutil.rmtree(written.place)


@pytest.fixture(scope="module", params=[("none", 256 * MIB), ("lz4", 9 * MIB)])
def quarter(request, tmp_path_factory):
    """Return a segment with about 256 MiB of records, compressed or not."""
    place = tmp_path_factory.mktemp("big") / "quarter-0"
    codec, size = request.param
    written = write_segment(place, size, text=os.urandom(1_000), codec=codec)
    yield written
    shutil.rmtree(place)


@pytest.mark.parametrize("options", ["", "views=True", "reuse=True"])
@pytest.mark.parametrize("threads", [1, 2])
def test_chunks_of_a_gibibyte_take_bounded_memory(gibibyte, options, threads, figure):
    script = f"""
scan = kafkalog.scan(sys.argv[1], threads={threads})
print(sum(map(len, scan.chunks({options}))), peak() - before)
"""
    records, grown = measured(script, gibibyte.place)
    assert records == gibibyte.records
    assert grown <= CHUNKS_MIB
    name = f"a GiB in chunks, {threads} threads {options}".rstrip()
    figure("MiB of memory", name, grown, f"of {CHUNKS_MIB}")


def test_a_table_takes_little_more_memory_than_its_size(quarter):
    script = """
table = kafkalog.scan(sys.argv[1]).to_arrow()
print(len(table), table.nbytes >> 20, peak() - before)
"""
    records, table, grown = measured(script, quarter.place)
    assert records == quarter.records
    assert table > 200
    assert grown <= 1.5 * table


def batch_of(codec, payload, count=1):
    """Return a batch of magic 2 with this payload and a valid checksum."""
    body = struct.pack(">hiqqqhii", codec, count - 1, 0, 0, -1, -1, -1, count) + payload
    crc = crc32c.crc32c(body)
    return struct.pack(">qiibI", 0, 9 + len(body), 0, 2, crc) + body


def varint(value):
    raw, out = value * 2, bytearray()
    while raw >= 128:
        out.append(128 | raw & 127)
        raw >>= 7
    return bytes([*out, raw])


def record_start(size):
    """Return the start of a record whose value has `size` bytes."""
    inner = b"\x00\x00\x00\x01" + varint(size)
    return varint(len(inner) + size + 1) + inner


def with_zeros(start, size):
    return start + bytes(size) + b"\x00"


def zstd_unsized(data):
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    return stream.compress(data) + stream.flush()


def xerial(data):
    blocks = b""
    for at in range(0, len(data), 32_768):
        block = snappy.compress(data[at : at + 32_768])
        blocks += struct.pack(">i", len(block)) + block
    return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + blocks


COMPRESSORS = {
    "gzip": (1, lambda data: gzip.compress(data, 9)),
    "raw snappy": (2, snappy.compress),
    "xerial snappy": (2, xerial),
    "lz4": (3, lambda data: lz4.frame.compress(data, block_linked=False)),
    "zstd with its size": (4, zstandard.ZstdCompressor(level=1).compress),
    "zstd without its size": (4, zstd_unsized),
}
SCAN = """
errors = []
scan = kafkalog.scan(sys.argv[1], on_corruption=sys.argv[2])
rows = 0
try:
    for chunk in scan.chunks():
        rows += len(chunk)
except (kafkalog.BatchTooLargeError, kafkalog.CorruptRecordError) as error:
    assert error.path and error.position == 0, error
    errors.append(error)
print(rows, len(errors), len(scan.problems), peak() - before)
"""


@pytest.mark.parametrize("compressor", COMPRESSORS)
def test_a_decompression_bomb_is_rejected_within_the_limit(
    compressor, tmp_path, figure
):
    codec, compress = COMPRESSORS[compressor]
    size = 160 * MIB
    bomb = batch_of(codec, compress(with_zeros(record_start(size), size)))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(bomb)
    assert len(bomb) < 32 * MIB
    limit = (MAX_BATCH_BYTES >> 20) + BOMB_SLACK_MIB
    rows, errors, _, grown = measured(SCAN, path, "raise")
    assert (rows, errors) == (0, 1)
    assert grown <= limit
    with path.open("wb") as file:
        for i in range(3):
            file.write(struct.pack(">q", i) + bomb[8:])
    rows, errors, problems, grown = measured(SCAN, path, "skip")
    assert (rows, errors, problems) == (0, 0, 3)
    assert grown <= limit
    figure("MiB of memory", f"a bomb, {compressor}", grown, f"of {limit}")


def message(magic, codec, value):
    """Return a message of magic 0 or 1 without a key, with a valid checksum."""
    time = bytes(8 * magic)
    body = bytes([magic, codec]) + time + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body


WRAPPERS = [(1, "lz4")]  # in magic 0, lz4 has another checksum than the library writes
WRAPPERS += [(m, p) for m in (0, 1) for p in ("gzip", "raw snappy", "xerial snappy")]


@pytest.mark.parametrize(("magic", "compressor"), WRAPPERS)
def test_a_decompression_bomb_in_a_wrapper_is_rejected_within_the_limit(
    magic, compressor, tmp_path, figure
):
    codec, compress = COMPRESSORS[compressor]
    path = tmp_path / f"{0:020d}.log"
    inside = message(magic, 0, bytes(160 * MIB))
    path.write_bytes(message(magic, codec, compress(inside)))
    rows, errors, _, grown = measured(SCAN, path, "raise")
    assert (rows, errors) == (0, 1)
    limit = (MAX_BATCH_BYTES >> 20) + BOMB_SLACK_MIB
    assert grown <= limit
    name = f"a bomb in a wrapper of magic {magic}, {compressor}"
    figure("MiB of memory", name, grown, f"of {limit}")


def dense_batch():
    """Return a batch of 60 MiB of the smallest records."""
    count = 60 * MIB // 7
    return batch_of(4, zstd_unsized(b"\x0c\0\0\0\x01\x01\0" * count), count), count


def dense_wrapper(magic):
    """Return a wrapper of 60 MiB of empty messages."""
    one = message(magic, 0, b"")
    count = 60 * MIB // len(one)
    return message(magic, 1, gzip.compress(one * count, 1)), count


def dense_headers():
    """Return a batch of one record with 60 MiB of empty headers."""
    count = 30 * MIB
    inner = b"\0\0\0\x01\x01" + varint(count) + bytes(2 * count)
    return batch_of(4, zstd_unsized(varint(len(inner)) + inner), 1), 1


CHUNKS = """
scan = kafkalog.scan(sys.argv[1], {})
print(sum(map(len, scan.chunks({}))), peak() - before)
"""
VERIFY = """
from click.testing import CliRunner
from kafkalog.cli.main import group
ran = CliRunner().invoke(group, ["verify", sys.argv[1]], catch_exceptions=False)
print(int("offsets of records do not rise" in ran.output), peak() - before)
"""
FIND = """
import re
from kafkalog.query.record_search import Condition, locate_records
condition = Condition(value=re.compile(b"x"))
found = list(locate_records(kafkalog.scan(sys.argv[1]), condition))
assert not found
print(kafkalog.scan(sys.argv[1]).count(), peak() - before)
"""
TAKEN = """
batch = kafkalog.RecordBatch(open(sys.argv[1], "rb").read())
taken = iter(batch)
print(batch.count * (next(taken).value is None), peak() - before)
"""
BOUND = (MAX_BATCH_BYTES + BOMB_SLACK_MIB * MIB) // MIB
DENSE = {
    "records": (dense_batch, CHUNKS.format("", ""), BOUND),
    "records, offsets alone": (
        dense_batch,
        CHUNKS.format("columns=['offset']", ""),
        BOUND,
    ),
    "records, as views": (dense_batch, CHUNKS.format("", "views=True"), BOUND),
    "records, searched": (dense_batch, FIND, BOUND),
    "records, one by one": (dense_batch, TAKEN, BOUND),
    "records, in threads": (
        dense_batch,
        CHUNKS.format("threads=2", ""),
        6 * MAX_BATCH_BYTES // MIB,
    ),
    "messages of magic 0": (
        lambda: dense_wrapper(0),
        CHUNKS.format("", ""),
        5 * MAX_BATCH_BYTES // 2 // MIB,
    ),
    "messages of magic 1": (
        lambda: dense_wrapper(1),
        CHUNKS.format("", ""),
        5 * MAX_BATCH_BYTES // 2 // MIB,
    ),
    "headers": (dense_headers, CHUNKS.format("", ""), 7 * MAX_BATCH_BYTES // MIB),
}


@pytest.mark.parametrize("what", DENSE)
def test_the_smallest_records_take_bounded_memory(what, tmp_path, figure):
    make, script, limit = DENSE[what]
    path = tmp_path / f"{0:020d}.log"
    data, records = make()
    path.write_bytes(data)
    found, grown = measured(script, path)
    assert found == records
    assert grown <= limit
    figure("MiB of memory", f"60 MiB of the smallest {what}", grown, f"of {limit}")


def test_verify_of_the_smallest_records_takes_bounded_memory(tmp_path, figure):
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(dense_batch()[0])
    found, grown = measured(VERIFY, path)
    assert found == 1
    limit = 8 * MAX_BATCH_BYTES // MIB
    assert grown <= limit
    figure(
        "MiB of memory", "60 MiB of the smallest records, verify", grown, f"of {limit}"
    )


def runs_of_zeros(blocks):
    """Return a zstd frame without its size, of blocks of a repeated byte."""
    header = b"\x28\xb5\x2f\xfd\x00\x38"  # a window of 128 KiB
    size = 128 << 10
    middle = (size << 3 | 1 << 1).to_bytes(3, "little") + b"\x00"
    last = (size << 3 | 1 << 1 | 1).to_bytes(3, "little") + b"\x00"
    return header + middle * (blocks - 1) + last


DUMP = """
from click.testing import CliRunner
from kafkalog.cli.main import group

arguments = ["dump", "--print-data-log", "--files", sys.argv[1]]
ran = CliRunner().invoke(group, arguments, catch_exceptions=False)
print(ran.exit_code, int(sys.argv[2] in ran.stderr), peak() - before)
"""
DUMP_BOMBS = {
    "zeros, which are not records": (
        4,
        lambda: runs_of_zeros(1 << 14),
        "InvalidRecordException",
    ),
    "a record of zeros, gzip": (
        1,
        lambda: gzip.compress(with_zeros(record_start(400 * MIB), 400 * MIB), 1),
        "OutOfMemoryError: Java heap space",
    ),
    "a record of zeros, zstd": (
        4,
        lambda: zstd_unsized(with_zeros(record_start(400 * MIB), 400 * MIB)),
        "OutOfMemoryError: Java heap space",
    ),
}


@pytest.mark.parametrize("bomb", DUMP_BOMBS)
def test_dump_decompresses_no_more_than_kafkas_tool(bomb, tmp_path, figure):
    codec, compress, expected_text = DUMP_BOMBS[bomb]
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(batch_of(codec, compress()))
    code, found, grown = measured(DUMP, path, expected_text)
    assert (code, found) == (1, 1)
    limit = 256 + 2 * BOMB_SLACK_MIB
    assert grown <= limit
    figure("MiB of memory", f"dump of {bomb}", grown, f"of {limit}")


def test_a_wrong_record_count_takes_no_memory(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    most = 2**31 - 1
    payloads = [b"\x00" * 5_000, record_start(3) + b"abc\x00"]
    data = b"".join(batch_of(0, payload, most) for payload in payloads)
    data += batch_of(4, zstd_unsized(b"\x00" * 100_000), most)
    path.write_bytes(data)
    rows, errors, _, grown = measured(SCAN, path, "raise")
    assert (rows, errors) == (0, 1)
    assert grown <= BOMB_SLACK_MIB
