"""Each target with invalid bytes: past crashers, seeds, and changed seeds.

A crasher is an input with which a target once failed.
"""

from __future__ import annotations

import random
import zlib
from pathlib import Path

import pytest

from tests.fuzz.mutating import mutated
from tests.fuzz.targets import TARGETS

CRASHERS = Path(__file__).parent / "crashers"
KEPT = sorted(path for path in CRASHERS.rglob("*") if path.is_file())
CHANGED = 150
SLOW_TARGETS = ("commands", "directory")


@pytest.mark.parametrize(
    "path", KEPT, ids=lambda path: f"{path.parent.name}-{path.name}"
)
def test_a_past_crasher_passes(path):
    TARGETS[path.parent.name].check(path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_valid_inputs_pass(name):
    target = TARGETS[name]
    seeds = target.seeds()
    assert seeds
    for data in (b"", b"\x00", *seeds):
        assert len(data) <= target.max_bytes
        target.check(data)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW_TARGETS else [])
        for name in TARGETS
    ],
)
def test_changed_inputs_pass(name):
    target = TARGETS[name]
    seeds = target.seeds()
    rng = random.Random(zlib.crc32(name.encode()))
    for _ in range(CHANGED):
        data = mutated(rng.choice(seeds), seeds, rng, target.max_bytes)
        try:
            target.check(data)
        except BaseException as error:
            error.add_note(f"{name} with {data.hex()}")
            raise
