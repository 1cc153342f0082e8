"""Links, sockets, pipes and devices in a log directory: not followed, not waited for.

Each is put where a file of Kafka's would be. Everything is done in another process, so
that one that hangs is found.
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

HOUSE = Path(__file__).parents[2]
SECONDS = 60
CAP = """
from resource import RLIMIT_AS, setrlimit
setrlimit(RLIMIT_AS, (4 << 30, 4 << 30))
"""
FILES = [name for name in NAMES if "checkpoint" not in Path(name).suffix]
LOOK = """
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
        asked = [str(place) if part == "." else part for part in sys.argv[1].split()]
        ran = CliRunner().invoke(group, asked, catch_exceptions=False)
        print(ran.exit_code)
"""
COMMANDS = {
    "info .": ({"0"}, {"0"}),
    "tail -n 2 .": ({"0"}, {"0"}),
    "find --offset 3 .": ({"0"}, {"0"}),
    "dump --print-data-log .": ({"3"}, {"0", "1"}),
}
"""Each with how it may end, for a log directory and for a partition's.

The former has no file to `dump`; in the latter it ends as Kafka's tool, by 1 where a
log or an index lacks.
"""


def pipe(path, secret):
    os.mkfifo(path)


def local_socket(path, secret):
    with socket.socket(socket.AF_UNIX) as one:
        here = Path.cwd()
        os.chdir(path.parent)  # its path may be longer than a socket's can be
        try:
            one.bind(path.name)
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


STRANGERS = [pipe, local_socket, link, link_to_nothing, link_to_itself, link_to_device]


def process(script, roots):
    """Run a script over log directories in another process; return its lines.

    It may take as much memory as an endless device would fill in no time.
    """
    done = subprocess.run(
        [sys.executable, "-c", CAP + script, *map(str, roots)],
        cwd=HOUSE,
        env={**os.environ, "PYTHONPATH": str(HOUSE)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture
def places(tmp_path):
    """Return a way to make log directories, each with a stranger in another place."""

    def make(stranger):
        secret = tmp_path / "secret"
        secret.write_bytes(b"\x00" * 7 + b"\x05" + b"secret" * 100)
        roots = []
        for number, name in enumerate(FILES):
            root = tmp_path / f"{stranger.__name__}-{number}"
            unpack(directories()[1], root)
            (root / name).unlink(missing_ok=True)
            stranger(root / name, secret)
            roots.append(root)
        return roots, secret

    return make


@pytest.mark.parametrize("stranger", [*STRANGERS, directory])
def test_what_is_no_file_is_passed_over_when_reading(stranger, places, figure):
    roots, secret = places(stranger)
    before = secret.read_bytes()
    for name, line in zip(FILES, process(LOOK, roots), strict=True):
        rows, error = line.split()
        if name.endswith(f"{0:020d}.log"):
            assert (int(rows), error) == (6, "NoneType"), name
        elif name.endswith(f"{6:020d}.log"):
            assert (int(rows), error) in [(5, "NoneType"), (6, "NoneType")], name
        else:
            assert int(rows) in (11, 12), name
            assert error == "NoneType", name
    assert secret.read_bytes() == before
    figure("strangers in a directory", f"read, {stranger.__name__}", len(FILES))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("stranger", [*STRANGERS, directory])
def test_commands_pass_over_what_is_no_file(stranger, command, places):
    roots, secret = places(stranger)
    before = secret.read_bytes()
    codes = process(COMMAND, [command, *roots])
    assert len(codes) == 2 * len(FILES)
    for ends, may_end in zip((codes[::2], codes[1::2]), COMMANDS[command], strict=True):
        assert set(ends) <= may_end
    assert secret.read_bytes() == before


@pytest.mark.parametrize("stranger", STRANGERS)
def test_what_is_no_file_is_not_written_through(stranger, places, figure):
    roots, secret = places(stranger)
    before = secret.read_bytes()
    lines = process(APPEND, roots)
    assert len(lines) == len(FILES)
    assert secret.read_bytes() == before
    figure("strangers in a directory", f"written, {stranger.__name__}", len(FILES))


def test_a_linked_partition_is_none_of_the_log_directory(tmp_path):
    root, other = tmp_path / "logs", tmp_path / "other"
    unpack(directories()[1], root)
    unpack(directories()[0], other)
    shutil.rmtree(root / PARTITION)
    (root / PARTITION).symlink_to(other / PARTITION)
    (root / "meta.properties").write_bytes(b"version=0\n")
    [line] = process(LOOK, [root])
    assert line.split()[0] == "0"


def test_a_path_that_is_asked_for_may_be_a_link(tmp_path):
    unpack(directories()[1], tmp_path / "logs")
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    [line] = process(LOOK, [tmp_path / "link"])
    assert line.split()[0] in ("11", "12")
