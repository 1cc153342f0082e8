"""The page on troubleshooting has a broker's messages in its words, with advice."""

import re
import shlex
import shutil

import pytest

from tests import golden_data
from tests.broker_messages import MESSAGES
from tests.cli.shell import call
from tests.doc_pages import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
SECTION = PAGE.partition("## Messages of a broker\n")[2].partition("\n## ")[0]
HEADING = re.compile(r"^### `{1,2}(.+?)`{1,2}$", re.MULTILINE)
ENTRIES = dict(zip(HEADING.findall(SECTION), HEADING.split(SECTION)[2::2], strict=True))
COMMANDS = sorted(set(re.findall(r"`(kafkalog [a-z]+ disk[^`]*)`", SECTION)))


def test_every_message_has_an_entry_and_no_other_has():
    assert list(ENTRIES) == list(MESSAGES)
    assert all(len(advice.split()) > 8 for advice in ENTRIES.values())


@pytest.mark.parametrize("command", COMMANDS)
def test_the_commands_of_the_advice_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(golden_data.logs("k431-clean"), tmp_path / "disk")
    _, *words = shlex.split(command)
    if words[0] == "diff":
        shutil.copytree(tmp_path / "disk", tmp_path / "copy")
    ran = call(*words)
    assert ran.exit_code == 0, ran.output


def test_the_advice_has_commands():
    assert len(COMMANDS) > 7
