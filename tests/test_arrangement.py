"""The arrangement of the tests: what two files share stands in `harness/`, and no test runs `bench/`."""

import ast
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
FILES = sorted(path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.py"))


def imported(path):
    """Yield the modules that a file imports."""
    for node in ast.walk(ast.parse((TESTS / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


@pytest.mark.parametrize("path", FILES)
def test_no_file_imports_a_test_or_a_benchmark(path):
    parts = {part for module in imported(path) for part in module.split(".")}
    assert not [
        part for part in parts if part.startswith("test_") or part in ("unit", "contracts", "scenarios", "bench")
    ]


@pytest.mark.parametrize("path", [path for path in FILES if path.startswith("harness/")])
def test_the_harness_holds_no_test(path):
    names = [node.name for node in ast.walk(ast.parse((TESTS / path).read_text())) if hasattr(node, "name")]
    assert not [name for name in names if str(name).startswith(("test_", "Test"))]
