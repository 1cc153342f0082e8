"""The documents tell the truth: their examples run, their links lead somewhere.

In ``pycon`` blocks every example is run, in ``console`` blocks every line that begins
with ``$ kafkalog``; both from the top of the repository. What follows is the output,
where ``...`` stands for anything.
"""

import doctest
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog import errors

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
COMMAND = "kafkalog "
PROGRAM = """
import sys
from kafkalog.cli.main import main
sys.argv[0] = "kafkalog"
sys.exit(main())
"""


def blocks(page, language):
    found = BLOCK.findall(page.read_text(encoding="utf-8"))
    return [text for name, text in found if name == language]


def commands(page):
    """Yield each command of a page's console blocks with the output it promises."""
    for text in blocks(page, "console"):
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if command.startswith(COMMAND):
                yield command.removeprefix(COMMAND), output


def name_of(page):
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_examples_of_a_page_run(page, monkeypatch):
    monkeypatch.chdir(ROOT)
    text = "\n".join(blocks(page, "pycon"))
    test = doctest.DocTestParser().get_doctest(text, {}, page.name, str(page), 0)
    report = []
    doctest.DocTestRunner(optionflags=FLAGS).run(test, out=report.append)
    assert not report, "".join(report)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_of_a_page_print_what_it_says(page):
    checker = doctest.OutputChecker()
    for command, promised in commands(page):
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, *shlex.split(command)],
            cwd=ROOT,
            env={**os.environ, "NO_COLOR": "1", "COLUMNS": "100"},
            capture_output=True,
            text=True,
            check=False,
        )
        said = ran.stdout + ran.stderr
        assert checker.check_output(promised, said, FLAGS), f"{command}\n{said}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_links_of_a_page_lead_somewhere(page):
    links = LINK.findall(page.read_text(encoding="utf-8"))
    lost = [
        link
        for link in links
        if "://" not in link and not (page.parent / link).exists()
    ]
    assert not lost


def test_the_page_of_errors_names_each_class_and_no_other():
    there = {
        name
        for name, found in vars(errors).items()
        if isinstance(found, type) and issubclass(found, errors.KafkaLogError)
    }
    page = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
    tree = page.partition("| class |")[0]
    explained = set(re.findall(r"^\| `(\w+Error)` \|", page, re.MULTILINE))
    bases = {"KafkaLogError", "LocatedError", "CorruptionError"}
    assert set(re.findall(r"^ [ |`-]*(\w+Error)\b", tree, re.MULTILINE)) == there
    assert explained == there - bases
