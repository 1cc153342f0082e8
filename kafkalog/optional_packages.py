"""Import of optional packages; a missing one is reported with its pip command."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kafkalog.errors import MissingDependencyError


def require(package: str, extra: str) -> Any:
    """Return an optional package, imported, or raise `MissingDependencyError`.

    >>> require("math", "arrow").floor(1.5)
    1
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if not f"{package}.".startswith(f"{missing}."):
            raise
        raise MissingDependencyError(missing, extra) from None
