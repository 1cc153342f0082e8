"""What a broker does in each situation, compared with the prediction and the page."""

import pytest

from tests.interop.broker import JARS
from tests.interop.situations import BROKERS, PARTITIONS, read_outcomes
from tests.interop.starts import observe_all

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def observed(tmp_path_factory):
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    found = observe_all(tmp_path_factory.mktemp("situations"))
    return {name: outcomes for name, *outcomes in found}


@pytest.mark.parametrize("situation", [*PARTITIONS, *BROKERS], ids=lambda one: one.name)
def test_a_broker_does_what_is_predicted(situation, observed):
    predicted, actual = observed[situation.name]
    assert predicted == read_outcomes()[situation.name]
    assert actual in (predicted, *situation.also)
