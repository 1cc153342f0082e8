"""Links, sockets, pipes and devices in a log directory are ignored, and block nothing.

Each has the name of a file of Kafka's. Everything runs in another process, so that one
that hangs is detected.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.archives import NAMES, PARTITION, unpack
from tests.fuzz.seeds import directories

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
SECONDS = 60
CAP = """
from resource import RLIMIT_AS, setrlimit
setrlimit(RLIMIT_AS, (4 << 30, 4 << 30))
"""
FILES = [name for name in NAMES if "checkpoint" not in Path(name).suffix]
READ = """
import sys
from pathlib import Path
from tests.fuzz.directories import content, query_all
from tests.fuzz.rows import read

for root in map(Path, sys.argv[1:]):
    rows, error, _ = read(root)
    read(root, on_corruption="skip", isolation="read_committed", start_offset=3)
    query_all(root)
    print(len(rows), type(error).__name__)
"""
APPEND = """
import sys
from pathlib import Path
from tests.fuzz.directories import append_to
from tests.fuzz.rows import typed

for root in map(Path, sys.argv[1:]):
    try:
        print("offset", typed(append_to, root / "orders-0"))
    except OSError as error:
        print("refused", error.errno is not None)
"""
COMMAND = """
import sys
from pathlib import Path
from click.testing import CliRunner
from kafkalog.cli.main import group

for root in map(Path, sys.argv[2:]):
    for place in (root, root / "orders-0"):
        words = sys.argv[1].split()
        arguments = [str(place) if word == "." else word for word in words]
        ran = CliRunner().invoke(group, arguments, catch_exceptions=False)
        print(ran.exit_code)
"""
COMMANDS = {
    "info .": ({"0"}, {"0"}),
    "tail -n 2 .": ({"0"}, {"0"}),
    "find --offset 3 .": ({"0"}, {"0"}),
    "dump --print-data-log .": ({"3"}, {"0", "1"}),
}
"""The possible exit codes of each command, for a log directory and a partition.

A log directory has no file to `dump`; for a partition the command ends as Kafka's tool,
with 1 if a log or an index is missing.
"""


def pipe(path, secret):
    os.mkfifo(path)


def local_socket(path, secret):
    with socket.socket(socket.AF_UNIX) as bound:
        here = Path.cwd()
        os.chdir(path.parent)  # its path may be longer than a socket's can be
        try:
            bound.bind(path.name)
        finally:
            os.chdir(here)


def link(path, secret):
    path.symlink_to(secret)


def link_to_nothing(path, secret):
    path.symlink_to(path.parent / "nothing")


def link_to_itself(path, secret):
    path.symlink_to(path)


def link_to_device(path, secret):
    path.symlink_to("/dev/zero")


def directory(path, secret):
    path.mkdir()


SPECIAL_FILES = [
    pipe,
    local_socket,
    link,
    link_to_nothing,
    link_to_itself,
    link_to_device,
]


def process(script, roots):
    """Run a script over log directories in another process; return its lines.

    Its memory is limited, which an endless device would exceed.
    """
    done = subprocess.run(
        [sys.executable, "-c", CAP + script, *map(str, roots)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def places(tmp_path):
    """Return a function that makes log directories, each with one special file."""

    def make(make_file):
        secret = tmp_path / "secret"
        secret.write_bytes(b"\x00" * 7 + b"\x05" + b"secret" * 100)
        roots = []
        for number, name in enumerate(FILES):
            root = tmp_path / f"{make_file.__name__}-{number}"
            unpack(directories()[1], root)
            (root / name).unlink(missing_ok=True)
            make_file(root / name, secret)
            roots.append(root)
        return roots, secret

    return make


@pytest.mark.parametrize("make_file", [*SPECIAL_FILES, directory])
def test_special_files_are_ignored_by_reads(make_file, places, figure):
    roots, secret = places(make_file)
    before = secret.read_bytes()
    for name, line in zip(FILES, process(READ, roots), strict=True):
        rows, error = line.split()
        if name.endswith(f"{0:020d}.log"):
            assert (int(rows), error) == (6, "NoneType"), name
        elif name.endswith(f"{6:020d}.log"):
            assert (int(rows), error) in [(5, "NoneType"), (6, "NoneType")], name
        else:
            assert int(rows) in (11, 12), name
            assert error == "NoneType", name
    assert secret.read_bytes() == before
    figure("special files in a directory", f"read, {make_file.__name__}", len(FILES))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("make_file", [*SPECIAL_FILES, directory])
def test_special_files_are_ignored_by_commands(make_file, command, places):
    roots, secret = places(make_file)
    before = secret.read_bytes()
    codes = process(COMMAND, [command, *roots])
    assert len(codes) == 2 * len(FILES)
    for ends, may_end in zip((codes[::2], codes[1::2]), COMMANDS[command], strict=True):
        assert set(ends) <= may_end
    assert secret.read_bytes() == before


@pytest.mark.parametrize("make_file", SPECIAL_FILES)
def test_special_files_are_not_written_to(make_file, places, figure):
    roots, secret = places(make_file)
    before = secret.read_bytes()
    lines = process(APPEND, roots)
    assert len(lines) == len(FILES)
    assert secret.read_bytes() == before
    figure("special files in a directory", f"written, {make_file.__name__}", len(FILES))


def test_a_linked_partition_is_ignored(tmp_path):
    root, other = tmp_path / "logs", tmp_path / "other"
    unpack(directories()[1], root)
    unpack(directories()[0], other)
    shutil.rmtree(root / PARTITION)
    (root / PARTITION).symlink_to(other / PARTITION)
    (root / "meta.properties").write_bytes(b"version=0\n")
    [line] = process(READ, [root])
    assert line.split()[0] == "0"


def test_the_requested_path_may_be_a_link(tmp_path):
    unpack(directories()[1], tmp_path / "logs")
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    [line] = process(READ, [tmp_path / "link"])
    assert line.split()[0] in ("11", "12")
