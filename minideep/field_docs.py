"""Shows in `help()` what a class says about its fields. Python drops those texts, so they are read from the source.

Only a reader of `__doc__` pays for that: the source is parsed when somebody asks.
"""

import sys
from functools import cache
from inspect import cleandoc
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from msgspec import Struct as Struct
else:

    class Struct(msgspec.Struct):
        """A Struct whose `__doc__` ends with what it says about its fields. Without its source, or under `python -OO`,
        that is the plain docstring.
        """

        def __init_subclass__(cls, **options: Any) -> None:
            super().__init_subclass__(**options)
            if sys.flags.optimize < 2:
                cls.__doc__ = _Doc.of(cls)


class _Doc(str):
    """The docstring of a class, which adds what its fields are when it is read.

    `cls.__doc__` and `inspect.getdoc` go through `__get__`. `help()` takes the object out of the class instead, and
    asks for its tabs first.
    """

    __slots__ = ("_kind",)

    @classmethod
    def of(cls, kind: type) -> "_Doc":
        doc = cls(vars(kind).get("__doc__") or "")
        doc._kind = kind
        return doc

    def __get__(self, instance: object, owner: type | None = None) -> str | None:
        fields = "\n".join(f"    {name}: {_indented(text)}" for name, text in field_docs(self._kind).items())
        parts = [cleandoc(str(self)), f"Fields:\n{fields}" if fields else ""]
        # A first line would count as not indented when somebody cleans the text again.
        return "\n\n".join(filter(None, parts) if self else parts).rstrip() or None

    def expandtabs(self, tabsize: Any = 8) -> str:
        return (self.__get__(None) or "").expandtabs(tabsize)


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
    import ast  # Only a reader needs it.
    import inspect

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
