"""Without an optional package, the error has the pip command that installs it."""

import subprocess
import sys

import pytest

from tests import golden_data

ORDERS = golden_data.logs("k431-clean") / "orders.zstd-0"
SCAN = f"kafkalog.scan({str(ORDERS)!r})"
OPTIONAL = ("pyarrow", "pandas", "polars", "duckdb", "fsspec", "isal", "pyspark")
DECODE = "kafkalog.values.decode(__import__('pyarrow').table({'value': [b'x']}), "
AVRO = f"{DECODE}'avro', schema={{'type': 'long'}})"
PROTOBUF = f"{DECODE}'protobuf', schemas=b'')"
PROGRAM = """
import sys
class Missing:
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing)
import kafkalog
{use}
"""


def run(use, *missing):
    """Run a program in which some packages cannot be imported."""
    program = PROGRAM.format(use=use, missing=missing)
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=golden_data.GOLDEN.parents[1],
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("use", "package", "extra"),
    [
        (f"{SCAN}.to_arrow()", "pyarrow", "arrow"),
        (f"{SCAN}.schema", "pyarrow", "arrow"),
        (f"{SCAN}.__arrow_c_stream__()", "pyarrow", "arrow"),
        (f"{SCAN}.to_pandas()", "pandas", "pandas"),
        (f"{SCAN}.to_polars()", "polars", "polars"),
        ("kafkalog.scan('memory://logs/orders-0')", "fsspec", "remote"),
        ("kafkalog.scan('s3://logs/orders-0')", "pyarrow", "remote"),
        ("import kafkalog.spark.source", "pyspark", "spark"),
        ("from kafkalog.spark import read", "pyarrow", "spark"),
        ("from kafkalog.spark import decode_batches", "pyarrow", "spark"),
    ],
)
def test_the_error_names_the_package_and_the_extra_that_is_enough(use, package, extra):
    *_, message = run(use, *OPTIONAL).stderr.splitlines()
    line = f"pip install 'kafkalog[{extra}]'"
    assert message == (
        f"kafkalog.errors.MissingDependencyError: {package} is missing: {line}"
    )


@pytest.mark.parametrize(
    ("use", "package", "extra"),
    [(AVRO, "fastavro", "avro"), (PROTOBUF, "google", "protobuf")],
)
def test_a_format_of_values_names_its_package(use, package, extra):
    *_, message = run(use, "fastavro", "google").stderr.splitlines()
    assert message.endswith(f"{package} is missing: pip install 'kafkalog[{extra}]'")


STAR = """
from kafkalog import *
import kafkalog
missing = set(kafkalog.__all__) - set(globals())
print(len(missing), repr(scan(PATH)).startswith("<Scan"), groups.__name__)
"""


def test_all_names_can_be_imported_without_optional_packages():
    ran = run(STAR.replace("PATH", repr(str(ORDERS))), *OPTIONAL, "ray")
    assert (ran.stdout, ran.stderr) == ("0 True groups\n", "")


@pytest.mark.parametrize(
    "name",
    [
        *("batches", "dataset", "groups", "internal", "lag"),
        *("stats", "topics", "txns"),
    ],
)
def test_a_function_without_its_package_raises_when_it_is_called(name):
    ran = run(f"from kafkalog import {name}; print(1); {name}('logs')", *OPTIONAL)
    *_, message = ran.stderr.splitlines()
    assert ran.stdout == "1\n"
    assert message.endswith("pyarrow is missing: pip install 'kafkalog[arrow]'")


def test_a_source_for_duckdb_asks_for_a_version_that_reads_estimates():
    use = "kafkalog.duckdb_source('logs')"
    *_, message = run(use, "duckdb").stderr.splitlines()
    assert message.endswith("duckdb is missing: pip install 'kafkalog[duckdb]'")
    older = "import duckdb; sys.modules['duckdb._sources.pyarrow'] = None; "
    *_, message = run(older + use).stderr.splitlines()
    assert message.endswith("duckdb>=2.0.1 is missing: pip install 'kafkalog[duckdb]'")


def test_a_picture_without_matplotlib_asks_for_the_extra_plot():
    use = f"kafkalog.stats({str(ORDERS)!r}).plot('topics.svg')"
    *_, message = run(use, "matplotlib").stderr.splitlines()
    assert message.endswith("matplotlib is missing: pip install 'kafkalog[plot]'")


def test_a_delta_table_without_deltalake_asks_for_the_extra_delta():
    use = "from pathlib import Path; import kafkalog.export.delta_table as d; "
    use += f"d.append_new({SCAN}, Path('nowhere'))"
    *_, message = run(use, "deltalake").stderr.splitlines()
    assert message.endswith("deltalake is missing: pip install 'kafkalog[delta]'")


@pytest.mark.parametrize("extra", ["pandas", "polars"])
def test_a_data_frame_without_pyarrow_asks_for_its_own_extra(extra):
    *_, message = run(f"{SCAN}.to_{extra}()", "pyarrow").stderr.splitlines()
    assert message.endswith(f"pyarrow is missing: pip install 'kafkalog[{extra}]'")


def test_columns_in_numpy_need_no_optional_package():
    ran = run(f"print(sum(map(len, {SCAN}.chunks())))", *OPTIONAL)
    assert (ran.stdout, ran.stderr) == ("212\n", "")
