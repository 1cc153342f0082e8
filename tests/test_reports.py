"""Reports: all classes have the same forms, made from annotations."""

import importlib
import json
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import kafkalog
from kafkalog.analysis.stats_report import StatsReport
from kafkalog.cleaner.corrupt_batches import CorruptBatch
from kafkalog.cleaner.offline_compaction import CompactionReport
from kafkalog.cleaner.removal_report import (
    KeepReport,
    KeepRule,
    Reason,
    Removal,
    RemovalCause,
    RemovalReport,
    SettingsUsed,
    UnchangedLog,
)
from kafkalog.copies.erasure_proof import Finding, ProofReport
from kafkalog.copies.heal_report import HealedPartition, HealReport
from kafkalog.copies.log_import import ImportResult
from kafkalog.copies.offset_coverage import OffsetInterval
from kafkalog.copies.restore_report import (
    RestoredFile,
    RestoredOffset,
    RestoredPartition,
    RestoreReport,
)
from kafkalog.copies.salvage_report import SalvagedPartition, SalvageReport
from kafkalog.export.arrow import TYPES
from kafkalog.query.diff_report import DiffReport, PartitionDiff
from kafkalog.query.listing_report import (
    PartitionList,
    PartitionSummary,
    SegmentList,
    SegmentSummary,
)
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.repairs.repair_report import RepairAction, RepairKind, RepairReport
from kafkalog.reports import (
    ReportBase,
    arrow_type,
    as_cell,
    as_json,
    columns_of,
    html_table,
)
from kafkalog.startup.start_report import PartitionStart, StartReport, StartState
from kafkalog.verification import Report
from kafkalog.verification.verification_report import Cause, Problem, Severity

LOST = (OffsetInterval(4, 6), OffsetInterval(9, 9))
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


