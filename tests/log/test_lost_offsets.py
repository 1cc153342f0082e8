"""The report of opening a log: offsets hidden by an index, and truncated bytes."""

import warnings

import pytest

import kafkalog
from kafkalog import LogConfig, LostOffsetsWarning
from kafkalog.log.recovery.recovery_report import LostOffsets
from kafkalog.storage.file_names import CLEAN_SHUTDOWN
from tests.log.writing import batch, load, offsets_in
from tests.manager.managing import manage

EVERY_BATCH = LogConfig(
    internal_segment_bytes=1500, index_interval_bytes=0, retention_ms=-1
)


def truncate_below_its_index(root, cut=3):
    """Write two segments, close them in order, and truncate the last one a little."""
    with kafkalog.LogManager(root, EVERY_BATCH) as logs:
        log = logs.open("orders", 0)
        for _ in range(9):
            log.append(batch(1, size=300))
            log.append(batch(1, size=20))
    [*_, last] = sorted((root / "orders-0").glob("*.log"))
    data = last.read_bytes()
    last.write_bytes(data[: len(data) - cut])
    return last


def expected(last, first_offset, position):
    return LostOffsets(
        base_offset=first_offset,
        first_offset=first_offset,
        last_offset=16,
        position=position,
        file_bytes=last.stat().st_size,
    )


def entries(last):
    index = kafkalog.OffsetIndex.open(last.with_suffix(".index"))
    return int(index.offsets[-1]), int(index.entries["position"][-1])


def test_offsets_hidden_by_the_index_are_reported_when_a_log_is_opened(tmp_path):
    last = truncate_below_its_index(tmp_path)
    base = int(last.stem)
    offset, position = entries(last)
    assert offset == 17
    with pytest.warns(
        LostOffsetsWarning, match=f"{base} to 16 are lost.*{last.stem}.index"
    ):
        log = kafkalog.open(tmp_path / "orders-0", "a", EVERY_BATCH)
    assert log.report.clean
    assert log.report.lost == expected(last, base, position)
    assert log.log_end_offset == base  # as a broker opens it
    log.close()


def test_a_manager_reports_hidden_offsets_too(tmp_path):
    last = truncate_below_its_index(tmp_path)
    with pytest.warns(LostOffsetsWarning, match="orders-0"):
        manager = manage(tmp_path, config=EVERY_BATCH)
    assert manager["orders", 0].report.lost.first_offset == int(last.stem)
    manager.close()


@pytest.mark.parametrize("opened_before", [True, False])
def test_without_the_index_only_the_truncated_batch_is_lost(tmp_path, opened_before):
    last = truncate_below_its_index(tmp_path)
    if opened_before:
        with pytest.warns(LostOffsetsWarning):
            kafkalog.open(tmp_path / "orders-0", "a", EVERY_BATCH).close()
    last.with_suffix(".index").unlink()
    with kafkalog.open(tmp_path / "orders-0", "a", EVERY_BATCH) as log:
        assert log.report.clean
        assert log.report.lost is None
        assert offsets_in(log) == list(range(17))
        assert log.append(batch(1)).first_offset == 17


def test_after_an_unclean_shutdown_everything_is_read_and_nothing_is_hidden(tmp_path):
    truncate_below_its_index(tmp_path)
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    (tmp_path / "recovery-point-offset-checkpoint").unlink()
    with kafkalog.open(tmp_path / "orders-0", "a", EVERY_BATCH) as log:
        assert log.report.lost is None
        assert log.log_end_offset == 17


@pytest.mark.parametrize("rest", [0, 70])
def test_a_segment_without_a_complete_batch_hides_nothing(tmp_path, rest):
    last = truncate_below_its_index(tmp_path)
    last.write_bytes(last.read_bytes()[:rest])
    with kafkalog.open(tmp_path / "orders-0", "a", EVERY_BATCH) as log:
        assert log.report.lost is None


# Truncated bytes


def recovered(tmp_path, tail):
    log = load(tmp_path)
    log.append(batch(2))
    size = log.growing_segments[0].size
    log.close()
    [path] = (tmp_path / "t-0").glob("*.log")
    path.write_bytes(path.read_bytes() + tail)
    log = load(tmp_path, clean=False)
    assert log.growing_segments[0].size == size
    assert log.log_end_offset == 2
    log.close()
    [one] = log.report.recovered
    assert log.report.bytes_cut == one.bytes_cut
    return one


@pytest.mark.parametrize("zeros", [1, 17, 5000, (1 << 20) + 7])
def test_preallocated_zeros_do_not_count_as_truncated_bytes(tmp_path, zeros):
    one = recovered(tmp_path, bytes(zeros))
    assert (one.bytes_cut, one.damage) == (0, None)


@pytest.mark.parametrize("zeros", [0, 5000, 3 << 20])
def test_garbage_before_preallocated_zeros_counts_as_truncated_bytes(tmp_path, zeros):
    one = recovered(tmp_path, b"x" * 100 + bytes(zeros))
    assert one.bytes_cut == 100


def test_zeros_within_the_log_are_truncated_and_later_segments_dropped(tmp_path):
    log = load(tmp_path)
    for _ in range(30):
        log.append(batch(2))
    log.close()
    first, second, *_ = sorted((tmp_path / "t-0").glob("*.log"))
    first.write_bytes(first.read_bytes() + bytes(100))
    log = load(tmp_path, clean=False)
    assert log.log_end_offset == int(second.stem)
    assert log.report.bytes_cut == 0
    assert log.report.dropped
    log.close()


def test_a_clean_log_causes_no_warning(tmp_path):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            with kafkalog.open(tmp_path / "orders-0", "a", EVERY_BATCH) as log:
                log.append(batch(3))
    assert not caught
