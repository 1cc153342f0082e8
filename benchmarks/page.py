"""Write the ratios of ``docs/performance.md`` and ``README.md`` from ``results.json``.

    python benchmarks/page.py RESULTS PAGE README

The text of the page before the mark is kept. After it come the plot and one table, with
a row for each measurement and peer, a column for each codec, and the range of the
ratios over all corpora. The README has the rows of `SUMMARY` between its two marks,
with a column for each corpus and codec; the plot has the same rows. `make bench` runs
this script.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

MARK: Final = "<!-- The rest of this page is made by benchmarks/page.py -->\n"
README_MARKS: Final = (
    "<!-- ratios: made by benchmarks/page.py -->\n",
    "<!-- ratios end -->\n",
)
PLOT: Final = "performance.svg"
CODECS: Final = ("none", "gzip", "snappy", "lz4", "zstd")
PEERS: Final = {
    "aiokafka": "aiokafka, record by record",
    "aiokafka-columns": "aiokafka, into columns",
    "kafka-python": "kafka-python",
    "java-columns": "Kafka's Java classes, into columns",
    "java-iterate": "Kafka's Java classes, record by record",
    "kafka-dump-log": "kafka-dump-log",
    "kafka-engine": "Kafka's storage engine",
    "spark-kafka": "Spark's Kafka source and sink",
    "spark-parquet": "Spark's Parquet source",
    "duckdb-parquet": "DuckDB's Parquet reader",
    "numpy": "NumPy",
    "limit": "lower bound",
}

MEASUREMENTS: Final = {
    "append_many": "append, batches per call",
    "append_as_follower": "append as follower, batches per call",
    "append_with_many_segments": "append with 1000 segments, against one",
    "avro": "Avro values into columns",
    "bytes": "ten times the bytes, against a tenth",
    "clean": "compact, percent of unique keys",
    "head": "kafkalog head",
    "headers": "batch headers",
    "help": "kafkalog --help",
    "import": "import kafkalog",
    "join": "join of 1 GB with 100 rows",
    "ls": "kafkalog ls",
    "lookup_over_all_segments": "lookup in all segments",
    "map_each_segment": "map the index of each segment",
    "partitions": "ten times the partitions, against a tenth",
    "one_lookup_in_the_big_endian_field": "one lookup, big-endian field",
    "read_against_java": "read",
    "read_against_python": "read",
    "scan": "read all offset indexes",
    "search_alone": "search only",
    "spark_catches_up_with_a_stream": "read on Spark, stream",
    "spark_counts_rows": "count on Spark",
    "spark_reads_all_columns": "read on Spark",
    "spark_reads_broker_data": "read on Spark, batch",
    "spark_writes": "write on Spark",
    "two_threads": "read with two threads",
}
"""Labels of benchmarks; others are labelled with their name."""

Result = dict[str, Any]
Row = tuple[str, str]

SUMMARY: Final[tuple[Row, ...]] = (
    ("aiokafka, record by record", "read, columns"),
    ("aiokafka, into columns", "read into columns"),
    ("aiokafka, record by record", "encode"),
    ("kafka-python", "read"),
    ("Kafka's Java classes, into columns", "read, columns"),
    ("kafka-dump-log", "dump, text"),
    ("Spark's Kafka source and sink", "read on Spark, batch, default"),
    ("Spark's Kafka source and sink", "write on Spark, default"),
    ("Spark's Parquet source", "read on Spark"),
    ("Kafka's storage engine", "append"),
    ("Kafka's storage engine", "append, batches per call, 64"),
    ("Kafka's storage engine", "recover"),
    ("Kafka's storage engine", "compact, percent of unique keys, 90"),
)
"""Rows of the table that the README and the plot have, too."""

LINES: Final = ("log100-16k", "words100-16k")
SUMMARY_COLUMNS: Final = {
    "lines of 100 bytes, none": (LINES, "none"),
    "lines, lz4": (LINES, "lz4"),
    "lines, zstd": (LINES, "zstd"),
    "documents of 1 KB, none": (("json1k-16k",), "none"),
    "values of 16 bytes, none": (("tiny16-16k",), "none"),
}
"""Of each column of the README's table, the corpora and the codec."""

PLOTTED: Final = ("lines of 100 bytes, none", "lines, zstd")
LEAST: Final = 0.3
"""Where the axis of the plot begins."""


def write_pages(results: list[Result], page: Path, readme: Path) -> None:
    """Write the generated parts of the page and of the README, and the plot."""
    page.write_text(with_ratios(results, page.read_text("utf-8")), "utf-8")
    readme.write_text(with_summary(results, readme.read_text("utf-8")), "utf-8")
    plot(summary(results), page.with_name(PLOT))


def with_ratios(results: list[Result], page: str) -> str:
    """Return the page with the table of all ratios after its mark."""
    handwritten, _, _ = page.partition(MARK)
    image = f"![Ratios of kafkalog to its peers]({PLOT})"
    return f"{handwritten}{MARK}\n{image}\n\n{table(by_row(results))}"


