"""The arrangement of the tests: what two files share stands in `harness/`, and no test runs `bench/`."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
FOLDERS = {"unit", "contracts", "scenarios", "bench"}


@cache
def trees():
    return {path.relative_to(TESTS).as_posix(): ast.parse(path.read_text()) for path in TESTS.rglob("*.py")}


def imported(tree):
    """Yield the modules that a file imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_no_file_imports_a_test_or_a_benchmark():
    found = [(path, module) for path, tree in trees().items() for module in imported(tree)]
    assert not [(path, module) for path, module in found if module.split(".")[0] in FOLDERS or "test_" in module]


def test_the_harness_holds_no_test():
    names = {path: [getattr(node, "name", "") for node in tree.body] for path, tree in trees().items()}
    assert not [
        path for path in names if path.startswith("harness/") and any(n.startswith("test_") for n in names[path])
    ]
