"""Settings of every test run, and a check that it uses the intended build."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import kafkalog
from tests.campaigns import figures

MEMORY = Path("/dev/shm")
ROOT = Path(__file__).resolve().parents[1]
DEBUG = os.environ.get("KAFKALOG_DEBUG") == "1"
SANITIZE = os.environ.get("KAFKALOG_SANITIZE") == "1"
TREE = "debug" if DEBUG else "sanitize" if SANITIZE else ""
BOUNDS_CHECK = b"Out of bounds on buffer access (axis %d)"  # only if compiled in
ADDRESS_CHECK = b"__asan_report_load"  # the same

# The same examples every time; `--hypothesis-profile=search` looks for new ones. A few
# suffice where the same tests run once more: on another Python, and in builds that
# check each access to memory.
settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("brief", settings.get_profile("ci"), max_examples=25)
settings.register_profile("search", deadline=None, max_examples=5_000)
settings.load_profile("ci")


def pytest_configure() -> None:
    """Raise an error if another kafkalog, or another build of it, is imported."""
    package = Path(kafkalog.__file__).resolve().parent
    tree = ROOT.name if ROOT.parts[-2:-1] == ("build",) else ""
    if package.parent != ROOT or tree != TREE:
        raise pytest.UsageError(f"the tests of {ROOT} found {package}")
    kernels = [path.read_bytes() for path in package.rglob("*.so")]
    for check, mark, expected in (
        ("bounds checks", BOUNDS_CHECK, DEBUG),
        ("sanitizers", ADDRESS_CHECK, SANITIZE),
    ):
        if any(mark in kernel for kernel in kernels) != expected:
            raise pytest.UsageError(f"{check} are {'not ' * expected}on in {package}")


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> figures.RecordFigure:
    """Return a function that records a figure, to be printed at the end."""

    def record(campaign: str, part: str, count: int, text: str = "") -> None:
        record_property(figures.MARK, (campaign, part, int(count), text))

    return record


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of campaigns, from any process of the run."""
    reports = chain.from_iterable(terminalreporter.stats.values())
    lines = figures.summarize(reports)
    if lines:
        terminalreporter.section("figures of campaigns")
    for line in lines:
        terminalreporter.line(line)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore the warnings about sockets that PySpark 4.0 does not close."""
    ignored = r"ignore:unclosed <socket.*raddr=\('127\.0\.0\.1':ResourceWarning"
    for item in items:
        if item.get_closest_marker("spark"):
            item.add_marker(pytest.mark.filterwarnings(ignored))


@pytest.fixture
def memory_path(tmp_path: Path) -> Iterator[Path]:
    """Return a directory in memory, if there is a file system in memory."""
    if not MEMORY.is_dir():
        yield tmp_path
        return
    path = Path(tempfile.mkdtemp(prefix="kafkalog-", dir=MEMORY))
    yield path
    shutil.rmtree(path)
