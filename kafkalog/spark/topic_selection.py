"""Which partitions a reading is of: all, those named, or those a pattern finds.

Knows: the ways to choose among the partitions that are there. Does not know: where
they are, or what is in them.
Source: ConsumerStrategy of Spark's Kafka source, the one that asks Kafka's Admin. It
leaves internal topics out even where they are named; here a topic named is read.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_json import Place

INTERNAL: Final = {
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__cluster_metadata",  # no client is told of this one
}
"""Topics that a broker keeps for itself; no pattern finds them."""

JAVA_ONLY: Final = re.compile(
    r"(?P<escape>\\[^pPQEGRXhHceNk0zZ])"
    r"|(?P<nested>\[\^?\]?(?:\\.|[^\]\\\[])*\[)"
    r"|(?P<alien>\\[pP](?:\{[^}]*\}?|.)?|\\[QEGRXhHceNk0]|&&"
    r"|\(\?[P#(]|\(\?[imsx]*[adLuU]|\{(?![0-9]))"
    r"|(?P<group>\(\?<(?![=!]))"
    r"|(?P<end>\\[zZ])"
)
"""What Java's patterns and Python's mean differently, with `escape` to step over."""


@dataclass(frozen=True, slots=True)
class Everything:
    """Every partition there is, internal topics as well."""

    def choose(self, places: Iterable[Place]) -> list[Place]:
        """Give all of `places`, sorted."""
        return sorted(places)


@dataclass(frozen=True, slots=True)
class Assign:
    """Named partitions; one that its topic does not have is left out."""

    places: tuple[Place, ...]

    def choose(self, places: Iterable[Place]) -> list[Place]:
        """Give those of `places` that are named; `ConfigError` for an absent topic."""
        there = set(places)
        _check_topics("assign", {topic for topic, _ in self.places}, there)
        return sorted(there.intersection(self.places))


@dataclass(frozen=True, slots=True)
class Subscribe:
    """All partitions of named topics."""

    topics: tuple[str, ...]

    def choose(self, places: Iterable[Place]) -> list[Place]:
        """Give the topics' partitions; `ConfigError` for an absent topic."""
        there = set(places)
        _check_topics("subscribe", set(self.topics), there)
        return sorted(place for place in there if place[0] in self.topics)


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """All partitions of the topics in whose names a pattern is found.

    The pattern is Java's, and need not match the whole name: ``order`` finds
    ``reorders``, ``^order`` does not. Internal topics are not looked at.
    """

    pattern: str

    def choose(self, places: Iterable[Place]) -> list[Place]:
        """Give the partitions of the topics found, perhaps none."""
        finds = compile_java(self.pattern).search
        return sorted(
            place for place in places if place[0] not in INTERNAL and finds(place[0])
        )


EVERYTHING: Final = Everything()

Topics = Everything | Assign | Subscribe | SubscribePattern


def compile_java(pattern: str) -> re.Pattern[str]:
    r"""Compile a pattern of Java's; `ConfigError` names what Python cannot take.

    >>> compile_java(r"(?<kind>orders|audit)\z").search("orders")["kind"]
    'orders'
    >>> compile_java(r"\p{Lower}+")
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: expected a pattern without \p{Lower}, which Python...
    """

    def translate(found: re.Match[str]) -> str:
        if alien := found["alien"] or found["nested"]:
            raise ConfigError(
                f"expected a pattern without {alien}, which Python's patterns lack or "
                f"mean otherwise, got {pattern}"
            )
        return "(?P<" if found["group"] else r"\Z" if found["end"] else found[0]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(JAVA_ONLY.sub(translate, pattern), re.ASCII)
    except (re.error, ArithmeticError, RecursionError, Warning) as error:
        raise ConfigError(f"expected a pattern, got {pattern} ({error})") from None


def _check_topics(option: str, topics: set[str], there: set[Place]) -> None:
    absent = topics - {topic for topic, _ in there}
    if absent:
        raise ConfigError(
            f"option {option}: expected topics that are there, found no partition of "
            f"{', '.join(sorted(absent))}"
        )
