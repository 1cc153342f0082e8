"""What campaigns have to tell: figures that the run prints at its end.

They travel with a test's report, and so from any process of the run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

MARK = "figure: "


class Tell(Protocol):
    """Tells a figure: how often something was tried, in which campaign, and how."""

    def __call__(self, campaign: str, part: str, count: int, text: str = "") -> None:
        """Tell it, to be printed when the run ends."""


def told(reports: Iterable[Any]) -> list[str]:
    """Return a line for each campaign, and one for each of its parts.

    Figures are summed up but where each is of a limit of its own.
    """
    parts: dict[str, dict[str, tuple[int, str]]] = {}
    for report in reports:
        for name, figure in getattr(report, "user_properties", ()):
            if name.startswith(MARK):
                campaign, part, count, text = figure
                parts.setdefault(campaign, {})[part] = count, text
    lines = []
    for campaign, figures in sorted(parts.items()):
        limited = any(text.startswith("of ") for _, text in figures.values())
        total = sum(count for count, _ in figures.values())
        lines.append(campaign if limited else f"{campaign}: {total:,}")
        lines += [
            f"  {part}: {count:,}{text and f' ({text})'}"
            for part, (count, text) in sorted(figures.items())
        ]
    return lines
