"""Writes the scenarios made by hand into a directory."""

import sys
from importlib import import_module

from tests.oracle.handmade.register import ALL

ROOMS = (
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
    for room in ROOMS:
        import_module(f"tests.oracle.handmade.{room}")
    for scenario in ALL:
        scenario.write(out)


if __name__ == "__main__":
    main(sys.argv[1])
