"""Pictures of `stats`: bars of the bytes and records of groups; needs matplotlib."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from kafkalog.codecs.bytes_text import repair_utf8
from kafkalog.export.optional_packages import require

if TYPE_CHECKING:
    from kafkalog.export.stats_report import StatsReport

MOST_BARS: Final = 40
"""Number of groups that are drawn; the others are one bar."""

MOST_LETTERS: Final = 40
"""Length of a label."""

PERIODS: Final = {"hour": np.timedelta64(1, "h"), "day": np.timedelta64(1, "D")}
PANELS: Final = (("bytes", "bytes in .log files"), ("records", "records"))
COLOUR: Final = "#2f6f9f"
OTHER: Final = "#b0b0b0"


def write_plot(report: StatsReport, path: str | os.PathLike[str]) -> None:
    """Write a picture of a report to a file, whose ending states the format."""
    figure_of = require("matplotlib.figure", "plot").Figure
    if report.by in (("hour",), ("day",)):
        figure = figure_of(figsize=(10, 6), layout="constrained")
        _draw_times(figure, report)
    else:
        bars = min(report.to_arrow().num_rows, MOST_BARS) + 1
        figure = figure_of(figsize=(10, 1.5 + 0.25 * bars), layout="constrained")
        _draw_bars(figure, report)
    figure.suptitle(f"{report.total['bytes']:,} bytes by {', '.join(report.by)}")
    figure.savefig(path)


def _draw_times(figure: Any, report: StatsReport) -> None:
    """Draw a bar for each hour or day, one panel above the other."""
    [name] = report.by
    table = report.to_arrow()
    table = table.filter(table[name].is_valid())  # without a timestamp: no place
    times, width = table[name].to_numpy().astype("datetime64[ms]"), PERIODS[name]
    for axes, (measure, label) in zip(
        figure.subplots(2, sharex=True), PANELS, strict=True
    ):
        axes.bar(times, table[measure].to_numpy(), width, align="edge", color=COLOUR)
        _format_counts(axes.yaxis)
        axes.set_ylabel(label)
    axes.set_xlabel(f"{name} of the timestamp, UTC")


def _draw_bars(figure: Any, report: StatsReport) -> None:
    """Draw a bar for each group, one panel beside the other."""
    table = report.to_arrow()
    shown = table.slice(0, MOST_BARS)
    columns = [shown[name].to_pylist() for name in report.by]
    labels = [_label(values) for values in zip(*columns, strict=True)]
    has_others = report.other is not None or len(table) > len(shown)
    places = np.arange(len(labels) + has_others)
    colours = [COLOUR] * len(labels) + [OTHER] * has_others
    for axes, (measure, label) in zip(
        figure.subplots(1, 2, sharey=True), PANELS, strict=True
    ):
        values = shown[measure].to_pylist()
        if has_others:
            values.append(report.total[measure] - sum(values))
        axes.barh(places, values, color=colours)
        _format_counts(axes.xaxis)
        axes.set_xlabel(label)
    axes.set_yticks(places, labels + ["all others"] * has_others)
    axes.invert_yaxis()  # the first group on top


def _format_counts(axis: Any) -> None:
    ticker = require("matplotlib.ticker", "plot")
    axis.set_major_formatter(ticker.EngFormatter(sep=""))


def _label(values: Sequence[Any]) -> str:
    """Return the name of a group. A dollar sign would begin a formula."""
    texts = (
        "null"
        if value is None
        else repair_utf8(value)
        if isinstance(value, bytes)
        else f"{value:%Y-%m-%d %H:%M}"
        if hasattr(value, "strftime")
        else str(value)
        for value in values
    )
    text = " / ".join(texts)
    printable = "".join(c if c.isprintable() else "?" for c in text[:MOST_LETTERS])
    more = "..." if len(text) > MOST_LETTERS else ""
    return f"{printable}{more}".replace("$", r"\$")
