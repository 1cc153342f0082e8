"""Names that modules share have one definition."""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

import kafkalog

PACKAGE = Path(kafkalog.__file__).parent
MODULES = {
    path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
SHARED = {
    "array_types.py": {
        f"npt.NDArray[np.{kind}]" for kind in ("bool_", "uint8", "int32", "int64")
    },
    "integer_limits.py": {"2 ** 63 - 1", "-2 ** 63", "(1 << 63) - 1"},
}
"""Values that no other module gives a name of its own."""


def named_values(module):
    """Yield the text of each value that has a name in a module."""
    for node in module.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            yield ast.unparse(node.value)


@pytest.mark.parametrize("home", SHARED)
def test_a_shared_type_or_limit_has_one_name(home):
    others = {
        path: found
        for path, module in MODULES.items()
        if path != home and (found := SHARED[home].intersection(named_values(module)))
    }
    assert set(named_values(MODULES[home])) & SHARED[home]
    assert not others


def test_no_two_modules_have_a_class_of_one_name():
    homes = defaultdict(list)
    for path, module in MODULES.items():
        for node in module.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(path)
    assert len(homes) > 300
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}


def test_no_two_modules_give_one_function_type_a_name():
    homes = defaultdict(list)
    for path, module in MODULES.items():
        for node in module.body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                value = ast.unparse(node.value)
                if value.startswith("Callable["):
                    homes[node.targets[0].id].append(path)
    assert {"Progress", "Advance"} <= set(homes)
    assert not {name: paths for name, paths in homes.items() if len(paths) > 1}
