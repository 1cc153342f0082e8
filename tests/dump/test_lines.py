"""The lines of records and batches: text, numbers, and invalid bytes."""

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog import RecordBatchBuilder, _speedups
from kafkalog._speedups import DumpFlag, Halt
from kafkalog.dump.dump_options import DumpOptions
from kafkalog.dump.dump_report import PairFindings
from kafkalog.dump.dumped_file import DumpedFile
from kafkalog.dump.java_exceptions import ToolEnded
from kafkalog.dump.log_file import RUN, LogDump
from kafkalog.dump.printing import printer
from kafkalog.dump.streams import Streams
from kafkalog.storage.byte_source import MemorySource
from kafkalog.text.bytes_text import repair_utf8
from tests.dump.dump_command import dump
from tests.guarded import at_the_end

EVERYTHING = DumpFlag.DEEP | DumpFlag.PRINT
OPTIONS = DumpOptions(print_contents=True)
CUT_CHARACTERS = [b"\xf0\x9f\x98", b"\xed\xa0", b"\xed\xa0d", b"\xe0\x80", b"\xf1\x80"]
texts = st.binary(max_size=80) | st.text(max_size=30).map(str.encode)


def printed(data, options=OPTIONS):
    """Dump bytes as a log; return the output and the exception that ended it."""
    out, ended = bytearray(), None
    streams = Streams(out.extend, lambda _: None)
    lines = LogDump(
        DumpedFile("7.log"), printer(options, None, streams), PairFindings()
    )
    try:
        lines.dump(MemorySource(data), len(data))
    except ToolEnded as error:
        ended = error
    return bytes(out), ended


def batch_of(value, **settings):
    builder = RecordBatchBuilder(base_offset=7, **settings)
    builder.append(None, value, timestamp=5)
    return builder.build()


@given(text=texts)
@example(text=b"".join(CUT_CHARACTERS))
@example(text=b"\xed\xbf\xbf\xf4\x90\x80\x80\xf5\xff\xc0\xc1\xfe")
def test_text_is_repaired_as_java_repairs_it(text):
    out, ended = printed(batch_of(text))
    assert ended is None
    assert out.endswith(b" payload: " + repair_utf8(text).encode() + b"\n")


@pytest.mark.parametrize("cut", CUT_CHARACTERS)
def test_a_truncated_character_is_one_fault(cut):
    faults = {b"\xe0\x80": 2, b"\xed\xa0d": 1}.get(cut, 1)
    assert repair_utf8(cut).count("\ufffd") == faults


@pytest.mark.parametrize("number", [0, 9, 10, -1, 2**31 - 1, 2**63 - 1, -(2**63)])
def test_numbers_are_decimal(number):
    data = bytearray(batch_of(b""))
    data[0:8] = struct.pack(">q", number)
    out, _ = printed(bytes(data), DumpOptions())
    assert out.startswith(f"baseOffset: {number} lastOffset: {number} ".encode())


@given(value=st.binary(max_size=300), size=st.integers(1, 4000))
def test_a_line_that_exceeds_the_buffer_is_retried_with_a_larger_one(value, size):
    data = np.frombuffer(batch_of(value) * 3, np.uint8)
    run, out, pairs = np.zeros(1, RUN), np.empty(size, np.uint8), np.empty((1, 2), int)
    run["record"] = -1
    written = b""
    while True:
        halt = _speedups.dump_batches(data, run, out, pairs, EVERYTHING)
        written += out[: int(run["written"][0])].tobytes()
        run["written"] = run["pairs"] = 0
        if halt != Halt.FULL:
            break
        out = np.empty(max(len(out), int(run["need"][0])), np.uint8)
    assert halt == Halt.MORE
    assert written == printed(data.tobytes())[0]


@given(data=st.binary(max_size=200))
def test_arbitrary_bytes_end_it_as_kafka_ends(data):
    printed(data)
    source = at_the_end(data)
    run, pairs = np.zeros(1, RUN), np.empty((8, 2), np.int64)
    run["record"] = -1
    out = np.empty(1 << 14, np.uint8)
    _speedups.dump_batches(source, run, out, pairs, EVERYTHING)
    assert 0 <= run["written"][0] <= len(out)


@given(data=st.data())
def test_a_batch_with_any_bytes_in_it_ends_it_as_kafka_ends(data):
    codec = data.draw(st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
    batch = bytearray(batch_of(b"value" * 9, codec=codec))
    for _ in range(data.draw(st.integers(1, 4))):
        batch[data.draw(st.integers(12, len(batch) - 1))] = data.draw(
            st.integers(0, 255)
        )
    out, _ = printed(bytes(batch))
    assert out.startswith((b"baseOffset: 7 ", b"offset: 7 "))


def test_files_are_dumped_in_order_and_unknown_ones_are_reported(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("2.log", "1.log"):
        (tmp_path / name).write_bytes(batch_of(b""))
    ran = dump("--deep-iteration", "--files", "2.log,x.txt,.//1.log")
    assert ran.stdout.splitlines()[::4][:1] == [b"Dumping 2.log"]
    assert b"Dumping x.txt\nDumping ./1.log\nLog starting offset: 1\n" in ran.stdout
    assert ran.stderr.startswith("Ignoring unknown file x.txt\n")
    assert ran.stderr.count("Non-consecutive offsets in ") == 2
