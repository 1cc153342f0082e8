"""Offsets and partitions in the JSON of Spark's Kafka source.

Offsets are ``{"orders":{"0":23}}``; partitions are ``{"orders":[0,1]}``. This module
does not interpret offsets: -1 and -2 are numbers here.

Parsing is stricter than Spark's, which accepts fractions, null, numbers of more than
64 bits and text after the JSON.

Source: ``JsonUtils.scala``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkalog.errors import ConfigError
from kafkalog.integer_limits import MAX_INT32, MAX_INT64

TopicPartition = tuple[str, int]
"""A topic and a partition number."""

NUMBER: Final = re.compile(r"[+-]?\d+")

OFFSETS_EXAMPLE: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMESTAMPS_EXAMPLE: Final = '{"topicA":{"0":123456789},"topicB":{"0":123456789}}'
PARTITIONS_EXAMPLE: Final = '{"topicA":[0,1],"topicB":[0,1]}'


def format_partition(topic_partition: TopicPartition) -> str:
    """Return the name of a partition as Kafka writes it.

    >>> format_partition(("orders", 0))
    'orders-0'
    """
    topic, partition = topic_partition
    return f"{topic}-{partition}"


def format_partitions(topic_partitions: Iterable[TopicPartition]) -> str:
    """Return a sorted list of partition names for a message.

    >>> format_partitions({("orders", 1), ("orders", 0)})
    '[orders-0, orders-1]'
    """
    return f"[{', '.join(map(format_partition, sorted(topic_partitions)))}]"


def offsets_to_json(
    offsets: Mapping[TopicPartition, int],
) -> dict[str, dict[str, int]]:
    """Return offsets as a JSON object, topics and partitions sorted.

    >>> offsets_to_json({("orders", 10): 5, ("orders", 2): 7, ("audit", 0): 1})
    {'audit': {'0': 1}, 'orders': {'2': 7, '10': 5}}
    """
    by_topic: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        by_topic.setdefault(topic, {})[str(partition)] = offsets[topic, partition]
    return by_topic


def offsets_from_json(
    value: Any, example: str = OFFSETS_EXAMPLE
) -> dict[TopicPartition, int]:
    """Parse a JSON object of offsets, or the text of one.

    Raises `ConfigError` for anything else; the message shows `example`.

    >>> offsets_from_json('{"orders":{"0":23,"1":-1}}')
    {('orders', 0): 23, ('orders', 1): -1}
    """
    try:
        return {
            (topic, _parse_partition(key)): _parse_integer(number)
            for topic, numbers in _check_type(dict, _parse(value)).items()
            for key, number in _check_type(dict, numbers).items()
        }
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        raise _invalid(value, example) from None


def partitions_from_json(value: Any) -> list[TopicPartition]:
    """Parse the partitions of each topic, and return them sorted without duplicates.

    >>> partitions_from_json('{"orders":[1,0]}')
    [('orders', 0), ('orders', 1)]
    """
    try:
        return sorted(
            {
                (topic, _parse_integer(number, MAX_INT32))
                for topic, numbers in _check_type(dict, _parse(value)).items()
                for number in _check_type(list, numbers)
            }
        )
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        raise _invalid(value, PARTITIONS_EXAMPLE) from None


def _invalid(value: Any, example: str) -> ConfigError:
    text = value if isinstance(value, str) else json.dumps(value, default=repr)
    return ConfigError(f"expected e.g. {example}, got {text}")


def _parse(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def _check_type(expected: type, value: Any) -> Any:
    if not isinstance(value, expected):
        raise TypeError(value)
    return value


def _parse_partition(key: str) -> int:
    if not NUMBER.fullmatch(key):
        raise ValueError(key)
    return _parse_integer(int(key), MAX_INT32)


def _parse_integer(number: Any, maximum: int = MAX_INT64) -> int:
    """Return an integral number as an int; 5.0 and 5e0 are integral."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(number)
    if int(number) != number or not -maximum - 1 <= number <= maximum:
        raise ValueError(number)
    return int(number)
