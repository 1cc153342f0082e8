"""kafka-dump-log reads the logs that the scenarios of ``tests/oracle`` leave.

Each log is closed at the end of its scenario and dumped, then recovered from its first
byte, appended to and dumped again. Logs that were damaged, or left by a crash, are only
dumped the second time. Logs that cannot be opened then, as in Kafka, or have patched
batches, are not dumped.
"""

import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from kafkalog import KafkaLogError, LogConfig, RecordBatchBuilder
from kafkalog.formats.layout import CODECS
from kafkalog.log.recovery.log_loading import load_log
from kafkalog.testing import ManualClock, ManualScheduler
from tests.interop import writing
from tests.interop.kafka_dump import cases_of, faults, files_of
from tests.oracle import play, test_odd_scenarios, test_scenarios

pytestmark = pytest.mark.interop

ORACLE = Path(test_scenarios.__file__).parent
PATHS = [
    *(ORACLE / "scenarios" / f"{name}.jsonl" for name in test_scenarios.NAMES),
    *(
        test_odd_scenarios.ODD / "scenarios" / f"{n}.jsonl"
        for n in test_odd_scenarios.NAMES
    ),
]
CONFIG = LogConfig(internal_segment_bytes=4000, index_interval_bytes=300)
LATER_MAX_TIMESTAMP = "append-max-timestamp-corrected"
"""A follower appends a batch whose maximum timestamp is later than its records'."""
ENGINE_ONLY = ("spelt-otherwise", "packed-broken")
"""Kafka's engine accepts names and records that kafka-dump-log does not."""


MISMATCH = "Found timestamp mismatch in :"


def leave_gaps(steps):
    """Return whether steps may leave gaps in offsets."""
    leaving = ("append_follower", "compact", "truncate_to")
    return any(step["op"] in leaving for step in steps)


def compact(steps):
    """Return whether steps may leave batches without records."""
    return any(step["op"] == "compact" for step in steps)


def without_empty_batches(lines):
    """Drop the mismatches of batches without records, whose timestamp is -1 here.

    The line that names the file is kept if another mismatch of the file is.
    """
    kept = []
    for line in reversed(lines):
        if line.endswith("log timestamp: -1"):
            continue
        if line.startswith(MISMATCH) and not (kept and kept[-1].startswith("  ")):
            continue
        kept.append(line)
    return kept[::-1]


def is_cut(step):
    """Return whether a step truncates segments: indexes are then not trimmed."""
    return step["op"] in ("truncate_to", "truncate_fully")


def is_foreign(step):
    """Return whether a step writes batches that no append would accept."""
    patched = any("patch" in batch for batch in step.get("batches", []))
    return patched or (step["op"], step.get("action")) == ("damage", "append")


def ends_cleanly(steps):
    ends = [step["op"] for step in steps if step["op"] in ("open", "close", "crash")]
    return ends[-1] != "crash" and all(step["op"] != "damage" for step in steps)


def play_and_close(path, root):
    """Play a scenario and close the log; return its directory and its steps."""
    lines = path.read_text(encoding="utf-8").splitlines()
    steps = [step for line in lines if "op" in (step := json.loads(line))]
    closed = root.parent / path.name
    closed.write_text("\n".join([*lines, '{"op": "close"}']), encoding="utf-8")
    play.play(closed, root)
    return root / "{topic}-{partition}".format(**steps[0]), steps


def recover_and_append(directory):
    """Recover a log from its first byte, append batches of all codecs, close it."""
    clock = ManualClock(writing.T)
    with load_log(
        directory,
        CONFIG,
        clean=False,
        clock=clock,
        scheduler=ManualScheduler(clock),
    ) as log:
        log.append_many([writing.batch(0, codec=codec) for codec in CODECS])
        log.append_many([old_message(magic) for magic in (0, 1)])


def old_message(magic):
    builder = RecordBatchBuilder(magic=magic)
    builder.append(*writing.record(1), timestamp=writing.T if magic else -1)
    return builder.build()


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Play all scenarios; return folder, partitions, those with gaps, and compacted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)  # no test of a power failure
        yield leave_all(tmp_path_factory.mktemp("left"))


def leave_all(folder):
    partitions, gaps, compacted = [], set(), set()
    for path in PATHS:
        root = folder / path.stem
        directory, steps = play_and_close(path, root)
        if leave_gaps(steps):
            gaps.add(path.stem)
        if compact(steps):
            compacted.add(path.stem)
        if path.stem == LATER_MAX_TIMESTAMP or any(map(is_foreign, steps)):
            continue
        if any(name in path.stem for name in ENGINE_ONLY):
            continue
        if ends_cleanly(steps):
            closed = shutil.copytree(directory, root / "closed-0")
            partitions.append(closed)
            if not any(map(is_cut, steps)):
                partitions += deleted_of(closed, root / "deleted-0")
        try:
            recover_and_append(directory)
        except (KafkaLogError, OSError):
            assert not ends_cleanly(steps)
        else:
            partitions.append(directory)
    return folder, partitions, gaps, compacted


def deleted_of(directory, place):
    """Copy the files of deleted segments, under their former names, to a directory.

    Empty segments are not copied: they were active when deleted.
    """
    logs = [one for one in directory.glob("*.log.deleted") if one.stat().st_size]
    if logs:
        place.mkdir()
        yield place
    for log in logs:
        for path in directory.glob(f"{log.name.split('.')[0]}.*.deleted"):
            shutil.copy(path, place / path.stem)


def test_kafka_dump_log_finds_no_error_in_files_of_scenarios(logs, figure):
    folder, partitions, gaps, compacted = logs
    cases = [case for one in partitions for case in cases_of(one, folder)]
    errors, printed = faults(folder, cases, lambda case: case[-1].split("/")[0] in gaps)
    for files, lines in list(errors.items()):
        if files.split("/")[0] in compacted and not without_empty_batches(lines):
            del errors[files]
    assert errors == {}
    files = {file for case in cases for file in files_of(case)}
    out = b"".join(one.out for one in printed).decode(errors="replace")
    assert len(files) > 3_000
    assert set(re.findall(r"compresscodec: (\w+)", out)) == set(CODECS)
    assert set(re.findall(r"endTxnMarker: (\w+)", out)) == {"ABORT", "COMMIT"}
    figure("kafka-dump-log", "logs", len(partitions))
    for kind, count in sorted(Counter(Path(file).suffix for file in files).items()):
        figure("kafka-dump-log", kind, count)
