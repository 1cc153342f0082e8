"""Log directories for tests of the job, and readers of its output."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from click.testing import CliRunner

from kafkalog import RecordBatchBuilder
from kafkalog.spark import job
from tests.query import kafka_rows

IN_THE_PATH = ds.partitioning(
    pa.schema([("topic", pa.string()), ("date", pa.string())]), flavor="hive"
)
START_MS = 1_700_000_000_000
DAY_MS = 86_400_000
FORM = ("--format", "json")


def call(logs, out, *arguments):
    """Call the job as from a shell, in this process and its session."""
    given = ["--source", str(logs), "--to", "parquet", str(out), *arguments]
    ran = CliRunner().invoke(job.command, given, prog_name="job")
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.output
    return ran


def ended(ran, code):
    """Check the exit code of a call; return its standard error."""
    assert ran.exit_code == code, ran.output
    return ran.stderr


def printed_by(ran):
    """Return what a call with ``--format json`` printed."""
    return json.loads(ran.stdout)


def spans(message):
    """Return what a run read: topic, partition, start, end, rows."""
    return [tuple(one.values())[:5] for one in message["partitions"]]


def files_of(out):
    """Return the files that readers list: none whose path begins with _ or ."""
    return sorted(
        path.relative_to(out).as_posix()
        for path in Path(out).rglob("*")
        if path.is_file()
        and not any(part[0] in "._" for part in path.relative_to(out).parts)
    )


def manifest(out, number):
    path = Path(out) / "_kafkalog" / f"manifest-{number:05d}.json"
    return json.loads(path.read_text(encoding="utf-8"))


def table(out):
    """Read all files, given only the directory."""
    return ds.dataset(out, format="parquet", partitioning=IN_THE_PATH).to_table()


def rows(out):
    """Return the rows of all files, sorted, in the form of `expected_rows`."""
    return sorted(_row(one) for one in _plain(table(out)).to_pylist())


def _plain(read):
    index = read.schema.get_field_index("timestamp")
    in_ms = read["timestamp"].cast(pa.int64())
    return read.set_column(index, "timestamp", in_ms)


def _row(one):
    headers = one.get("headers")
    if headers is not None:
        headers = tuple((h["key"], kafka_rows.shorten(h["value"])) for h in headers)
    cells = (repr(kafka_rows.shorten(one[name])) for name in ("key", "value"))
    fixed = (one["topic"], one["partition"], one["offset"], one["timestamp"] // 1000)
    return (*fixed, one["timestampType"], *cells, repr(headers))


def add_segment(logs, name, base_offset, count, *, step_ms=1, start_ms=START_MS):
    """Add a segment of `count` records, in batches of 100, to a partition."""
    folder = Path(logs) / name
    folder.mkdir(parents=True, exist_ok=True)
    batches = []
    for first in range(base_offset, base_offset + count, 100):
        builder = RecordBatchBuilder(base_offset=first)
        for offset in range(first, min(first + 100, base_offset + count)):
            time_ms = start_ms + (offset - base_offset) * step_ms
            builder.append(b"%d" % offset, b"value " * 10, timestamp=time_ms)
        batches.append(bytes(builder.build()))
    path = folder / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def orders_and_audit(logs):
    """Make a log directory of three partitions with 300, 100 and 50 records."""
    add_segment(logs, "orders-0", 0, 300)
    add_segment(logs, "orders-1", 0, 100)
    add_segment(logs, "audit-0", 0, 50)
    return logs
