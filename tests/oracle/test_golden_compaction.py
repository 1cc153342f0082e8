"""Golden partitions that kafkalog compacts are equal to those of Kafka.

A scenario for each partition creates its files, opens it, and compacts it in several
rounds, before and after tombstones are due.
"""

import json
from argparse import Namespace

import pytest

from kafkalog.codecs.compression import decompress
from tests import golden_data
from tests.oracle import play
from tests.oracle.compare_dirs import compare_dirs
from tests.oracle.compare_logs import batches
from tests.oracle.compare_results import compare_results
from tests.oracle.kafka_player import kafka
from tests.oracle.report import Report
from tests.oracle.scenario import Scenario, rec

pytestmark = pytest.mark.interop

CRASHED = "k431-crash"
NOW_MS = 1_900_000_000_000
RETENTION_MS = 1000
CONFIG = {
    "cleanup.policy": "compact",
    "segment.index.bytes": 10_000,
    "min.cleanable.dirty.ratio": 0.0,
    "delete.retention.ms": RETENTION_MS,
    "file.delete.delay.ms": 0,
}
PARTITIONS = {
    f"{name}-{directory.name}": (name, directory)
    for name in golden_data.SETS
    for directory in golden_data.partitions(name)
    if list(directory.glob("*.log"))
}
SEGMENT_BYTES = {"bytes": 8000, "content": 1 << 20}
"""Where the sizes of segments depend on the compressor, one takes all batches."""

LEADER_EPOCH = 1000
SLOTS = (40, 200, 2000)
"""Slots of the offset map, round after round."""


def is_compressed(directory):
    """Return whether a partition has a compressed batch."""
    return any(
        header["attributes"] & 7
        for path in directory.glob("*.log")
        for _, header, _ in batches(path.read_bytes())
    )


def scenario(name):
    """Return the steps that compact a partition."""
    set_name, directory = PARTITIONS[name]
    compare = "content" if is_compressed(directory) else "bytes"
    steps = Scenario(name, "a golden partition", "compaction", compare)
    config = CONFIG | {"segment.bytes": SEGMENT_BYTES[compare]}
    steps.open(config, now=NOW_MS).delete_log()
    for path in sorted(directory.iterdir()):
        if path.suffix == ".deleted":
            continue
        data = path.read_bytes()
        # Zeros after the entries of an index are too many for a step.
        steps.damage(path.name, "create", hex=data.rstrip(b"\0").hex())
        steps.damage(path.name, "truncate", to=len(data))
        if path.suffix == ".log":
            steps.set_mtime(file=path.name, to=NOW_MS)
    steps.open(clean=set_name != CRASHED).hw().roll()
    for turn, slots in enumerate(SLOTS):
        steps.hw().compact(dedupe_buffer_size=24 * slots).segments()
        steps.advance(RETENTION_MS - 1 + turn)
        steps.append(rec("last", f"{turn}", NOW_MS), leader_epoch=LEADER_EPOCH).roll()
    return steps.hw().compact().read("start").producers().close()


@pytest.fixture(scope="module")
def compacted(tmp_path_factory):
    """Compact copies of the golden partitions with Kafka's engine."""
    root = tmp_path_factory.mktemp("golden")
    for name in PARTITIONS:
        scenario(name).write(root / "drawn")
    kafka("prepare-all", root / "drawn", root / "prepared")
    kafka("play-all", root / "prepared", root / "expected")
    return root


@pytest.mark.parametrize("name", PARTITIONS)
def test_a_golden_partition_is_compacted_as_by_kafka(name, compacted, tmp_path):
    prepared, report = compacted / "prepared" / f"{name}.jsonl", Report(10)
    heading = json.loads(prepared.read_text().splitlines()[0])
    is_content = heading["compare"] == "content"
    options = Namespace(
        content=is_content,
        strict=not is_content,
        tasks=True,
        mtimes=not is_content,
        decompress=lambda codec, data: b"".join(decompress(codec, data, limit=1 << 30)),
    )
    lines = play.play(prepared, tmp_path / name)
    played = tmp_path / "results.jsonl"
    played.write_text("".join(json.dumps(line) + "\n" for line in lines))
    expected = compacted / "expected"
    results = [line.get("result") for line in lines if line["op"] == "compact"]
    assert any(result["cleaned"] for result in results if result)
    compare_results(expected / f"{name}.results.jsonl", played, options, report)
    compare_dirs(expected / name, tmp_path / name, options, report)
    assert not report.count
