"""Print the requirements of kafkalog and of the extras named, one a line.

    python tests/packaging/needs.py [EXTRA...]

For environments that share the kernels of this checkout: nothing is built for them.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]


def needs(extra: str) -> list[str]:
    """Return the requirements of an extra, including those of extras that it names."""
    found = []
    for requirement in PROJECT["optional-dependencies"][extra]:
        name, _, rest = requirement.partition("[")
        if name == PROJECT["name"]:
            for other in rest.removesuffix("]").split(","):
                found += needs(other)
        else:
            found.append(requirement)
    return found


if __name__ == "__main__":
    requirements = PROJECT["dependencies"] + [
        one for extra in sys.argv[1:] for one in needs(extra)
    ]
    print(*dict.fromkeys(requirements), sep="\n")
