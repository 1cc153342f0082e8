"""Types of the public API for type checkers: concrete types and Literals, no `Any`."""

import inspect
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest

import kafkalog
from kafkalog.encoding.batch_builder import BatchFields, BatchSettings
from kafkalog.log.log_fetch import LogFetch
from kafkalog.log.readable_log import LogRead
from kafkalog.log.record_appends import AppendedRecords, Refusal
from kafkalog.query.chunk_columns import BytesColumn, HeadersColumn, ViewColumn
from kafkalog.query.partition_reader import ScanProblem
from kafkalog.query.scan_columns import COLUMNS

ROOT = Path(kafkalog.__file__).parents[1]
RETURNED = (
    AppendedRecords, BytesColumn, HeadersColumn, LogFetch, LogRead,
    Refusal, ScanProblem, ViewColumn,
)  # fmt: skip
"""Types that public functions return and that are no public names."""

# pyarrow and pandas have no types of their own; these stubs replace them.
PYARROW = """
from typing import Any
def __getattr__(name: str) -> Any: ...
class Schema: ...
class RecordBatch: ...
class RecordBatchReader: ...
class Table:
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
"""
STUBS = {
    "pandas": "class DataFrame: ...",
    "polars": "class DataFrame: ...\nclass LazyFrame: ...",
    "pyarrow": PYARROW,
}
SETTINGS = """
[mypy]
strict = True
python_version = 3.11
ignore_missing_imports = True
cache_dir = {root}/cache
mypy_path = {root}/stubs:{checkout}
[mypy-kafkalog.export.*]
follow_imports = silent
[mypy-pyspark.*,ray.*]
follow_imports = skip
[mypy-kafkalog.analysis.internal_tables]
follow_imports = normal
"""
REVEALED = re.compile(r"^checked\.py:(\d+): note: Revealed type is \"(.*)\"$", re.M)
ERROR = re.compile(r"^checked\.py:(\d+): error: (.*)$", re.M)

INT64 = "numpy.ndarray[numpy.dtype[int64]]"
INT32 = INT64.replace("64", "32")
INT16 = INT64.replace("64", "16")
INT8 = INT64.replace("64", "8")
BOOL = "numpy.ndarray[numpy.dtype[numpy.bool[bool]]]"
BYTES = "kafkalog.query.chunk_columns.BytesColumn"
VIEWS = "kafkalog.query.chunk_columns.ViewColumn"

TYPES = {
    "scan.to_arrow()": "pyarrow.Table",
    "scan.to_pandas()": "pandas.DataFrame",
    "scan.to_polars()": "polars.DataFrame",
    "scan.schema": "pyarrow.Schema",
    "scan.problems[0].reason": "str",
    "records.topic": "str",
    "records.partition": INT32,
    "records.offset": INT64,
    "records.timestamp": INT64,
    "records.timestamp_type": INT8,
    "records.key": BYTES,
    "records.value": BYTES,
    "records.headers": f"kafkalog.query.chunk_columns.HeadersColumn[{BYTES}]",
    "records.leader_epoch": INT32,
    "records.producer_id": INT64,
    "records.producer_epoch": INT16,
    "records.sequence": INT32,
    "records.is_transactional": BOOL,
    "records.is_control": BOOL,
    "records.magic": INT8,
    "records.codec": INT8,
    "records.segment": INT32,
    "records.position": INT64,
    "views.offset": INT64,
    "views.value": VIEWS,
    "views.headers.key": VIEWS,
    "kafkalog.open('t-0')": "kafkalog.log.log.Log",
    "kafkalog.open('t-0', 'r')": "kafkalog.log.log.Log",
    "kafkalog.open('t-0', mode='a')": "kafkalog.log.writable_log.WritableLog",
}
"""Expressions after `PREAMBLE`, and their types."""

PREAMBLE = """
import kafkalog
import numpy
import numpy.typing as npt
import pathlib
scan = kafkalog.scan(["a.log", "b-0"])
records = next(scan.chunks(reuse=True))
views = next(scan.chunks(views=True))
log = kafkalog.open("t-0", "a")
def given(values: npt.ArrayLike) -> None:
    reveal_type(values)
"""

MESSAGE = "dict[str, Any]"
"""A message of Kafka's, or settings by name: each value has a type of its own."""

ACCEPTED = (
    "kafkalog.scan(b'')",
    "kafkalog.scan(memoryview(b''), isolation='read_committed')",
    "kafkalog.scan([pathlib.Path('t-0'), 'u-0'], on_corruption='skip')",
    "kafkalog.scan(numpy.zeros(7, numpy.uint8))",
    "log.read(0, isolation='high_watermark')",
    "log.append(kafkalog.RecordBatchBuilder(codec='zstd', base_offset=7).build())",
    "log.append_records({'key': [b'k']}, codec='lz4')",
    "log.append_records(scan.to_arrow())",
    "log.append_records(records)",
    "log.append_records(scan)",
    "log.append_records({'value': str(i)} for i in range(9))",
    "kafkalog.LogConfig(cleanup_policy=('compact', 'delete'))",
)