def with_summary(results: list[Result], readme: str) -> str:
    """Return the README with the summary between its marks."""
    begin, end = README_MARKS
    before, _, rest = readme.partition(begin)
    _, _, after = rest.partition(end)
    rows = summary(results)
    return f"{before}{begin}{table(rows, SUMMARY_COLUMNS)}{end}{after}"


def summary(results: list[Result]) -> dict[Row, dict[str, list[float]]]:
    """Return the ratios of the rows of `SUMMARY`, by its columns."""
    rows: dict[Row, dict[str, list[float]]] = {}
    for title, (corpora, codec) in SUMMARY_COLUMNS.items():
        there = [result for result in results if result["corpus"] in corpora]
        for row, cells in by_row(there).items():
            if codec in cells:
                rows.setdefault(row, {})[title] = cells[codec]
    return {row: rows[row] for row in SUMMARY if row in rows}


def by_row(results: list[Result]) -> dict[Row, dict[str, list[float]]]:
    """Group the ratios by peer and measurement, then by codec, in the order of `PEERS`.

    A result without a codec counts as uncompressed.
    """
    order = [*PEERS, *sorted({result["peer"] for result in results} - PEERS.keys())]
    rows: dict[Row, dict[str, list[float]]] = {}
    for result in sorted(results, key=lambda result: order.index(result["peer"])):
        row = PEERS.get(result["peer"], result["peer"]), measurement(result)
        codec = result["codec"] or CODECS[0]
        rows.setdefault(row, {}).setdefault(codec, []).append(result["ratio"])
    return rows


def measurement(result: Result) -> str:
    """Return the label of a measurement, without corpus and codec.

    >>> measurement(
    ...     {"name": "bench_read[a-zstd-views]", "corpus": "a", "codec": "zstd"}
    ... )
    'read, views'
    """
    name, _, case = result["name"].removeprefix("bench_").partition("[")
    known = {result["codec"], *(result["corpus"] or "").split("-")}
    parts = case.removesuffix("]").split("-")
    if name == "decompress":  # its cases are a codec and a size, which name no corpus
        known |= {*CODECS, "16k", "1m"}
    rest = [part for part in parts if part and part not in known]
    return ", ".join([MEASUREMENTS.get(name, name.replace("_", " ")), *rest])


def table(
    rows: dict[Row, dict[str, list[float]]], columns: Iterable[str] = CODECS
) -> str:
    """Return the ratios as a table in Markdown.

    >>> print(table({("NumPy", "import"): {"none": [0.9, 1.25]}}), end="")
    | peer | measured | none | gzip | snappy | lz4 | zstd |
    |---|---|--:|--:|--:|--:|--:|
    | NumPy | import | 0.90 to 1.2 | | | | |
    """
    titles = list(columns)
    head = (
        f"| peer | measured | {' | '.join(titles)} |\n|---|---|{'--:|' * len(titles)}\n"
    )
    return head + "".join(
        f"| {peer} | {label} |"
        + "".join(f" {span(cells[c])} |" if c in cells else " |" for c in titles)
        + "\n"
        for (peer, label), cells in rows.items()
    )


def span(ratios: list[float]) -> str:
    """Return a ratio, or the least and the greatest of several, to two digits."""
    ends = dict.fromkeys(f"{end:.{digits(end)}f}" for end in (min(ratios), max(ratios)))
    return " to ".join(ends)


def digits(ratio: float) -> int:
    """Return how many decimals leave about two digits of a ratio."""
    return 0 if ratio >= 10 else 1 if ratio >= 1 else 2


def plot(rows: dict[Row, dict[str, list[float]]], path: Path) -> None:
    """Draw bars from 1 to each ratio of the columns `PLOTTED`, on a log scale.

    The name of a row is above its bars, so that the drawing is narrow, and its letters
    are not made small on a narrow screen.
    """
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["font.size"] = 10.5
    mpl.rcParams["svg.hashsalt"] = path.stem  # equal drawings make equal files
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    height = 0.8 + 0.7 * len(rows)
    figure, axes = plt.subplots(figsize=(4.6, height))
    figure.subplots_adjust(0.01, 0.5 / height, 0.99, 1 - 0.3 / height)
    for bar, title in enumerate(PLOTTED):
        ratios = {
            line + 0.32 * bar: cells[title][0]
            for line, cells in enumerate(rows.values())
            if title in cells
        }
        widths = [ratio - 1 for ratio in ratios.values()]
        axes.barh([*ratios], widths, 0.3, left=1, label=title)
        for place, ratio in ratios.items():
            end = max(ratio, 1)
            axes.text(end, place, f" {span([ratio])}", verticalalignment="center")
    for line, (peer, label) in enumerate(rows):
        axes.text(LEAST, line - 0.2, f"{label}: {peer}", verticalalignment="bottom")
    starts = [line - 0.17 for line in range(len(rows))]
    ends = [line + 0.5 for line in range(len(rows))]
    axes.vlines([1] * len(rows), starts, ends, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(LEAST, 900)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks([])
    axes.spines[["left", "top", "right"]].set_visible(False)
    axes.set_xlabel("ratio; above 1 kafkalog is faster")
    figure.legend(loc="upper center", ncols=len(PLOTTED), frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    source, *targets = map(Path, sys.argv[1:])
    write_pages(json.loads(source.read_text("utf-8")), *targets)
