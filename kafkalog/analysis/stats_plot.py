"""Pictures of `stats`: bars of the bytes and records of groups; needs matplotlib."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalog.optional_packages import require
from kafkalog.storage.durable_file import DISK

if TYPE_CHECKING:
    from kafkalog.analysis.stats_report import StatsReport

MOST_BARS: Final = 40
"""Number of groups that are drawn; the others are one bar."""

MOST_LETTERS: Final = 40
"""Length of a label."""

PERIODS: Final = {"hour": np.timedelta64(1, "h"), "day": np.timedelta64(1, "D")}
MIN_MS, MAX_MS = (
    int(np.datetime64(year, "ms").astype(np.int64)) for year in ("0001", "9999")
)
"""The years that matplotlib draws, in ms since 1970."""

PANELS: Final = (("bytes", "bytes in .log files"), ("records", "records"))
COLOUR: Final = "#2f6f9f"
OTHER: Final = "#b0b0b0"


def check_format(path: str | os.PathLike[str]) -> None:
    """Raise `ValueError` if the ending of a file is not that of a picture."""
    canvas = require("matplotlib.figure", "plot").Figure().canvas
    formats = canvas.get_supported_filetypes()
    if Path(path).suffix[1:].lower() not in formats:
        raise ValueError(f"{path}, expected one of .{', .'.join(sorted(formats))}")


def write_plot(report: StatsReport, path: str | os.PathLike[str]) -> None:
    """Write a picture of a report to a file, whose ending states the format."""
    check_format(path)
    figure_of = require("matplotlib.figure", "plot").Figure
    if report.by in (("hour",), ("day",)):
        figure = figure_of(figsize=(10, 6), layout="constrained")
        _draw_times(figure, report)
    else:
        bars = min(report.to_arrow().num_rows, MOST_BARS) + 1
        figure = figure_of(figsize=(10, 1.5 + 0.25 * bars), layout="constrained")
        _draw_bars(figure, report)
    figure.suptitle(f"{report.total['bytes']:,} bytes by {', '.join(report.by)}")
    content = io.BytesIO()
    figure.savefig(content, format=Path(path).suffix[1:].lower())
    DISK.replace(path, content.getvalue())


def _draw_times(figure: Any, report: StatsReport) -> None:
    """Draw a bar for each hour or day, one panel above the other."""
    [name] = report.by
    rows = [row for row in report.rows() if _has_place(row[name])]
    times = np.array([row[name] for row in rows], "datetime64[ms]")
    for axes, (measure, label) in zip(
        figure.subplots(2, sharex=True), PANELS, strict=True
    ):
        values = [row[measure] for row in rows]
        # The edge keeps an hour visible among years.
        axes.bar(
            times, values, PERIODS[name], align="edge", color=COLOUR, edgecolor=COLOUR
        )
        _format_counts(axes.yaxis)
        axes.set_ylabel(label)
    axes.set_xlabel(f"{name} of the timestamp, UTC")


def _has_place(time: int | None) -> bool:
    """Return whether a time is in a year that matplotlib can draw."""
    return time is not None and MIN_MS <= time < MAX_MS


def _draw_bars(figure: Any, report: StatsReport) -> None:
    """Draw a bar for each group, one panel beside the other."""
    rows = list(islice(report.rows(), MOST_BARS))
    labels = [
        _drawable(_label([(name, row[name]) for name in report.by])) for row in rows
    ]
    has_others = report.other is not None or report.to_arrow().num_rows > len(rows)
    places = np.arange(len(labels) + has_others)
    colours = [COLOUR] * len(labels) + [OTHER] * has_others
    for axes, (measure, label) in zip(
        figure.subplots(1, 2, sharey=True), PANELS, strict=True
    ):
        values = [row[measure] for row in rows]
        if has_others:
            values.append(report.total[measure] - sum(values))
        axes.barh(places, values, color=colours)
        _format_counts(axes.xaxis)
        axes.set_xlabel(label)
    figure.axes[0].set_yticks(places, labels + ["all others"] * has_others)
    figure.axes[0].invert_yaxis()  # the first group on top


def _format_counts(axis: Any) -> None:
    ticker = require("matplotlib.ticker", "plot")
    axis.set_major_formatter(ticker.EngFormatter(sep=""))


def _label(groups: Sequence[tuple[str, Any]]) -> str:
    """Return the name of a group.

    >>> _label([("topic", "orders"), ("hour", 1699999200000), ("key", None)])
    'orders / 2023-11-14T22:00 / null'
    """
    texts = list[str]()
    for name, value in groups:
        if value is None:
            texts.append("null")
        elif name in PERIODS:
            texts.append(str(np.datetime64(value, "ms").astype("datetime64[m]")))
        elif isinstance(value, dict):
            texts.append(value["base64"])
        else:
            texts.append(str(value))
    return " / ".join(texts)


def _drawable(text: str) -> str:
    """Return the first letters of a label, with ? for those the font does not have."""
    fonts = require("matplotlib.font_manager", "plot")
    font = fonts.get_font(fonts.findfont(fonts.FontProperties()))
    letters = (
        letter if letter.isprintable() and font.get_char_index(ord(letter)) else "?"
        for letter in text[:MOST_LETTERS]
    )
    more = "..." if len(text) > MOST_LETTERS else ""
    return "".join(letters).replace("$", r"\$") + more  # a formula would begin with $
