"""Transaction markers, read from control batches."""

import numpy as np
import pytest

from kafkalog.encoding.batch_builder import RecordBatchBuilder
from kafkalog.errors import (
    CorruptRecordError,
    InvalidRecordError,
    LogArgumentError,
)
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.formats.control_keys import ControlRecordType
from kafkalog.log.markers import known_markers, read_markers
from kafkalog.log.producers.producer_entry import Marker
from kafkalog.messages.control_records import end_transaction_marker
from tests.log.producing import NOW, PRODUCER


def control_batch(kind, offset=7, codec="none"):
    builder = RecordBatchBuilder(
        base_offset=offset,
        producer_id=PRODUCER,
        producer_epoch=3,
        is_transactional=True,
        is_control=True,
        codec=codec,
    )
    key, value = end_transaction_marker(ControlRecordType.COMMIT, 9)
    if kind is not None:
        key = b"\0\0" + int(kind).to_bytes(2, "big")
    builder.append(key, value, timestamp=NOW)
    return builder.build()


def scanned(*batches):
    data = np.frombuffer(b"".join(batches), np.uint8)
    return data, scan_headers(data)[0]


def plain_batch(offset):
    builder = RecordBatchBuilder(base_offset=offset)
    builder.append(None, b"v", timestamp=NOW)
    return builder.build()


def test_markers_are_read_from_control_batches():
    data, rows = scanned(
        plain_batch(0), control_batch(0, 1), plain_batch(2), control_batch(1, 3, "zstd")
    )
    marks = {1: Marker(True, 9, NOW), 3: Marker(False, 9, NOW)}
    assert read_markers(data, rows) == known_markers(data, rows) == marks
    rows["position"] += 1000
    assert read_markers(data, rows, 1000) == marks
    assert read_markers(data, rows[[0, 2]], 1000) == {}


def test_an_empty_control_batch_has_no_marker():
    whole = control_batch(0)
    emptied = bytearray(whole[:61])
    emptied[8:12] = (61 - 12).to_bytes(4, "big")
    emptied[57:61] = bytes(4)
    data, rows = scanned(bytes(emptied), control_batch(1, 8))
    assert read_markers(data, rows) == {0: None, 1: Marker(False, 9, NOW)}


@pytest.mark.parametrize("kind", [2, 77])
def test_a_control_record_that_is_no_marker_is_rejected_in_an_append(kind):
    data, rows = scanned(control_batch(kind))
    with pytest.raises(LogArgumentError, match=f"record of type {kind} in"):
        read_markers(data, rows)
    assert known_markers(data, rows) == {0: None}


def test_a_damaged_marker_is_an_error():
    data, rows = scanned(control_batch(0)[:-1] + b"\1")
    with pytest.raises(InvalidRecordError):
        read_markers(data, rows)
    with pytest.raises(CorruptRecordError):
        known_markers(data, rows)


@pytest.mark.parametrize("count", [2, 3, 2**31 - 1])
def test_only_the_first_record_of_a_control_batch_is_read(count):
    changed = bytearray(control_batch(0))
    changed[57:61] = count.to_bytes(4, "big")
    data, rows = scanned(bytes(changed))
    assert read_markers(data, rows) == {0: Marker(True, 9, NOW)}
