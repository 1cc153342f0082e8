"""``kafkalog``: the group of commands, each a module that is imported to run it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Final

import click

import kafkalog
from kafkalog.cli import exits
from kafkalog.cli.renamed_options import with_new_name
from kafkalog.text.close_matches import with_close_matches

COMMANDS: Final = {
    "ls": "List partitions, or the segments of one.",
    "info": "Describe a file, a partition or a log directory.",
    "cat": "Print records.",
    "head": "Print the first records.",
    "tail": "Print the last records, and follow a growing log.",
    "latest": "Print the latest record of each key.",
    "find": "Find records, and print their location.",
    "stats": "Print records and bytes by topic, producer, key, hour, ...",
    "dump": "Print files as kafka-dump-log does, with its flags.",
    "export": "Write records as Parquet, Delta, JSON Lines, CSV or Arrow.",
    "import": "Write the logs from which a table was exported.",
    "compact": "Keep the last record of each key, or print what that leaves.",
    "whatif": "Print what retention and compaction would remove.",
    "why": "Print which rules keep a segment.",
    "restore": "Make a log directory for a broker from a backup.",
    "preflight": "Print what a broker's start would do.",
    "repair": "Repair damaged files, or print how; undo a repair.",
    "groups": "Print the committed offsets of consumer groups.",
    "lag": "Print how far consumer groups are from the log ends.",
    "txns": "Print transactions, and which are hanging.",
    "diff": "Compare two replicas, or a backup and its source.",
    "salvage": "Write what is readable of damaged logs to a new directory.",
    "heal": "Write one valid log from replicas damaged elsewhere.",
    "serve": "Let any Kafka client consume log directories.",
    "verify": "Verify every file, and report what is corrupt.",
}
"""The name of each command, which is its module's too, and its line of help."""
MODULES: Final = {"import": "import_table"}
"""Modules with another name than their command, since it is a keyword of Python."""


class Commands(click.Group):
    """A group that imports a command when it is called, with the codes of `exits`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command: the function ``command`` of its module."""
        if cmd_name not in COMMANDS:
            return None
        name = MODULES.get(cmd_name, cmd_name)
        module = import_module(f"kafkalog.cli.commands.{name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return a command of the list; raise `click.UsageError` for another name."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            ctx.fail(f"no such command: {with_close_matches(name, COMMANDS)}")
        return super().resolve_command(ctx, args)

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> object:
        """Run a command; report the error that ends it, if any."""
        with exits.reported(ctx):
            try:
                return super().invoke(ctx)
            except click.UsageError as error:
                exits.raise_shown(with_new_name(error))


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(kafkalog.__version__, prog_name="kafkalog")
def group() -> None:
    """Read, verify, repair and copy Apache Kafka's log directories without a broker.

    Only repair and compact change files under their PATH, and only with --apply.

    Exit codes: 0 success; 1 corrupt data (valid data is printed); 2 usage; 3 no such
    file, no permission, or not a log directory; 4 refused for safety; 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    try:
        group.main(arguments, prog_name="kafkalog")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else int(bool(ended.code))


if __name__ == "__main__":
    sys.exit(main())
