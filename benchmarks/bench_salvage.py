"""Search for batches in an image of a disk; the limit is to read the image.

An image has a gibibyte of one kind: zeros, random bytes, text, or segments with other
bytes between. The limit reads it from the page cache into a buffer in the same steps.
Memory is measured in a process of its own, with a limit on its address space.
"""

import subprocess
import sys

import numpy as np
import pytest
from interleaved import compare

from kafkalog import RecordBatchBuilder
from kafkalog.copies.image_search import STEP_BYTES, ImageFile, find_batches

IMAGE_BYTES = 1 << 30
PART_BYTES = 64 << 20
SEED = 20_241_125
RECORDS = 100
TEXT = b"2024-11-25T22:13:20Z INFO of the broker, which rolled a segment at 4096.\n"
LIMIT_BYTES = 192 << 20
"""Address space that a search may take beyond that of the imports."""

SEARCH = """
import resource, sys
from pathlib import Path
import kafkalog, numpy
from kafkalog.copies.image_search import ImageFile, find_batches
with open("/proc/self/statm") as file:
    used = int(file.read().split()[0]) * resource.getpagesize()
most = used + int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_AS, (most, most))
with ImageFile(Path(sys.argv[1])) as image:
    print(sum(len(rows) for rows in find_batches(image)))
"""


def segment_bytes(random, size):
    """Return batches of about 10 kB with values that do not repeat."""
    found, offset, total = [], 0, 0
    while total < size:
        batch = RecordBatchBuilder(base_offset=offset)
        for _ in range(RECORDS):
            batch.append(None, random.bytes(100), timestamp=1700000000000)
        found.append(batch.build())
        offset += RECORDS
        total += len(found[-1])
    return b"".join(found)[:size]


def part_of(kind):
    random = np.random.default_rng(SEED)
    if kind == "zeros":
        return bytes(PART_BYTES)
    if kind == "random":
        return random.bytes(PART_BYTES)
    if kind == "text":
        return (TEXT * (PART_BYTES // len(TEXT) + 1))[:PART_BYTES]
    other = random.bytes(PART_BYTES // 4)
    return segment_bytes(random, 3 * PART_BYTES // 4) + other


@pytest.fixture(scope="module", params=["zeros", "random", "text", "segments"])
def image(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("image") / "disk.img"
    part = part_of(request.param)
    with path.open("wb") as file:
        for _ in range(IMAGE_BYTES // PART_BYTES):
            file.write(part)
    yield path
    path.unlink()


def search(path):
    with ImageFile(path) as image:
        return sum(len(rows) for rows in find_batches(image))


def read(path):
    buffer = np.empty(STEP_BYTES, np.uint8)
    with ImageFile(path) as image:
        for position in range(0, image.size, STEP_BYTES):
            image.read_into(buffer, position)


def bench_search_of_an_image(benchmark, image):
    found = benchmark.pedantic(search, (image,), rounds=5)
    program = [sys.executable, "-c", SEARCH, image, str(LIMIT_BYTES)]
    ran = subprocess.run(program, capture_output=True, text=True, check=True)
    assert int(ran.stdout) == found
    rate = IMAGE_BYTES / benchmark.stats["median"]
    benchmark.extra_info["bytes_per_second"] = rate
    benchmark.extra_info |= compare(
        lambda: search(image), lambda: read(image), peer="limit", of=IMAGE_BYTES
    )
