"""The layers of the package: the one table that tests and diagrams are made from.

``python -m tests.layers`` writes the diagram between the two marks in each page
that shows it.
"""

from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
PAGES: Final = [ROOT / "CONTRIBUTING.md", ROOT / "docs" / "architecture.md"]
BEGIN: Final = "<!-- layers: made by `python -m tests.layers` -->"
END: Final = "<!-- layers end -->"


class Layer(NamedTuple):
    """One layer: its name, its packages, and their purpose."""

    name: str
    packages: tuple[str, ...]
    purpose: str


LAYERS: Final = [
    Layer("commands", ("__main__",), "`python -m kafkalog`"),
    Layer(
        "surfaces",
        ("cli", "spark", "testing"),
        "commands, Spark, test doubles; the names of `kafkalog` itself",
    ),
    Layer(
        "serving",
        ("server", "broker"),
        "Kafka's protocol for log directories: sockets, and what a broker answers",
    ),
    Layer("analysis", ("analysis",), "statistics, groups, lag, transactions"),
    Layer("copies", ("copies",), "log directories made from others, and from tables"),
    Layer(
        "tables",
        ("export", "values"),
        "other libraries' tables, files, Delta; what values hold",
    ),
    Layer("dump", ("dump",), "kafka-dump-log's text"),
    Layer("query", ("query",), "reads over many logs: scan, find, tail"),
    Layer("commits", ("sink",), "writes that are exactly once"),
    Layer(
        "maintenance",
        ("manager", "cleaner", "verification", "startup", "repairs"),
        "whole log directories",
    ),
    Layer("rehearsal", ("rehearsal",), "a broker's loading of one log, predicted"),
    Layer(
        "log", ("log",), "one partition; `log/reading`, `log/producers`, `log/recovery`"
    ),
    Layer("segment", ("segment",), "the files of one segment"),
    Layer("indexes", ("indexes",), "offset, time and transaction index"),
    Layer("storage", ("storage",), "file names, places, reads, durable writes"),
    Layer(
        "records",
        ("decoding", "encoding", "validation"),
        "bytes to columns, columns to bytes, what a log accepts",
    ),
    Layer(
        "formats",
        ("formats", "messages", "protocol"),
        "structures on disk; messages of internal topics; requests and responses",
    ),
    Layer(
        "base",
        (
            *("codecs", "config", "text", "optional_packages", "reports", "renamed"),
            *("array_types", "integer_limits", "parallel", "progress"),
        ),
        "compression, checksums; settings; numbers and ids as text; packages "
        "imported on use; the form of reports; errors for old names; types and limits "
        "of numbers; calls in threads",
    ),
    Layer("errors", ("errors",), "imported by all but the kernels, imports nothing"),
    Layer("kernels", ("_speedups",), "typed loops over arrays that the caller owns"),
]
"""From the highest to the lowest."""


def diagram() -> str:
    """Return the table of layers as Markdown."""
    rows = [
        f"| {layer.name} | {', '.join(f'`{name}`' for name in layer.packages)} "
        f"| {layer.purpose} |"
        for layer in LAYERS
    ]
    return "\n".join(["| layer | packages | purpose |", "|---|---|---|", *rows])


def with_diagram(page: str) -> str:
    """Return a page's text with the diagram of today between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{diagram()}\n{END}{after}"


if __name__ == "__main__":
    for path in PAGES:
        path.write_text(with_diagram(path.read_text(encoding="utf-8")), "utf-8")
