"""The types that users rely on: both type checkers read `user_code.py`, and know every public name."""

import ast
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CACHE = Path(tempfile.gettempdir()) / f"minideep-mypy-{os.getuid()}"
"""Kept between runs: without it mypy reads the package anew."""


def mypy(path):
    command = ["mypy", "--config-file", HERE / "mypy.ini", "--cache-dir", CACHE, path]
    env = {**os.environ, "MYPYPATH": str(ROOT)}
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=env, capture_output=True, text=True)


def test_mypy_knows_the_types_of_what_a_user_writes():
    """That pyright does is part of its run in `test_architecture.py`."""
    run = mypy(HERE / "user_code.py")
    assert run.returncode == 0, run.stdout + run.stderr


def test_every_wrong_expectation_of_that_code_would_be_noticed(tmp_path):
    tree = ast.parse((HERE / "user_code.py").read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "assert_type"]
    for call in calls:
        call.args[1] = ast.parse("set[bytes]", mode="eval").body
    (tmp_path / "wrong.py").write_text(ast.unparse(tree))
    assert mypy(tmp_path / "wrong.py").stdout.count("[assert-type]") == len(calls) > 30


def test_pyright_knows_the_type_of_every_public_name():
    command = ["pyright", "--verifytypes", "minideep", "--ignoreexternal", "--outputjson"]
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = {**os.environ, "PATH": beside, "PYTHONPATH": str(ROOT)}
    run = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=env, capture_output=True, text=True)
    found = json.loads(run.stdout)["typeCompleteness"]
    unknown = [symbol for symbol in found["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert [f"{symbol['name']}: {symbol['diagnostics'][:1]}" for symbol in unknown] == []
    assert found["completenessScore"] == 1
