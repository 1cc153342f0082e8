"""Kafka's own kafka-dump-log, run many times in one process, and what it finds wrong.

The tool ends well whatever it finds, and tells most of it beside its output: so each
line of both streams is judged.
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
"""Which files are judged with which options."""
WRONG = re.compile(r"is[vV]alid: false|^Found \d+ invalid bytes at the end of ")
GAPS = "Non-consecutive offsets in "
GAP = re.compile(r"  (-?\d+) is followed by (-?\d+)")
BEFORE_ALL = -1


class Told(NamedTuple):
    """What one run of the tool printed, and how it ended."""

    out: bytes
    err: str
    exit_code: int


def kafka_dumps(folder, cases):
    """Run Kafka's tool with each case's arguments, in one process, in `folder`."""
    if not (JARS / "broker" / "done").exists():
        pytest.fail("no jars in build/interop: make test-interop", pytrace=False)
    told = folder / "told"
    told.mkdir()
    listed = told / "cases"
    listed.write_text("".join("\t".join(case) + "\n" for case in cases))
    subprocess.run(java_command(PROGRAM, listed, heap="700m"), check=True, cwd=folder)
    return [
        Told(
            (told / f"{i}.out").read_bytes(),
            (told / f"{i}.err").read_text(),
            int((told / f"{i}.code").read_text()),
        )
        for i in range(len(cases))
    ]


def cases_of(directory, folder):
    """Give runs that together judge every file in a partition's directory."""
    for options, kinds in RUNS.items():
        files = [
            str(path.relative_to(folder))
            for kind in kinds
            for path in sorted(directory.glob(f"*.{kind}"))
        ]
        if files:
            yield [*options, "--files", ",".join(files)]


def files_of(case):
    """Name the files of a run."""
    return case[-1].split(",")


def complaints(case, told, *, gaps=False):
    """List what the tool finds wrong with a run's files; `gaps` in offsets may be.

    That a segment does not begin with offset 0 is no fault.
    """
    out = told.out.decode(errors="replace")
    wrong = [line for line in out.splitlines() if WRONG.search(line)]
    if re.findall("^Dumping (.*)$", out, re.M) != files_of(case):
        wrong.append("not all files were read")
    for line in told.err.splitlines():
        if (gap := GAP.fullmatch(line)) is not None:
            before, after = map(int, gap.groups())
            if before == BEFORE_ALL <= after or (gaps and before < after):
                continue
        elif line.startswith(GAPS):
            continue
        wrong.append(line)
    return wrong


def faults(folder, cases, may_have_gaps=lambda case: False):
    """Have all files judged; give what is wrong, by the files, and what was told."""
    told = kafka_dumps(folder, cases)
    found = {
        case[-1]: wrong
        for case, one in zip(cases, told, strict=True)
        if (wrong := complaints(case, one, gaps=may_have_gaps(case)))
    }
    return found, told
