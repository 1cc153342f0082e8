"""Check that a source tree is compiled for the Python that imports it.

A checkout holds the sources of extension modules, an installed package does not. Python
started in a checkout imports the checkout, even if the package is installed. If
extension modules are missing there, the error states how to compile them.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Final

COMPILED: Final = ("_speedups", "storage")
"""The packages that have extension modules."""


def explain_uncompiled(root: Path) -> str | None:
    """Return why extension modules of `root` cannot be imported, and what to do.

    None if each source is compiled, or if there are no sources.

    >>> explain_uncompiled(Path(__file__).parents[1])
    """
    missing = [
        source.stem
        for package in COMPILED
        for source in sorted((root / package).glob("*.pyx"))
        if find_spec(f"{root.name}.{package}.{source.stem}") is None
    ]
    if not missing:
        return None
    version = "{}.{}".format(*sys.version_info)
    return (
        f"the kernels are not compiled for Python {version} in this source tree, "
        f"{root.parent}: run `make compile` or `pip install --editable .` "
        "there, or start Python in another directory to use an installed kafkalog; "
        f"missing: {', '.join(missing)}"
    )
