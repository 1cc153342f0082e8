"""The front door: what `import kafkalog` offers, and what it must not cost."""

import subprocess
import sys
import types

import pytest

import kafkalog
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
def test_what_is_offered_is_there_each_time(name):
    first, second = getattr(kafkalog, name), getattr(kafkalog, name)
    assert first is second
    assert not isinstance(first, types.ModuleType)
    assert name in dir(kafkalog)


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


def test_importing_every_room_takes_no_name_away():
    count, end = run(IMPORT_EVERYTHING.replace("PATH", repr(str(ORDERS))))
    assert int(count) > 0
    assert int(end) > 0


def test_the_front_door_imports_nothing_heavy():
    loaded = run("import sys, kafkalog; print(*sys.modules)")
    assert not set(HEAVY) & set(loaded)
