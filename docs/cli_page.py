"""Write docs/cli.md from the help texts of the commands (`make docs` runs it).

python docs/cli_page.py
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

import click

from kafkalog.cli.main import COMMANDS

WIDTH: Final = 80

PAGE: Final = Path(__file__).with_name("cli.md")
MARK: Final = "<!-- From here on made by docs/cli_page.py -->\n"


def page() -> str:
    """Return the whole page: what was written by hand, then a section a command."""
    by_hand, _, _ = PAGE.read_text(encoding="utf-8").partition(MARK)
    return by_hand + MARK + "".join(map(_section, COMMANDS))


def _section(name: str) -> str:
    command: click.Command = import_module(f"kafkalog.cli.{name}").command
    context = click.Context(
        command,
        info_name=f"kafkalog {name}",
        terminal_width=WIDTH,
        max_content_width=WIDTH,
        help_option_names=["-h", "--help"],
    )
    return f"\n## {name}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
