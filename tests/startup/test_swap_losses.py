"""Damaged ``.swap`` files, which replace valid segments when a broker starts."""

import shutil

import pytest

import kafkalog
from kafkalog import LogManager
from tests.log.clusters import setting
from tests.startup import damages
from tests.startup.prepared import RECORDS, crash, of, readable, write_cluster

pytestmark = [
    pytest.mark.filterwarnings("ignore::kafkalog.LostOffsetsWarning"),
    pytest.mark.filterwarnings("ignore::kafkalog.UnknownSettingsWarning"),
]


def swap(directory, number, change=lambda data: data, indexes=True):
    """Put a changed copy of a segment next to it, as its ``.swap``."""
    path = damages.logs_of(directory)[number]
    kinds = (".log", ".index", ".timeindex") if indexes else (".log",)
    for kind in kinds:
        old = path.with_suffix(kind)
        data = old.read_bytes()
        if kind == ".log":
            data = change(data)
        old.with_name(old.name + ".swap").write_bytes(data)
    return path.with_name(path.name + ".swap")


def empty(_data):
    return b""


def torn(data):
    return data[: len(data) // 2]


def zero_end(data):
    return data[: len(data) // 2] + bytes(len(data) - len(data) // 2)


def flipped(data):
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


def garbage(data):
    return b"\x07" * len(data)


CHANGES = [empty, torn, zero_end, flipped, garbage]


@pytest.mark.parametrize("stop", ["clean", "crash", "crash at 40"])
@pytest.mark.parametrize("number", [0, 1, -1])
@pytest.mark.parametrize("indexes", [True, False])
@pytest.mark.parametrize("change", CHANGES)
def test_records_lost_by_a_damaged_swap_are_counted(
    logs, tmp_path, change, indexes, number, stop
):
    swap(logs / "orders-0", number, change, indexes)
    if stop != "clean":
        crash(logs, **({"p0": 40, "p1": 40} if stop == "crash at 40" else {}))
    report = kafkalog.preflight(logs)
    start = of(report, "orders-0")
    copy = shutil.copytree(logs, tmp_path / "copy")
    try:
        manager = LogManager(copy, cluster=copy)
    except kafkalog.KafkaLogError:
        assert start.state == "offline"
        return
    with manager:
        assert manager["orders", 0].log_end_offset == start.log_end_offset
        left = readable(copy / "orders-0")
    assert start.records_lost == RECORDS - left
    assert not start.ok
    assert start.cut_from_offset is not None
    assert any(".log.swap: " in note and "are lost" in note for note in start.notes)


@pytest.mark.parametrize("change", CHANGES[:-1])
def test_verify_states_the_loss_and_a_repair_sets_the_swap_aside(logs, change):
    before = readable(logs / "orders-0")
    path = swap(logs / "orders-0", 1, change)
    report = kafkalog.preflight(logs)
    lost = of(report, "orders-0").records_lost
    [problem] = [
        each for each in kafkalog.verify(logs).problems if each.cause == "swap"
    ]
    assert problem.path == f"orders-0/{path.name}"
    recovery = "refuse" if report.stops else "replace"
    assert (str(problem.severity), str(problem.recovery)) == ("error", recovery)
    assert problem.lost_records == lost
    assert report.stops or lost > 0
    done = kafkalog.repair(logs, apply=True)
    assert {str(each.action) for each in done.actions} == {"remove"}
    assert not list((logs / "orders-0").glob("*.swap"))
    assert kafkalog.verify(logs).ok
    assert kafkalog.preflight(logs).ok
    assert readable(logs / "orders-0") == before
    kafkalog.repair(logs, undo=True)
    assert path.exists()


def test_a_damaged_swap_that_alone_has_records_is_not_set_aside(logs):
    first, second, *_ = damages.logs_of(logs / "orders-0")
    whole = first.read_bytes() + second.read_bytes()
    path = first.with_name(first.name + ".swap")
    path.write_bytes(whole[:-5])
    first.unlink()
    [problem] = [
        each for each in kafkalog.verify(logs).problems if each.cause == "swap"
    ]
    assert problem.lost_records == 10
    kafkalog.repair(logs, apply=True, allow_data_loss=True)
    assert path.exists()


def test_a_swap_without_records_that_compaction_removed_loses_nothing(logs):
    write_cluster(logs, setting("orders", "cleanup.policy", "compact"))
    first = damages.logs_of(logs / "orders-0")[0]
    batches = damages.batches_of(first)
    kept = first.read_bytes()[: batches[1]]
    first.with_name(first.name + ".swap").write_bytes(kept)
    problems = kafkalog.verify(logs).problems
    assert "swap" not in {each.cause for each in problems if each.severity == "error"}
    assert of(kafkalog.preflight(logs), "orders-0").records_lost == 0


def test_an_index_shows_that_the_swap_of_a_compaction_ends_too_early(logs):
    write_cluster(logs, setting("orders", "cleanup.policy", "compact"))
    path = swap(logs / "orders-0", 0)
    path.write_bytes(path.read_bytes()[: damages.batches_of(path)[-2]])
    start = of(kafkalog.preflight(logs), "orders-0")
    assert (start.records_lost, start.ok) == (10, False)
