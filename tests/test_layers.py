"""A package imports from its own layer and the layers below it."""

import ast
import re
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import kafkalog
from tests import golden_data
from tests.layers import LAYERS

HEIGHT_OF = {
    package: height
    for height, layer in enumerate(reversed(LAYERS))
    for package in layer.packages
}
HEIGHT_OF["FRONT_DOOR"] = HEIGHT_OF["cli"]
PACKAGE = Path(kafkalog.__file__).parent
MODULES = sorted(
    {*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyi")} - {PACKAGE / "__init__.py"}
)
COMPILED = sorted([*PACKAGE.rglob("*.pyx"), *PACKAGE.rglob("*.pxd")])
KERNELS = [
    *(path for path in COMPILED if path.parent.name == "_speedups"),
    *(PACKAGE / "_speedups").glob("*.h"),
]

# A scan and its records convert themselves to other libraries' tables on request, and
# import the surface that does it then.
UPWARD = {
    ("query/records.py", "export"),
    ("query/scan.py", "export"),
}
WRITERS = {"config", "validation", "encoding", "manager", "cleaner", "verification"}
READERS_OF_LOGS = {
    "log", "markers", "offset_metadata", "producers", "readable_log", "reading",
}  # fmt: skip
READINGS = {
    "count": "kafkalog.scan(PATH).count()",
    "chunks": "list(kafkalog.scan(PATH, isolation='read_committed').chunks())",
    "threads": "list(kafkalog.scan(PATH, threads=2).chunks())",
    "tail": "list(tailing.last_records(kafkalog.scan(PATH), 2).chunks())",
    "log": "read(kafkalog.Log(PATH))",
    "offsets": "kafkalog.groups(PATH + '/..')",
    "topics": "kafkalog.topics(PATH + '/..')",
}
READ = """
import sys, kafkalog
from kafkalog.query import tailing

def read(log):
    log.producer_states(), log.high_watermark, log.last_stable_offset, log.segments
    log.read(log.log_start_offset, isolation="read_committed")
    log.offsets_for_times([0]), log.aborted_transactions(), log.leader_epochs

QUESTION
print(*sys.modules)
"""
CIMPORT = re.compile(r"^\s*(?:from|cimport|import)\s+([\w.]+)", re.MULTILINE)
# A kernel reaches no file and no other resource of the operating system.
PURE_C = {"libc.limits", "libc.math", "libc.stdint", "libc.string"}
PURE_HEADERS = {
    "md5.h", "stddef.h", "stdint.h", "string.h", "immintrin.h", "arm_acle.h",
    "arm_neon.h", "asm/hwcap.h", "sys/auxv.h",
}  # fmt: skip
C_HEADER = re.compile(r"^\s*#\s*include\s*[<\"]([^>\"]+)", re.MULTILINE)


def package_of(*names):
    """Return the package that an import reaches, `FRONT_DOOR` for `kafkalog` itself."""
    package, *rest = ".".join(names).split(".")
    if package != "kafkalog":
        return None
    return rest[0] if rest and rest[0] in HEIGHT_OF else "FRONT_DOOR"


def origin_of(node, path):
    """Resolve the module of a `from` import, relative ones too."""
    module = node.module or ""
    if not node.level:
        return module
    package = ("kafkalog", *path.relative_to(PACKAGE).parent.parts)
    above = package[: len(package) - node.level + 1]
    return ".".join((*above, module)).rstrip(".")


def packages_imported_by(path):
    """Yield the packages that `path` imports: at its top, inside functions, by name."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(names=names):
                origin = origin_of(node, path)
                yield from (package_of(origin, alias.name) for alias in names)
            case ast.Import(names=names):
                yield from (package_of(alias.name) for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield package_of(name)


@pytest.mark.parametrize(
    "path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_imports_go_down(path):
    here = path.relative_to(PACKAGE).as_posix()
    package = here.split("/")[0].removesuffix(".py")
    assert package in HEIGHT_OF, f"{package} is in no layer: add it to tests/layers.py"
    above = {
        reached
        for reached in set(packages_imported_by(path)) - {None}
        if HEIGHT_OF[reached] > HEIGHT_OF[package] and (here, reached) not in UPWARD
    }
    assert not above, f"imports from the layers above: {above}"


def module_name(path):
    """Return the dotted name under which the file at `path` is imported."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def nodes_at_run_time(tree):
    """Yield the nodes of a syntax tree, except those only a type checker reads."""
    match tree:
        case ast.If(test=ast.Name("TYPE_CHECKING") | ast.Attribute(_, "TYPE_CHECKING")):
            inner = tree.orelse
        case _:
            yield tree
            inner = ast.iter_child_nodes(tree)
    for node in inner:
        yield from nodes_at_run_time(node)


def modules_imported_by(path, modules):
    """Yield those of `modules` that `path` imports at run time."""
    for node in nodes_at_run_time(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(names=names):
                origin = origin_of(node, path)
                for alias in names:
                    whole = f"{origin}.{alias.name}"
                    yield whole if whole in modules else origin
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.Call(args=[ast.Constant(value=str(name)), *_]) if ast.unparse(
                node.func
            ) in ("importlib.import_module", "__import__"):
                yield name


def cycle_among(imports):
    """Return modules that import each other in turn, none if there are none."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_modules_import_each_other_in_turn():
    paths = {module_name(path): path for path in PACKAGE.rglob("*.py")}
    imports = {
        name: set(modules_imported_by(path, paths)) & paths.keys()
        for name, path in paths.items()
    }
    assert "kafkalog.export.arrow" in imports["kafkalog.query.records"]
    assert not cycle_among(imports), "an import inside a function counts, too"


@pytest.mark.parametrize(
    ("source", "modules"),
    [
        ("from kafkalog.export import arrow", {"kafkalog.export.arrow"}),
        ("import kafkalog.export.arrow", {"kafkalog.export.arrow"}),
        ("from kafkalog.export.arrow import to_batch", {"kafkalog.export.arrow"}),
        ("from . import arrow", {"kafkalog.export.arrow"}),
        ("def late():\n    from .arrow import to_batch", {"kafkalog.export.arrow"}),
        ("importlib.import_module('kafkalog.export.arrow')", {"kafkalog.export.arrow"}),
        ("if TYPE_CHECKING:\n    from . import arrow", set()),
        (
            "if typing.TYPE_CHECKING:\n    import a\nelse:\n    from . import arrow",
            {"kafkalog.export.arrow"},
        ),
    ],
)
def test_imports_for_type_checkers_are_none_at_run_time(source, modules, monkeypatch):
    path = PACKAGE / "export" / "imagined.py"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: source)
    assert set(modules_imported_by(path, {"kafkalog.export.arrow"})) == modules


def test_a_cycle_is_found():
    assert sorted(set(cycle_among({"a": {"b"}, "b": {"c"}, "c": {"b"}}))) == ["b", "c"]
    assert cycle_among({"a": {"b", "c"}, "b": {"c"}}) == []


@pytest.mark.parametrize("reading", READINGS)
def test_reading_imports_no_module_that_writes(reading):
    path = golden_data.logs("k431-clean") / "state.txn-0"
    question = READINGS[reading].replace("PATH", repr(str(path)))
    program = READ.replace("QUESTION", question)
    ran = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        cwd=PACKAGE.parent,
    )
    loaded = [name.split(".")[1:] for name in ran.stdout.split() if "kafkalog." in name]
    packages = {package for package, *_ in loaded}
    of_logs = {parts[1] for parts in loaded if parts[0] == "log" and len(parts) > 1}
    assert not packages & WRITERS
    assert of_logs <= READERS_OF_LOGS


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: path.name)
def test_cimports_go_down(path):
    package = path.relative_to(PACKAGE).parts[0]
    reached = map(package_of, CIMPORT.findall(path.read_text(encoding="utf-8")))
    above = {
        name for name in set(reached) - {None} if HEIGHT_OF[name] > HEIGHT_OF[package]
    }
    assert not above, f"imports from the layers above: {above}"


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_a_kernel_imports_nothing_that_makes_system_calls(path):
    source = path.read_text(encoding="utf-8")
    modules = {
        name
        for name in CIMPORT.findall(source)
        if name not in PURE_C
        and name.split(".")[0] not in ("cpython", "cython", "numpy")
        and not name.startswith("kafkalog._speedups")
    }
    headers = set(C_HEADER.findall(source)) - PURE_HEADERS
    assert not modules | headers, "system calls belong to kafkalog/storage/system_calls"


@pytest.mark.parametrize(
    ("source", "packages"),
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
def test_every_form_of_import_is_found(source, packages, monkeypatch):
    path = PACKAGE / "segment" / "imagined.py"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: source)
    assert set(packages_imported_by(path)) == packages
