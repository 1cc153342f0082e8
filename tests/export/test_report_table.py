"""Reports as tables: the columns and the types of each."""

import pytest

from kafkalog.cleaner.removal_report import (
    KeepReport,
    KeepRule,
    Reason,
    Removal,
    RemovalCause,
    RemovalReport,
    SettingsUsed,
)
from kafkalog.copies.heal_report import HealedPartition, HealReport
from kafkalog.copies.offset_coverage import OffsetRange
from kafkalog.copies.salvage_report import SalvagedPartition, SalvageReport
from kafkalog.startup.start_report import PartitionStart, StartReport, StartState
from kafkalog.verification import Report
from kafkalog.verification.verification_report import Cause, Problem, Severity

LOST = (OffsetRange(4, 6), OffsetRange(9, 9))
RANGES = "list<item: fixed_size_list<item: int64>[2]>"
FILE = "00000000000000000000.log"
REASON = Reason(KeepRule.SIZE, "retention.bytes", -1)
PROBLEM = Problem(
    path=FILE,
    position=61,
    offset=None,
    cause=Cause.CRC,
    severity=Severity.ERROR,
    message="CRC mismatch",
)
START = PartitionStart(
    topic="t",
    partition=0,
    directory="d",
    state=StartState.CLEAN,
    seconds=0.5,
    notes=("why", "what"),
)
REPORTS = [
    (
        HealReport((HealedPartition("t", 0, 9, 3, LOST, 2, {0: "a", 4: "b"}),)),
        {"topic": "string", "partition": "int32", "missing": RANGES, "why": "string"}
        | {"sources": "map<int64, string>", "notes": "list<item: string>"},
        {"missing": [[4, 6], [9, 9]], "sources": [(0, "a"), (4, "b")], "records": 9},
    ),
    (
        SalvageReport(
            (SalvagedPartition("t", 0, 9, 3, LOST, 2, "s", ((0, 70),), ("one",)),)
        ),
        {"topic": "string", "partition": "int32", "missing": RANGES}
        | {"source": "string", "source_ranges": RANGES, "notes": "list<item: string>"},
        {"missing": [[4, 6], [9, 9]], "source_ranges": [[0, 70]], "notes": ["one"]},
    ),
    (
        StartReport(partitions=(START,)),
        {"topic": "string", "partition": "int32", "directory": "string"}
        | {"state": "string", "seconds": "double", "cleaner_error": "string"}
        | {"unserved": "string"}
        | {"notes": "list<item: string>"},
        {"state": "clean", "seconds": 0.5, "notes": ["why", "what"]},
    ),
    (
        RemovalReport((Removal("t", 0, FILE, 1, 9, RemovalCause.COMPACT, 17),), (), 17),
        {"topic": "string", "partition": "int32", "segment": "string"}
        | {"removed_by": "string", "unchanged_because": "list<item: string>"},
        {"removed_by": "compact", "at": 17},
    ),
    (
        KeepReport(FILE, True, (REASON,), SettingsUsed("t", "defaults")),
        {"segment": "string", "kept": "bool", "rule": "string", "setting": "string"}
        | {"value": "string"},
        {"kept": True, "rule": "retention.bytes", "value": "-1", "until": None},
    ),
    (
        Report(files=1, bytes=0, batches=0, records=0, problems=(PROBLEM,)),
        dict.fromkeys(("path", "cause", "severity", "message", "recovery"), "string"),
        {"cause": "crc", "severity": "error", "position": 61, "offset": None},
    ),
]


@pytest.mark.parametrize(
    ("report", "types", "values"), REPORTS, ids=lambda each: type(each).__name__
)
def test_a_report_is_a_table_of_numbers_and_of_the_types_stated(report, types, values):
    table = report.to_arrow()
    found = {field.name: str(field.type) for field in table.schema}
    assert found == {**dict.fromkeys(found, "int64"), **types}
    [row] = table.to_pylist()
    assert {name: row[name] for name in values} == values
