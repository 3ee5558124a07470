"""Type hints of parameters as msgspec reads them: what others say in `Annotated`, said as a `Meta`."""

from functools import reduce
from types import GenericAlias, NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from msgspec import Meta

_BOUNDS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern")
NOTHING: Any = object()
"""The default of a parameter that has none."""


def of_parameter(hint: Any, default: Any) -> tuple[Any, Any]:
    """Return the hint of a parameter as msgspec reads it, and its default, `NOTHING` if it has none.

    A Pydantic `Field` may stand in `Annotated`, or in place of the default. A parameter that may be None and has no
    default may be left out, and is None then.
    """
    if is_field(default):
        hint = Annotated[hint, default]
        default = NOTHING
    fields = [about for about in get_args(hint)[1:] if is_field(about)] if get_origin(hint) is Annotated else []
    for field in fields:
        if default is NOTHING and not field.is_required():
            default = field.get_default(call_default_factory=True)
    if default is NOTHING and _may_be_none(hint):
        default = None
    return converted(hint), default


def is_field(about: Any) -> bool:
    """Return whether *about* is what Pydantic's `Field` makes, without importing it."""
    return type(about).__name__ == "FieldInfo" and hasattr(about, "is_required")


def converted(hint: Any) -> Any:
    """Return *hint* with every `Annotated` in it in msgspec's words."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        about = [meta for one in parts[1:] if (meta := _as_meta(one)) is not None]
        return reduce(_described, about, converted(parts[0]))
    if not parts or origin is Literal:
        return hint
    own = tuple([converted(part) for part in parts])
    if own == parts and all(map(_is_same, own, parts)):
        return hint
    if isinstance(hint, UnionType):
        return cast(Any, Union)[own]
    return GenericAlias(cast(type, origin), own) if isinstance(hint, GenericAlias) else hint.copy_with(own)


def _described(kind: Any, meta: Meta) -> Any:
    """Return *kind* with *meta*. The bounds of a kind that may be None are those of what it is else."""
    others = [part for part in get_args(kind) if part is not NoneType]
    if _may_be_none(kind) and len(others) == 1 and any(getattr(meta, name) is not None for name in _BOUNDS):
        return Annotated[Annotated[others[0], meta] | None, Meta(description=meta.description)]
    return Annotated[kind, meta]


def _is_same(one: Any, other: Any) -> bool:
    return one is other or get_origin(one) is not Annotated


def _may_be_none(hint: Any) -> bool:
    hint = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return NoneType in get_args(hint) and get_origin(hint) is not Literal


def _as_meta(about: Any) -> Any:
    """Return one part of an `Annotated` as a `Meta`; anything else but our own marks says nothing to msgspec."""
    if isinstance(about, Meta):
        return about
    if isinstance(about, str):
        return Meta(description=about)
    found: dict[str, Any] = {}
    for part in (about, *(getattr(about, "metadata", None) or ())):  # Pydantic collects the bounds there.
        found |= {name: bound for name in _BOUNDS if (bound := getattr(part, name, None)) is not None}
    # `documentation` is `typing_extensions.Doc`'s.
    words = getattr(about, "description", None) or getattr(about, "documentation", None)
    if isinstance(words, str):
        found["description"] = words
    if is_field(about) and about.examples:
        found["examples"] = list(about.examples)
    return Meta(**found) if found else None
