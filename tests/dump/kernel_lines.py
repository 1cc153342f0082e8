"""Lines that the dump kernel prints of internal records, and the expected ones."""

import numpy as np

import kafkalog
from kafkalog import _speedups
from kafkalog._speedups import DumpFlag, Halt
from kafkalog.dump.log_file import RUN
from kafkalog.messages.message_parsers import describe_record
from kafkalog.messages.schema_compiler import compile_schemas

FLAGS = DumpFlag.DEEP | DumpFlag.PRINT | DumpFlag.STOP


def batch_of(records):
    batch = kafkalog.RecordBatchBuilder(base_offset=0)
    for key, value in records:
        batch.append(key, value, timestamp=1)
    return np.frombuffer(batch.build(), np.uint8)


def printed(kind, data, out, flags=FLAGS):
    """Return the kernel's lines, one a record, None where it left it to Python."""
    run = np.zeros(1, RUN)
    run["record"] = run["last_offset"] = -1
    pairs = np.empty((64, 2), np.int64)
    lines = []
    while True:
        halt = _speedups.dump_batches(
            data, run, out, pairs, flags, compile_schemas(kind)
        )
        written = out[: run["written"][0]].tobytes()
        lines += written.splitlines()
        run["written"] = 0
        if halt == Halt.CONTENTS:
            lines[-1] = None
        elif halt != Halt.FULL or run["need"][0] > len(out):
            break
    assert halt == Halt.MORE
    return lines[1:]


def contents(kind, key, value, offset):
    shown_key, payload = describe_record(kind, key, value, offset)
    text = "" if shown_key is None else f" key: {shown_key}"
    return (text + ("" if payload is None else f" payload: {payload}")).encode()
