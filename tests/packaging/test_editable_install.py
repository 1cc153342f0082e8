"""An editable install, made as the README says, works from every directory.

The clone is named kafkalog, as `git clone` names it: in the directory above it, the
clone is what Python finds first for `import kafkalog`, and it is no package.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkalog
from tests import golden_data
from tests.spark import session

pytestmark = pytest.mark.packaging

ROOT = Path(__file__).parents[2]
CLONED = (
    "LICENSE",
    "MANIFEST.in",
    "README.md",
    "kafkalog",
    "pyproject.toml",
    "pyspark_kafkalog",
    "setup.py",
)
INSTALL = re.compile(r"pip install (?:--editable )?(?:'?\.\[[a-z,]+\]'?|\.)(?=[\s`])")
LOGS = golden_data.logs("k431-clean")
RECORDS = 3200
DIRECTORIES = ("above the clone", "in the clone", "elsewhere")

IMPORT = """
import kafkalog, pyspark_kafkalog
print(kafkalog.__file__)
print(pyspark_kafkalog.__file__)
print(kafkalog.scan({logs!r}, columns=["offset"]).count())
"""
TYPES = """
import kafkalog
import pyspark_kafkalog
count: str = kafkalog.scan("orders-0").count()
"""
SPARK = """
import sys, tempfile
from pathlib import Path
from pyspark.sql import SparkSession
builder = SparkSession.builder.config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1")
builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
if sys.argv[1] == "connect":
    spark = builder.remote("local[2]").getOrCreate()
else:
    spark = builder.master("local[2]").getOrCreate()
print("session:", type(spark).__module__)
frame = spark.read.format("kafkalog").load({logs!r})
print("read:", frame.count())
written = str(Path(tempfile.mkdtemp(dir={folder!r}), "logs"))
rows = spark.range(7).selectExpr("cast(id as string) value")
writer = rows.write.format("kafkalog").mode("append").option("topic", "numbers")
writer.option("partitions", 2).save(written)
print("written:", spark.read.format("kafkalog").load(written).count())
from kafkalog.spark import count_records
print("counted:", sum(count_records(spark, {logs!r}).values()))
spark.stop()
"""


def commands(page):
    """Return the commands on a page that install kafkalog from a clone."""
    return INSTALL.findall(page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Return a directory with an environment that has a clone installed.

    The packages of this environment, pip among them, follow on the path, so that none
    is installed. The clone has what this one compiled; `test_build` compiles all.
    """
    home = tmp_path_factory.mktemp("home")
    clone = home / "kafkalog"
    clone.mkdir()
    ignored = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    for name in CLONED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, clone / name, ignore=ignored)
        else:
            shutil.copy2(source, clone / name)
    for kernels in (ROOT / "build" / "release", *(ROOT / "build").glob("lib-*")):
        shutil.copytree(kernels, clone / "build" / kernels.name)
    venv = [sys.executable, "-m", "venv", "--without-pip", str(home / "venv")]
    subprocess.run(venv, check=True)
    (own,) = (home / "venv").glob("lib/*/site-packages")
    packages = [path for path in sys.path if Path(path).name == "site-packages"]
    own.joinpath("packages.pth").write_text("\n".join(packages), encoding="utf-8")
    first, *_ = commands(ROOT / "README.md")
    pip = [str(home / "venv" / "bin" / "python"), "-m", *shlex.split(first)]
    subprocess.run(pip, check=True, cwd=clone, env=environment(home))
    (home / "elsewhere").mkdir()
    return home


def environment(home):
    """Return variables as after the environment was activated.

    Without isolation (pip takes 0 for that) the compiler of this environment finds that
    nothing has changed.
    """
    variables = os.environ | {
        "PATH": os.pathsep.join([str(home / "venv" / "bin"), os.environ["PATH"]]),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_NO_BUILD_ISOLATION": "0",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_TESTING": "1",  # a server of Spark Connect takes any free port
    }
    for name in ("PYTHONPATH", "PYSPARK_PYTHON", "PYTHONWARNINGS"):
        variables.pop(name, None)
    return variables


def run(home, where, *arguments):
    """Run the installed Python in a directory, and return what it printed."""
    directory = {
        "above the clone": home,
        "in the clone": home / "kafkalog",
        "elsewhere": home / "elsewhere",
    }[where]
    ran = subprocess.run(
        [str(home / "venv" / "bin" / "python"), *arguments],
        check=False,
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment(home),
    )
    return ran.stdout if ran.returncode == 0 else ran.stdout + ran.stderr


@pytest.mark.parametrize("where", DIRECTORIES)
def test_the_package_is_imported_from_every_directory(where, home):
    printed = run(home, where, "-c", IMPORT.format(logs=str(LOGS)))
    clone = home / "kafkalog"
    assert printed.splitlines() == [
        str(clone / "kafkalog" / "__init__.py"),
        str(clone / "pyspark_kafkalog" / "__init__.py"),
        str(kafkalog.scan(LOGS, columns=["offset"]).count()),
    ]


@pytest.mark.parametrize("where", DIRECTORIES)
@pytest.mark.parametrize("checker", ["mypy", "pyright"])
def test_type_checkers_find_the_types_from_every_directory(
    checker, where, home, tmp_path
):
    if checker == "pyright":
        pytest.importorskip("pyright")
    program = tmp_path / "program.py"
    program.write_text(TYPES, encoding="utf-8")
    options = {
        "mypy": ["--strict", "--cache-dir", str(home / "mypy")],
        "pyright": ["--pythonpath", str(home / "venv" / "bin" / "python")],
    }
    found = run(home, where, "-m", checker, *options[checker], str(program))
    # The wrong type is found, and nothing else.
    (error,) = [line for line in found.splitlines() if "error:" in line]
    assert re.search(r"\bint\b", error)
    assert re.search(r"\bstr\b", error)
    assert "1 error" in found


@pytest.mark.parametrize("where", DIRECTORIES)
@pytest.mark.parametrize("kind", ["classic", "connect"])
def test_spark_finds_the_format_from_every_directory(kind, where, home, tmp_path):
    if lacks := session.missing():
        pytest.skip(f"Spark cannot run: {lacks}")
    program = tmp_path / "program.py"
    text = SPARK.format(logs=str(LOGS), folder=str(tmp_path))
    program.write_text(text, encoding="utf-8")
    printed = run(home, where, str(program), kind)
    lines = [line for line in printed.splitlines() if re.match(r"[a-z]+: ", line)]
    module = {
        "classic": "pyspark.sql.session",
        "connect": "pyspark.sql.connect.session",
    }
    assert lines == [
        f"session: {module[kind]}",
        f"read: {RECORDS}",
        "written: 7",
        f"counted: {RECORDS}",
    ], printed


def test_all_pages_install_a_clone_as_the_readme_does():
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {str(page.relative_to(ROOT)): commands(page) for page in pages}
    assert len(found["README.md"]) > 1
    assert found["docs/spark.md"]
    copies = [
        (page, command)
        for page, there in found.items()
        for command in there
        if "--editable" not in command
    ]
    assert copies == [("README.md", "pip install .")]
