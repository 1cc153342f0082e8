"""A damaged header of a batch is corrected where its fields are known, bit by bit."""

import random
import shutil

import numpy as np
import pytest

import kafkalog
from kafkalog import RecordBatchBuilder, repair, verify
from kafkalog.log.leader_epochs import read_epochs
from kafkalog.repairs.header_correction import correct_header
from tests import golden_data
from tests.repairs.damaged_logs import copy_log
from tests.startup.damages import batches_of, flip, logs_of

UNCHECKED = 21
"""Bytes at the start of a batch that its checksum does not cover."""


def batch(base, records=3):
    builder = RecordBatchBuilder(base_offset=base)
    for _ in range(records):
        builder.append(b"key", b"value", timestamp=1_700_000_000_000)
    return np.frombuffer(builder.build(), np.uint8).copy()


def corrected(data, corrections):
    for each in corrections:
        data[each.position : each.position + len(each.data)] = list(each.data)
    return data.tobytes()


@pytest.mark.parametrize("bit", range(8 * UNCHECKED))
def test_each_bit_that_the_checksum_does_not_cover(bit):
    right = batch(100)
    data = right.copy()
    data[bit // 8] ^= 128 >> bit % 8
    found = correct_header(data, 0, 99, 103)
    if 12 <= bit // 8 < 16:  # the leader epoch: the batch is valid
        assert not found
    elif bit // 8 < 17:
        assert corrected(data, found) == right.tobytes()
        assert len(found) == 1
    else:
        assert not found  # the stored checksum itself is damaged


def test_several_damaged_fields_are_corrected_together():
    right = batch(100)
    data = right.copy()
    data[:12] = 7
    data[16] = 9
    found = correct_header(data, 0, 99, 103)
    assert corrected(data, found) == right.tobytes()
    assert [each.description.partition(" ")[0] for each in found] == [
        "length", "magic", "base",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("before", "after"), [(99, 110), (50, 103), (99, 102), (120, 130)]
)
def test_a_base_offset_that_is_not_known_is_not_changed(before, after):
    data = batch(100)
    data[:8] = 7
    assert not correct_header(data, 0, before, after)


def test_at_the_end_of_a_log_one_bit_may_differ():
    right = batch(100)
    data = right.copy()
    data[6] ^= 1
    data[7] ^= 100
    assert not correct_header(data, 0, 99, None, is_last=True)
    right, data = batch(4096), batch(4096)
    data[6] ^= 16
    assert (
        corrected(data, correct_header(data, 0, 4095, None, is_last=True))
        == right.tobytes()
    )


@pytest.mark.parametrize("byte", [21, 40, 60, 70])
def test_a_batch_with_damaged_records_is_not_corrected(byte):
    data = batch(100)
    data[byte] ^= 1
    assert not correct_header(data, 0, 99, 103)


@pytest.mark.parametrize("length", [0, 12, 60, 61])
def test_too_few_bytes_are_not_a_batch(length):
    assert not correct_header(batch(0)[:length], 0, -1, 3)


@pytest.mark.parametrize("name", ["orders.zstd-0", "ledger-0"])
def test_a_log_is_restored_after_a_flipped_bit_in_a_header(name, memory):
    directory = copy_log(("k431-clean", name), memory / "logs", clean=True)
    chance, restored = random.Random(name), 0
    pristine = shutil.copytree(memory / "logs", memory / "pristine")
    for _ in range(16):
        log = chance.choice(logs_of(directory))
        positions = batches_of(log)[1:-2]
        if not positions:
            continue
        original = log.read_bytes()
        flip(
            log,
            chance.choice(positions) + chance.randrange(17),
            1 << chance.randrange(8),
        )
        if not verify(directory.parent).ok:
            report = repair(directory.parent, apply=True)
            assert report.ok, report
            assert log.read_bytes() == original
            assert not report.records_lost
            restored += 1
        shutil.rmtree(directory.parent)
        shutil.copytree(pristine, directory.parent)
    assert restored > 6


def test_records_of_a_corrected_batch_are_read(memory):
    directory = copy_log(("k431-clean", "ledger-0"), memory / "logs", clean=True)
    everything = kafkalog.scan(directory).to_arrow()
    log = logs_of(directory)[1]
    flip(log, batches_of(log)[2] + 11, 0x20)
    report = repair(directory.parent)
    [rewrite] = [each for each in report.actions if each.action == "rewrite"]
    assert rewrite.reason.startswith("batch header: length")
    assert not rewrite.needs_data_loss
    repair(directory.parent, apply=True)
    assert kafkalog.scan(directory).to_arrow() == everything


def test_the_epoch_of_the_first_batch_of_an_epoch_is_that_of_the_checkpoint(memory):
    directory = copy_log(("k431-crash", "torn.none-0"), memory / "logs", clean=False)
    log = logs_of(directory)[0]
    [*_, entry] = read_epochs(directory / "leader-epoch-checkpoint")
    [row] = [
        row
        for row in golden_data.truth("k431-crash", "torn.none-0", "batches")
        if row["base_offset"] == entry.start_offset and row["file"] == log.name
    ]
    original = log.read_bytes()
    flip(log, row["position"] + 13)
    report = repair(directory.parent, apply=True)
    assert report.ok
    assert "leader epoch" in report.actions[0].reason
    assert log.read_bytes() == original
