"""Golden data: log directories that brokers wrote, and Kafka's own reading of them.

``tests/golden/README.md`` describes the sets and how they were made. Nothing here
writes to the repository: directories in an archive are unpacked into a temporary copy,
which is removed at the end of the process.
"""

from __future__ import annotations

import atexit
import gzip
import io
import json
import shutil
import tarfile
import tempfile
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

GOLDEN: Final = Path(__file__).parent / "golden"
SETS: Final = tuple(sorted(path.parent.name for path in GOLDEN.glob("*/logs")))
KINDS: Final = ("batches", "records", "indexes", "snapshots", "decoded", "aux")

Row = dict[str, Any]


class DumpRun(NamedTuple):
    """One run of Kafka's DumpLogSegments, in the directory that holds `logs`."""

    arguments: list[str]
    stdout: str
    stderr: str
    exception: str | None


def logs(set_name: str) -> Path:
    """Return the log directory of a set, which must not be changed."""
    here = GOLDEN / set_name
    archive = here / "sparse-logs.tar.gz"
    return _completed(here, archive) if archive.exists() else here / "logs"


def partitions(set_name: str) -> list[Path]:
    """Return the partition directories of a set, by name; there is at least one."""
    found = sorted(path for path in logs(set_name).iterdir() if path.is_dir())
    assert found, set_name
    return found


def directories(set_name: str) -> list[str]:
    """Return the names of directories (and of one lone file) that have a truth."""
    return sorted({name.split("/")[0] for name in _truths(set_name) if "/" in name})


def truth(set_name: str, directory: str, kind: str) -> list[Row]:
    """Return the rows that Kafka read there; empty if there are none."""
    if kind not in KINDS:
        raise ValueError(f"{kind!r}, expected one of {', '.join(KINDS)}")
    return _rows(set_name, f"{directory}/{kind}.jsonl")


def root(set_name: str) -> list[Row]:
    """Return the rows that Kafka read in the root of the log directory, one a file."""
    return _rows(set_name, "root.jsonl")


def dump_runs(set_name: str) -> list[DumpRun]:
    """Return the recorded runs of DumpLogSegments over a set."""
    members = _archive(GOLDEN / set_name / "dumplog.tar.gz")
    if "commands.tsv" not in members:
        return []
    runs = []
    for line in members["commands.tsv"].decode().splitlines():
        name, arguments, *exception = line.split("\t")
        stderr = members.get(f"{name.removesuffix('.txt')}.stderr.txt", b"")
        runs.append(
            DumpRun(
                arguments.split(" "),
                members[name].decode(),
                stderr.decode(),
                exception[0] if exception else None,
            )
        )
    return runs


@cache
def _completed(here: Path, archive: Path) -> Path:
    """Copy the logs of a set once a process, with those in an archive."""
    parent = Path(tempfile.mkdtemp(prefix="kafkalog-golden-"))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    copy = parent / here.name  # so that the last names of a path are always the same
    shutil.copytree(here / "logs", copy / "logs")
    with tarfile.open(archive) as members:
        members.extractall(copy, filter="data")
    return copy / "logs"


@cache
def _archive(path: Path) -> dict[str, bytes]:
    """Return the files of an archive by their names below its one top directory."""
    if not path.exists():
        return {}
    whole = io.BytesIO(gzip.decompress(path.read_bytes()))
    with tarfile.open(fileobj=whole) as members:
        return {
            member.name.split("/", 1)[1]: file.read()
            for member in members
            if (file := members.extractfile(member)) is not None
        }


def _truths(set_name: str) -> dict[str, bytes]:
    members = _archive(GOLDEN / set_name / "truth.tar.gz")
    if not members:
        raise ValueError(f"{set_name!r}, expected one of {', '.join(SETS)}")
    return members


@cache
def _parsed(set_name: str, name: str) -> tuple[Row, ...]:
    lines = _truths(set_name).get(name, b"").splitlines()
    return tuple(json.loads(line) for line in lines)


def _rows(set_name: str, name: str) -> list[Row]:
    return list(_parsed(set_name, name))
