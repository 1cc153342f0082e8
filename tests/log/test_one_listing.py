"""Each call of a `Log` that is open for reading lists its directory once."""

from __future__ import annotations

import pytest

import kafkalog
from kafkalog.log.reading import log_segments
from tests import golden_data

CALLS = {
    "read": lambda log: log.read(log.log_start_offset),
    "read_committed": lambda log: log.read(0, isolation="read_committed"),
    "high watermark": lambda log: log.high_watermark,
    "last stable offset": lambda log: log.last_stable_offset,
    "producer states": lambda log: log.producer_states(),
    "offsets for times": lambda log: log.offsets_for_times([0, 1, 2]),
    "aborted transactions": lambda log: log.aborted_transactions(0, 100),
    "segments": lambda log: log.segments,
}


@pytest.mark.parametrize("call", CALLS)
def test_a_call_lists_the_directory_once(call, monkeypatch):
    log = kafkalog.open(golden_data.logs("k431-clean") / "state.txn-0")
    start, listed = log.log_start_offset, []
    listing = log_segments._list

    def counted(directory):
        listed.append(directory)
        return listing(directory)

    monkeypatch.setattr(log_segments, "_list", counted)
    monkeypatch.setattr(kafkalog.Log, "log_start_offset", start)
    CALLS[call](log)
    assert listed == [log.path]
