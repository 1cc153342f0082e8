"""Run the examples of a page of the documentation, in the order of the page.

A page runs in a directory of its own with links to ``tests``, ``docs`` and
``README.md``, as from the top of the repository. Its blocks:

``pycon``
    A doctest. All blocks of a page share their variables.
``console``
    Shell commands after ``$``, continued after a backslash, with their output. Commands
    that install packages are not run.
``python``
    With Spark only: code, with its output in a ``text`` block that follows. Where the
    first line is a comment with a file name, the block is written to that file.

In every output ``...`` stands for any text.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("docs/howto/*.md")]
)
LINKED = ("README.md", "docs", "tests")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
BLOCK = re.compile(
    r"^```(?P<language>\w+)\n(?P<text>.*?)^```$"
    r"(?:\n\n^```text\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)
FILE_NAME = re.compile(r"# (\S+\.py)\n")
NOT_RUN = ("pip ", "python3 -m venv ")
SPARK = "python -m kafkalog.spark"
SHIM = f"""#!{sys.executable}
import sys
from kafkalog.cli.main import main
sys.argv[0] = "kafkalog"
sys.exit(main())
"""


def name_of(page):
    return str(page.relative_to(ROOT))


def begins_with_spark(page):
    """Return whether a page's commands follow code that runs on Spark."""
    text = page.read_text(encoding="utf-8")
    return "SPARK_MASTER" in text or page.name == "write-a-topic.md"


def commands(text):
    """Yield each command of a console block, and its output."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        command, output = re.fullmatch(
            r"((?:[^\n]*\\\n)*[^\n]*)\n(.*)", part, re.S
        ).groups()
        yield command, output


class PageRunner:
    """Runs one page in `directory`; `failures` has what did not print its output."""

    def __init__(self, page, directory, *, environment=()):
        self.page = page
        self.directory = directory
        self.failures = []
        self.variables = {}
        for name in LINKED:
            (directory / name).symlink_to(ROOT / name)
        programs = directory / "programs"
        programs.mkdir()
        shim = programs / "kafkalog"
        shim.write_text(SHIM, encoding="utf-8")
        shim.chmod(0o755)
        path = [str(programs), str(Path(sys.executable).parent), os.environ["PATH"]]
        self.environment = {
            **os.environ,
            "NO_COLOR": "1",
            "COLUMNS": "100",
            "PYTHONPATH": str(ROOT),
            "PATH": os.pathsep.join(path),
            **dict(environment),
        }

    def run(self, *, with_spark=False):
        """Run the blocks of the page; return a report of those that failed."""
        page = self.page.read_text(encoding="utf-8")
        for block in BLOCK.finditer(page):
            match block["language"]:
                case "pycon":
                    self._run_doctest(block["text"])
                case "console":
                    self._run_commands(block["text"], with_spark)
                case "python" if with_spark:
                    self._run_code(block["text"], block["output"] or "")
        return "\n".join(self.failures)

    def _check(self, source, expected, printed):
        if not doctest.OutputChecker().check_output(expected, printed, FLAGS):
            self.failures.append(f"{source}\nprinted\n{printed}")

    def _run_doctest(self, text):
        name = self.page.name
        test = doctest.DocTestParser().get_doctest(text, self.variables, name, name, 0)
        runner = doctest.DocTestRunner(optionflags=FLAGS)
        runner.run(test, out=self.failures.append, clear_globs=False)
        self.variables = test.globs

    def _run_commands(self, text, with_spark):
        for command, output in commands(text):
            if command.startswith(NOT_RUN):
                continue
            if command.startswith(SPARK) and not with_spark:
                continue
            ran = subprocess.run(
                ["bash", "-c", command],
                cwd=self.directory,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                check=False,
            )
            self._check(command, output, ran.stdout)

    def _run_code(self, code, output):
        if file_name := FILE_NAME.match(code):
            (self.directory / file_name[1]).write_text(code, encoding="utf-8")
            return
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(code, self.variables)
        self._check(code, output, printed.getvalue())
