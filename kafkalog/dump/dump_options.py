"""The tool's options: their spelling on the command line, and their values.

Flags may begin with one dash as well as with two. A value is parsed when it is needed,
not before: an option that no dumped file uses may have any text.

Source: jopt-simple's ``OptionParser``, as ``DumpLogSegments.java`` sets it up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kafkalog.dump.dumped_file import INT_BITS, java_number
from kafkalog.dump.java_exceptions import ToolEnded

JOPT: Final = "joptsimple."
NEED_VALUES: Final = frozenset(("files", "max-bytes", "max-message-size"))
MAY_HAVE_VALUES: Final = frozenset(("key-decoder-class", "value-decoder-class"))
WITHOUT_VALUES: Final = frozenset(
    (
        "print-data-log",
        "deep-iteration",
        "verify-index-only",
        "index-sanity-check",
        "offsets-decoder",
        "transaction-log-decoder",
        "cluster-metadata-decoder",
        "remote-log-metadata-decoder",
        "share-group-state-decoder",
        "skip-record-metadata",
        "version",
    )
)
_FLAG: Final = re.compile("--?([a-z-]+)(=.*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Argument:
    """The values given for a flag that takes one; `text` and `number` validate them.

    >>> Argument("max-bytes", "2147483647", ("700",)).number()
    700
    """

    flag: str
    default: str
    values: tuple[str, ...] = ()

    def text(self) -> str:
        """Return the value. Raise `ToolEnded` if there are several."""
        if len(self.values) > 1:
            raise ToolEnded(
                f"{JOPT}MultipleArgumentsForOptionException",
                f"Found multiple arguments for option {self.flag}, but you asked for "
                "only one",
            )
        return self.values[0] if self.values else self.default

    def number(self) -> int:
        """Return the value as a 32-bit integer. Raise `ToolEnded` if it is not one."""
        text = self.text()
        try:
            return java_number(text, INT_BITS)
        except ToolEnded as fault:
            inner = ToolEnded(f"{JOPT}internal.ReflectionException", str(fault), fault)
            reason = f"Cannot parse argument '{text}' of option {self.flag}"
            name = f"{JOPT}OptionArgumentConversionException"
            raise ToolEnded(name, reason, inner) from None


def spell_out(arguments: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with the tool's flags in one spelling: ``--flag=value``.

    Other arguments are unchanged. Raises `ToolEnded` where a value is missing.

    >>> list(spell_out(["-files", "7.log", "-deep-iteration=no", "--format", "csv"]))
    ['--files=7.log', '--deep-iteration', '--format', 'csv']
    """
    left = iter(arguments)
    for argument in left:
        flag = _FLAG.fullmatch(argument)
        name, value = flag.groups() if flag else (None, None)
        if argument == "--":
            yield argument
            yield from left
        elif name in NEED_VALUES:
            yield f"--{name}{_next_value(name, left) if value is None else value}"
        elif name in MAY_HAVE_VALUES:
            yield f"--{name}{value or ''}"
        elif name in WITHOUT_VALUES:
            yield f"--{name}"
        else:
            yield argument


def _next_value(flag: str, left: Iterator[str]) -> str:
    for value in left:
        return f"={value}"
    name = f"{JOPT}OptionMissingRequiredArgumentException"
    raise ToolEnded(name, f"Option {flag} requires an argument")


UNLIMITED_BYTES: Final = 2**31 - 1
STRING_DECODER: Final = "org.apache.kafka.tools.api.StringDecoder"

MAX_BYTES: Final = Argument("max-bytes", str(UNLIMITED_BYTES))
MAX_MESSAGE_BYTES: Final = Argument("max-message-size", str(5 << 20))
KEY_DECODER: Final = Argument("key-decoder-class", STRING_DECODER)
VALUE_DECODER: Final = Argument("value-decoder-class", STRING_DECODER)


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """The tool's flags; `decoder` is a kind of internal topic, or None.

    `max_bytes` limits how much is read of a log, `max_message_bytes` how much from
    where an index entry points.
    """

    print_contents: bool = False
    deep: bool = False
    skip_metadata: bool = False
    verify_only: bool = False
    sanity_only: bool = False
    decoder: str | None = None
    max_bytes: Argument = MAX_BYTES
    max_message_bytes: Argument = MAX_MESSAGE_BYTES
    key_decoder: Argument = KEY_DECODER
    value_decoder: Argument = VALUE_DECODER
