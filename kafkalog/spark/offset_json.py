"""Offsets as text: Kafka's JSON of topics, partitions and numbers, read and written.

Knows: ``{"orders":{"0":23}}`` and ``{"orders":[0,1]}``. Does not know: which
partitions there are, or what an offset of -1 stands for.
Source: JsonUtils of Spark's Kafka source. Stricter than it, where it would read what
nobody meant: a fraction, null, a number of more than 64 bits, text behind the JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkalog.errors import ConfigError

Place = tuple[str, int]
"""A topic and the number of one of its partitions."""

INT_MAX: Final = 2**31 - 1
LONG_MAX: Final = 2**63 - 1
NUMBER: Final = re.compile(r"[+-]?\d+")

OFFSETS_FORM: Final = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'
TIMES_FORM: Final = '{"topicA":{"0":123456789},"topicB":{"0":123456789}}'
PLACES_FORM: Final = '{"topicA":[0,1],"topicB":[0,1]}'


def name_place(place: Place) -> str:
    """Write a partition as Kafka does.

    >>> name_place(("orders", 0))
    'orders-0'
    """
    return f"{place[0]}-{place[1]}"


def name_places(places: Iterable[Place]) -> str:
    """Write partitions in order, for a message.

    >>> name_places({("orders", 1), ("orders", 0)})
    '[orders-0, orders-1]'
    """
    return f"[{', '.join(map(name_place, sorted(places)))}]"


def to_json(numbers: Mapping[Place, int]) -> dict[str, dict[str, int]]:
    """Give offsets Kafka's form, topics and partitions in order.

    >>> to_json({("orders", 10): 5, ("orders", 2): 7, ("audit", 0): 1})
    {'audit': {'0': 1}, 'orders': {'2': 7, '10': 5}}
    """
    form: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(numbers):
        form.setdefault(topic, {})[str(partition)] = numbers[topic, partition]
    return form


def from_json(form: Any, example: str = OFFSETS_FORM) -> dict[Place, int]:
    """Read what `to_json` gives, or its text.

    Raises `ConfigError` for anything else, with `example` for what was expected.

    >>> from_json('{"orders":{"0":23,"1":-1}}')
    {('orders', 0): 23, ('orders', 1): -1}
    """
    try:
        return {
            (topic, _partition(key)): _whole(number)
            for topic, numbers in _of_type(dict, _parse(form)).items()
            for key, number in _of_type(dict, numbers).items()
        }
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        raise _refused(form, example) from None


def places_from_json(form: Any) -> list[Place]:
    """Read the partitions of each topic, sorted, each once.

    >>> places_from_json('{"orders":[1,0]}')
    [('orders', 0), ('orders', 1)]
    """
    try:
        return sorted(
            {
                (topic, _whole(number, INT_MAX))
                for topic, numbers in _of_type(dict, _parse(form)).items()
                for number in _of_type(list, numbers)
            }
        )
    except (ArithmeticError, TypeError, ValueError, RecursionError):
        raise _refused(form, PLACES_FORM) from None


def _refused(form: Any, example: str) -> ConfigError:
    text = form if isinstance(form, str) else json.dumps(form, default=repr)
    return ConfigError(f"expected e.g. {example}, got {text}")


def _parse(form: Any) -> Any:
    return json.loads(form) if isinstance(form, str) else form


def _of_type(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise TypeError(value)
    return value


def _partition(key: str) -> int:
    if not NUMBER.fullmatch(key):
        raise ValueError(key)
    return _whole(int(key), INT_MAX)


def _whole(number: Any, greatest: int = LONG_MAX) -> int:
    """Take a whole number, also one with a point or an exponent."""
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(number)
    if int(number) != number or not -greatest - 1 <= number <= greatest:
        raise ValueError(number)
    return int(number)
