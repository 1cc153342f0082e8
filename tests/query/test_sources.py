"""What a scan takes, and how it refuses what it does not."""

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
        ((one for one in [ONCE]), "generator"),
        ([None], "NoneType"),
        (5, "int"),
        ({"path": ONCE}, "dict"),
    ],
    ids=["None", "a generator", "a list of None", "a number", "a mapping"],
)
def test_what_is_no_source_is_refused_with_what_is_one(source, kind):
    said = rf"^a source is a path, a URL, bytes .* or a list of such, not {kind}$"
    with pytest.raises(TypeError, match=said):
        kafkalog.scan(source)


def test_a_text_file_by_another_name_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("hello")
    with pytest.raises(kafkalog.NotALogDirectoryError, match=r"neither a \.log"):
        kafkalog.scan(path)


@pytest.mark.parametrize("bound", ["start_offset", "end_offset"])
@pytest.mark.parametrize(
    "key", ["once-0", "once", ("once",), ("once", "0"), (0, "once"), ("once", True), 0]
)
def test_keys_that_are_no_topic_and_partition_are_refused(bound, key):
    with pytest.raises(TypeError, match=rf"^{bound}: key .*\(\"orders\", 0\)$"):
        kafkalog.scan(LOGS, **{bound: {key: 10}})


@pytest.mark.parametrize("bound", ["start_offset", "end_offset"])
def test_bounds_of_partitions_that_are_not_there_are_refused(bound, tmp_path):
    with pytest.raises(ValueError, match=r"no partition \('other', 1\); there are "):
        kafkalog.scan([ONCE, LOGS / "once-1"], **{bound: {("other", 1): 0}})
    with pytest.raises(ValueError, match=r"\('once', 7\).* and \d+ more$"):
        kafkalog.scan(LOGS, **{bound: {("once", 0): 0, ("once", 7): 0}})
    (tmp_path / "meta.properties").touch()
    with pytest.raises(ValueError, match="there are none"):
        kafkalog.scan(tmp_path, **{bound: {("once", 0): 0}})


def test_a_partition_may_be_a_number_of_numpys():
    bounded = kafkalog.scan(ONCE, start_offset={("once", np.int64(0)): 9})
    assert bounded.count() == kafkalog.scan(ONCE, start_offset=9).count()


def test_a_partition_named_twice_is_read_once(tmp_path):
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


def test_a_misspelt_column_is_named_with_what_is_near():
    with pytest.raises(ValueError, match=r"^no such columns: valeu \(did you mean val"):
        kafkalog.scan(ONCE, columns=["key", "valeu"])
    with pytest.raises(ValueError, match=r"^no such columns: xyz; there are topic, "):
        kafkalog.scan(ONCE, columns=["xyz"])


@pytest.mark.parametrize(
    "records", [{"valeu": [b"x"]}, [{"valeu": b"x"}]], ids=["columns", "rows"]
)
def test_a_misspelt_column_to_append_is_named_with_what_is_near(records, tmp_path):
    said = r"no such columns: valeu \(did you mean value\?\)"
    with (
        kafkalog.open(tmp_path / "t-0", "a") as log,
        pytest.raises(kafkalog.UnfitRecordsError, match=said),
    ):
        log.append_records(records)


def test_progress_is_told_by_a_count_as_by_a_reading():
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


def test_a_missing_directory_around_a_log_directory_is_named(tmp_path):
    missing = tmp_path / "no" / "such"
    with pytest.raises(FileNotFoundError) as caught:
        kafkalog.open(missing / "t-0", "a")
    assert caught.value.filename == str(missing.parent)
    assert not (tmp_path / "no").exists()


@pytest.mark.parametrize("path", [None, 5, [ONCE]])
@pytest.mark.parametrize("mode", ["r", "a"])
def test_what_is_no_path_is_not_opened(path, mode):
    with pytest.raises(TypeError, match="str"):
        kafkalog.open(path, mode)


def test_a_naive_datetime_is_refused_everywhere():
    naive = datetime(2026, 1, 1)
    with pytest.raises(ValueError, match="without a time zone"):
        kafkalog.scan(ONCE, start_timestamp=naive)
    with pytest.raises(ValueError, match="without a time zone"):
        kafkalog.open(ONCE).offsets_for_times([naive])
