"""The report at the end: findings up to a limit, and the number of others."""

import numpy as np

from kafkalog.dump import dump_report
from tests.dump.dump_command import dump
from tests.query.batches import build


def test_gaps_beyond_those_that_are_kept_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(dump_report, "MOST_PAIRS", 3)
    entries = [build(2, "none", 10 * i, 2) for i in range(8)]
    paths = [tmp_path / f"{number:020d}.log" for number in range(3)]
    for path, many in zip(paths, (2, 6, 3), strict=True):
        path.write_bytes(b"".join(entries[:many]))
    lines = dump("--deep-iteration", *sorted(tmp_path.iterdir())).stderr.splitlines()
    titles = [lines.index(f"Non-consecutive offsets in {path}") for path in paths]
    assert lines[titles[0] + 1 :][:1] == ["  1 is followed by 10"]
    assert lines[titles[1] + 1 :][:3] == [
        "  1 is followed by 10",
        "  11 is followed by 20",
        "  and 3 more",
    ]
    assert lines[titles[2] + 1 :][:1] == ["  and 2 more"]
    assert len(lines) == 3 + 1 + 3 + 1


def test_the_last_finding_with_the_same_first_number_counts():
    gaps = dump_report.DumpReport()
    gaps.gaps.add_all("a", np.array([(9, 1), (-1, 7), (9, 12)]))
    gaps.index_mismatches.add_all("a", np.array([(9, 1), (11, 7), (9, 12)]))
    gaps.not_found.add_all("a", np.array([(9, 1), (11, 7), (9, 12)]))
    assert list(gaps.lines()) == [
        "Mismatches in :a",
        "  Index offset: 11, log offset: 7",
        "  Index offset: 9, log offset: 12",
        "The following indexed offsets are not found in :a",
        "Indexed offset: 9, found log offset: 1",
        "Indexed offset: 11, found log offset: 7",
        "Indexed offset: 9, found log offset: 12",
        "Non-consecutive offsets in a",
        "  -1 is followed by 7",
        "  9 is followed by 12",
    ]
