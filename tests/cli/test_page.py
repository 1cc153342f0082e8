"""docs/cli.md is what the commands say of themselves today."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_is_in_step_with_help():
    made = runpy.run_path(str(DOCS / "cli_page.py"))["page"]()
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    assert made == page, "run docs/cli_page.py"
