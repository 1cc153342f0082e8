"""A scenario or a test fails if a rule is removed from the engine."""

from collections import Counter

import pytest

from kafkalog import KafkaLogError
from kafkalog.log.clock import ThreadScheduler
from tests.oracle.playing import NAMES, differences
from tests.oracle.sabotages import (
    appends,
    compaction,
    environment,
    opening,
    plans,
    producers,
    reading,
    rejections,
    retention,
    segments,
)
from tests.oracle.sabotages.register import SABOTAGES, disable_fast_path

pytestmark = pytest.mark.slow

MODULES = [
    appends,
    rejections,
    plans,
    producers,
    segments,
    retention,
    reading,
    compaction,
    opening,
    environment,
]
"""The modules whose import fills `SABOTAGES`."""

SCENARIOS = sorted(
    {each.found_by for each in SABOTAGES if isinstance(each.found_by, str)}
)
# Without the lock of the log, its files may be closed while they are written.
FAILED = (
    *(AssertionError, KafkaLogError, AttributeError, OSError),
    pytest.fail.Exception,
)


@pytest.fixture(autouse=True)
def no_thread_left(monkeypatch):
    """End the threads of the logs that a failed test has left open."""
    made, initialize = [], ThreadScheduler.__init__

    def note(scheduler, *arguments):
        made.append(scheduler)
        initialize(scheduler, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(ThreadScheduler, "__init__", note)
        yield
    for scheduler in made:
        scheduler.shutdown()


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda sabotage: sabotage.rule)
def test_the_engine_without_a_rule_fails(sabotage, tmp_path, monkeypatch):
    sabotage.remove_rule(monkeypatch)
    if isinstance(sabotage.found_by, str):
        assert differences(sabotage.found_by, tmp_path).count
    else:
        with pytest.raises(FAILED):
            sabotage.run_test(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_general_step_alone_has_the_same_results(name, tmp_path, monkeypatch):
    disable_fast_path(monkeypatch)
    assert not differences(name, tmp_path).count


def test_each_rule_is_removed_once():
    assert Counter(each.rule for each in SABOTAGES).most_common(1)[0][1] == 1
    assert set(SCENARIOS) <= set(NAMES)
