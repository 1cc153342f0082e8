"""kafkalog dump and Kafka's own tool, over the same files: every line of both streams.

What lz4 says of a damaged block is its library's, and ours is another: of that, only
that it ends the run is compared, and what was printed until then. Where Kafka's tool
runs out of memory, ours need not.
"""

import pytest

from tests.dump.dump_command import dump
from tests.interop import dump_cases
from tests.interop.kafka_dump import kafka_dumps

pytestmark = pytest.mark.interop

OUT_OF_MEMORY = "java.lang.OutOfMemoryError"
LZ4_SAYS = "LZ4Exception: cannot unpack lz4"
DAMAGED = 500


def differing(folder, cases, monkeypatch):
    """Run both; give the cases in which they differ. Kafka's may change a file."""
    monkeypatch.chdir(folder)
    ours = [dump(*case) for case in cases]
    theirs = kafka_dumps(folder, cases)
    return [
        case
        for case, ran, (out, err, code) in zip(cases, ours, theirs, strict=True)
        if OUT_OF_MEMORY not in err
        and (
            (ran.stdout, ran.exit_code) != (out, code)
            or (ran.stderr != err and LZ4_SAYS not in ran.stderr)
        )
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_files_end_both_alike(tmp_path, seed, monkeypatch):
    cases = list(dump_cases.damaged(tmp_path, seed, DAMAGED))
    assert differing(tmp_path, cases, monkeypatch) == []


def test_streams_that_cannot_be_unpacked_end_both_alike(tmp_path, monkeypatch):
    cases = list(dump_cases.compressed(tmp_path, 3, DAMAGED))
    assert differing(tmp_path, cases, monkeypatch) == []


def test_control_records_are_printed_alike(tmp_path, monkeypatch):
    cases = list(dump_cases.control(tmp_path))
    assert len(cases) > 500
    assert differing(tmp_path, cases, monkeypatch) == []


def test_odd_names_and_records_are_printed_alike(tmp_path, monkeypatch):
    cases = list(dump_cases.odd(tmp_path))
    assert len(cases) > 30
    assert differing(tmp_path, cases, monkeypatch) == []
