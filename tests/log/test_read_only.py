"""A log open for reading rejects each call that would change it."""

import inspect

import pytest

import kafkalog
from kafkalog.log.log import WRITING_METHODS
from kafkalog.log.writable_log import WritableLog
from tests import golden_data

WRITABLE_ONLY = {
    "close",
    "abandon",
    "find_offset",
    "find_aborted",
    "end_offset_for_epoch",
}
"""Methods of a writable log alone that change no records."""


def methods(kind):
    return {
        name
        for name, _ in inspect.getmembers(kind, inspect.isfunction)
        if not name.startswith("_")
    }


READING = {
    "aborted_transactions",
    "close",
    "offsets_for_times",
    "producer_states",
    "read",
    "send_to",
}
CHANGING = sorted(methods(WritableLog) - READING - WRITABLE_ONLY)


@pytest.mark.parametrize("name", CHANGING)
def test_a_call_that_changes_a_log_is_rejected_on_a_log_open_for_reading(name):
    with kafkalog.open(golden_data.logs("k431-clean") / "once-0") as log:
        message = f"^{name}: the log is open for reading, expected mode 'a': "
        with pytest.raises(kafkalog.ReadOnlyLogError, match=message):
            getattr(log, name)(b"anything", of=1)


def test_a_log_open_for_reading_does_not_have_the_methods_that_write():
    with kafkalog.open(golden_data.logs("k431-clean") / "once-0") as log:
        assert not hasattr(log, "append")
        with pytest.raises(AttributeError, match="'Log' has no attribute 'appends'"):
            log.appends  # noqa: B018


def test_the_rejected_methods_are_those_only_a_writable_log_has():
    assert "append_records" in CHANGING
    assert set(CHANGING) == set(WRITING_METHODS)
