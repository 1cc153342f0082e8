"""What a leader meets first in a packed batch that is not as it should be."""

import struct

import numpy as np
import pytest

from kafkalog.codecs.checksum import crc32c
from kafkalog.codecs.compression import Codec, compress
from kafkalog.codecs.varint_arrays import encode_varints
from kafkalog.errors import CompressionError, InvalidRecordError, UnevenOffsetsError
from kafkalog.formats.batch_headers import scan_headers
from kafkalog.validation.append_policy import AppendRules
from kafkalog.validation.appends import AppendMemory, AppendOrigin
from kafkalog.validation.invalid_records import pass_over
from kafkalog.validation.leader_validation import lead_appends

TIME = 1_700_000_000_000
PACKED = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]


def record(number, size=None, headers=0):
    fields = encode_varints([number, number, 1]) + b"k"
    body = b"\0" + fields + encode_varints([0, headers])
    return encode_varints([len(body) if size is None else size]) + body


def batch(stream, codec, count=3):
    head = struct.pack(">hiqqqhii", codec, count - 1, TIME, TIME + 2, -1, -1, -1, count)
    body = struct.pack(">iBI", -1, 2, crc32c(head + stream)) + head + stream
    return np.frombuffer(struct.pack(">qi", 0, len(body)) + body, np.uint8)


def passed(data, *, as_it_came=True):
    rows, _, _ = scan_headers(data)
    return pass_over(data, rows[0], as_it_came=as_it_came)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("size", [-1, 0, 3, 2**31 - 1])
def test_how_long_a_record_says_it_is_counts_only_where_it_is_packed_anew(codec, size):
    content = record(0) + record(1, size) + record(2)
    data = batch(compress(codec, content), codec)
    places = passed(data)
    assert places["timestamp"].tolist() == [TIME, TIME + 1, TIME + 2]
    assert places["offset"].tolist() == [0, 1, 2]
    assert places["key_length"].tolist() == [1, 1, 1]
    with pytest.raises(InvalidRecordError):
        passed(data, as_it_came=False)


@pytest.mark.parametrize("codec", PACKED)
@pytest.mark.parametrize("as_it_came", [True, False])
def test_sound_records_are_found_either_way(codec, as_it_came):
    data = batch(compress(codec, b"".join(map(record, range(3)))), codec)
    assert passed(data, as_it_came=as_it_came)["offset"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("as_it_came", [True, False])
def test_what_is_wrong_first_is_told(as_it_came):
    sound, broken = b"".join(map(record, range(3))), record(0) + record(1, headers=-1)
    for content, error in ((sound, CompressionError), (broken, InvalidRecordError)):
        stream = compress(Codec.GZIP, content)[:-1]  # the checksum behind it is cut
        with pytest.raises(error):
            passed(batch(stream, Codec.GZIP), as_it_came=as_it_came)
    with pytest.raises(CompressionError, match="begin"):
        passed(batch(b"\0" * 20, Codec.GZIP), as_it_came=as_it_came)


@pytest.mark.parametrize("as_it_came", [True, False])
def test_records_and_their_count_must_agree(as_it_came):
    stream = compress(Codec.LZ4, b"".join(map(record, range(3))))
    for count in (-5, 2, 4):
        with pytest.raises(InvalidRecordError):
            passed(batch(stream, Codec.LZ4, count), as_it_came=as_it_came)


@pytest.mark.parametrize(("count", "taken"), [(100_000, True), (100_001, False)])
def test_a_batch_of_very_many_records_is_not_read_slowly(count, taken):
    content = record(0, 3) + record(1) * (count - 1)
    rules = AppendRules(max_message_bytes=1 << 30)
    piece = batch(compress(Codec.ZSTD, content), Codec.ZSTD, count).tobytes()
    appends = lead_appends(
        [piece],
        rules,
        origin=AppendOrigin.REPLICATION,
        leader_epoch=0,
        now_ms=TIME,
        memory=AppendMemory(),
    )
    error = appends.errors.get(0)
    assert isinstance(error, UnevenOffsetsError if taken else InvalidRecordError)
