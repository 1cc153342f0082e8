"""``python -m kafkalog.spark.job``: from log directories to tables, and back.

The command line of three jobs: `kafkalog.spark.job_run` writes what is new in log
directories as Parquet, `kafkalog.spark.job_delta` appends it to a Delta table, and
`kafkalog.spark.job_logs` appends Parquet files to log directories. They run on one
machine or a cluster. ``spark-submit`` takes this file as well. See ``docs/spark.md``.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from errno import ENOENT
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from kafkalog.cli import command_output, exits, terminal
from kafkalog.cli.command_options import compression_option, examples
from kafkalog.cli.command_output import TableField
from kafkalog.errors import (
    CommitConflictError,
    ConfigError,
    KafkaLogError,
    LogLockedError,
    LogStateError,
)
from kafkalog.text.binary_units import in_units

if TYPE_CHECKING:
    from kafkalog.spark.job_run import JobOutcome
    from kafkalog.spark.read_options import SourceOptions

PARTITION: Final = (
    TableField("topic", "topic"),
    TableField("partition", "partition", right=True),
    TableField("start", "start", right=True),
    TableField("end", "end", right=True),
    TableField("rows", "rows", lambda rows: f"{rows:,}", right=True),
)

WRITTEN: Final = PARTITION[:-1]

FLAGS: Final = {
    "--subscribe": ("subscribe", "NAMES", "Topics, separated by commas."),
    "--subscribe-pattern": ("subscribePattern", "REGEX", "Topics, as a Java pattern."),
    "--assign": ("assign", "JSON", 'Partitions: {"orders":[0,1]}.'),
    "--starting-offsets": (
        "startingOffsets",
        "OFFSETS",
        'Where the first run starts: earliest, or {"orders":{"0":23}}.',
    ),
    "--ending-offsets": (
        "endingOffsets",
        "OFFSETS",
        'Where this run ends: latest, or {"orders":{"0":50}}.',
    ),
    "--starting-timestamp": (
        "startingTimestamp",
        "MS",
        "Where the first run starts: the first offset at or after that time.",
    ),
    "--ending-timestamp": ("endingTimestamp", "MS", "Where this run ends, likewise."),
    "--isolation-level": (
        "kafka.isolation.level",
        "LEVEL",
        "read_uncommitted, by default, or read_committed.",
    ),
    "--columns": ("columns", "NAMES", "Columns, separated by commas."),
    "--on-corruption": (
        "onCorruption",
        "WHAT",
        "stop, by default: write nothing if bytes are corrupt; or skip them.",
    ),
    "--fail-on-data-loss": (
        "failOnDataLoss",
        "BOOLEAN",
        "Whether missing offsets fail the run, as by default.",
    ),
}
"""For each flag the option of the source, and its help."""

SHORT: Final = {"--isolation-level": "--isolation"}
"""For a flag another spelling, as in the other commands."""


def parameter_of(name: str) -> str:
    """Return the parameter name of an option.

    >>> parameter_of("kafka.isolation.level")
    'kafka_isolation_level'
    """
    return name.replace(".", "_").lower()


class JobCommand(click.Command):
    """A command with the exit codes of the command line."""

    def invoke(self, ctx: click.Context) -> object:
        """Run the job and report its errors."""
        with exits.reported(ctx):
            try:
                return super().invoke(ctx)
            except click.UsageError as error:
                exits.raise_shown(error)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; report wrong ones without control characters."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            exits.raise_shown(error)


def source_flags(function: Callable[..., None]) -> Callable[..., None]:
    """Add an option for each of `FLAGS` to a command."""
    for flag, (name, metavar, text) in reversed(FLAGS.items()):
        spellings = [flag, *filter(None, [SHORT.get(flag)])]
        add = click.option(*spellings, parameter_of(name), metavar=metavar, help=text)
        function = add(function)
    return function


def read_pairs(
    context: click.Context, parameter: click.Parameter, texts: Sequence[str]
) -> dict[str, str]:
    """Parse NAME=VALUE pairs."""
    wrong = [text for text in texts if not re.match(r"[^=\s]+=", text)]
    if wrong:
        names = ", ".join(repr(text.partition("=")[0]) for text in wrong)
        raise click.BadParameter(f"expected NAME=VALUE, got {names}")
    return dict(text.split("=", 1) for text in texts)


def read_out(context: click.Context, parameter: click.Parameter, text: str) -> Path:
    """Parse the output directory."""
    from kafkalog.storage.remote_source import as_path

    path = as_path(text, {})
    if not isinstance(path, Path):
        reason = "expected a local or shared directory: runs need its locks and renames"
        raise click.BadParameter(f"{reason}, got {path}")
    return path


@click.command(
    "kafkalog.spark.job",
    cls=JobCommand,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=examples(
        "python -m kafkalog.spark.job --source /var/lib/kafka/data --to parquet lake",
        "python -m kafkalog.spark.job --source /mnt/kafka --to parquet /mnt/lake "
        "--master spark://host:7077 --subscribe orders,audit",
        "python -m kafkalog.spark.job --source /mnt/kafka --to delta /mnt/table",
        "python -m kafkalog.spark.job --from parquet lake --to logs copy "
        "--option partitions=3 --option batchId=2026-11-25",
    ),
)
@click.option(
    "--source",
    "sources",
    metavar="DIR",
    multiple=True,
    help="A log directory or partition directory; may be repeated. For --to parquet "
    "and --to delta.",
)
@click.option(
    "--from",
    "origin",
    type=(click.Choice(["parquet"]), str),
    metavar="parquet LAKE",
    help="Parquet files, or a directory of them. For --to logs.",
)
@click.option(
    "--to",
    "form",
    type=click.Choice(["parquet", "delta", "logs"]),
    required=True,
    help="The format.",
)
@click.argument("out", callback=read_out)
@click.option(
    "--master", metavar="URL", help="Spark's master; by default as configured."
)
@source_flags
@click.option("--include-headers", is_flag=True, help="Write the column headers too.")
@click.option(
    "--option",
    "others",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_pairs,
    help="Another option of the source or sink; may be repeated.",
)
@click.option(
    "--conf",
    metavar="NAME=VALUE",
    multiple=True,
    callback=read_pairs,
    help="A setting of Spark; may be repeated.",
)
@compression_option
@click.option(
    "--format",
    "shown",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="The format of the summary.",
)
@click.pass_context
def command(
    context: click.Context,
    /,
    sources: tuple[str, ...],
    origin: tuple[str, str] | None,
    form: str,
    out: Path,
    master: str | None,
    include_headers: bool,
    others: Mapping[str, str],
    conf: Mapping[str, str],
    compression: str,
    shown: str,
    **flags: str | None,
) -> None:
    """Write what came since the last run to OUT, as Parquet by topic and date.

    A manifest for each run, in OUT/_kafkalog, keeps the offsets. A run that fails has
    written nothing.

    With --to delta, append it to the Delta table OUT, by topic and date too, as one
    commit. The table keeps the offsets. It needs the extra delta, and no package of
    Delta's in Spark.

    With --from parquet LAKE --to logs, append the rows of Parquet files to the logs in
    the log directory OUT, all or none.

    Exit codes: 0 fine; 1 corruption, which --on-corruption skip skips; 2 usage; 3 no
    such file, no permission, or Spark failed; 4 another job or a broker is writing to
    OUT, or OUT has other files; 130 interrupted.
    """
    if (form == "logs") != (origin is not None) or (form == "logs") == bool(sources):
        raise click.UsageError(
            "expected --source DIR --to parquet OUT, --source DIR --to delta OUT, or "
            "--from parquet LAKE --to logs OUT"
        )
    if origin is not None:
        _check_of_sink(context)
        written = _append(lambda: start_spark(master, conf), origin[1], out, others)
        print_written(written, out, shown)
        return
    values: dict[str, str | None] = {
        name: flags[parameter_of(name)] for name, _, _ in FLAGS.values()
    }
    values["includeHeaders"] = "true" if include_headers else None
    if values["onCorruption"] == "stop":  # an exception, for the source
        values["onCorruption"] = "raise"
    options = {name: text for name, text in values.items() if text is not None}
    if repeated := sorted(options.keys() & others.keys()):
        raise ConfigError(f"options set twice: {', '.join(map(_flag_of, repeated))}")
    options |= {**others, "paths": json.dumps(sources)}
    outcome = _run(form, options, out, compression, lambda: start_spark(master, conf))
    if form == "delta":
        read = {one.topic_partition: (one.start, one.end) for one in outcome.ranges}
        print_written(read, out, shown, "table")
    else:
        print_outcome(outcome, out, shown)
    losses = outcome.left_out
    for text in losses:
        exits.print_error(text)
    if losses:
        raise exits.Damaged(f"skipped or lost: {len(losses)}; the rest was written")


def start_spark(master: str | None, conf: Mapping[str, str]) -> Any:
    """Return the running Spark session, or start one that logs errors only."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.appName("kafkalog")
    if master is not None:
        builder = builder.master(master)
    quiet = {
        "spark.log.level": "ERROR",
        "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
    }
    for name, value in {**quiet, **conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def _run(
    form: str,
    options: Mapping[str, str],
    out: Path,
    compression: str,
    session: Callable[[], Any],
) -> JobOutcome:
    from kafkalog.spark.job_delta import check_table, run_delta_job
    from kafkalog.spark.job_run import Job, check_out, run_parquet_job

    parsed, columns = _parsed(options)
    job = Job(
        options=parsed,
        columns=columns,
        out=out,
        compression=compression,
    )
    run, check = run_parquet_job, check_out
    if form == "delta":
        run, check = run_delta_job, check_table
    with _refused(FileExistsError, PermissionError):
        check(out)
    with _refused(BlockingIOError, CommitConflictError, LogStateError):
        return run(job, session)


def _parsed(options: Mapping[str, str]) -> tuple[SourceOptions, tuple[str, ...]]:
    """Return the options and columns; errors name the flags."""
    from kafkalog.spark.read_options import parse_options, requested_columns

    try:
        return parse_options(options, streaming=False), requested_columns(options)
    except ConfigError as error:
        raise ConfigError(_in_flags(str(error))) from None


@contextmanager
def _refused(*kinds: type[OSError | KafkaLogError]) -> Iterator[None]:
    """Raise `exits.Refused` for these errors."""
    try:
        yield
    except kinds as error:
        raise exits.Refused.of(error) from None


def _check_of_sink(context: click.Context) -> None:
    """Raise a usage error for options that only the other job has."""
    of_both = {"origin", "form", "out", "master", "others", "conf", "shown"}
    wrong = [
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name not in of_both
        and context.get_parameter_source(parameter.name) == ParameterSource.COMMANDLINE
    ]
    if wrong:
        raise click.UsageError(f"--to logs, expected without {', '.join(wrong)}")


def _append(
    session: Callable[[], Any], lake: str, out: Path, options: Mapping[str, str]
) -> Mapping[tuple[str, int], tuple[int, int]]:
    from kafkalog.spark.job_logs import append_table
    from kafkalog.storage.remote_source import as_path

    path = as_path(lake, {})
    if isinstance(path, Path) and not path.exists():
        raise FileNotFoundError(ENOENT, os.strerror(ENOENT), lake)
    try:
        return append_table(session(), lake, out, options)
    except LogLockedError as error:
        raise exits.Refused(exits.describe(error)) from None


def print_written(
    written: Mapping[tuple[str, int], tuple[int, int]],
    out: Path,
    shown: str,
    kind: str = "logs",
) -> None:
    """Print what was appended to standard output, and a summary to standard error."""
    partitions = [
        {"topic": topic, "partition": partition, "start": start, "end": end}
        for (topic, partition), (start, end) in written.items()
    ]
    if shown == "json":
        summary = {kind: str(out), "partitions": partitions}
        command_output.emit(f"{json.dumps(summary, ensure_ascii=False)}\n")
    elif partitions:
        command_output.print_rows(partitions, WRITTEN, "table")
    count = sum(end - start for start, end in written.values())
    print_note(
        f"appended {count:,} offsets to {out}"
        if count
        else f"nothing to append to {out}"
    )


def print_outcome(outcome: JobOutcome, out: Path, shown: str) -> None:
    """Print the manifest to standard output, and a summary to standard error."""
    if outcome.finished is not None:
        print_note(f"completed run {outcome.finished}, which was interrupted")
    manifest, path = outcome.manifest or {}, outcome.path
    if shown == "json":
        summary = {"manifest": None if path is None else str(path), **manifest}
        command_output.emit(f"{json.dumps(summary, ensure_ascii=False)}\n")
    elif manifest:
        command_output.print_rows(manifest["partitions"], PARTITION, "table")
    if not manifest:
        print_note(f"nothing new for {out}")
        return
    files = manifest["files"]
    size = in_units(sum(file["size_in_bytes"] for file in files))
    written = f"{manifest['rows']:,} rows, files: {len(files):,}, {size}"
    print_note(f"run {manifest['run']}: {written}")
    print_note(f"manifest: {path}")


def print_note(text: str) -> None:
    """Print a line to standard error."""
    click.echo(terminal.escape(text), err=True)


def _flag_of(name: str) -> str:
    return next((flag for flag, (of, _, _) in FLAGS.items() if of == name), name)


def _in_flags(text: str) -> str:
    """Replace options by their flags in a message.

    >>> _in_flags("option startingOffsets: expected e.g. {}")
    '--starting-offsets: expected e.g. {}'
    """
    return re.sub(r"\boption ([\w.]+)(?=:)", lambda found: _flag_of(found[1]), text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job as a program, and return its exit code.

    If ``PYSPARK_PYTHON`` is not set, it is set to this Python, and workers run it.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        command.main(arguments, prog_name="kafkalog.spark.job")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))


if __name__ == "__main__":
    sys.exit(main())
