"""Write the table and the plot of ``docs/performance.md`` from ``results.json``.

    python benchmarks/page.py RESULTS PAGE

The text of the page before the mark is kept. After it come the plot and one table, with
a row for each measurement and peer, a column for each codec, and the range of the
ratios over all corpora. `make bench` runs this script.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

MARK: Final = "<!-- The rest of this page is made by benchmarks/page.py -->\n"
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


def write_page(results: list[Result], page: Path) -> None:
    """Write the generated part of the page, and the plot next to it."""
    rows = by_row(results)
    plot(rows, page.with_name(PLOT))
    handwritten, _, _ = page.read_text(encoding="utf-8").partition(MARK)
    image = f"![Ratios of kafkalog to its peers]({PLOT})"
    page.write_text(f"{handwritten}{MARK}\n{image}\n\n{table(rows)}", encoding="utf-8")


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


def table(rows: dict[Row, dict[str, list[float]]]) -> str:
    """Return the ratios as a table in Markdown.

    >>> print(table({("NumPy", "import"): {"none": [0.9, 1.25]}}), end="")
    | peer | measured | none | gzip | snappy | lz4 | zstd |
    |---|---|--:|--:|--:|--:|--:|
    | NumPy | import | 0.90 to 1.2 | | | | |
    """
    head = (
        f"| peer | measured | {' | '.join(CODECS)} |\n|---|---|{'--:|' * len(CODECS)}\n"
    )
    return head + "".join(
        f"| {peer} | {label} |"
        + "".join(f" {span(cells[c])} |" if c in cells else " |" for c in CODECS)
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
    """Draw a dot for each ratio, a line for each row of the table, on a log scale."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.fonttype"] = "none"
    mpl.rcParams["svg.hashsalt"] = path.stem  # equal drawings make equal files
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter, StrMethodFormatter

    figure, axes = plt.subplots(figsize=(9, 1 + 0.22 * len(rows)))
    for codec in CODECS:
        dots = [
            (ratio, -line)
            for line, cells in enumerate(rows.values())
            for ratio in cells.get(codec, ())
        ]
        if dots:
            axes.scatter(*zip(*dots, strict=True), s=14, label=codec)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color="black", linewidth=0.8)
    axes.grid(axis="y", linewidth=0.3)
    names = [f"{label}: {peer}" for peer, label in rows]
    axes.set_yticks([-line for line in range(len(rows))], names, fontsize=7)
    axes.set_ylim(-len(rows), 1)
    axes.set_xlabel("ratio; above 1 kafkalog is faster, or uses less memory")
    axes.legend(loc="upper right", fontsize=7)
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    write_page(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
