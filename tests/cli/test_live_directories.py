"""Commands on a directory whose files a broker renames, removes or adds meanwhile.

The change is made right after one listing of the partition's directory: after the
first, in another run after the second, and so on to the last listing of the command.
"""

import os

import pytest

from kafkalog.storage.file_names import file_name
from tests.cli.shell import call
from tests.log.mixed_copies import full, write_segment
from tests.startup.prepared import write_ids

BASES = (0, 8, 16)
LISTINGS = 30
"""More listings of a directory than any of the commands makes."""


class Entries:
    """A finished listing with the methods of that of `os.scandir`."""

    def __init__(self, entries):
        self._entries = iter(entries)

    def __iter__(self):
        return self._entries

    def __next__(self):
        return next(self._entries)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Do nothing."""


def files_of(path, *bases):
    """Return the files of segments that are not marked."""
    starts = tuple(f"{base:020d}." for base in bases)
    return [
        file
        for file in path.iterdir()
        if file.name.startswith(starts) and file.suffix != ".deleted"
    ]


def mark(path):
    for file in files_of(path, 0):
        file.rename(file.with_name(f"{file.name}.deleted"))


def remove(path):
    for file in files_of(path, 0, 8):
        file.unlink()


def roll(path):
    write_segment(path, 24, full(24, 31), "text")


def merge(path):
    write_segment(path, 0, full(0, 15), "text")
    for file in files_of(path, 8):
        file.unlink()


@pytest.fixture
def after_listing(monkeypatch):
    """Return a function that arranges a change after a listing of a directory."""
    scandir, listdir = os.scandir, os.listdir

    def arrange(path, number, change):
        """Change after that many listings; return a list of those that were made."""
        listings = []

        def count(listed):
            if not isinstance(listed, int) and os.fspath(listed) == os.fspath(path):
                listings.append(listed)
                if len(listings) == number:
                    change(path)

        def scan(listed="."):
            with scandir(listed) as entries:
                found = list(entries)
            count(listed)
            return Entries(found)

        def list_names(listed="."):
            found = listdir(listed)
            count(listed)
            return found

        monkeypatch.setattr(os, "scandir", scan)
        monkeypatch.setattr(os, "listdir", list_names)
        return listings

    return arrange


COMMANDS = {
    "whatif": lambda logs, log, _: ("whatif", logs, "--set", "retention.ms=1"),
    "whatif, compact": lambda logs, log, _: (
        "whatif",
        log,
        "--set",
        "cleanup.policy=compact",
    ),
    "compact": lambda logs, log, _: ("compact", log),
    "why": lambda logs, log, _: (
        "why",
        log / file_name(16, "log"),
        "--set",
        "retention.ms=1",
    ),
    "preflight": lambda logs, log, _: ("preflight", logs),
    "stats": lambda logs, log, _: ("stats", logs, "--by", "key"),
    "info": lambda logs, log, _: ("info", logs),
    "info, partition": lambda logs, log, _: ("info", log),
    "ls": lambda logs, log, _: ("ls", logs),
    "ls, partition": lambda logs, log, _: ("ls", log),
    "groups": lambda logs, log, _: ("groups", logs),
    "diff": lambda logs, log, other: ("diff", log, other),
    "verify": lambda logs, log, _: ("verify", logs),
    "verify, partition": lambda logs, log, _: ("verify", log),
}


@pytest.mark.parametrize("change", [mark, remove, roll, merge])
@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_goes_on_when_files_change_after_any_listing(
    tmp_path, after_listing, monkeypatch, command, change
):
    topic = "__consumer_offsets-0" if command == "groups" else "t-0"
    for number in range(1, LISTINGS):
        logs, other = tmp_path / str(number) / "a", tmp_path / str(number) / "b"
        write_ids(logs)
        for base in BASES:
            write_segment(logs / topic, base, full(base, base + 7), "text")
            write_segment(other / topic, base, full(base, base + 7), "text")
        listings = after_listing(logs / topic, number, change)
        ran = call(*COMMANDS[command](logs, logs / topic, other / topic))
        monkeypatch.undo()
        if len(listings) < number:
            break
        # A segment that appears in one side alone is a difference.
        behind = command == "diff" and change is roll
        assert ran.exit_code == 0 or behind, ran.output
    assert 1 < number < LISTINGS - 1
