"""`prove`: what should be gone is found wherever it is left."""

import os
import shutil
from pathlib import Path

import pytest

import kafkalog
from kafkalog.codecs.checksum import crc32c
from tests import golden_data

CLEAN = golden_data.logs("k431-clean")
UUID = 32 * "a"
GONE = b"person-17"


def write(directory, keys, **options):
    """Write a log with a record for each key."""
    with kafkalog.open(directory, "a") as log:
        log.append_records({"key": keys, "value": [b"v"] * len(keys)}, **options)
        log.update_high_watermark(log.log_end_offset)


@pytest.fixture
def logs(tmp_path):
    """Return a log directory with one partition that has nothing to find."""
    write(tmp_path / "logs" / "people-0", [b"ann", b"bob"])
    return tmp_path / "logs"


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize(
    "place",
    [
        "people-1/00000000000000000000.log",
        "people-0/00000000000000000000.log.deleted",
        "people-0/00000000000000000000.log.cleaned",
        "people-0/00000000000000000000.log.swap",
        f"people-1.{UUID}-stray/00000000000000000000.log",
        f"people-1.{UUID}-future/00000000000000000000.log",
        f"people-1.{UUID}-delete/00000000000000000000.log.deleted",
    ],
)
def test_a_record_is_found_in_each_kind_of_file(place, codec, logs, tmp_path):
    assert kafkalog.prove(logs, exclude_keys=[GONE]).ok
    write(tmp_path / "other" / "people-0", [b"ann", GONE, GONE], codec=codec)
    (logs / place).parent.mkdir(exist_ok=True)
    shutil.copyfile(
        tmp_path / "other" / "people-0" / "00000000000000000000.log", logs / place
    )
    report = kafkalog.prove(logs, exclude_keys=[GONE])
    [found] = report.findings
    assert (found.path, found.records, found.first_offset) == (place, 2, 1)
    assert (found.position, found.occurrences) == (0, 0)
    assert not report.ok


def test_records_below_the_log_start_offset_are_found(tmp_path):
    write(tmp_path / "people-0", [GONE, b"ann"])
    with kafkalog.open(tmp_path / "people-0", "a") as log:
        log.update_high_watermark(2)
        log.delete_records(1)
    assert kafkalog.scan(tmp_path).count() == 1
    [found] = kafkalog.prove(tmp_path, exclude_keys=[GONE]).findings
    assert (found.records, found.first_offset) == (1, 0)


@pytest.mark.parametrize("damage", ["tail", "crc", "size"])
def test_keys_in_bytes_of_no_valid_batch_are_found(damage, logs, tmp_path):
    path = logs / "people-0" / "00000000000000000000.log"
    write(tmp_path / "other" / "people-0", [b"ann", GONE, GONE])
    record = (tmp_path / "other" / "people-0" / path.name).read_bytes()
    if damage == "tail":
        record = record[: record.rindex(GONE) + len(GONE)]
    elif damage == "crc":
        record = record[:-1] + b"x"
    else:
        record = record[:8] + (1).to_bytes(4) + record[12:]
    start = path.stat().st_size
    with path.open("ab") as file:
        file.write(record)
    report = kafkalog.prove(logs, exclude_keys=[GONE])
    [found] = report.findings
    assert (found.records, found.occurrences) == (0, 2)
    assert found.position == start + record.index(GONE)
    assert report.unreadable_bytes == len(record)