REJECTED = (
    "kafkalog.scan('t-0', isolation='committed')",
    "kafkalog.scan('t-0', on_corruption='ignore')",
    "kafkalog.scan(7)",
    "kafkalog.open('t-0', 'w')",
    "kafkalog.open('t-0').read(0, isolation='high_watermark')",
    "kafkalog.open('t-0').append(b'')",
    "log.read(0, isolation='end')",
    "log.append(b'', origin='me')",
    "log.append_records([], codec='zip')",
    "kafkalog.RecordBatchBuilder(codec='zip')",
    "kafkalog.RecordBatchBuilder(bass_offset=7)",
    "kafkalog.LogConfig(compression_type='zip')",
    "kafkalog.LogConfig(message_timestamp_type='create')",
    "records.no_such_column",
)


def own_members(kind):
    """Yield the public names of a class that it, or another of ours, defines."""
    for name in dir(kind):
        owners = [base for base in kind.__mro__ if name in vars(base)]
        ours = owners and owners[0].__module__.startswith("kafkalog")
        if ours and not name.startswith("_"):
            yield name


def everything_public():
    """Return lines that declare a variable of each class, and public expressions."""
    kinds = [getattr(kafkalog, name) for name in kafkalog.__all__]
    declared, public = [], [f"kafkalog.{name}" for name in kafkalog.__all__]
    for kind in filter(inspect.isclass, [*kinds, *RETURNED]):
        variable = f"one_{kind.__name__}"
        declared += [
            f"import {kind.__module__}",
            f"{variable}: {kind.__module__}.{kind.__name__}",
        ]
        public += [f"{variable}.{name}" for name in own_members(kind)]
    return declared, public


def short_type(revealed):
    """Return a type without shapes, modules and bits."""
    shorter = revealed.replace("tuple[Any, ...], numpy.dtype", "numpy.dtype")
    shorter = shorter.replace("builtins.", "").replace("generic[Any]", "generic")
    return re.sub(r"numpy\.signedinteger\[[\w.]*_(\d+)Bit\]", r"int\1", shorter)


@pytest.fixture(scope="module")
def check(tmp_path_factory):
    """Return a function that runs mypy over lines; it returns types and errors."""
    root = tmp_path_factory.mktemp("checked")
    for package, stub in STUBS.items():
        (root / "stubs" / package).mkdir(parents=True)
        (root / "stubs" / package / "__init__.pyi").write_text(stub)
    settings = root / "mypy.ini"
    settings.write_text(SETTINGS.format(root=root, checkout=ROOT))

    def checked(lines):
        before = PREAMBLE.splitlines()
        (root / "checked.py").write_text("\n".join([*before, *lines]) + "\n")
        command = [sys.executable, "-m", "mypy", "--config-file", str(settings)]
        ran = subprocess.run(
            [*command, "checked.py"],
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode in (0, 1), ran.stderr
        first = len(before) + 1
        types = {
            int(line): short_type(text) for line, text in REVEALED.findall(ran.stdout)
        }
        errors = {int(line) - first: text for line, text in ERROR.findall(ran.stdout)}
        array_like = types.pop(len(before))
        found = {
            line - first: text.replace(array_like, "ArrayLike")
            for line, text in types.items()
        }
        return found, errors

    return checked


def test_columns_tables_and_logs_have_types(check):
    found, errors = check([f"reveal_type({expression})" for expression in TYPES])
    assert dict(zip(TYPES, found.values(), strict=True)) == TYPES
    assert not errors


def test_the_type_of_each_column_is_checked():
    assert {f"records.{name}" for name in COLUMNS} <= TYPES.keys()


def test_invalid_arguments_are_type_errors(check):
    _, errors = check(REJECTED)
    assert {REJECTED[line] for line in errors} == set(REJECTED)


def test_valid_arguments_are_no_type_errors(check):
    _, errors = check(ACCEPTED)
    assert not {ACCEPTED[line] for line in errors}


def test_no_public_type_is_any(check):
    declared, public = everything_public()
    lines = [*declared, *(f"reveal_type({name})" for name in public)]
    found, errors = check(lines)
    assert len(found) == len(public)
    assert not errors
    revealed = {lines[line]: text for line, text in found.items()}
    loose = {
        line: text
        for line, text in revealed.items()
        if re.search(r"\bAny\b", text.replace(MESSAGE, "Message"))
    }
    assert not loose


def test_the_settings_of_a_batch_are_the_keywords_of_a_builder():
    fields = typing.get_type_hints(BatchSettings)
    del fields["_"]
    assert typing.get_type_hints(BatchFields) == fields


def test_the_package_is_marked_as_typed():
    assert (ROOT / "kafkalog" / "py.typed").exists()
