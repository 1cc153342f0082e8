"""Selections of partitions: all, by topic, by pattern, or by topic and number.

Spark's source skips internal topics even if they are named. Here a named topic is read.

Source: ``ConsumerStrategy.scala``, the strategies that use Kafka's Admin client.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kafkalog.errors import ConfigError
from kafkalog.spark.offset_json import TopicPartition
from kafkalog.text.close_matches import with_close_matches

INTERNAL: Final = {
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__cluster_metadata",  # not in the metadata that brokers send to clients
}
"""Internal topics; no pattern matches them."""

JAVA_ONLY: Final = re.compile(
    r"(?P<escape>\\[^pPQEGRXhHceNk0zZ])"
    r"|(?P<nested>\[\^?\]?(?:\\.|[^\]\\\[])*\[)"
    r"|(?P<unsupported>\\[pP](?:\{[^}]*\}?|.)?|\\[QEGRXhHceNk0]|&&"
    r"|\(\?[P#(]|\(\?[imsx]*[adLuU]|\{(?![0-9]))"
    r"|(?P<group>\(\?<(?![=!]))"
    r"|(?P<end>\\[zZ])"
)
"""Syntax with another meaning in Java than in Python; `escape` is common to both."""


@dataclass(frozen=True, slots=True)
class AllTopics:
    """A selection of every partition, those of internal topics too."""

    def select(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return all partitions, sorted."""
        return sorted(topic_partitions)


@dataclass(frozen=True, slots=True)
class Assign:
    """A selection of partitions; those that their topic does not have are ignored."""

    partitions: tuple[TopicPartition, ...]

    def select(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the named partitions; raise `ConfigError` for a missing topic."""
        existing = set(topic_partitions)
        _check_topics("assign", {topic for topic, _ in self.partitions}, existing)
        return sorted(existing.intersection(self.partitions))


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A selection of all partitions of named topics."""

    topics: tuple[str, ...]

    def select(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the topics' partitions; raise `ConfigError` for a missing topic."""
        existing = set(topic_partitions)
        _check_topics("subscribe", set(self.topics), existing)
        return sorted(tp for tp in existing if tp[0] in self.topics)


@dataclass(frozen=True, slots=True)
class SubscribePattern:
    """A selection of all partitions of topics whose names contain a match of a pattern.

    The pattern is Java's: ``order`` matches ``reorders``, ``^order`` does not. Internal
    topics never match.
    """

    pattern: str

    def select(
        self, topic_partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the partitions of matching topics; there may be none."""
        search = compile_java_pattern(self.pattern).search
        return sorted(
            (topic, partition)
            for topic, partition in topic_partitions
            if topic not in INTERNAL and search(topic)
        )


ALL_TOPICS: Final = AllTopics()

Topics = AllTopics | Assign | Subscribe | SubscribePattern


def compile_java_pattern(pattern: str) -> re.Pattern[str]:
    r"""Compile a Java pattern; raise `ConfigError` for syntax that Python lacks.

    >>> compile_java_pattern(r"(?<kind>orders|audit)\z").search("orders")["kind"]
    'orders'
    >>> compile_java_pattern(r"\p{Lower}+")
    Traceback (most recent call last):
    kafkalog.errors.ConfigError: expected a pattern without \p{Lower}, which Python...
    """

    def translate(match: re.Match[str]) -> str:
        if unsupported := match["unsupported"] or match["nested"]:
            raise ConfigError(
                f"expected a pattern without {unsupported}, which Python does not have "
                f"or reads differently, got {pattern}"
            )
        return "(?P<" if match["group"] else r"\Z" if match["end"] else match[0]

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return re.compile(JAVA_ONLY.sub(translate, pattern), re.ASCII)
    except (re.error, ArithmeticError, RecursionError, Warning) as error:
        raise ConfigError(f"expected a pattern, got {pattern} ({error})") from None


def _check_topics(option: str, topics: set[str], existing: set[TopicPartition]) -> None:
    known = {topic for topic, _ in existing}
    missing = [with_close_matches(name, known) for name in sorted(topics - known)]
    if missing:
        raise ConfigError(
            f"option {option}: no partition found of topics {', '.join(missing)}"
        )
