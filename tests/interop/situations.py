"""Situations in which a broker starts: what is changed in its log directory before.

A situation of a partition changes its directory alone, so that many are tried with one
start. One of the whole broker has a start of its own.

``python -m tests.interop.situations`` starts a broker in each situation, and writes
what it does to ``outcomes.json`` and to the table in ``docs/verify.md``. It needs what
``make test-interop`` fetches.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.startup import damages

UUID = 32 * "a"
OTHER_ID = "50zIfVQaSqGOTjgxcH_wcg"
METADATA = "__cluster_metadata-0"
TOPIC, OTHER = "served", "other"
Change = Callable[[Path], None]


@dataclass(frozen=True)
class Situation:
    """A change of a partition's directory, or of the log directory."""

    name: str
    change: Change
    partition: str = TOPIC
    """The topic of which partition 0 is observed, for a situation of the broker."""
    also: tuple[str, ...] = ()
    """Other outcomes: the controller may still have the broker as the leader."""


def first(kind: str, change: Callable[[bytes], bytes]) -> Change:
    """Change the file of a kind of the first segment."""

    def apply(directory: Path) -> None:
        path = damages.logs_of(directory)[0].with_suffix(kind)
        path.write_bytes(change(path.read_bytes()))

    return apply


def swap(change: Callable[[bytes], bytes], number: int = 0) -> Change:
    """Write a changed copy of a segment's ``.log`` as its ``.swap``."""

    def apply(directory: Path) -> None:
        path = damages.logs_of(directory)[number]
        path.with_name(path.name + ".swap").write_bytes(change(path.read_bytes()))

    return apply


def write(name: str, content: bytes) -> Change:
    """Write a file of a directory."""
    return lambda directory: (directory / name).write_bytes(content)


def zeros(data: bytes) -> bytes:
    return bytes(len(data))


