"""Varints: round trips, and agreement with the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog.codecs import varint_arrays
from kafkalog.errors import CorruptRecordError
from tests import reference

WIDTHS = {
    31: (varint_arrays.encode_varints, varint_arrays.decode_varints, 5),
    63: (varint_arrays.encode_varlongs, varint_arrays.decode_varlongs, 10),
}


def numbers(bits):
    # Uniform integers nearly all have the maximum length: draw by width.
    widths = st.integers(0, bits)
    return widths.flatmap(lambda w: st.integers(-(1 << w), (1 << w) - 1))


def edges(bits):
    near = [
        sign * (1 << w) - d for w in range(bits) for sign in (1, -1) for d in (0, 1)
    ]
    return [*near, -(1 << bits), (1 << bits) - 1]


COLUMNS = st.sampled_from(sorted(WIDTHS)).flatmap(
    lambda bits: st.tuples(st.just(bits), st.lists(numbers(bits), max_size=64))
)


@given(column=COLUMNS)
@example(column=(31, edges(31)))
@example(column=(63, edges(63)))
def test_the_kernel_agrees_with_the_reference(column):
    bits, values = column
    encode, _, _ = WIDTHS[bits]
    assert encode(values) == b"".join(map(reference.varlong, values))


@given(column=COLUMNS, tail=st.binary(max_size=16))
@example(column=(31, edges(31)), tail=b"\x80")
@example(column=(63, edges(63)), tail=b"\x80")
def test_decoding_stops_after_the_last_varint(column, tail):
    bits, values = column
    encode, decode, _ = WIDTHS[bits]
    encoded = encode(values)
    decoded, consumed = decode(encoded + tail, len(values))
    np.testing.assert_array_equal(decoded, np.array(values, dtype=np.int64))
    assert consumed == len(encoded)


@given(column=COLUMNS.filter(lambda column: column[1]), data=st.data())
def test_a_truncation_is_an_error_at_or_before_it(column, data):
    bits, values = column
    encode, decode, _ = WIDTHS[bits]
    encoded = encode(values)
    cut = data.draw(st.integers(0, len(encoded) - 1))
    with pytest.raises(CorruptRecordError, match="truncated") as caught:
        decode(encoded[:cut], len(values))
    assert caught.value.position <= cut


@pytest.mark.parametrize("bits", WIDTHS)
@pytest.mark.parametrize("more", [0, 1, 50])
def test_a_varint_must_end_within_its_width(bits, more):
    _, decode, most = WIDTHS[bits]
    with pytest.raises(CorruptRecordError, match="varint 1 of 2 has no end") as caught:
        decode(b"\x02" + b"\x80" * (most + more) + b"\x01", 2)
    assert caught.value.position == 1


@pytest.mark.parametrize(
    ("bits", "written", "value"),
    [
        (31, "8000", 0),
        (31, "80808000", 0),
        (31, "ffffffff7f", -(2**31)),
        (31, "ffffffff0f", -(2**31)),
        (63, "ffffffffffffffffff7f", -(2**63)),
    ],
)
def test_longer_forms_and_excess_bits_are_read_as_kafka_reads_them(
    bits, written, value
):
    data = bytes.fromhex(written)
    decoded, consumed = WIDTHS[bits][1](data, 1)
    assert (decoded.tolist(), consumed) == ([value], len(data))


@given(
    bits=st.sampled_from(sorted(WIDTHS)),
    garbage=st.binary(max_size=256),
    count=st.integers(0, 2**40),
)
def test_arbitrary_bytes_are_never_read_beyond_their_end(bits, garbage, count):
    try:
        _, consumed = WIDTHS[bits][1](garbage, count)
    except CorruptRecordError as error:
        consumed = error.position
    assert 0 <= consumed <= len(garbage)
