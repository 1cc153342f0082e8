"""Random damage: a repair never adds problems, loses what it lists, and is undone."""

import random
import shutil

import pytest

import kafkalog
from kafkalog import repair
from kafkalog.verification.path_verification import verify_locked
from kafkalog.verification.verification_report import Cause
from tests.repairs.damaged_logs import SOURCES, copy_log, damage_at_random, tree

# Damage of checkpoints may make a log look like a tiered one.
pytestmark = pytest.mark.filterwarnings("ignore::kafkalog.errors.TieredLogWarning")

FEW, MANY = 200, 5000
UNREPAIRABLE = {
    Cause.TIMESTAMP,
    Cause.LEADER_EPOCH,
    Cause.PRODUCER_STATE,
    Cause.FORMAT,
    Cause.TOPIC_ID,
}
"""Causes of errors that may be left although the loss of data is allowed."""


def records_of(directory):
    """Return the readable records of a partition by offset."""
    found = {}
    columns = ["offset", "key", "value"]
    scan = kafkalog.scan(
        directory, columns=columns, on_corruption="skip", start_offset=0
    )
    for chunk in scan.chunks():
        rows = zip(
            chunk.offset.tolist(),
            chunk.key.to_list(),
            chunk.value.to_list(),
            strict=True,
        )
        found.update({offset: (key, value) for offset, key, value in rows})
    return found


def check(seed, place):
    """Damage a log, repair it, compare, and undo the repair."""
    chance = random.Random(seed)
    root = place / str(seed) / "logs"
    source = chance.choice(SOURCES)
    directory = copy_log(source, root, clean=chance.random() < 0.5)
    done = damage_at_random(chance, root, directory)
    case = seed, source, done
    allowed = chance.random() < 0.7
    before, first, readable = (
        tree(root.parent),
        verify_locked(root),
        records_of(directory),
    )
    report = repair(root, apply=True, allow_data_loss=allowed)
    after = verify_locked(root)
    assert after.errors <= first.errors, case
    lost = [action for action in report.actions if action.records_lost]
    assert allowed or not lost, case
    left = records_of(directory)
    for offset in readable.keys() - left.keys():
        assert any(
            action.first_offset <= offset <= action.last_offset for action in lost
        ), (case, offset)
    for offset in readable.keys() & left.keys():
        assert left[offset] == readable[offset], (case, offset)
    if report.applied:
        repair(root, undo=True)
    assert tree(root.parent) == before, case
    left_to_broker = {(each.path, each.position) for each in report.left_to_broker}
    return case, allowed, after, left_to_broker


def check_all(seeds, place):
    """Check each seed; nothing is left that a repair with data loss could mend."""
    for seed in seeds:
        case, allowed, after, left_to_broker = check(seed, place)
        shutil.rmtree(place / str(seed))
        left = {
            each.cause
            for each in after.problems
            if each.severity == "error"
            and not each.path.endswith(".swap")
            and (each.path, each.position) not in left_to_broker
        }
        assert not allowed or left <= UNREPAIRABLE, (case, left)


@pytest.mark.parametrize("part", range(4))
def test_random_damage_is_repaired_and_undone(part, memory):
    check_all(range(part, FEW, 4), memory)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(50))
def test_thousands_of_random_damages_are_repaired_and_undone(part, memory):
    check_all(range(FEW + part, FEW + MANY, 50), memory)
