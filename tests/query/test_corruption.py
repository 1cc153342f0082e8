"""Damage in a segment: told by file and byte, or passed over with the rest intact."""

from __future__ import annotations

import os

import pytest

import kafkalog
from kafkalog.errors import LocatedError
from kafkalog.query.columns import COLUMNS
from tests.query.batches import CODECS, KINDS, build, rows_of, without
from tests.query.told import from_records

NAME = f"{0:020d}.log"


def scan_of(path, **options):
    return kafkalog.scan(path, columns=COLUMNS, control_records=True, **options)


def outcome(path):
    """Return the rows that come before the end or an error, and the error."""
    rows = []
    try:
        for chunk in scan_of(path).chunks():
            rows += from_records(chunk)
    except LocatedError as error:
        return rows, error
    return rows, None


# Bytes of an entry that no checksum covers, and whose damage nothing else betrays.
HARMLESS = {
    # the leader epoch, which a leader patches in place
    2: set(range(12, 16)),
    1: set(),
    # what a wrapper of magic 0 says its last offset is: inside they are absolute
    0: set(range(8)),
}


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_any_flipped_bit_is_an_error_in_its_place_or_changes_nothing(
    magic, codec, tmp_path
):
    first = 100 * (magic + CODECS.index(codec) & 1)
    parts = [build(magic, codec, first + 3 * i) for i in range(3)]
    path = tmp_path / NAME
    path.write_bytes(b"".join(parts))
    sound = rows_of(scan_of(path))
    assert [row[2] for row in sound] == list(range(first, first + 9))
    entry = len(parts[1]) if codec != "none" or magic == 2 else len(parts[1]) // 3
    start, silent = len(parts[0]), set()
    file = os.open(path, os.O_WRONLY)
    for bit in range(len(parts[1]) * 8):
        byte = bit // 8
        damaged = parts[1][byte] ^ (1 << bit % 8)
        os.pwrite(file, bytes([damaged]), start + byte)
        rows, error = outcome(path)
        if error is None:
            assert without(rows, "leader_epoch") == without(sound, "leader_epoch"), bit
            silent.add(byte % entry)
        else:
            assert error.path == path
            assert 0 <= error.position <= start + len(parts[1])
            assert rows == sound[: len(rows)], bit
        skipping = scan_of(path, on_corruption="skip")
        kept = rows_of(skipping)
        if error is None:
            assert kept == rows
        else:
            assert [row for row in sound[:3] + sound[6:] if row not in kept] == [], bit
            assert [row for row in kept if row not in sound] == [], bit
            assert skipping.problems, bit
        for problem in skipping.problems:
            assert problem.path == path
            assert start <= problem.position < start + len(parts[1]), (bit, problem)
        os.pwrite(file, parts[1][byte : byte + 1], start + byte)
    os.close(file)
    assert silent <= HARMLESS[magic] if codec != "none" or magic == 2 else not silent
    if magic == 2:
        assert silent == HARMLESS[2]
