"""Records of internal topics as the kernel prints them, compared with the decoders."""

from collections import defaultdict

import numpy as np
import pytest

from kafkalog._speedups import DumpFlag
from kafkalog.messages.message_parsers import KINDS
from kafkalog.messages.schema_compiler import compile_schemas
from tests.guarded import at_the_end
from tests.messages import internal_messages

from .dump_command import dump
from .kernel_lines import FLAGS, batch_of, contents, printed

JSON_KINDS = [kind for kind in KINDS if kind != "remote-log-metadata"]


def by_kind(records):
    kinds = defaultdict(list)
    for topic, key, value in records:
        kinds[internal_messages.KINDS[topic]].append((key, value))
    return kinds


VALID = list(internal_messages.records(seed=11, each=12))
VALID += [
    ("__consumer_offsets", *record) for record in internal_messages.groups(13, 100)
]
DAMAGED = list(internal_messages.damaged(12, VALID * 2))


@pytest.mark.parametrize("kind", JSON_KINDS)
@pytest.mark.parametrize("drawn", [VALID, DAMAGED], ids=["valid", "damaged"])
def test_the_kernel_prints_the_decoders_text(kind, drawn):
    records = by_kind(drawn)[kind]
    lines = printed(kind, batch_of(records), np.empty(1 << 22, np.uint8))
    assert len(lines) == len(records)
    done = 0
    for offset, (line, record) in enumerate(zip(lines, records, strict=True)):
        if line is not None:
            assert line.endswith(b"]" + contents(kind, *record, offset))
            done += 1
    assert done > len(records) * (0.7 if drawn is VALID else 0.1)


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_nothing_is_read_beyond_a_record_or_written_beyond_the_buffer(kind):
    records = by_kind(VALID + DAMAGED)[kind][::6]
    wide = np.empty(1 << 20, np.uint8)
    assert records
    for record in records:
        data = batch_of([record])
        [line] = printed(kind, at_the_end(data), wide)
        least = 768 + 3 * len(data)
        for more in range(0, 2 if line is None else len(line), 7):
            [again] = printed(kind, data, at_the_end(bytes(least + more)))
            assert again in (line, None)


@pytest.mark.parametrize("kind", JSON_KINDS)
def test_lines_without_metadata_begin_with_a_bar(kind):
    records = by_kind(VALID)[kind][:50]
    lines = printed(
        kind, batch_of(records), np.empty(1 << 22, np.uint8), FLAGS | DumpFlag.BARE
    )
    shown = [
        (line, b"|" + contents(kind, *record, offset))
        for offset, (line, record) in enumerate(zip(lines, records, strict=True))
        if line is not None
    ]
    assert len(shown) > 10
    assert all(ours == expected for ours, expected in shown)


@pytest.mark.parametrize("kind", KINDS)
def test_the_command_prints_the_decoders_text(kind, tmp_path):
    records = by_kind(VALID + DAMAGED)[kind]
    log = tmp_path / "00000000000000000000.log"
    log.write_bytes(batch_of(records).tobytes())
    ran = dump(f"--{kind}-decoder", "--files", log)
    assert ran.exit_code == 0
    at = 0
    for offset, record in enumerate(records):
        text = b"headerKeys: []" + contents(kind, *record, offset) + b"\n"
        at = ran.stdout.index(text, at) + len(text)
    assert at == len(ran.stdout)


def test_there_is_no_table_for_topics_that_are_not_printed_as_json():
    assert compile_schemas("remote-log-metadata") is None