REBUILD = RepairAction(
    path="t-0/0.index", action=RepairKind.REBUILD, position=3, reason="entry 3"
)
USED = SettingsUsed("t", "defaults")
REMOVAL = Removal("t", 0, FILE, 1, 1, RemovalCause.COMPACT, 17)
UNCHANGED = UnchangedLog("t", 1, ("retention.ms -1",))
CORRUPT = CorruptBatch(FILE, 17, 4, 6, "CRC mismatch", kept=False)
COPIED = RestoredPartition(
    topic="t",
    partition=0,
    topic_id=None,
    log_start_offset=0,
    log_end_offset=1,
    records=1,
    excluded_records=0,
)
MOVED = {"committed": 9, "offset": 1}
FINDING = Finding(path="a", records=1, first_offset=0, occurrences=0, position=0)
DIFFERENT = PartitionDiff("t", 0, False, 9, 1, 1, 0, "b is behind", ((0, 3),))
TIMES = {"first_timestamp": 17, "max_timestamp": None, "state": None}
LISTED = PartitionSummary(
    topic="t",
    partition=0,
    segments=1,
    size_in_bytes=1536,
    all_files_bytes=1600,
    log_start_offset=0,
    log_end_offset=9,
    clean_shutdown=False,
    directory="t-0",
    **TIMES,
)
SEGMENT = SegmentSummary(
    file=FILE,
    base_offset=0,
    next_offset=9,
    size_in_bytes=9,
    all_files_bytes=9,
    index_entries=None,
    time_index_entries=None,
    txn_index_entries=None,
    **TIMES,
)
ONE_RECORD = kafkalog.RecordBatchBuilder()
ONE_RECORD.append(b"k", b"v", timestamp=1700000000000)
EXAMPLES = [
    (
        Report(files=0, bytes=0, batches=0, records=0, problems=()),
        Report(files=1, bytes=1, batches=1, records=1, problems=(PROBLEM,)),
        "1 file, 1 byte, 1 batch, 1 record: 1 error, 0 warnings",
    ),
    (
        RepairReport(),
        RepairReport(actions=(REBUILD,), skipped=(REBUILD,), failures=("no space",)),
        "1 change planned: 1 rebuild; 1 change not made, as data would be lost",
    ),
    (
        StartReport(),
        StartReport(partitions=(START,), stops=("two directories have one id",)),
        "1 partition: 1 clean; 0 bytes to read, 0 records lost; "
        "the broker does not start",
    ),
    (
        RemovalReport((), (), 17),
        RemovalReport((REMOVAL,), (USED,), 17, (UNCHANGED,)),
        "1 record, 1 byte; 0 records, 0 bytes later\nt-1 unchanged: retention.ms -1",
    ),
    (
        KeepReport(FILE, False, (), USED),
        KeepReport(FILE, True, (REASON,), USED),
        f"{FILE} is kept: retention.bytes -1",
    ),
    (
        CompactionReport("t", 0, None, None, 0, 0, None, 0, 0),
        CompactionReport("t", 0, 2, 1, 80, 1, 0, 1, 2, (CORRUPT,)),
        "t-0: 2 records, 80 bytes before; 1 record, 1 byte after",
    ),
    (
        RestoreReport(destination="d"),
        RestoreReport(
            destination="d",
            files=(RestoredFile(path="a"),),
            partitions=(COPIED,),
            groups=(RestoredOffset(group="g", topic="t", partition=0, **MOVED),),
            problems=(ScanProblem(Path("a.log"), 17, 4, 6, "CRC mismatch"),),
            proof=ProofReport(findings=(FINDING,)),
        ),
        "1 record copied, 0 excluded, 1 partition, 1 committed offset",
    ),
    (
        ProofReport(),
        ProofReport(findings=(FINDING,), files=1, records=1, mentions=1),
        "1 found in 1 record of 1 file; 1 mention in other records",
    ),
    (
        SalvageReport(()),
        SalvageReport(
            (SalvagedPartition("t", 0, 1, 3, LOST[1:], 2, "s", ((0, 70),), ("one",)),)
        ),
        "1 partition, 1 record, 1 offset missing",
    ),
    (
        HealReport(()),
        HealReport((HealedPartition("t", 0, 9, 3, LOST, 2, {0: "a", 4: "b"}),)),
        "1 partition healed",
    ),
    (
        kafkalog.stats([]),
        kafkalog.stats(ONE_RECORD.build()),
        "1 group by topic: 1 record, 70 bytes",
    ),
    (
        ImportResult(),
        ImportResult(1, 2, 1, 5, 400),
        "1 partition, 2 segments, 1 batch, 5 records, 400 bytes",
    ),
    (
        PartitionList(()),
        PartitionList((LISTED,)),
        "1 partition, 1.5 KiB, not shut down cleanly",
    ),
    (SegmentList(()), SegmentList((SEGMENT,)), "1 segment, 9 B"),
    (
        DiffReport(()),
        DiffReport((DIFFERENT,)),
        "1 partition, 1 of them different",
    ),
]
"""Of each class a report without a row, one with a row, and the text of the latter."""
COLUMNS = {
    Report: columns_of(Problem),
    RepairReport: columns_of(RepairAction),
    StartReport: columns_of(PartitionStart),
    RemovalReport: {**columns_of(Removal), "unchanged_because": tuple[str, ...]},
    KeepReport: {"segment": str, "kept": bool, **columns_of(Reason), "value": str},
    CompactionReport: columns_of(CompactionReport),
    RestoreReport: columns_of(RestoredPartition),
    ProofReport: columns_of(Finding),
    SalvageReport: columns_of(SalvagedPartition),
    HealReport: columns_of(HealedPartition),
    ImportResult: columns_of(ImportResult),
    DiffReport: columns_of(PartitionDiff),
    PartitionList: columns_of(PartitionSummary),
    SegmentList: columns_of(SegmentSummary),
    StatsReport: {
        "topic": str,
        **dict.fromkeys(("records", "batches", "bytes"), int),
        **dict.fromkeys(("first_timestamp", "max_timestamp"), TYPES["timestamp"]),
        "records_per_batch": float,
    },
}
"""Of each class the columns of a table, and the annotations of each."""
IS_JSON = (dict, list, str, int, float, bool, type(None))


def is_json(value):
    """Return whether JSON has all of a value as it is; keys may be numbers."""
    if isinstance(value, dict):
        return all(map(is_json, [*value, *value.values()]))
    return type(value) in IS_JSON and (
        not isinstance(value, list) or all(map(is_json, value))
    )


def report_classes():
    """Return the classes of reports in all modules of the package."""
    root = Path(kafkalog.__file__).parent
    for path in root.rglob("*.py"):
        if "(ReportBase)" in path.read_text("utf-8"):
            names = path.relative_to(root.parent).with_suffix("").parts
            importlib.import_module(".".join(names))
    return {
        kind
        for kind in ReportBase.__subclasses__()
        if getattr(sys.modules[kind.__module__], kind.__name__) is kind
    }


