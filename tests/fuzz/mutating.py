"""Reproducible random changes of bytes: fuzzing without a fuzzer.

The changes are not guided by coverage. With them ordinary tests, and the build with
sanitizers, read invalid bytes of every kind.
"""

from __future__ import annotations

import random

EDGES = (0, 1, 7, 127, 128, 255, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**63 - 1, 2**63)


def mutated(
    seed: bytes, others: list[bytes], rng: random.Random, max_bytes: int
) -> bytes:
    """Return `seed` with one to six changes, at most `max_bytes` of it."""
    data = bytearray(seed)
    for _ in range(rng.randrange(1, 7)):
        rng.choice(CHANGES)(data, others, rng)
    return bytes(data[:max_bytes])


def _flip(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _overwrite(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    width = rng.choice((1, 2, 4, 8))
    at = rng.randrange(len(data) + 1)
    edge = rng.choice(EDGES) * rng.choice((1, -1)) % (1 << 8 * width)
    data[at : at + width] = edge.to_bytes(width, rng.choice(("big", "little")))


def _remove(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    del data[at : at + rng.choice((1, 2, 8, 60))]


def _cut(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _insert(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = rng.choice((b"\x00", b"\xff", b"\x80", b"\n")) * rng.randrange(1, 20)


def _repeat(data: bytearray, _: list[bytes], rng: random.Random) -> None:
    at = rng.randrange(len(data) + 1)
    data[at:at] = data[at : at + rng.randrange(1, 100)]


def _splice(data: bytearray, others: list[bytes], rng: random.Random) -> None:
    other = rng.choice(others)
    at, start = rng.randrange(len(data) + 1), rng.randrange(len(other) + 1)
    data[at:] = other[start:]


CHANGES = (
    _flip,
    _flip,
    _overwrite,
    _overwrite,
    _remove,
    _cut,
    _insert,
    _repeat,
    _splice,
)
