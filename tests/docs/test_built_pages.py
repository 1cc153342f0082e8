"""The built documentation can be read on a screen and on a phone.

`make test-docs` builds the pages, and measures them in Chromium as wide as both.
"""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.docs

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BUILT = ROOT / "docs" / "_build"
PAGES = sorted(
    page for page in (BUILT / "html").rglob("*.html") if "_static" not in page.parts
)
PHONE, SCREEN = 400, 1280
TOP = 60
"""What ends above this is at the top of a page, in pixels."""

OPTIONS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",  # a phone draws them over the page
    "--allow-file-access-from-files",
    f"--window-size={SCREEN},900",
    "--virtual-time-budget=100000000",
    "--dump-dom",
)
GROUPS = [
    "Data engineers and scientists",
    "On-call engineers",
    "Authors of pandas and Spark functions",
    "Users of the embedded engine",
    "Reference",
]
FONT = re.compile(r"font(?:-size)?: (?:normal )?([\d.]+)px")


@pytest.fixture(scope="module")
def measured():
    """Return what Chromium measured, a dict for each page and width."""
    browser = subprocess.run(
        [HERE / "chromium.sh"], check=True, capture_output=True, text=True
    ).stdout.strip()
    work = [[page.as_uri(), width] for page in PAGES for width in (PHONE, SCREEN)]
    url = f"{(HERE / 'measure_pages.html').as_uri()}#{quote(json.dumps(work))}"
    command = [browser, *OPTIONS, url]
    ran = subprocess.run(command, check=True, capture_output=True, text=True)
    [found] = re.findall(r"<pre>(.+?)</pre>", ran.stdout, re.DOTALL)
    results = json.loads(html.unescape(found))
    assert [[result["url"], result["width"]] for result in results] == work
    assert len(PAGES) > 30
    return results


def test_nothing_is_wider_than_the_screen(measured):
    wide = {
        (result["url"], result["width"]): result["wide_elements"]
        for result in measured
        if result["wide_elements"] or result["content_width"] > result["width"]
    }
    assert not wide


def test_menu_and_search_are_at_the_top_of_a_phone(measured):
    for result in measured:
        of_search = result["url"].endswith("/search.html")  # it has a field of its own
        assert result["search_field"] or of_search, result["url"]
        if result["width"] == PHONE:
            assert 0 < result["menu_bottom"] < TOP, result["url"]
            assert 0 < result["search_bottom"] < TOP, result["url"]


def test_the_menu_has_the_groups_of_readers(measured):
    assert [result["url"] for result in measured if result["groups"] != GROUPS] == []


def test_the_labels_of_the_plot_have_eleven_pixels_or_more(measured):
    drawing = ROOT / "docs" / "performance.svg"
    fonts = [float(size) for size in FONT.findall(drawing.read_text("utf-8"))]
    _, _, width, _ = ElementTree.parse(drawing).getroot().attrib["viewBox"].split()
    [on_phone, on_screen] = [
        result["images"]["_images/performance.svg"]
        for result in measured
        if result["url"].endswith("/performance.html")
    ]
    assert min(fonts) * on_phone / float(width) >= 11
    assert min(fonts) * on_screen / float(width) >= 11


def test_the_manual_page_has_the_usual_sections():
    manual = (BUILT / "man" / "kafkalog.1").read_text("utf-8")
    sections = re.findall(r"^\.SH (.*)$", manual, re.MULTILINE)
    assert sections[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    assert "kafkalog COMMAND" in manual.partition("SYNOPSIS")[2][:80]
