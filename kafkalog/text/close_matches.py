"""Suggestions for mistyped names: topics, columns, commands, options, settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

SHOWN: Final = 5
"""Maximum number of names that are listed."""


def close_matches(name: object, known: Iterable[str]) -> str:
    """Return a question with the nearest known name; "" if none is similar.

    Case, and the characters ``*``, ``?``, ``[`` and ``]`` of patterns, do not count.

    >>> close_matches("Valeu", ["key", "value"]), close_matches("x", ["key", "value"])
    ('did you mean value?', '')
    """
    from difflib import get_close_matches  # 5 ms, for those who mistype

    spelled: Mapping[str, str] = {each.casefold(): each for each in known}
    wanted = str(name).casefold().translate(dict.fromkeys(map(ord, "*?[]")))
    near = get_close_matches(wanted, list(spelled), n=1)
    return f"did you mean {spelled[near[0]]}?" if near else ""


def with_close_matches(name: object, known: Iterable[str]) -> str:
    """Return `name`, followed by the nearest known name if one is similar.

    >>> (
    ...     with_close_matches("valeu", ["key", "value"]),
    ...     with_close_matches("x", ["key", "value"]),
    ... )
    ('valeu (did you mean value?)', 'x')
    """
    question = close_matches(name, known)
    return f"{name} ({question})" if question else str(name)


def no_such_name(kind: str, name: str, known: Iterable[str]) -> FileNotFoundError:
    """Return the error for a topic or the like that does not exist, with advice.

    >>> error = no_such_name("topic", "ordesr", ["orders", "payments"])
    >>> str(error), error.__notes__
    ("[Errno 2] No such topic: 'ordesr'", ['did you mean orders?'])
    >>> no_such_name("topic", "x", ["orders", "payments"]).__notes__
    ['there are orders, payments']
    """
    error = FileNotFoundError(2, f"No such {kind}", name)
    names = [*known]
    listed = f"there are {first_few(names)}" if names else "there are none"
    error.add_note(close_matches(name, names) or listed)
    return error


def first_few(found: Iterable[Any]) -> str:
    """Return the first values in order as text, and the number of the others.

    >>> first_few({6, 5, 4, 3, 2, 1, 0})
    '0, 1, 2, 3, 4 and 2 more'
    """
    values = sorted(found)
    some = ", ".join(map(str, values[:SHOWN]))
    return f"{some} and {len(values) - SHOWN} more" if len(values) > SHOWN else some
