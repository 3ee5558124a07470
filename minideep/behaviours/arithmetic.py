"""Run the tests of a file of small functions without running Python: a model may write anything into it.

A function may compute with numbers and its own names, and return what comes out. A test asserts what functions return.
"""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Functions = Mapping[str, Callable[..., Any]]
MAX_NUMBER = 10.0**15
_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda left, right: left + right,
    ast.Sub: lambda left, right: left - right,
    ast.Mult: lambda left, right: left * right,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
}
_BUILT_IN: Functions = {function.__name__: function for function in (abs, float, int, max, min, round)}


class NotUnderstood(Exception):
    """The file has something that is more than arithmetic."""


def run_tests(code: str, tests: str) -> str:
    """Run each function of *tests* on those of *code*. Return a line for each, and the totals."""
    try:
        functions = {name: _callable(function) for name, function in _defined(code).items()}
        results = {name: _problem(test, functions) for name, test in _defined(tests).items()}
    except (SyntaxError, ValueError) as exc:
        return f"the code cannot be read: {exc}\n0 passed, 1 failed"
    lines = [f"{name}: {problem or 'passed'}" for name, problem in results.items()]
    failed = sum(map(bool, results.values()))
    return "\n".join([*lines, f"{len(results) - failed} passed, {failed} failed"])


def _defined(code: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}


def _problem(test: ast.FunctionDef, functions: Functions) -> str:
    """Return why *test* fails, or an empty string."""
    try:
        for statement in test.body:
            match statement:
                case ast.Assert(test=ast.Compare(left=call, ops=[ast.Eq()], comparators=[expected])):
                    if (found := _value(call, {}, functions)) != _value(expected, {}, functions):
                        return f"FAILED: assert {ast.unparse(call)} == {ast.unparse(expected)}, but it is {found}"
                case _:
                    raise NotUnderstood(ast.unparse(statement))
    except (NotUnderstood, ArithmeticError, TypeError, ValueError) as exc:
        return f"ERROR: {type(exc).__name__}: {exc}"
    return ""


def _callable(function: ast.FunctionDef) -> Callable[..., Any]:
    parameters = [parameter.arg for parameter in function.args.args]

    def run(*values: Any) -> Any:
        if len(values) != len(parameters):
            raise TypeError(f"{function.name} takes {len(parameters)} arguments, not {len(values)}")
        return _returned(function.body, dict(zip(parameters, values, strict=True)))

    return run


def _returned(body: Sequence[ast.stmt], names: dict[str, Any]) -> Any:
    for statement in body:
        match statement:
            case ast.Return(value=ast.expr() as value):
                return _value(value, names, _BUILT_IN)
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                names[name] = _value(value, names, _BUILT_IN)
            case ast.Expr(value=ast.Constant()):  # A docstring.
                pass
            case _:
                raise NotUnderstood(ast.unparse(statement))
    return None


def _value(node: ast.expr, names: Mapping[str, Any], functions: Functions) -> Any:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name) if name in names:
            return names[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, names, functions)
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
            found = _OPERATORS[type(op)](_value(left, names, functions), _value(right, names, functions))
            if abs(found) > MAX_NUMBER:
                raise NotUnderstood("a number is too large")
            return found
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in functions:
            return functions[name](*(_value(argument, names, functions) for argument in arguments))
        case _:
            raise NotUnderstood(ast.unparse(node))
