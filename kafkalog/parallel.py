"""Calls of one function for many items, in this thread or in several."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


class Map(Protocol):
    """The builtin `map`, or one that calls the function in several threads."""

    def __call__(
        self, function: Callable[[Item], Result], items: Iterable[Item], /
    ) -> Iterator[Result]:
        """Return the results, in the order of the items."""


@contextmanager
def mapping(threads: int, purpose: str) -> Iterator[Map]:
    """Yield a function like `map`, which uses `threads` threads if there are several.

    They are named ``kafkalog-`` and the purpose, and end with the context. An error of
    a call is raised by its result; calls that have not begun then are not made.

    >>> with mapping(2, "example") as run:
    ...     list(run(abs, [-3, 4]))
    [3, 4]
    """
    if threads < 1:
        raise ValueError(f"threads {threads}, expected 1 or more")
    if threads == 1:
        yield map
        return
    with ThreadPoolExecutor(threads, f"kafkalog-{purpose}") as pool:
        yield pool.map
