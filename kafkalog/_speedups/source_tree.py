"""Whether the kernels of a source tree are compiled for the Python that runs.

A checkout holds the kernels' sources, an installed package only what they became. So
Python started in a checkout imports the checkout, and not the package that was
installed beside it; where nothing was compiled there, an error says so.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path


def explain_uncompiled(package: str, directory: Path) -> str | None:
    """Return why the kernels of `package` cannot be imported, and what to do.

    None if each source in `directory` was compiled, or if there are no sources.

    >>> explain_uncompiled("kafkalog._speedups", Path(__file__).parent)
    """
    missing = [
        source.stem
        for source in sorted(directory.glob("*.pyx"))
        if find_spec(f"{package}.{source.stem}") is None
    ]
    if not missing:
        return None
    version = "{}.{}".format(*sys.version_info)
    return (
        f"the kernels are not compiled for Python {version} in this source tree, "
        f"{directory.parents[1]}: run `make compile` or `pip install --editable .` "
        "there, or start Python in another directory to use an installed kafkalog; "
        f"missing: {', '.join(missing)}"
    )
