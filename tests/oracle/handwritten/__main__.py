"""Write the handwritten scenarios to a directory."""

import sys
from importlib import import_module

from tests.oracle.handwritten.register import ALL

MODULES = (
    "appends",
    "followers",
    "rolling",
    "reading",
    "retention",
    "epochs",
    "producers",
    "transactions",
    "compaction",
    "recovery",
)


def main(out):
    for name in MODULES:
        import_module(f"tests.oracle.handwritten.{name}")
    for scenario in ALL:
        scenario.write(out)


if __name__ == "__main__":
    main(sys.argv[1])
