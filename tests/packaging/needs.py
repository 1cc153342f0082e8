"""Print the requirements of kafkalog, and of the extras and groups named, one a line.

    python tests/packaging/needs.py [EXTRA_OR_GROUP...]

For environments that share the kernels of this checkout: nothing is built for them.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = SETTINGS["project"]
GROUPS = SETTINGS["dependency-groups"]
LISTS = PROJECT["optional-dependencies"] | GROUPS


def needs(listed: str) -> list[str]:
    """Return the requirements of an extra or group, with those that it includes."""
    found = []
    for requirement in LISTS[listed]:
        if isinstance(requirement, dict):
            found += needs(requirement["include-group"])
            continue
        name, _, rest = requirement.partition("[")
        if name == PROJECT["name"]:
            for extra in rest.removesuffix("]").split(","):
                found += needs(extra)
        else:
            found.append(requirement)
    return found


if __name__ == "__main__":
    requirements = PROJECT["dependencies"] + [
        one for listed in sys.argv[1:] for one in needs(listed)
    ]
    print(*dict.fromkeys(requirements), sep="\n")
