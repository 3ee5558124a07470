"""Reads from the source what a class says about its fields, which Python keeps nowhere."""

import ast
import inspect
import sys
from functools import cache
from inspect import cleandoc


def whole(plain: str, kind: type) -> str | None:
    """Return the docstring of a class with what it says about its fields; None if it says nothing at all."""
    fields = "\n".join(f"    {name}: {_indented(text)}" for name, text in field_docs(kind).items())
    parts = [cleandoc(plain), f"Fields:\n{fields}" if fields else ""]
    # Whoever cleans the text again takes its first line for one that is not indented: better that it is empty.
    return "\n\n".join(filter(None, parts) if plain else parts).rstrip() or None


def _indented(text: str) -> str:
    return text.replace("\n", "\n        ")


def first_words(kind: type) -> str:
    """Return the first paragraph of a class's own docstring, in one line."""
    plain = vars(kind).get("__doc__") or ""
    return " ".join(cleandoc(str(plain)).split("\n\n")[0].split())


@cache
def field_docs(kind: type) -> dict[str, str]:
    """Return what a class and its bases say about their fields, by name; without those whose source is not there."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__):
        if base.__module__.partition(".")[0] not in ("builtins", "msgspec", "typing", "abc"):
            found |= _in_source(base.__module__).get(base.__qualname__, {})
    return found


@cache
def _in_source(module: str) -> dict[str, dict[str, str]]:
    """Return, for each class of a module, the text beneath each of its annotated names."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError, SyntaxError):
        return {}
    found: dict[str, dict[str, str]] = {}
    for node in (node for node in tree.body if isinstance(node, ast.ClassDef)):
        docs = found[node.name] = {}
        for field, text in zip(node.body, node.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                    docs[name] = cleandoc(doc)
                case _:
                    pass
    return found
