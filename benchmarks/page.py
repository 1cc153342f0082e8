"""Make ``docs/performance.md`` and its plots of ``results.json``; `make bench` does.

    python benchmarks/page.py RESULTS PAGE

What the page says before its mark was written by hand, and stays. Behind it comes a
section for each peer: who that is, a plot of the ratios, and a table. Plots lie in a
folder beside the page that is named like it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

MARK: Final = "<!-- From here on made by benchmarks/page.py -->\n"

PEERS: Final = {
    "limit": "the least that must be done: to read, checksums and one copy of the"
    " bytes, or decompression alone; by two threads, half of what one takes; for"
    " headers, one look at each; to append records, encoding them; beside many"
    " segments, what it takes beside none; for help, importing click",
    "aiokafka": "aiokafka's record parser, compiled, its records looked at one by one",
    "aiokafka-columns": "the same records, put into columns of NumPy and Arrow",
    "kafka-python": "kafka-python's record parser, in Python alone",
    "java-columns": "Kafka's own classes in a warm Java machine, into columns",
    "java-iterate": "Kafka's own classes in a warm Java machine, their records looked"
    " at one by one; ours are views",
    "kafka-dump-log": "Kafka's own tool with `--print-data-log`, the whole program, on"
    " a segment of 0.9 GB; ours prints the same text, or reads all into columns",
    "kafka-engine": "Kafka's own storage engine in a warm Java machine",
    "spark-kafka": "Spark's Kafka source, with a broker on the same machine",
    "spark-parquet": "Spark's Parquet reader, on the same rows",
    "numpy": "NumPy alone, as one would write it by hand",
}
UNITS: Final = {
    "s": (("ns", 1e-9), ("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)),
    "bytes": (("bytes", 1.0), ("KB", 1e3), ("MB", 1e6), ("GB", 1e9)),
    "batches/s": (("batches/s", 1.0), ("k batches/s", 1e3), ("M batches/s", 1e6)),
}

Result = dict[str, Any]


def write_page(results: list[Result], page: Path) -> None:
    """Write the page's second half, and its plots."""
    folder = page.with_suffix("")
    folder.mkdir(exist_ok=True)
    by_hand, _, _ = page.read_text(encoding="utf-8").partition(MARK)
    for peer, about in by_peer(results).items():
        plot(about, folder / f"{peer}.svg")
    page.write_text(by_hand + MARK + sections(results), encoding="utf-8")


def by_peer(results: list[Result]) -> dict[str, list[Result]]:
    """Sort results by peer, those first that `PEERS` knows first."""
    names = [*PEERS, *sorted({one["peer"] for one in results} - PEERS.keys())]
    found = {name: [one for one in results if one["peer"] == name] for name in names}
    return {name: some for name, some in found.items() if some}


def sections(results: list[Result]) -> str:
    """Return the sections of the page."""
    return "".join(
        f"\n## {peer}\n\n{sentence(PEERS.get(peer, peer))}.\n\n"
        f"![Ratios against {peer}](performance/{peer}.svg)\n\n{table(some)}"
        for peer, some in by_peer(results).items()
    )


def sentence(text: str) -> str:
    """Begin as a sentence does."""
    return text[0].upper() + text[1:]


def table(results: list[Result]) -> str:
    """Return a table of results, in Markdown."""
    rows = [
        f"| {said(one)} | {side(one, 'ours')} | {side(one, 'theirs')} |"
        f" {ratio(one['ratio'])} |\n"
        for one in results
    ]
    head = "| | kafkalog | peer | ratio |\n|---|--:|--:|--:|\n"
    return head + "".join(rows)


def ratio(value: float) -> str:
    """Give a ratio to two digits or so."""
    return f"{value:.{0 if value >= 10 else 1 if value >= 1 else 2}f}"


def said(result: Result) -> str:
    """Say what was measured: ``scan reads all columns: log100-16k, zstd``.

    What a benchmark's name has in brackets says which case it was.
    """
    name, _, case = result["name"].removeprefix("bench_").partition("[")
    case = case.removesuffix("]")
    known = {result["corpus"], result["codec"]}
    if result["corpus"]:
        known |= set(result["corpus"].split("-"))
    rest = ", ".join(part for part in case.split("-") if part and part not in known)
    parts = [result["corpus"], result["codec"], rest]
    words = name.replace("_", " ")
    return ": ".join([words, ", ".join(filter(None, parts))]).removesuffix(": ")


def side(result: Result, whose: str) -> str:
    """Give a side's figure; in brackets, processor time where it is wall time."""
    told = measure(result[whose], result["unit"])
    if (processor := result.get(f"{whose}_processor")) is not None:
        told += f" ({measure(processor, 's')})"
    return told


def measure(value: float, unit: str) -> str:
    """Give a figure with a unit that suits its size."""
    sizes = UNITS[unit]
    name, size = next((u for u in sizes if value < 1000 * u[1]), sizes[-1])
    return f"{value / size:.3g} {name}"


def plot(results: list[Result], path: Path) -> None:
    """Draw each ratio as a bar, from 1 to the right where ours is faster."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = path.stem  # the same drawing twice, the same file
    from matplotlib import pyplot as plt
    from matplotlib.ticker import NullFormatter, ScalarFormatter

    figure, axes = plt.subplots(figsize=(9, 1 + 0.28 * len(results)))
    ratios = [one["ratio"] for one in results]
    places = range(len(results), 0, -1)
    colours = ["tab:blue" if ratio >= 1 else "tab:orange" for ratio in ratios]
    axes.barh(places, [ratio - 1 for ratio in ratios], left=1, color=colours)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(ScalarFormatter())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(list(places), [said(one) for one in results], fontsize=8)
    axes.set_xlabel(f"ratio against {results[0]['peer']}; above 1 kafkalog is ahead")
    figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
    plt.close(figure)


if __name__ == "__main__":
    write_page(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