def test_a_batch_that_cannot_be_decoded_is_searched_as_bytes(logs, tmp_path):
    write(tmp_path / "other" / "people-0", [b"ann", GONE, GONE])
    path = logs / "people-0" / "00000000000000000000.log"
    batch = bytearray((tmp_path / "other" / "people-0" / path.name).read_bytes())
    batch[7] = 2  # the base offset follows those in the log
    batch[61] += 2  # the length of the first record
    batch[17:21] = crc32c(bytes(batch[21:])).to_bytes(4)
    with path.open("ab") as file:
        file.write(batch)
    report = kafkalog.prove(logs, exclude_keys=[GONE])
    [found] = report.findings
    assert (found.records, found.occurrences) == (0, 2)
    assert report.unreadable_bytes == len(batch)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_mentions_in_values_are_no_findings_but_in_the_verdict(codec, tmp_path):
    columns = {
        "key": [b"ann", b"bob", b"x" + GONE],
        "value": [b"knows " + GONE, None, GONE[:-1]],
        "headers": [[], [("friend", GONE), ("none", None)], []],
    }
    with kafkalog.open(tmp_path / "people-0", "a") as log:
        log.append_records(columns, codec=codec)
    report = kafkalog.prove(tmp_path, exclude_keys=[GONE])
    assert report.findings == ()
    assert report.mentions == 2
    assert report.records == 3
    assert not report.ok
    assert str(report).endswith("; 2 mentions in other records")
    many = [GONE, *(f"person-{number}" for number in range(1000, 1100))]
    report = kafkalog.prove(tmp_path, exclude_keys=many)
    assert report.mentions is None
    assert str(report).endswith("; mentions of more than 100 keys are not counted")


def repaired(logs, backup=None):
    """Take a batch with `GONE` out of the first partition; return its originals."""
    write(logs / "people-0", [GONE], codec="zstd")
    path = logs / "people-0" / "00000000000000000000.log"
    data = bytearray(path.read_bytes())
    data[20] ^= 1  # the CRC of the first batch
    path.write_bytes(data)
    done = kafkalog.repair(logs, apply=True, allow_data_loss=True, backup=backup)
    return Path(done.backup) / "originals"


@pytest.mark.parametrize("path", ["", "people-0"])
def test_originals_that_a_repair_keeps_are_searched(path, logs):
    originals = repaired(logs)
    kafkalog.restore(logs, logs.parent / "erased", exclude_keys=[GONE])
    report = kafkalog.prove(logs / path, exclude_keys=[GONE])
    kept = originals / "people-0" / "00000000000000000000.log"
    assert os.path.relpath(kept, logs / path) in {each.path for each in report.findings}
    assert kafkalog.prove(logs.parent / "erased", exclude_keys=[GONE]).ok


def test_originals_within_the_log_directory_are_searched_also_without_manifest(logs):
    originals = repaired(logs)
    shutil.rmtree(logs / "people-0")
    write(logs / "people-0", [b"ann"])
    moved = logs / originals.parent.name
    originals.parent.rename(moved)
    (moved / "manifest.json").unlink()
    report = kafkalog.prove(logs, exclude_keys=[GONE])
    expected = f"{moved.name}/originals/people-0/00000000000000000000.log"
    assert [each.path for each in report.findings] == [expected]


def test_restore_names_the_originals_that_hold_what_it_leaves_out(logs, tmp_path):
    originals = repaired(logs)
    report = kafkalog.restore(logs, tmp_path / "copy", exclude_keys=[GONE], prove=True)
    assert report.backups == (str(originals),)
    assert report.proof.ok
    assert kafkalog.restore(logs, tmp_path / "other", exclude_keys=["x"]).backups == ()


def test_other_filters_are_proved_as_well(tmp_path):
    report = kafkalog.prove(CLEAN, topics="orders.*")
    topics = {finding.path.rsplit("-", 1)[0] for finding in report.findings}
    assert "state.none" in topics
    assert not any(topic.startswith("orders") for topic in topics)
    offsets = {("orders.none", 0): 100}
    report = kafkalog.prove(CLEAN, topics="orders.none", start_offset=offsets)
    found = {
        finding.path: finding.records
        for finding in report.findings
        if finding.path.startswith("orders.none")
    }
    assert sum(found.values()) == 100


def test_aborted_records_are_found(tmp_path):
    hidden = kafkalog.scan(CLEAN / "ledger-0", columns=["offset", "key"]).to_arrow()
    shown = kafkalog.scan(
        CLEAN / "ledger-0", columns=["offset", "key"], isolation="read_committed"
    ).to_arrow()
    committed = set(shown["offset"].to_pylist())
    rows = hidden.to_pylist()
    keys = {row["key"] for row in rows if row["offset"] in committed}
    aborted = [
        row["key"]
        for row in rows
        if row["offset"] not in committed and row["key"] and row["key"] not in keys
    ]
    report = kafkalog.prove(CLEAN / "ledger-0", exclude_keys=aborted)
    assert sum(finding.records for finding in report.findings) == len(aborted) > 0
