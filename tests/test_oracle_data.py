"""The scenarios are well formed."""

import pytest

from tests import oracle_data


@pytest.mark.parametrize("name", oracle_data.NAMES)
def test_a_scenario_is_a_heading_and_steps(name):
    heading, *steps = oracle_data.steps(name)
    assert heading["scenario"] == name
    assert heading["compare"] in {"bytes", "content"}
    assert all("op" in step for step in steps)


def test_appends_come_with_their_bytes():
    appends = [pair for name in oracle_data.NAMES for pair in oracle_data.appends(name)]
    assert len(appends) > 1800
    assert all(batches for batches, _ in appends)
