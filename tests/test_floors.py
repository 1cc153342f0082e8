"""The house rule: a room imports from its own floor or a floor below, never above."""

import ast
import re
from pathlib import Path

import pytest

import kafkalog

FLOORS = """
    _speedups
    errors
    codecs
    config
    formats
    files
    indexes
    segment
    log
    cleaner
    manager
    query
    dump
    export spark cli FRONT_DOOR
    __main__
"""
FLOOR_OF = {
    room: height
    for height, rooms in enumerate(FLOORS.strip().splitlines())
    for room in rooms.split()
}
HOUSE = Path(kafkalog.__file__).parent
ROOMS = sorted(set(HOUSE.rglob("*.py")) - {HOUSE / "__init__.py"})
KERNELS = sorted([*HOUSE.rglob("*.pyx"), *HOUSE.rglob("*.pxd")])

# A scan hands itself to a surface when it is asked for one, and imports it then.
UPWARD = {("query/scan.py", "export")}
CIMPORT = re.compile(r"^\s*(?:from|cimport|import)\s+([\w.]+)", re.MULTILINE)
BELOW_THE_HOUSE = ("libc", "posix", "cpython", "cython", "numpy")


def room_of(*names):
    """Name the room that an import reaches; what is no room comes by the front door."""
    package, *rest = ".".join(names).split(".")
    if package != "kafkalog":
        return None
    return rest[0] if rest and rest[0] in FLOOR_OF else "FRONT_DOOR"


def origin_of(node, path):
    """Resolve the module of a `from` import, relative ones too."""
    module = node.module or ""
    if not node.level:
        return module
    package = ("kafkalog", *path.relative_to(HOUSE).parent.parts)
    above = package[: len(package) - node.level + 1]
    return ".".join((*above, module)).rstrip(".")


def rooms_imported_by(path):
    """Yield the rooms that `path` imports: at its top, inside functions, by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(names=names):
                origin = origin_of(node, path)
                yield from (room_of(origin, alias.name) for alias in names)
            case ast.Import(names=names):
                yield from (room_of(alias.name) for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield room_of(name)


@pytest.mark.parametrize("path", ROOMS, ids=lambda path: str(path.relative_to(HOUSE)))
def test_imports_go_down(path):
    here = path.relative_to(HOUSE).as_posix()
    room = here.split("/")[0].removesuffix(".py")
    assert room in FLOOR_OF, f"{room} is on no floor: give it one in FLOORS"
    above = {
        reached
        for reached in set(rooms_imported_by(path)) - {None}
        if FLOOR_OF[reached] > FLOOR_OF[room] and (here, reached) not in UPWARD
    }
    assert not above, f"reaches up to {above}"


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_a_kernel_knows_nothing_but_the_cellar(path):
    reached = CIMPORT.findall(path.read_text(encoding="utf-8"))
    strange = {
        name
        for name in reached
        if name.split(".")[0] not in BELOW_THE_HOUSE
        and not name.startswith("kafkalog._speedups")
    }
    assert not strange


@pytest.mark.parametrize(
    ("source", "rooms"),
    [
        ("from kafkalog.export import arrow", {"export"}),
        ("import kafkalog.export.arrow", {"export"}),
        ("from kafkalog import export", {"export"}),
        ("from kafkalog import scan", {"FRONT_DOOR"}),
        ("import kafkalog", {"FRONT_DOOR"}),
        ("from ..export import arrow", {"export"}),
        ("from .. import export", {"export"}),
        ("from . import arrow", {"segment"}),
        ("def late():\n    from kafkalog.cli import main", {"cli"}),
        ("importlib.import_module('kafkalog.spark')", {"spark"}),
        ("import numpy as np", {None}),
    ],
)
def test_no_way_of_importing_is_overlooked(source, rooms, monkeypatch):
    path = HOUSE / "segment" / "imagined.py"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: source)
    assert set(rooms_imported_by(path)) == rooms
