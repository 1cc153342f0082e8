"""Sources and arguments of scans, and the errors for others."""

from __future__ import annotations

import shutil
from datetime import datetime

import numpy as np
import pytest

import kafkalog
from tests import golden_data
from tests.query.batches import build

LOGS = golden_data.logs("k431-clean")
ONCE = LOGS / "once-0"


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (None, "NoneType"),
        ((path for path in [ONCE]), "generator"),
        ([None], "NoneType"),
        (5, "int"),
        ({"path": ONCE}, "dict"),
    ],
    ids=["None", "a generator", "a list of None", "a number", "a mapping"],
)
def test_another_type_of_source_is_rejected(source, kind):
    expected = rf"^source of type {kind}, expected a path, a URL, bytes .* of these$"
    with pytest.raises(TypeError, match=expected):
        kafkalog.scan(source)


def test_a_file_with_another_extension_is_rejected(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(kafkalog.NotALogDirectoryError, match=r"neither a \.log"):
        kafkalog.scan(path)


@pytest.mark.parametrize("bound", ["start_offset", "end_offset"])
@pytest.mark.parametrize(
    "key", ["once-0", "once", ("once",), ("once", "0"), (0, "once"), ("once", True), 0]
)
def test_keys_that_are_not_topic_and_partition_are_rejected(bound, key):
    with pytest.raises(TypeError, match=rf"^{bound}: key .*\(\"orders\", 0\)$"):
        kafkalog.scan(LOGS, **{bound: {key: 10}})


@pytest.mark.parametrize("bound", ["start_offset", "end_offset"])
def test_bounds_of_unknown_partitions_are_rejected(bound, tmp_path):
    with pytest.raises(ValueError, match=r"no partition \('other', 1\); there are "):
        kafkalog.scan([ONCE, LOGS / "once-1"], **{bound: {("other", 1): 0}})
    with pytest.raises(ValueError, match=r"\('once', 7\).* and \d+ more$"):
        kafkalog.scan(LOGS, **{bound: {("once", 0): 0, ("once", 7): 0}})
    (tmp_path / "meta.properties").touch()
    with pytest.raises(ValueError, match="there are none"):
        kafkalog.scan(tmp_path, **{bound: {("once", 0): 0}})


def test_a_partition_may_be_a_numpy_integer():
    bounded = kafkalog.scan(ONCE, start_offset={("once", np.int64(0)): 9})
    assert bounded.count() == kafkalog.scan(ONCE, start_offset=9).count()


def test_a_partition_listed_twice_is_read_once(tmp_path):
    logs = tmp_path / "logs"
    for name in ("once-0", "once-1"):
        shutil.copytree(LOGS / name, logs / name)
    link, linked_logs = tmp_path / "again-0", tmp_path / "linked"
    link.symlink_to(logs / "once-0")
    linked_logs.symlink_to(logs)
    one, both = kafkalog.scan(logs / "once-0").count(), kafkalog.scan(logs).count()
    assert 0 < one < both
    first = logs / "once-0"
    segment = first / f"{0:020d}.log"
    for sources in (
        [first, first],
        [str(first), first],
        [first, link],
        [first, linked_logs / "once-0"],
        [first, first / ".." / "once-0"],
        [first, [first]],
    ):
        assert kafkalog.scan(sources).count() == one, sources
    for sources in ([logs, first], [first, logs], [logs, linked_logs], [logs, logs]):
        assert kafkalog.scan(sources).count() == both, sources
    whole = kafkalog.scan(segment).count()
    assert kafkalog.scan([segment, segment]).count() == whole
    data = segment.read_bytes()
    assert kafkalog.scan([data, data]).count() == 2 * whole


def test_copies_of_a_partition_are_each_read(tmp_path):
    shutil.copytree(ONCE, tmp_path / "once-0")
    assert kafkalog.scan([ONCE, tmp_path / "once-0"]).count() == 2 * (
        kafkalog.scan(ONCE).count()
    )


def test_a_misspelled_column_is_an_error_with_a_suggestion():
    with pytest.raises(ValueError, match=r"^no such columns: valeu \(did you mean val"):
        kafkalog.scan(ONCE, columns=["key", "valeu"])
    with pytest.raises(ValueError, match=r"^no such columns: xyz; expected topic, "):
        kafkalog.scan(ONCE, columns=["xyz"])


@pytest.mark.parametrize(
    "records", [{"valeu": [b"x"]}, [{"valeu": b"x"}]], ids=["columns", "rows"]
)
def test_a_misspelled_column_to_append_is_an_error_with_a_suggestion(records, tmp_path):
    expected = r"no such columns: valeu \(did you mean value\?\)"
    with (
        kafkalog.open(tmp_path / "t-0", "a") as log,
        pytest.raises(kafkalog.UnfitRecordsError, match=expected),
    ):
        log.append_records(records)


def test_a_count_and_a_reading_report_the_same_progress():
    calls = []

    def progress(done, total):
        calls.append((done, total))

    for source in (LOGS, ONCE, build(2, "none", 0)):
        scan = kafkalog.scan(source, progress=progress)
        ends = []
        for read in (scan.count, lambda of=scan: list(of.chunks())):
            calls.clear()
            read()
            assert calls == sorted(calls)
            ends.append(calls[-1])
        assert ends[0] == ends[1]


@pytest.mark.parametrize("secret", ["s3://key:secret@bucket/t-0", "hdfs://secret/t-0"])
def test_a_url_is_not_written_to_and_not_shown(secret, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kafkalog.LogArgumentError) as caught:
        kafkalog.open(secret, "a")
    scheme = secret.partition(":")[0]
    assert str(caught.value) == f"{scheme}: URL, expected a local path to write to"
    assert not list(tmp_path.iterdir())


def test_a_file_url_is_a_local_path_to_write_to(tmp_path):
    with kafkalog.open(f"file://{tmp_path}/t-0", "a") as log:
        log.append(build(2, "none", 0, base_offset=0))
    assert kafkalog.scan(tmp_path / "t-0").count() == 3


def test_a_missing_parent_of_a_log_directory_is_an_error(tmp_path):
    missing = tmp_path / "no" / "such"
    with pytest.raises(FileNotFoundError) as caught:
        kafkalog.open(missing / "t-0", "a")
    assert caught.value.filename == str(missing.parent)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("path", [None, 5, [ONCE]])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_another_type_of_path_is_rejected(path, mode):
    with pytest.raises(TypeError, match="str"):
        kafkalog.open(path, mode)


def test_a_datetime_without_a_time_zone_is_rejected_by_scans_and_logs():
    naive = datetime(2026, 1, 1)
    with pytest.raises(ValueError, match="without a time zone"):
        kafkalog.scan(ONCE, start_timestamp=naive)
    with pytest.raises(ValueError, match="without a time zone"):
        kafkalog.open(ONCE).offsets_for_times([naive])


@pytest.mark.parametrize("has_checkpoints", [True, False])
def test_a_segment_in_a_log_directory_does_not_hide_its_partitions(
    tmp_path, has_checkpoints
):
    origin = golden_data.logs("k431-clean")
    logs = tmp_path / "logs"
    shutil.copytree(origin / "once-0", logs / "once-0")
    if has_checkpoints:
        shutil.copy(origin / "recovery-point-offset-checkpoint", logs)
    expected = kafkalog.scan(logs).count()
    name = "00000000000000000000.log"
    shutil.copy(origin / "ledger-0" / name, logs)
    assert kafkalog.scan(logs).count() == expected
    found = kafkalog.verify(logs)
    assert found.batches == kafkalog.verify(logs / "once-0").batches


def test_a_directory_in_a_partition_does_not_make_it_a_log_directory(tmp_path):
    directory = tmp_path / "ledger-0"
    shutil.copytree(golden_data.logs("k431-clean") / "ledger-0", directory)
    expected = kafkalog.scan(directory).count()
    (directory / "backup-1").mkdir()
    assert kafkalog.scan(directory).count() == expected
