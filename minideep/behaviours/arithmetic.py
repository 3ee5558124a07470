"""Run the tests of a small Python file without running Python: a model may write anything into it.

Only numbers, names, comparisons, conditions and calls of its own functions are understood.
"""

import ast
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

MAX_DEPTH = 50
"""Calls within calls."""
MAX_NUMBER = 10.0**15
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: left / right,
    ast.FloorDiv: lambda left, right: left // right,
    ast.Mod: operator.mod,
}
_COMPARE: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.USub: operator.neg, ast.Not: operator.not_}
_BUILTIN: Mapping[str, Callable[..., Any]] = {
    function.__name__: function for function in (abs, bool, float, int, max, min, round)
}


class NotUnderstood(Exception):
    """The file has something that is more than arithmetic."""


def run_tests(code: str, tests: str) -> str:
    """Run each `test_` function of *tests* on the functions of *code*. Return a line for each, and the totals."""
    try:
        known = _functions(code) | _functions(tests)
    except (SyntaxError, ValueError) as exc:
        return f"cannot be read: {exc}\n0 passed, 1 failed"
    results = {name: _outcome(known, name) for name in known if name.startswith("test_")}
    lines = [f"{name}: {problem or 'passed'}" for name, problem in results.items()]
    failed = sum(bool(problem) for problem in results.values())
    return "\n".join([*lines, f"{len(results) - failed} passed, {failed} failed"])


def _functions(code: str) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in ast.parse(code).body if isinstance(node, ast.FunctionDef)}


def _outcome(known: Mapping[str, ast.FunctionDef], name: str) -> str:
    try:
        _Call(known, {}, 0).of(known[name], ())
    except AssertionError as exc:
        return f"FAILED: {exc}"
    except (NotUnderstood, ArithmeticError, TypeError, ValueError) as exc:
        return f"ERROR: {type(exc).__name__}: {exc}"
    return ""


class _Returned(Struct):
    value: Any


class _Call(Struct):
    """A function that is called: the functions it may call, its names, and how deep it stands."""

    known: Mapping[str, ast.FunctionDef]
    names: dict[str, Any]
    depth: int

    def of(self, function: ast.FunctionDef, values: Sequence[Any]) -> Any:
        parameters = [argument.arg for argument in function.args.args]
        if len(parameters) != len(values):
            raise TypeError(f"{function.name} takes {len(parameters)} arguments, not {len(values)}")
        if self.depth > MAX_DEPTH:
            raise NotUnderstood("calls nest too deeply")
        inner = _Call(self.known, dict(zip(parameters, values, strict=True)), self.depth + 1)
        returned = inner.block(function.body)
        return returned.value if returned else None

    def block(self, body: Sequence[ast.stmt]) -> _Returned | None:
        for statement in body:
            match statement:
                case ast.Return(value=None):
                    return _Returned(None)
                case ast.Return(value=ast.expr() as value):
                    return _Returned(self.value(value))
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.value(value)
                case ast.If(test=test, body=then, orelse=otherwise):
                    if returned := self.block(then if self.value(test) else otherwise):
                        return returned
                case ast.Assert(test=test):
                    if not self.value(test):
                        raise AssertionError(f"assert {ast.unparse(test)}{self.found(test)}")
                case ast.Expr(value=ast.Constant()) | ast.Pass():  # A docstring.
                    pass
                case _:
                    raise NotUnderstood(f"line {statement.lineno} is more than arithmetic: {ast.unparse(statement)}")
        return None

    def found(self, test: ast.expr) -> str:
        return f", but it is {self.value(test.left)!r}" if isinstance(test, ast.Compare) else ""

    def value(self, node: ast.expr) -> Any:
        found = self.computed(node)
        if isinstance(found, int | float) and abs(found) > MAX_NUMBER:
            raise NotUnderstood("the number is too large")
        return found

    def computed(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value=int() | float() as value):
                return value
            case ast.Name(id=name) if name in self.names:
                return self.names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](self.value(left), self.value(right))
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return _UNARY[type(op)](self.value(operand))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _COMPARE:
                return _COMPARE[type(op)](self.value(left), self.value(right))
            case ast.BoolOp(op=op, values=values):
                found = [self.value(value) for value in values]
                return all(found) if isinstance(op, ast.And) else any(found)
            case ast.IfExp(test=test, body=then, orelse=otherwise):
                return self.value(then if self.value(test) else otherwise)
            case ast.Call(func=ast.Name(id=name), args=args, keywords=[]):
                return self.called(name, [self.value(argument) for argument in args])
            case _:
                raise NotUnderstood(f"more than arithmetic: {ast.unparse(node)}")

    def called(self, name: str, values: Sequence[Any]) -> Any:
        if name in self.known:
            return self.of(self.known[name], values)
        if name in _BUILTIN:
            return _BUILTIN[name](*values)
        raise NotUnderstood(f"no function {name}")
