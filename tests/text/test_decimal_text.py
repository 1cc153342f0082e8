"""Decimal numbers as Java's parseInt reads them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkalog.text.decimal_text import int_from_text


@given(value=st.integers(-(2**63), 2**63 - 1), zeros=st.integers(0, 3))
def test_a_number_is_read_back(value, zeros):
    sign, digits = "-" * (value < 0), str(abs(value))
    assert int_from_text(sign + "0" * zeros + digits, 64) == value


@pytest.mark.parametrize(("text", "value"), [("+7", 7), ("-0", 0), ("0" * 9000, 0)])
def test_a_sign_and_leading_zeros_do_not_matter(text, value):
    assert int_from_text(text, 32) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "+",
        " 1",
        "1 ",
        "1\n",
        "1_0",
        "0x1",
        "1.0",
        "--1",
        "\N{ARABIC-INDIC DIGIT THREE}",
        "9" * 9000,
    ],
)
def test_anything_else_is_rejected(text):
    with pytest.raises(ValueError, match="expected an int64"):
        int_from_text(text, 64)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_a_number_out_of_range_is_rejected(bits):
    assert int_from_text(str(-(1 << bits - 1)), bits) == -(1 << bits - 1)
    with pytest.raises(ValueError, match=f"expected an int{bits}"):
        int_from_text(str(1 << bits - 1), bits)
    with pytest.raises(ValueError, match=f"expected an int{bits}"):
        int_from_text(str(-(1 << bits - 1) - 1), bits)
