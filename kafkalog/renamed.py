"""Errors for names of the release before, which name the new ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def renamed_arguments(
    **new_names: str,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator for a function whose arguments have new names.

    Calls with an old one raise `TypeError`.

    >>> @renamed_arguments(dst="destination")
    ... def copy(destination): ...
    >>> copy(dst="there")
    Traceback (most recent call last):
    TypeError: copy(): the argument dst is destination now
    """

    def decorate(
        function: Callable[Parameters, Result],
    ) -> Callable[Parameters, Result]:
        @wraps(function)
        def checked(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            for name in new_names.keys() & kwargs.keys():
                reason = f"the argument {name} is {new_names[name]} now"
                raise TypeError(f"{function.__name__}(): {reason}")
            return function(*args, **kwargs)

        return checked

    return decorate


def missing_attribute(
    owner: type, name: str, new_names: Mapping[str, str]
) -> AttributeError:
    """Return the error for an attribute that a class does not have, or no longer.

    >>> missing_attribute(str, "lower_case", {"lower_case": "lower"})
    AttributeError('str.lower_case has been renamed to lower')
    """
    old = f"{owner.__name__}.{name}"
    if name in new_names:
        return AttributeError(f"{old} has been renamed to {new_names[name]}")
    return AttributeError(f"no attribute {old}")
