"""Tests of small functions, run without running Python."""

import pytest

from minideep.behaviours.arithmetic import run_tests

TEST = "def test_it():\n    assert half(10) == 5\n"


@pytest.mark.parametrize(
    "body",
    [
        "return value / 2",
        '"""Half."""\n    return value * (1 - 50 / 100)',
        "part = value // 2\n    return part",
        "return max(0, round(value / 2))",
        "return -(-value - 0) / 2",
    ],
)
def test_arithmetic_is_understood(body):
    assert run_tests(f"def half(value):\n    {body}\n", TEST) == "test_it: passed\n1 passed, 0 failed"


def test_a_failing_test_says_what_came_out():
    found = run_tests("def half(value):\n    return value\n", TEST)
    assert found == "test_it: FAILED: assert half(10) == 5, but it is 10\n0 passed, 1 failed"


@pytest.mark.parametrize(
    "body",
    [
        "import os\n    return 5",
        "return __import__('os').getpid()",
        "return open('/etc/passwd')",
        "return value.__class__",
        "return half(value)",
        "return [value for value in value]",
        "return (lambda: 5)()",
        "while True:\n        pass",
        "return 10 ** 10 ** 10",
        "return 99999999 * 99999999",
        "return 'a' * 99",
        "return value / 0",
        "return half",
        "return max()",
    ],
)
def test_whatever_else_stands_there_is_not_run(body):
    found = run_tests(f"def half(value):\n    {body}\n", TEST)
    assert found.startswith("test_it: ERROR: ")
    assert found.endswith("\n0 passed, 1 failed")


@pytest.mark.parametrize("code", ["def half(:", "\0", "def half(value):\nreturn 5", "(" * 500])
def test_what_is_no_python_fails(code):
    assert run_tests(code, TEST).endswith("0 passed, 1 failed")


def test_a_function_that_is_gone_and_one_with_other_parameters_fail():
    assert "NotUnderstood: half(10)" in run_tests("", TEST)
    assert "TypeError: half takes 0 arguments, not 1" in run_tests("def half():\n    return 5\n", TEST)
