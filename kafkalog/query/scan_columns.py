"""The columns of a scan: names, order and data types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

FIXED: Final[dict[str, np.dtype[Any]]] = {
    "partition": np.dtype(np.int32),
    "offset": np.dtype(np.int64),
    "timestamp": np.dtype(np.int64),
    "timestamp_type": np.dtype(np.int8),
    "leader_epoch": np.dtype(np.int32),
    "producer_id": np.dtype(np.int64),
    "producer_epoch": np.dtype(np.int16),
    "sequence": np.dtype(np.int32),
    "is_transactional": np.dtype(np.bool_),
    "is_control": np.dtype(np.bool_),
    "magic": np.dtype(np.int8),
    "codec": np.dtype(np.int8),
    "segment": np.dtype(np.int32),
    "position": np.dtype(np.int64),
}
"""Columns of fixed width; `codec` and `segment` are codes."""

COLUMNS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "headers",
    "leader_epoch",
    "producer_id",
    "producer_epoch",
    "sequence",
    "is_transactional",
    "is_control",
    "magic",
    "codec",
    "segment",
    "position",
)
"""All columns, in order."""

Text: TypeAlias = bool | Literal["key", "value"]
"""Which of the columns ``key`` and ``value`` are text: both, neither, or one."""
TEXTS: Final = (False, True, "key", "value")

DEFAULT_COLUMNS: Final = COLUMNS[:8]
"""The columns of a scan by default."""


BY_IMPORTANCE: Final = ("value", "offset", "key", "timestamp", "headers")
"""The columns that a narrow table shows, the most important first."""


def importance_of(
    columns: Sequence[str], places: Iterable[tuple[str, int]]
) -> list[str]:
    """Return columns by importance: those of `BY_IMPORTANCE`, then the others.

    Columns other than the default ones were asked for, and are in the order given.
    The topic and the partition matter if there are several.

    >>> importance_of(DEFAULT_COLUMNS, [("orders", 0), ("orders", 1)])[:4]
    ['value', 'offset', 'partition', 'key']
    >>> importance_of(["key", "segment", "value"], [("orders", 0)])
    ['key', 'segment', 'value']
    """
    if tuple(columns) != DEFAULT_COLUMNS:
        return [*columns]
    topics, partitions = set[str](), set[tuple[str, int]]()
    for topic, partition in places:
        topics.add(topic)
        partitions.add((topic, partition))
    names = ["partition"] * (len(partitions) > 1) + ["topic"] * (len(topics) > 1)
    value, offset, *others = BY_IMPORTANCE
    return [*dict.fromkeys((value, offset, *names, *others, *columns))]


def choose_columns(columns: Iterable[str] | None) -> tuple[str, ...]:
    """Return valid names of columns, in the same order; for None, the default columns.

    >>> choose_columns(["value", "offset"])
    ('value', 'offset')
    """
    if columns is None:
        return DEFAULT_COLUMNS
    if isinstance(columns, str):
        raise TypeError(f"columns {columns!r}, expected a list: [{columns!r}]")
    chosen = tuple(columns)
    check_names(chosen, COLUMNS)
    repeated = {name for name in chosen if chosen.count(name) > 1}
    if repeated:
        raise ValueError(f"duplicate columns: {', '.join(sorted(repeated))}")
    return chosen


def check_names(columns: Iterable[str], known: Sequence[str]) -> None:
    """Raise `ValueError` for columns that are not among the `known` ones."""
    unknown = [name for name in columns if name not in known]
    if unknown:
        from kafkalog.text.close_matches import with_close_matches

        raise ValueError(
            f"no such columns: "
            f"{', '.join(with_close_matches(name, known) for name in unknown)}; "
            f"expected {', '.join(known)}"
        )
