"""Names that modules share have one definition."""

import ast
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
