"""Checksums and MD5 are right on every path of this processor, and of an ARM64 one.

The package takes the fastest path of the processor that it runs on. Here a program with
the same C takes each, also in an emulator if that and a cross compiler are installed.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import zlib
from hashlib import md5
from pathlib import Path

import crc32c
import numpy as np
import pytest

SOURCE = Path(__file__).parent / "hash_paths.c"
NOISE = np.random.default_rng(20_251_121).bytes(70_000)
SIZES = [*range(1_101), 4_095, 4_096, 4_097, 9_999, 70_000]
SHORT_SIZES = [*range(200), 1_000]
EMULATOR = "qemu-aarch64"
COMPILERS = {"native": "cc", EMULATOR: "aarch64-linux-gnu-gcc"}
FLAGS = ["-O2", "-Wall", "-Wextra", "-Werror"]
if os.environ.get("KAFKALOG_SANITIZE") == "1":
    FLAGS += ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
WITHOUT_PRELOAD = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}


@pytest.fixture(scope="module", params=COMPILERS)
def program(request, tmp_path_factory):
    """Return the command that runs the program on a kind of processor."""
    compiler, path = COMPILERS[request.param], tmp_path_factory.mktemp("c") / "paths"
    emulates = request.param == EMULATOR
    if emulates and not (shutil.which(compiler) and shutil.which(EMULATOR)):
        pytest.skip(f"no {compiler} or no {EMULATOR}")
    flags = [*FLAGS[:4], "-static"] if emulates else FLAGS
    command = [compiler, *flags, "-o", str(path), str(SOURCE)]
    subprocess.run(command, check=True, env=WITHOUT_PRELOAD)
    return [EMULATOR, "-cpu", "max", str(path)] if emulates else [str(path)]


def results(program, cases):
    """Return the number of paths of CRCs and of MD5, and the rest of the output."""
    sent = b"".join(struct.pack("=ii", kind, len(x)) + x for kind, x in cases)
    run = subprocess.run(
        program, input=sent, stdout=subprocess.PIPE, check=True, env=WITHOUT_PRELOAD
    )
    return struct.unpack("=ii", run.stdout[:8]), run.stdout[8:]


@pytest.mark.parametrize(
    ("kind", "reference"), [(0, crc32c.crc32c), (1, zlib.crc32)], ids=["32C", "32"]
)
def test_every_path_has_the_checksums_of_the_package(program, kind, reference):
    data = [NOISE[:size] for size in SIZES]
    (paths, _), found = results(program, [(kind, part) for part in data])
    assert paths >= 1 + program[0].startswith("qemu")
    expected = np.repeat([reference(part) for part in data], paths)
    assert np.frombuffer(found, np.uint32).tolist() == expected.tolist()


def test_every_path_has_the_md5_of_hashlib(program):
    data = [NOISE[:size] for size in SHORT_SIZES]
    (_, paths), found = results(program, [(2, part) for part in data])
    assert paths >= 1
    assert found == b"".join(md5(part).digest() * paths for part in data)
