"""The demo: log directories of brokers, from listing to Spark, and one of its own.

``make demo`` runs this. It reads ``tests/golden`` and writes only into ``demo-out``.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.dataset as ds

import kafkalog

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "demo-out"
SETS = sorted((ROOT / "tests" / "golden").glob("*/logs"))
SHOWN = ROOT / "tests" / "golden" / "k431-clean" / "logs"
COMMAND = ("-m", "kafkalog")
JOB = ("-m", "kafkalog.spark.job")
ENGINE = str(ROOT / "demo" / "engine.py")
ON_SPARK = str(ROOT / "demo" / "on_spark.py")
FIND_JAVA = str(ROOT / "tests" / "spark" / "java.sh")
LINES = 6
WIDTH = 110
COLUMNS = "offset,timestamp,key,value,headers"
SUMMARY = re.compile("run |nothing new")
FOUND_DAMAGE = 1  # exit code of a command that found damage


def print_heading(step: str) -> None:
    """Print the heading of a step."""
    print(f"\n== {step}")


def run(*arguments: str | Path) -> str:
    """Run the command line, and return what it printed."""
    return python(*COMMAND, *arguments, accepted=(0, FOUND_DAMAGE)).stdout


def python(
    *arguments: str | Path, accepted: tuple[int, ...] = (0,)
) -> subprocess.CompletedProcess[str]:
    """Run Python; exit unless its exit code is one of `accepted`."""
    ran = subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    if ran.returncode not in accepted:
        print(ran.stdout, ran.stderr, sep="\n", file=sys.stderr)
        command = " ".join(map(str, arguments))
        raise SystemExit(f"python {command}: exit code {ran.returncode}")
    return ran


def show(text: str) -> None:
    """Print the first lines of `text`, each limited to the width of the page."""
    lines = text.splitlines()
    for line in lines[:LINES]:
        print("  " + line[:WIDTH])
    if len(lines) > LINES:
        print(f"  ... and {len(lines) - LINES} more")


def list_logs() -> None:
    """List one log directory and print its first records."""
    print_heading(f"kafkalog ls {SHOWN.relative_to(ROOT)}")
    show(run("ls", SHOWN, "--format", "table"))
    print_heading("kafkalog head -n 3 .../orders.zstd-0")
    orders = SHOWN / "orders.zstd-0"
    show(run("head", orders, "-n", "3", "--columns", COLUMNS, "--format", "jsonl"))


def verify_sets() -> None:
    """Verify every set, and print a line for each."""
    print_heading("kafkalog verify, each set")
    for logs in SETS:
        found = json.loads(run("verify", logs, "--format", "json"))
        errors = [p for p in found["problems"] if p["severity"] == "error"]
        print(
            f"  {logs.parent.name:<18} {found['files']:>5} files"
            f" {found['batches']:>6} batches {found['records']:>6} records"
            f" {len(errors)} errors, {len(found['problems']) - len(errors)} warnings"
        )


def read_sets() -> None:
    """Read every set into columns, and print a line for each."""
    print_heading("kafkalog.scan(...).to_arrow(), each set")
    for logs in SETS:
        started = time.perf_counter()
        table = kafkalog.scan(logs).to_arrow()
        elapsed_ms = (time.perf_counter() - started) * 1000
        print(
            f"  {logs.parent.name:<18} {table.num_rows:>6} rows"
            f" {table.nbytes / 1e6:>6.1f} MB in {elapsed_ms:>5.0f} ms"
        )


def export_sets() -> None:
    """Write every set as Parquet, and count its rows."""
    print_heading("kafkalog export --format parquet, each set")
    for logs in SETS:
        out = OUT / logs.parent.name
        run("export", logs, out, "--format", "parquet")
        rows = ds.dataset(out, format="parquet").count_rows()
        files = sum(1 for _ in out.rglob("*.parquet"))
        print(f"  {logs.parent.name:<18} {rows:>6} rows in {files} files")


def use_spark() -> None:
    """Write Parquet with the Spark job twice; count, query and compare it in Spark."""
    found = subprocess.run([FIND_JAVA], capture_output=True, text=True, check=False)
    if found.returncode:
        print_heading(f"skipped: Spark, as there is {found.stdout.strip()}")
        return
    lake = OUT / "lake"
    source = SHOWN.relative_to(ROOT)
    print_heading(
        f"python -m kafkalog.spark.job --source {source} --to parquet lake; twice"
    )
    options = ("--source", SHOWN, "--to", "parquet", lake, "--include-headers")
    for _ in range(2):
        lines = python(*JOB, *options).stderr.splitlines()
        print(f"  {next(line for line in lines if SUMMARY.match(line))}")
    print_heading('spark.read.format("kafkalog"), in SQL, compared with that Parquet')
    print(python(ON_SPARK, lake, SHOWN, *SETS).stdout, end="")


def write_log() -> None:
    """Write a log, kill its writer, recover, retain, verify, read; compact another."""
    print_heading(
        "kafkalog.LogManager: write a log, kill the writer, recover, append again"
    )
    print(python(ENGINE, OUT / "written").stdout, end="")


def main() -> None:
    """Run all steps."""
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    print(f"kafkalog {kafkalog.__version__} on logs of brokers")
    list_logs()
    verify_sets()
    read_sets()
    export_sets()
    use_spark()
    write_log()


if __name__ == "__main__":
    main()
