"""Reading of the options of a source or sink, with all their faults in one error.

Names of options are case-insensitive.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from kafkalog.errors import ConfigError
from kafkalog.text.close_matches import close_matches

T = TypeVar("T")
D = TypeVar("D")

SPARK_OPTIONS: Final = {"checkpointlocation", "queryname"}
"""Options of a query that Spark passes on to its source or sink."""


class OptionReader:
    """The options not read yet, and the errors found in those read.

    The options that were asked for are those that exist.

    >>> reader = OptionReader({"Topic": "orders", "partition": "3"})
    >>> reader.take("topic", str, None)
    'orders'
    >>> reader.finish()
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: option partition: unknown option
    >>> reader = OptionReader({"tpoic": "orders"})
    >>> reader.take("topic", str, None)
    >>> reader.finish()
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: option tpoic: unknown option (did you mean topic?)
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self.names = {name.lower(): name for name in options}
        self.values = {name.lower(): value for name, value in options.items()}
        self.remaining = set(self.values) - SPARK_OPTIONS
        self.errors: list[str] = []
        self.known: set[str] = set()

    def has(self, name: str) -> bool:
        """Return whether an option is set."""
        return name.lower() in self.values

    def take(self, name: str, parse: Callable[[str], T], default: D) -> T | D:
        """Parse one option; return `default` if it is missing or invalid."""
        self.known.add(name)
        self.remaining.discard(name.lower())
        if not self.has(name):
            return default
        try:
            return parse(self.values[name.lower()])
        except ConfigError as error:
            self.reject(name, str(error))
            return default

    def take_one_of(self, parsers: Mapping[str, Callable[[str], D]], default: D) -> D:
        """Parse the present one of several options with the same meaning."""
        self.known.update(parsers)
        present = [name for name in parsers if self.has(name)]
        if len(present) > 1:
            self.errors.append(f"expected one of the options {', '.join(present)}")
        chosen = [self.take(name, parsers[name], default) for name in present]
        return chosen[0] if chosen else default

    def take_all(self, prefix: str) -> dict[str, str]:
        """Return the values of the options with a prefix, by name without it."""
        names = {name for name in self.remaining if name.startswith(prefix)}
        self.remaining -= names
        return {name.removeprefix(prefix): self.values[name] for name in sorted(names)}

    def reject(self, name: str, reason: str) -> None:
        """Note that an option is invalid."""
        self.remaining.discard(name.lower())
        self.errors.append(f"option {name}: {reason}")

    def finish(self) -> None:
        """Raise one `ConfigError` for all invalid and unknown options."""
        for name in sorted(self.remaining):
            question = close_matches(name, self.known)
            self.reject(
                self.names[name], f"unknown option{question and f' ({question})'}"
            )
        if self.errors:
            raise ConfigError("; ".join(self.errors))
