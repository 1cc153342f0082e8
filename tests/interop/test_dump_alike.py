"""kafkalog dump prints the same as Kafka's own tool, on both streams.

The text of an lz4 error is the library's, and differs; of these cases, only the output
before the error is compared. Cases in which Kafka's tool runs out of memory are
skipped.
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
    """Run both; return the cases that differ. Kafka's tool may change a file."""
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
def test_both_print_the_same_of_damaged_files(tmp_path, seed, monkeypatch):
    cases = list(dump_cases.damaged(tmp_path, seed, DAMAGED))
    assert differing(tmp_path, cases, monkeypatch) == []


def test_both_print_the_same_of_damaged_compression(tmp_path, monkeypatch):
    cases = list(dump_cases.compressed(tmp_path, 3, DAMAGED))
    assert differing(tmp_path, cases, monkeypatch) == []


def test_both_print_the_same_of_control_records(tmp_path, monkeypatch):
    cases = list(dump_cases.control(tmp_path))
    assert len(cases) > 500
    assert differing(tmp_path, cases, monkeypatch) == []


def test_both_print_the_same_of_odd_names_and_records(tmp_path, monkeypatch):
    cases = list(dump_cases.odd(tmp_path))
    assert len(cases) > 30
    assert differing(tmp_path, cases, monkeypatch) == []