def test_every_class_has_an_example():
    named = {type(report) for report, _, _ in EXAMPLES}
    assert report_classes() == named == set(COLUMNS)


@pytest.mark.parametrize(
    ("empty", "report", "text"), EXAMPLES, ids=lambda each: type(each).__name__
)
class TestEachReport:
    def test_it_has_a_text(self, empty, report, text):
        assert str(report) == text
        assert repr(report) == f"<{type(report).__name__}: {text}>"
        assert "object at" not in str(empty)

    def test_it_is_ok_or_not(self, empty, report, text):
        assert empty.ok is True
        assert report.ok in (True, False)

    def test_its_dictionary_is_json_and_has_the_schema(self, empty, report, text):
        for each in empty, report:
            found = each.as_dict()
            assert next(iter(found)) == "schema"
            assert found["schema"] == each.schema == 1
            assert is_json(found)
            assert json.loads(json.dumps(found))["schema"] == 1
        assert report.as_dict().keys() == empty.as_dict().keys()
        json.dumps(found, allow_nan=False)

    def test_its_rows_are_json(self, empty, report, text):
        rows = list(report.rows())
        assert rows
        assert all(is_json(row) for row in rows)

    def test_its_table_has_the_columns_of_its_annotations(self, empty, report, text):
        table = report.to_arrow()
        assert table.num_rows == len(list(report.rows()))
        columns = COLUMNS[type(report)]
        assert table.column_names == list(columns) == list(next(report.rows()))
        for name, kind in columns.items():
            is_type = isinstance(kind, pa.DataType)
            found = table.schema.field(name).type
            assert found == (kind if is_type else arrow_type(kind))
        assert empty.to_arrow().schema == table.schema
        rows = list(report.rows())
        assert [row.keys() for row in rows] == [columns.keys()] * len(rows)

    def test_a_narrow_table_shows_some_of_its_columns(self, empty, report, text):
        importance = report.importance()
        assert {*importance} <= COLUMNS[type(report)].keys()
        assert len({*importance}) == len(importance)

    def test_its_html_has_a_row_and_the_text(self, empty, report, text):
        html = report._repr_html_()
        assert html.count("<tr>") == 1 + table_rows(report)
        assert html.startswith(f"<table><caption>{type(report).__name__}: ")
        assert type(empty).__name__ in empty._repr_html_()

    def test_its_classes_have_no_other_attributes(self, empty, report, text):
        with pytest.raises(AttributeError, match="no attribute"):
            report.unknown  # noqa: B018


def table_rows(report):
    return len(list(report.rows()))


def test_a_former_name_is_an_error_with_the_name_of_today():
    with pytest.raises(AttributeError, match=r"DiffReport.equal .* renamed to ok"):
        DiffReport(()).equal  # noqa: B018
    assert not hasattr(DiffReport(()), "equal")
    with pytest.raises(AttributeError, match="as_rows has been renamed to rows"):
        RemovalReport((), (), 17).as_rows  # noqa: B018


def test_html_has_the_first_rows_and_the_number_of_the_others():
    few, many = DiffReport((DIFFERENT,) * 21), DiffReport((DIFFERENT,) * 22)
    assert few._repr_html_().count("<tr>") == 21
    assert few._repr_html_().endswith("<p>1 more partition.</p>")
    assert many._repr_html_().endswith("<p>2 more partitions.</p>")


def test_html_is_escaped():
    html = html_table("<a>", ["b&"], [["<c>"]], "<d>", "")
    assert "<a>" not in html
    assert "<c>" not in html
    assert "b&amp;" in html
    assert html.endswith("<p>&lt;d&gt;</p>")


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, ""),
        (False, "no"),
        (0.5, "0.5"),
        ([], ""),
        (["one"], "one"),
        ([[n, n + 1] for n in range(6)], "0-1, 1-2, 2-3, 3-4, 4-5, 1 more"),
        ({0: "a", 4: "b"}, "0: a; 4: b"),
    ],
)
def test_values_of_rows_are_cells(value, cell):
    assert as_cell(value) == cell


def test_nested_values_are_json():
    values = (LOST[0], Cause.CRC, PROBLEM, None, (1, "a"))
    assert is_json(as_json(values))
    assert as_json(values)[:2] == [[4, 6], "crc"]
