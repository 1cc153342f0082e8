"""Figures of the campaigns, which are printed at the end of the test run.

They are part of a test's report, and so come from any process of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

MARK = "figure: "


class RecordFigure(Protocol):
    """Records how often something was tried in a part of a campaign."""

    def __call__(self, campaign: str, part: str, count: int, text: str = "") -> None:
        """Record a figure, to be printed at the end of the run."""


def summarize(reports: Iterable[Any]) -> list[str]:
    """Return a line for each campaign, and one for each of its parts.

    Figures are added up, unless each has a limit of its own. The lines include the time
    of a campaign's tests, and of all of them, as if they ran one after another.
    """
    parts: dict[str, dict[str, tuple[int, str]]] = {}
    seconds: dict[str, float] = {}
    tests: dict[str, set[str]] = {}
    for report in reports:
        if hasattr(report, "duration"):
            test = report.nodeid
            seconds[test] = seconds.get(test, 0) + report.duration
        for name, figure in getattr(report, "user_properties", ()):
            if name.startswith(MARK):
                campaign, part, count, text = figure
                parts.setdefault(campaign, {})[part] = count, text
                tests.setdefault(campaign, set()).add(report.nodeid)
    lines = []
    for campaign, figures in sorted(parts.items()):
        took = sum(seconds[test] for test in tests[campaign])
        limited = any(text.startswith("of ") for _, text in figures.values())
        total = sum(count for count, _ in figures.values())
        lines.append(f"{campaign}{'' if limited else f': {total:,}'} ({took:,.0f} s)")
        lines += [
            f"  {part}: {count:,}{text and f' ({text})'}"
            for part, (count, text) in sorted(figures.items())
        ]
    if tests:
        took = sum(seconds[test] for test in set[str]().union(*tests.values()))
        lines.append(f"all campaigns together: {took:,.0f} s")
    return lines
