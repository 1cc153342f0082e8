"""Power cuts at every moment of a log's life: what was forced to disk is there.

What is tried with each state: it opens; nothing that was flushed is missing; what is
read is the first of what was appended, segment by segment; epochs, producers, aborted
transactions and times are those of the batches read; opened again, it is the same.
"""

from collections import Counter
from itertools import chain, count, islice
from random import Random

import pytest

from tests.crash.power_cut import Disk
from tests.crash.power_cuts import another_life, cuts, told, tried
from tests.crash.recording import read_tree
from tests.crash.stories import STORIES

pytestmark = pytest.mark.slow

STATES_OF_A_STORY = 1700
STATES_WHILE_RECOVERED = 250
MIXED = 3
SHOWN = {"swapping": [3]}
"""Seeds that showed a fault: an old index beside the records of what was swapped in."""


def told_of(figures):
    return ", ".join(f"{kind} {n}" for kind, n in sorted(figures.items()))


@pytest.mark.parametrize("name", STORIES)
def test_a_power_cut_loses_nothing_that_was_flushed(roots, name, figure):
    figures = Counter()
    for seed in chain(SHOWN.get(name, ()), count()):
        life, disk = told(roots[0], name, seed)
        for _ in tried(cuts(life, disk, seed, MIXED), roots[1], figures):
            pass
        if sum(figures.values()) >= STATES_OF_A_STORY:
            break
    figure("crash states", name, sum(figures.values()), told_of(figures))


@pytest.mark.parametrize("name", STORIES)
def test_a_power_cut_while_a_log_is_recovered_is_harmless(roots, name, figure):
    figures, again = Counter(), Counter()
    life, disk = told(roots[0], name, 1000)
    found = tried(cuts(life, disk, 1000, MIXED), roots[1], figures)
    for number, (cut, batches) in enumerate(islice(found, 20, None, 61)):
        later, tape = another_life(roots[0], cut, batches, f"{cut.where}, {number}")
        for _ in tried(cuts(later, tape, number, 1), roots[1], again):
            pass
        if sum(again.values()) >= STATES_WHILE_RECOVERED:
            break
    assert sum(again.values()) >= STATES_WHILE_RECOVERED
    figure("crash states", f"{name}, recovered", sum(again.values()), told_of(again))


@pytest.mark.parametrize("name", STORIES)
def test_all_that_is_written_is_on_the_tape(roots, name):
    _, disk = told(roots[0], name, 0)
    model = Disk(disk.before)
    for event in disk.events:
        model.take(event)
    kept = dict(model.states(Random(0), 0))["all kept"]
    assert kept == read_tree(roots[0])
