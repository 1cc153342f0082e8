"""Options of the release before: each ends with an error that names the new one."""

from __future__ import annotations

from typing import Final

import click

FORMS: Final = {"--value": "--value-format"}
DESTINATION: Final = "the last argument, DST,"
RENAMED: Final = {
    "cat": FORMS,
    "head": FORMS,
    "tail": FORMS,
    "find": {"--value": "--value-pattern"},
    "export": {"--by": "--partition-by"},
    "compact": {"--in-place": "--apply", "--force": "--ignore-policy"},
    "restore": {
        "--include": "--topic",
        "--exclude": "--exclude-topic",
        "--abort-open": "--open-transactions abort",
        "--groups": "--groups-file",
    },
    "preflight": {"--skip-cleaner": "--no-check-cleaner"},
    "diff": {"--bytes": "--compare-bytes"},
    "heal": {"-o": DESTINATION, "--output": DESTINATION},
}
"""The old options of each command, and their new names."""

OF_SETTINGS: Final = ("whatif", "why")
"""Commands that had NAME=VALUE as arguments."""

UNEXPECTED: Final = "Got unexpected extra argument"


def with_new_name(error: click.UsageError) -> click.UsageError:
    """Return the error of a command line, or one that names the new option."""
    name = None if error.ctx is None else error.ctx.info_name
    if isinstance(error, click.NoSuchOption):
        new = RENAMED.get(name or "", {}).get(error.option_name)
        if new is not None:
            reason = f"{error.option_name} of {name} is {new} now"
            return click.UsageError(reason, error.ctx)
    elif name in OF_SETTINGS and error.message.startswith(UNEXPECTED):
        reason = f"{error.message}: settings are --set NAME=VALUE now"
        return click.UsageError(reason, error.ctx)
    return error
