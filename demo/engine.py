"""The writing part of the demo: a log whose writer is killed, and what becomes of it.

``demo/run.py`` runs it in a process of its own: ``engine.py LOGS``, a directory for it.
It ends with 1 where a file is found damaged, or a record is not what was written.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import mortal

import kafkalog

MORTAL = str(Path(__file__).with_name("mortal.py"))


def say(line: str) -> None:
    """Print a line of the page."""
    print(f"  {line}")


def killed(directory: Path) -> None:
    """Have a writer append, and die in the middle of it."""
    command = [sys.executable, MORTAL, str(directory)]
    child = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    flushed, end = child.stdout.split()
    say(f"appended  records 0 to {int(end) - 1}; flushed, checkpointed up to {flushed}")
    say(f"killed    by signal {-child.returncode}, half of the next batch written")


def recovered(directory: Path) -> None:
    """Open what it left, and tell what that took; then go on, and keep 3 MiB."""
    with kafkalog.LogManager(directory, mortal.CONFIG) as logs:
        log = logs["orders", 0]
        for one in log.report.recovered:
            why = one.damage or "the last batch was not whole"
            cut = f"{one.bytes_cut} bytes cut, as {why}" if one.bytes_cut else "sound"
            say(f"opened    segment {one.base_offset:>5} {one.why}: read, {cut}")
        say(f"          the log ends at {log.log_end_offset}, and is appended to again")
        mortal.append(log)
        log.update_high_watermark(log.log_end_offset)
        keep = {"retention.bytes": 3 << 20}
        logs.update_config("orders", mortal.CONFIG.with_changes(keep))
        say(f"retained  3 MiB: {logs.retain()} segments deleted")


def verified(logs: Path) -> int:
    """Have every file looked at; answers how many problems there are."""
    command = [sys.executable, "-m", "kafkalog", "verify", str(logs)]
    ran = subprocess.run(
        [*command, "--format", "json"], capture_output=True, text=True, check=False
    )
    found = json.loads(ran.stdout)
    say(
        f"verified  {found['files']} files, {found['batches']} batches,"
        f" {len(found['problems'])} problems"
    )
    return len(found["problems"])


def read_back(logs: Path) -> int:
    """Compare each record with what was written; answers how many differ."""
    table = kafkalog.scan(logs, columns=["offset", "value"]).to_arrow()
    rows = zip(*(table[name].to_pylist() for name in table.column_names), strict=True)
    wrong = sum(value != mortal.value_of(offset) for offset, value in rows)
    first, last = table["offset"][0], table["offset"][-1]
    say(f"read      {table.num_rows} records, {first} to {last}; {wrong} differ")
    return wrong


def main(directory: str) -> int:
    """Run all steps."""
    logs = Path(directory)
    killed(logs)
    recovered(logs)
    problems, wrong = verified(logs), read_back(logs)
    return int(problems > 0 or wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
