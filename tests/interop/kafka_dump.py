"""Kafka's own kafka-dump-log, run many times in one process, and the errors it reports.

The tool exits with 0 whatever it finds, and prints most errors to standard error, so
each line of both streams is checked.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.interop.broker import JARS, java_command

PROGRAM = Path(__file__).with_name("DumpMany.java")
INDEXES = ("index", "timeindex")
RUNS = {
    ("--deep-iteration", "--print-data-log"): ("log", "txnindex", "snapshot"),
    ("--index-sanity-check",): INDEXES,
    ("--verify-index-only",): INDEXES,
}
"""Which files are dumped with which options."""
WRONG = re.compile(r"is[vV]alid: false|^Found \d+ invalid bytes at the end of ")
GAPS = "Non-consecutive offsets in "
GAP = re.compile(r"  (-?\d+) is followed by (-?\d+)")
BEFORE_ALL = -1


class DumpOutput(NamedTuple):
    """The output of one run of the tool, and its exit code."""

    out: bytes
    err: str
    exit_code: int


def kafka_dumps(folder, cases):
    """Run Kafka's tool with the arguments of each case, in one process, in `folder`."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    output = folder / "output"
    output.mkdir()
    listed = output / "cases"
    listed.write_text("".join("\t".join(case) + "\n" for case in cases))
    subprocess.run(java_command(PROGRAM, listed, heap="700m"), check=True, cwd=folder)
    return [
        DumpOutput(
            (output / f"{i}.out").read_bytes(),
            (output / f"{i}.err").read_text(),
            int((output / f"{i}.code").read_text()),
        )
        for i in range(len(cases))
    ]


def cases_of(directory, folder):
    """Yield cases that together check every file of a partition's directory."""
    for options, kinds in RUNS.items():
        files = [
            str(path.relative_to(folder))
            for kind in kinds
            for path in sorted(directory.glob(f"*.{kind}"))
        ]
        if files:
            yield [*options, "--files", ",".join(files)]


def files_of(case):
    """Return the files of a case."""
    return case[-1].split(",")


def complaints(case, printed, *, gaps=False):
    """Return the errors that the tool reports; `gaps` in offsets may be allowed.

    A segment may begin with another offset than 0.
    """
    out = printed.out.decode(errors="replace")
    errors = [line for line in out.splitlines() if WRONG.search(line)]
    if re.findall("^Dumping (.*)$", out, re.M) != files_of(case):
        errors.append("not all files were read")
    for line in printed.err.splitlines():
        if (gap := GAP.fullmatch(line)) is not None:
            before, after = map(int, gap.groups())
            if before == BEFORE_ALL <= after or (gaps and before < after):
                continue
        elif line.startswith(GAPS):
            continue
        errors.append(line)
    return errors


def faults(folder, cases, may_have_gaps=lambda case: False):
    """Dump all files; return the errors by file, and the outputs."""
    printed = kafka_dumps(folder, cases)
    found = {
        case[-1]: errors
        for case, one in zip(cases, printed, strict=True)
        if (errors := complaints(case, one, gaps=may_have_gaps(case)))
    }
    return found, printed
