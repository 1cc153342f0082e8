"""What is taken out of the engine is missed: by a scenario, or by a test of ours."""

from collections import Counter

import pytest

from kafkalog import KafkaLogError
from tests.oracle.playing import NAMES, differences
from tests.oracle.sabotages import (
    appends,
    keeping,
    opening,
    plans,
    producers,
    reading,
    refusals,
    segments,
    surroundings,
)
from tests.oracle.sabotages.register import SABOTAGES, one_by_one

pytestmark = pytest.mark.slow

PARTS = [
    appends,
    refusals,
    plans,
    producers,
    segments,
    keeping,
    reading,
    opening,
    surroundings,
]
SCENARIOS = sorted({one.found_by for one in SABOTAGES if isinstance(one.found_by, str)})
# Without the lock of the log, its files may be closed while they are written.
FAILED = (AssertionError, KafkaLogError, AttributeError, pytest.fail.Exception)


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda one: one.rule)
def test_a_rule_that_is_taken_out_is_missed(sabotage, tmp_path, monkeypatch):
    sabotage.take_out(monkeypatch)
    if isinstance(sabotage.found_by, str):
        assert differences(sabotage.found_by, tmp_path).count
    else:
        with pytest.raises(FAILED):
            sabotage.run_test(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_general_step_alone_is_not_missed(name, tmp_path, monkeypatch):
    one_by_one(monkeypatch)
    assert not differences(name, tmp_path).count


def test_each_rule_is_taken_out_once():
    assert Counter(one.rule for one in SABOTAGES).most_common(1)[0][1] == 1
    assert set(SCENARIOS) <= set(NAMES)
