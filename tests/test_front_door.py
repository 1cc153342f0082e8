"""The public names of `kafkalog`: they resolve, are documented, and import lazily."""

import importlib
import inspect
import pickle
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

import kafkalog
from kafkalog import errors
from kafkalog.copies.log_import import import_logs
from kafkalog.export.delta_table import append_new
from kafkalog.export.file_export import write_files
from tests import golden_data

HEAVY = (
    "click", "duckdb", "isal", "lz4", "pandas", "polars", "pyarrow", "pyspark",
    "rich", "snappy", "zstandard",
)  # fmt: skip
ORDERS = golden_data.logs("k431-clean") / "orders.zstd-0"

IMPORT_EVERYTHING = """
import importlib, pkgutil, types, kafkalog
offered = {name: getattr(kafkalog, name) for name in kafkalog.__all__}
for module in pkgutil.walk_packages(kafkalog.__path__, "kafkalog."):
    if "spark" not in module.name and not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name, thing in offered.items():
    again = getattr(kafkalog, name)
    assert again is thing, f"{name} became {again}"
    assert not isinstance(again, types.ModuleType), name
print(kafkalog.scan(PATH).count(), kafkalog.open(PATH).log_end_offset)
"""


def run(program):
    command = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout.split()


ROOT = golden_data.GOLDEN.parents[1]


@pytest.mark.parametrize("name", kafkalog.__all__)
def test_a_public_name_resolves_to_the_same_object_each_time(name):
    first, second = getattr(kafkalog, name), getattr(kafkalog, name)
    assert first is second
    assert not isinstance(first, types.ModuleType)
    assert name in dir(kafkalog)


def test_at_most_forty_five_names_are_public():
    assert len(kafkalog.__all__) <= 45


def resolved(name):
    """Return what the new name of a renamed one stands for."""
    thing = kafkalog
    for part in name.partition("(")[0].removeprefix("kafkalog.").split("."):
        if isinstance(thing, types.ModuleType) and not hasattr(thing, part):
            thing = importlib.import_module(f"{thing.__name__}.{part}")
        else:
            thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize(("old", "new"), kafkalog._RENAMED.items())
def test_an_old_name_ends_with_an_error_that_names_the_new_one(old, new):
    message = re.escape(f"kafkalog.{old} is {new} now")
    assert old not in dir(kafkalog)
    assert not hasattr(kafkalog, old)
    with pytest.raises(AttributeError, match=message):
        getattr(kafkalog, old)
    with pytest.raises(ImportError, match=message):
        exec(f"from kafkalog import {old}")
    assert callable(resolved(new))


RENAMED_ARGUMENTS = [
    (kafkalog.heal, {"dst": "c"}, "dst is destination"),
    (kafkalog.heal, {"sources": ["a"]}, "sources is source"),
    (kafkalog.salvage, {"src": "a"}, "src is source"),
    (
        kafkalog.salvage,
        {"topic": "a"},
        "topic is topics, which select, or output_topic",
    ),
    (kafkalog.compact, {"in_place": True}, "in_place is apply"),
    (kafkalog.compact, {"output": "a"}, "output is destination"),
    (kafkalog.compact, {"force": True}, "force is ignore_policy"),
    (kafkalog.restore, {"include": "a"}, "include is topics"),
    (kafkalog.restore, {"abort_open": True}, "abort_open is open_transactions"),
    (kafkalog.restore, {"groups": "a"}, "groups is groups_file"),
    (kafkalog.prove, {"exclude": "a"}, "exclude is exclude_topics"),
    (kafkalog.preflight, {"paths": "a"}, "paths is path"),
    (kafkalog.stats, {"most": 1}, "most is limit"),
    (import_logs, {"table": "a"}, "table is source"),
    (write_files, {"out": "a"}, "out is destination"),
    (append_new, {"out": "a"}, "out is destination"),
]


@pytest.mark.parametrize(("function", "arguments", "message"), RENAMED_ARGUMENTS)
def test_an_old_argument_ends_with_an_error_that_names_the_new_one(
    function, arguments, message
):
    with pytest.raises(TypeError, match=f"the argument {message} now"):
        function(**arguments)


@pytest.mark.parametrize("name", errors.__all__)
def test_an_error_that_was_public_before_still_resolves(name):
    assert getattr(kafkalog, name) is getattr(errors, name)


