"""Errors of an invalid compressed batch, in the order a Kafka leader finds them."""

import struct

import numpy as np
import pytest

from kafkalog.codecs.checksum import crc32c
from kafkalog.codecs.compression import Codec, compress
from kafkalog.errors import CompressionError, InvalidRecordError, UnevenOffsetsError
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.validation.append_policy import AppendPolicy, AppendRules
from kafkalog.validation.appends import AppendMemory, AppendOrigin
from kafkalog.validation.invalid_records import read_one_by_one
from kafkalog.validation.leader_validation import validate_for_leader
from tests.reference import varlong

TIME = 1_700_000_000_000
COMPRESSED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def record(number, size=None, headers=0):
    fields = varlong(number) + varlong(number) + varlong(1) + b"k"
    body = b"\0" + fields + varlong(0) + varlong(headers)
    return varlong(len(body) if size is None else size) + body


def batch(stream, codec, count=3):
    head = struct.pack(">hiqqqhii", codec, count - 1, TIME, TIME + 2, -1, -1, -1, count)
    body = struct.pack(">iBI", -1, 2, crc32c(head + stream)) + head + stream
    return np.frombuffer(struct.pack(">qi", 0, len(body)) + body, np.uint8)


def read(data, *, in_place=True):
    rows, _, _ = scan_headers(data)
    return read_one_by_one(data, rows[0], in_place=in_place)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("size", [-1, 0, 3, 2**31 - 1])
def test_the_stated_length_of_a_record_is_checked_only_if_the_batch_is_rebuilt(
    codec, size
):
    content = record(0) + record(1, size) + record(2)
    data = batch(compress(codec, content), codec)
    spans = read(data)
    assert spans["timestamp"].tolist() == [TIME, TIME + 1, TIME + 2]
    assert spans["offset"].tolist() == [0, 1, 2]
    assert spans["key_length"].tolist() == [1, 1, 1]
    with pytest.raises(InvalidRecordError):
        read(data, in_place=False)


@pytest.mark.parametrize("codec", COMPRESSED)
@pytest.mark.parametrize("in_place", [True, False])
def test_valid_records_are_read_in_both_modes(codec, in_place):
    data = batch(compress(codec, b"".join(map(record, range(3)))), codec)
    assert read(data, in_place=in_place)["offset"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("in_place", [True, False])
def test_the_first_error_in_the_stream_is_raised(in_place):
    valid = b"".join(map(record, range(3)))
    invalid = record(0) + record(1, headers=-1)
    for content, error in ((valid, CompressionError), (invalid, InvalidRecordError)):
        stream = compress(Codec.GZIP, content)[:-1]  # truncates the stream's checksum
        with pytest.raises(error):
            read(batch(stream, Codec.GZIP), in_place=in_place)
    with pytest.raises(CompressionError, match="start of a stream"):
        read(batch(b"\0" * 20, Codec.GZIP), in_place=in_place)


@pytest.mark.parametrize("in_place", [True, False])
def test_records_and_their_count_must_agree(in_place):
    stream = compress(Codec.LZ4, b"".join(map(record, range(3))))
    for count in (-5, 2, 4):
        with pytest.raises(InvalidRecordError):
            read(batch(stream, Codec.LZ4, count), in_place=in_place)


@pytest.mark.parametrize(("count", "accepted"), [(100_000, True), (100_001, False)])
def test_a_batch_of_very_many_records_is_not_read_one_by_one(count, accepted):
    content = record(0, 3) + record(1) * (count - 1)
    rules = AppendRules(max_message_bytes=1 << 30)
    policy = AppendPolicy.of(rules, AppendOrigin.REPLICATION, 0, TIME)
    data = batch(compress(Codec.ZSTD, content), Codec.ZSTD, count).tobytes()
    appends = validate_for_leader([data], policy, AppendMemory())
    error = appends.errors.get(0)
    assert isinstance(error, UnevenOffsetsError if accepted else InvalidRecordError)
