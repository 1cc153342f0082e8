"""The writing part of the demo: a log whose writer is killed, then recovered.

``demo/run.py`` runs it in a process of its own: ``engine.py LOGS``, a directory for it.
It writes a compacted topic as well, into a directory next to that one. The exit code is
1 if a file is corrupt, or a record differs from what was written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import killed_writer

import kafkalog
from kafkalog.cleaner import LogCleaner

WRITES = 10_000
ACCOUNTS = 200
WRITER = str(Path(__file__).with_name("killed_writer.py"))


def print_line(line: str) -> None:
    """Print a line of the page."""
    print(f"  {line}")


def kill_writer(directory: Path) -> None:
    """Start a writer that is killed in the middle of an append."""
    command = [sys.executable, WRITER, str(directory)]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    flushed, end = child.stdout.split()
    print_line(
        f"appended  records 0 to {int(end) - 1}; flushed, checkpointed up to {flushed}"
    )
    print_line(
        f"killed    by signal {-child.returncode}, half of the next batch written"
    )


def recover(directory: Path) -> None:
    """Open the log, print what recovery did; append again, and retain 3 MiB."""
    with kafkalog.LogManager(directory, killed_writer.CONFIG) as logs:
        log = logs["orders", 0]
        for segment in log.report.recovered:
            reason = segment.damage or "the last batch was not complete"
            result = "valid"
            if segment.bytes_cut:
                result = f"{segment.bytes_cut} bytes truncated, as {reason}"
            name = f"segment {segment.base_offset:>5} {segment.why}"
            print_line(f"opened    {name}: read, {result}")
        print_line(
            f"          the log ends at {log.log_end_offset}, and is appended to again"
        )
        killed_writer.append(log)
        log.update_high_watermark(log.log_end_offset)
        keep = {"retention.bytes": 3 << 20}
        logs.update_config("orders", killed_writer.CONFIG.with_changes(keep))
        print_line(f"retained  3 MiB: {logs.retain()} segments deleted")


def verify_files(logs: Path) -> int:
    """Verify every file; return the number of problems."""
    command = [sys.executable, "-m", "kafkalog", "verify", str(logs)]
    ran = subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, check=False
    )
    found = json.loads(ran.stdout)
    print_line(
        f"verified  {found['files']} files, {found['batches']} batches,"
        f" {len(found['problems'])} problems"
    )
    return len(found["problems"])


def compare_records(logs: Path) -> int:
    """Compare each record with the one written; return how many differ."""
    table = kafkalog.scan(logs, columns=["offset", "value"]).to_arrow()
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    wrong = sum(value != killed_writer.value_of(offset) for offset, value in rows)
    first, last = table["offset"][0], table["offset"][-1]
    print_line(f"read      {table.num_rows} records, {first} to {last}; {wrong} differ")
    return wrong


def compact_topic(logs: Path) -> int:
    """Write a log with repeated keys, compact it; return how many keys are wrong."""
    compacted = kafkalog.LogConfig(cleanup_policy="compact")
    with kafkalog.open(logs / "balances-0", "a", compacted) as log:
        for first in range(0, WRITES, killed_writer.RECORDS):
            numbers = range(first, first + killed_writer.RECORDS)
            keys = [f"account {number % ACCOUNTS}" for number in numbers]
            log.append_records({"key": keys, "value": [str(one) for one in numbers]})
        log.roll()
        log.update_high_watermark(log.log_end_offset)
        result = LogCleaner({("balances", 0): log}).clean("balances", 0)
    assert result is not None
    print_line(
        f"compacted {result.messages_read} records of {ACCOUNTS} keys to"
        f" {result.messages_written}, {result.bytes_read} bytes to"
        f" {result.bytes_written}"
    )
    table = kafkalog.scan(logs, columns=["key", "value"]).to_arrow()
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    expected = {
        f"account {number % ACCOUNTS}".encode(): str(number).encode()
        for number in range(WRITES)
    }
    wrong = len(expected.items() ^ dict(rows).items())
    print_line(
        f"read      {table.num_rows} records, the last of each key; {wrong} differ"
    )
    return wrong


def main(directory: str) -> int:
    """Run all steps."""
    logs = Path(directory)
    kill_writer(logs)
    recover(logs)
    problems, wrong = verify_files(logs), compare_records(logs)
    wrong += compact_topic(logs.with_name(f"{logs.name}-compacted"))
    return int(problems > 0 or wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