@pytest.mark.parametrize(
    "error",
    [
        errors.RecordValidationError(errors.InvalidRecordError("1"), ((0, "x"),)),
        errors.UnexpectedAppendOffsetError("offset 1, expected 2", 1, 1),
        errors.CorruptMessageError("size 1", position=7).located("a.log", 10),
        errors.MissingDependencyError("polars", "polars"),
        errors.DiskSpaceError(Path("backup"), 4096, 512),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_of_another_process_is_the_same(error):
    error.add_note("advice")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert repr(again.__cause__) == repr(error.__cause__)


def test_there_is_no_other_kind_of_index():
    with pytest.raises(ValueError, match="kind 'size', expected offset, time or"):
        kafkalog.scan_indexes(ORDERS, kind="size")


def test_dir_lists_the_public_names_and_no_others():
    shown = {name for name in dir(kafkalog) if not name.startswith("__")}
    assert shown == set(kafkalog.__all__)
    assert {"__all__", "__doc__", "__file__", "__version__"} <= set(dir(kafkalog))


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'sacn'"):
        _ = kafkalog.sacn


def test_each_function_may_be_called_twice():
    counts = [kafkalog.scan(ORDERS).count() for _ in range(2)]
    assert counts[0] == counts[1] > 0
    ends = []
    for _ in range(2):
        with kafkalog.open(ORDERS) as log:
            ends.append(log.log_end_offset)
    assert ends[0] == ends[1] > 0


def test_importing_every_module_replaces_no_public_name():
    count, end = run(IMPORT_EVERYTHING.replace("PATH", repr(str(ORDERS))))
    assert int(count) > 0
    assert int(end) > 0


def test_importing_the_package_imports_nothing_heavy():
    loaded = run("import sys, kafkalog; print(*sys.modules)")
    assert not set(HEAVY) & set(loaded)


def public_callables():
    """Yield each public callable of the package, with its name."""
    for name in kafkalog.__all__:
        found = getattr(kafkalog, name)
        if inspect.isfunction(found):
            yield name, found
        elif inspect.isclass(found) and not issubclass(found, Exception):
            for member, value in vars(found).items():
                function = getattr(value, "__func__", value)
                if inspect.isfunction(function) and not member.startswith("_"):
                    yield f"{name}.{member}", function


CALLABLES = dict(public_callables())


def expected_names(function, documented):
    """Return the parameters to document: those of ``**options``, or their name."""
    names = set()
    for name, parameter in inspect.signature(function).parameters.items():
        options = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if options is not None and name not in documented:
            names |= inspect.unwrap(function).__globals__[options[1]].__optional_keys__
        elif name not in ("self", "cls"):
            names.add(name)
    return names


@pytest.mark.parametrize("name", CALLABLES)
def test_a_public_callable_documents_its_parameters_and_its_result(name):
    function = CALLABLES[name]
    document = inspect.getdoc(function) or ""
    assert document, "no docstring"
    signature = inspect.signature(function)
    parameters = [name for name in signature.parameters if name not in ("self", "cls")]
    sections = re.split(r"^([A-Z][a-z]+)\n-+$", document, flags=re.MULTILINE)
    found = dict(zip(sections[1::2], sections[2::2], strict=True))
    if parameters:
        listed = re.findall(r"^(\S.*?) :", found["Parameters"], re.MULTILINE)
        names = {name.strip("* ") for line in listed for name in line.split(",")}
        assert expected_names(function, names) == names
    if signature.return_annotation not in (None, "None"):
        assert "Returns" in found or "Yields" in found
    assert "Examples" in found


def test_scans_logs_and_reports_have_html_for_notebooks(tmp_path):
    scan = kafkalog.scan(ORDERS, start_offset=7)
    assert "<td>7 \u2013 </td><td>all</td>" in scan._repr_html_()
    assert "Columns: topic, partition" in scan._repr_html_()
    assert ".log</td>" in kafkalog.open(ORDERS)._repr_html_()
    with kafkalog.open(tmp_path / "t-0", "a", kafkalog.LogConfig()) as log:
        assert "WritableLog" in log._repr_html_()
    html = kafkalog.verify(ORDERS)._repr_html_()
    assert html.startswith("<p>Report: ")
    assert "0 errors, 0 warnings" in html
