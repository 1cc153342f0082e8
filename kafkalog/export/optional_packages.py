"""Optional packages, imported when they are needed, with the pip line when missing."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kafkalog.errors import MissingDependencyError


def require(package: str, extra: str) -> Any:
    """Import an optional package, or say how to install it.

    >>> require("math", "arrow").floor(1.5)
    1
    """
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        installed = package.partition(".")[0]
        if error.name != installed:
            raise
        raise MissingDependencyError(installed, extra) from None
