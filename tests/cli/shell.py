"""Ways to run the command line: in this process, in another one, on a terminal."""

from __future__ import annotations

import base64
import io
import json
import os
import pty
import subprocess
import sys
import termios
from contextlib import redirect_stderr, redirect_stdout, suppress
from threading import Thread
from unittest import mock

from click.testing import CliRunner

from kafkalog.cli.main import group, main
from kafkalog.query.scan_columns import COLUMNS
from tests.query import kafka_rows

COMMAND = [sys.executable, "-m", "kafkalog"]


def call(*arguments):
    """Run the command line in this process."""
    ran = CliRunner().invoke(group, [str(one) for one in arguments])
    assert ran.exception is None or isinstance(ran.exception, SystemExit), ran.output
    return ran


def run(*arguments, **settings):
    """Run the command line as a process of its own, with pipes."""
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, check=False, **settings
    )


def within_terminal(*arguments, width):
    """Run the command line in this process with a terminal as standard output.

    Return what the terminal received, and standard error.
    """
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    errors, received = io.StringIO(), []
    reader = Thread(target=lambda: received.append(everything(ours)))
    reader.start()
    with (
        os.fdopen(theirs, "w", encoding="utf-8") as terminal,
        mock.patch.dict(os.environ, {"TERM": "xterm"}),
        mock.patch.object(sys, "__stdout__", terminal),
        redirect_stdout(terminal),
        redirect_stderr(errors),
    ):
        for name in ("NO_COLOR", "COLUMNS"):
            os.environ.pop(name, None)
        code = main([str(one) for one in arguments])
    reader.join()
    assert code in (0, 1), errors.getvalue()
    return received[0].decode(), errors.getvalue()


def everything(terminal):
    """Return what a terminal receives until its other side is closed; close it."""
    sent = b""
    while True:
        chunk = b""
        with suppress(OSError):  # as Linux reports that the other side has closed
            chunk = os.read(terminal, 1 << 16)
        if not chunk:
            os.close(terminal)
            return sent
        sent += chunk


def on_terminal(*arguments, width=100, fails=False, **settings):
    """Run the command line on a terminal; return what the terminal received."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, width))
    variables = {"TERM": "xterm", **settings}
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in ("NO_COLOR", "COLUMNS", "TERM")
    }
    process = subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=inherited | variables,
    )
    os.close(theirs)
    sent = everything(ours)
    assert bool(process.wait()) == fails
    return sent.decode()


def objects(text):
    return [json.loads(line) for line in text.splitlines()]


def as_bytes(value):
    if isinstance(value, dict):
        assert list(value) == ["base64"]
        return base64.b64decode(value["base64"], validate=True)
    return None if value is None else value.encode()


def comparable(row):
    """Return a printed object with all columns in the form of the truth."""
    cells = dict(row)
    for name in ("key", "value"):
        cells[name] = kafka_rows.shorten(as_bytes(row[name]))
    cells["headers"] = tuple(
        (key, kafka_rows.shorten(as_bytes(value))) for key, value in row["headers"]
    )
    assert list(row) == list(COLUMNS)
    return tuple(cells.values())
