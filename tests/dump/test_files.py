"""The files that are dumped: those of a directory, those named, and other paths."""

import os
import subprocess
import sys

import pytest

from kafkalog import RecordBatchBuilder
from tests.dump.dump_command import dump

SUFFIXES = [".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".checkpoint"]


def test_only_regular_files_of_a_directory_are_dumped(tmp_path):
    name = 20 * "0"
    os.mkfifo(tmp_path / f"{name}.snapshot")
    (tmp_path / f"{name}.index").mkdir()
    (tmp_path / f"{name}.txnindex").symlink_to("/dev/zero")
    (tmp_path / f"{name}.timeindex").symlink_to(tmp_path / f"{name}.log")
    builder = RecordBatchBuilder()
    builder.append(None, b"value")
    (tmp_path / f"{name}.log").write_bytes(builder.build())
    ran = dump(tmp_path)
    assert ran == dump("--files", tmp_path / f"{name}.log")
    assert ran.exit_code == 0


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_named_pipe_is_not_waited_for(suffix, tmp_path):
    path = tmp_path / f"{20 * '0'}-{10 * '0'}{suffix}"
    if suffix != ".checkpoint":
        path = tmp_path / f"{20 * '0'}{suffix}"
    log = tmp_path / f"{20 * '0'}.log"
    log.touch()
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    ran = subprocess.run(
        [sys.executable, "-m", "kafkalog", "dump", "--files", path],
        capture_output=True,
        timeout=30,
        check=False,
    )
    missing_is_none = suffix == ".txnindex"
    assert ran.returncode == (0 if missing_is_none else 1)
    assert (b'Exception in thread "main" java.' in ran.stderr) != missing_is_none


@pytest.mark.parametrize("name", ["nowhere", "nowhere.log", f"no/{20 * '0'}.log"])
def test_a_missing_path_ends_with_3_before_anything_is_printed(
    name, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / f"{20 * '0'}.log").touch()
    there = f"{20 * '0'}.log"
    for arguments in (
        [name],
        [there, name],
        ["--files", there, name],
        ["--format", "jsonl", name],
        ["--format", "jsonl", "--files", f"{there},{name}"],
    ):
        ran = dump(*arguments)
        assert (ran.exit_code, ran.stdout) == (3, b"")
        assert ran.stderr == f"kafkalog: No such file or directory: {name}\n"


@pytest.mark.parametrize("flags", [[], ["--format", "jsonl"]])
def test_a_directory_with_nothing_to_dump_ends_with_3(flags, tmp_path):
    (tmp_path / "leader-epoch-checkpoint").touch()
    ran = dump(*flags, tmp_path)
    assert (ran.exit_code, ran.stdout) == (3, b"")
    assert ran.stderr == (
        "kafkalog: no file to dump, expected one of .checkpoint, .index, .log, "
        f".snapshot, .timeindex, .txnindex: {tmp_path}\n"
    )


def test_a_path_that_may_not_be_read_ends_with_3(tmp_path, monkeypatch):
    path = tmp_path / f"{20 * '0'}.log"
    path.touch()
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may read everything
    ran = dump(path)
    assert (ran.exit_code, ran.stdout) == (3, b"")
    assert ran.stderr == f"kafkalog: Permission denied: {path}\n"


def test_an_epoch_beyond_32_bits_ends_it_with_javas_message(tmp_path):
    ran = dump("--files", tmp_path / f"{20 * '0'}-2147483648.checkpoint")
    assert ran.exit_code == 1
    assert ran.stderr == (
        'Exception in thread "main" java.lang.NumberFormatException: '
        'For input string: "2147483648"\n'
    )


def test_help_of_dump_does_not_import_numpy():
    program = "import sys, kafkalog.cli.commands.dump; sys.exit('numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)
