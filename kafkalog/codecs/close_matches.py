"""What a name that does not exist may have been meant for.

Knows: names. Does not know: what they name.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def with_close_matches(name: object, known: Iterable[str]) -> str:
    """Return the name, and after it the known ones that it is near to.

    >>> (
    ...     with_close_matches("valeu", ["key", "value"]),
    ...     with_close_matches("x", ["key", "value"]),
    ... )
    ('valeu (did you mean value?)', 'x')
    """
    near = get_close_matches(str(name), list(known))
    return f"{name} (did you mean {' or '.join(near)}?)" if near else str(name)