def half(data: bytes) -> bytes:
    return data[: len(data) // 2]


def flipped(data: bytes) -> bytes:
    return data[:-5] + bytes([data[-5] ^ 1]) + data[-4:]


def to_future(directory: Path) -> None:
    directory.rename(directory.with_name(f"{directory.name}.{UUID}-future"))


def named_shortly(directory: Path) -> None:
    """Give the first ``.log`` a name without leading zeros."""
    path = damages.logs_of(directory)[0]
    path.rename(path.with_name("0.log"))


def linked_log(directory: Path) -> None:
    """Move the first ``.log`` away, and put a link in its place."""
    path = damages.logs_of(directory)[0]
    place = directory.parent.parent / "elsewhere" / directory.name
    place.mkdir(parents=True)
    path.rename(place / path.name)
    path.symlink_to(place / path.name)


def another_magic(directory: Path) -> None:
    """Write magic 1 into the last batch, which then looks like a wrapper message."""
    path = damages.logs_of(directory)[-1]
    data = bytearray(path.read_bytes())
    position = damages.batches_of(path)[-2]
    data[position + 16 : position + 18] = b"\x01\x01"  # magic, and gzip
    path.write_bytes(data)


PARTITIONS = [
    Situation("unchanged", lambda _: None),
    Situation("a time index of zeros", first(".timeindex", zeros)),
    Situation("a torn time index", first(".timeindex", lambda data: data[:17])),
    Situation("an empty time index", first(".timeindex", lambda _: b"")),
    Situation("an offset index of zeros", first(".index", zeros)),
    Situation("an empty .swap", swap(lambda _: b"")),
    Situation("a torn .swap", swap(half)),
    Situation("a torn .swap of the last segment", swap(half, -1)),
    Situation("a corrupt .swap", swap(flipped)),
    Situation("a -future directory alone", to_future),
    Situation("no partition.metadata", lambda d: (d / "partition.metadata").unlink()),
    Situation(
        "a topic id that the cluster does not have",
        write("partition.metadata", f"version: 0\ntopic_id: {OTHER_ID}".encode()),
    ),
    Situation("no directory", shutil.rmtree),
    Situation("a .log whose name has no leading zeros", named_shortly),
    Situation("a .log that is a link", linked_log),
]


def swapped_topics(logs: Path) -> None:
    """Swap the directories of two topics."""
    one, two, aside = logs / f"{TOPIC}-0", logs / f"{OTHER}-0", logs / "aside-0"
    one.rename(aside)
    two.rename(one)
    aside.rename(two)


def copied_topic(logs: Path) -> None:
    shutil.copytree(logs / f"{TOPIC}-0", logs / "copied-0")


def replace(name: str, pattern: str, text: str) -> Change:
    def apply(logs: Path) -> None:
        path = logs / name
        path.write_text(re.sub(pattern, text, path.read_text()))

    return apply


def large_log(logs: Path) -> None:
    with damages.logs_of(logs / f"{TOPIC}-0")[-1].open("r+b") as file:
        file.truncate(1 << 31)


def file_for_directory(logs: Path) -> None:
    shutil.rmtree(logs / f"{TOPIC}-0")
    (logs / f"{TOPIC}-0").write_bytes(b"")


def dangling_link(logs: Path) -> None:
    shutil.rmtree(logs / f"{TOPIC}-0")
    (logs / f"{TOPIC}-0").symlink_to(logs / "nowhere")


def far_offset(logs: Path) -> None:
    """Write an offset of 20 digits into a checkpoint."""
    text = f"0\n1\n{TOPIC} 0 99999999999999999999\n"
    (logs / "recovery-point-offset-checkpoint").write_text(text)


def no_term(logs: Path) -> None:
    """Remove a field of quorum-state."""
    path = logs / METADATA / "quorum-state"
    state = json.loads(path.read_text())
    del state["data_version"]
    path.write_text(json.dumps(state))


STATE = f"{METADATA}/quorum-state"
SNAPSHOT = f"{METADATA}/00000000000000000009-0000000001.checkpoint"
ID_FILE = f"{TOPIC}-0/partition.metadata"
BROKERS = [
    Situation(
        "magic 1 in the last batch", lambda logs: another_magic(logs / f"{TOPIC}-0")
    ),
    Situation("garbage in quorum-state", write(STATE, b"what\n")),
    Situation("an empty quorum-state", write(STATE, b"")),
    Situation("a quorum-state without its version", no_term),
    Situation(
        "garbage in bootstrap.checkpoint", write("bootstrap.checkpoint", b"\x07" * 99)
    ),
    Situation("a garbage metadata snapshot", write(SNAPSHOT, b"\x07" * 99)),
    Situation("an empty metadata snapshot", write(SNAPSHOT, b"")),
    Situation("a .log above 2 GiB", large_log),
    Situation("an empty partition.metadata", write(ID_FILE, b"")),
    Situation("a partition.metadata of one line", write(ID_FILE, b"version: 0\n")),
    Situation("garbage in partition.metadata", write(ID_FILE, b"what\n")),
    Situation("a file in place of a partition", file_for_directory),
    Situation("a dangling link in place of a partition", dangling_link),
    Situation(
        "a directory named lost+found", lambda logs: (logs / "lost+found").mkdir()
    ),
    Situation("a file named like no partition", write("spare-0", b"")),
    Situation("another node.id", replace("meta.properties", "node.id=.*", "node.id=7")),
    Situation(
        "another directory.id",
        replace("meta.properties", "directory.id=.*", f"directory.id={OTHER_ID}"),
        also=("serves all records",),
    ),
    Situation(
        "no directory.id",
        replace("meta.properties", "directory.id=.*\n", ""),
        also=("serves all records",),
    ),
    Situation("two topics' directories swapped", swapped_topics),
    Situation("a copy under another topic's name", copied_topic, "copied"),
    Situation("no metadata log", lambda logs: shutil.rmtree(logs / METADATA)),
    Situation("an offset of 20 digits in a checkpoint", far_offset),
]

OUTCOMES = Path(__file__).with_name("outcomes.json")
PAGE = Path(__file__).parents[2] / "docs" / "verify.md"
BEGIN = "<!-- situations: made by `python -m tests.interop.situations` -->"
END = "<!-- situations end -->"


def read_outcomes() -> dict[str, str]:
    outcomes: dict[str, str] = json.loads(OUTCOMES.read_text())
    return outcomes


def table(outcomes: dict[str, str]) -> str:
    """Return what a broker does in each situation as Markdown."""
    rows = [f"| {name} | {outcome} |" for name, outcome in outcomes.items()]
    return "\n".join(["| situation | a broker |", "|---|---|", *rows])


def with_table(page: str, outcomes: dict[str, str]) -> str:
    """Return a page's text with a table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(outcomes)}\n{END}{after}"


def main() -> None:
    from tests.interop.starts import observe_all

    with TemporaryDirectory() as folder:
        found = {name: outcome for name, _, outcome in observe_all(Path(folder))}
    OUTCOMES.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(with_table(PAGE.read_text(), found))
    sys.stdout.write(table(found) + "\n")


if __name__ == "__main__":
    main()
