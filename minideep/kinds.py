"""What an annotation accepts at run time: types, protocols by their members, and what `Annotated` adds to them.

Bounds of a number are added as a `msgspec.Meta`, all else as a `Rule`.
"""

import builtins
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from inspect import isclass, iscoroutinefunction, isfunction
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin, get_type_hints
from weakref import WeakSet

from msgspec import Meta, Struct

_repr = Repr()  # Cuts what is long, and stands a `__repr__` that raises.
_repr.maxstring = _repr.maxother = 100
shown = _repr.repr
"""A wrong value as an error shows it."""


class Rule(Struct, frozen=True):
    """What holds besides a type; *wanted* says both: `Annotated[str, Rule(str.isascii, "ASCII text")]`."""

    holds: Callable[[Any], object]
    wanted: str


class Shape(Struct, frozen=True):
    """One of the types that an annotation allows."""

    accepts: Callable[[Any], object]
    """Looks at the value itself, not at what it holds."""
    parts: "Callable[[Any], Iterable[tuple[str, Kind, Any]]] | None" = None
    """What an accepted value holds that is checked as well: where, its kind, and the part."""
    items: "Kind | None" = None
    """The kind of what an iterable gives."""
    hint: Callable[[Any], str] | None = None
    """What to do instead, for a value that is not accepted; empty if there is nothing to say."""


class Kind(Struct, frozen=True):
    """What an annotation accepts: any of the shapes."""

    wanted: str
    shapes: tuple[Shape, ...]

    def accepts(self, value: Any) -> bool:
        return any(shape.accepts(value) for shape in self.shapes)


ANYTHING = Kind("anything", (Shape(lambda value: True),))


def parameters_of(function: Callable[..., Any]) -> dict[str, Kind]:
    """The kinds of a function's parameters that are annotated."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError:  # A name is imported for type checkers only: it allows anything.
        hints = get_type_hints(function, localns=_Names(function.__globals__), include_extras=True)
    hints.pop("return", None)
    return {name: kind_of(hint) for name, hint in hints.items()}


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


@cache
def fields_of(kind: type) -> tuple[tuple[str, Kind], ...]:
    """The fields of a Struct, or the attributes that a class declares, but for those that may be anything."""
    hints = get_type_hints(kind, include_extras=True)
    names = cast(Any, kind).__struct_fields__ if issubclass(kind, Struct) else hints
    kinds = ((name, kind_of(hints[name])) for name in names)
    return tuple((name, inner) for name, inner in kinds if inner is not ANYTHING)


def kind_of(hint: Any) -> Kind:
    """What an annotation accepts."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _narrowed(kind_of(args[0]), args[1:])
    if origin in (Union, UnionType):
        return _one_of([kind_of(arg) for arg in args])
    if origin is Literal:
        return Kind(_either([*map(repr, args)]), (Shape(lambda value: any(_is(value, option) for option in args)),))
    if isclass(origin):
        return _generic(origin, args)
    if hint in _PLAIN:
        wanted, accepts = _PLAIN[hint]
        return Kind(wanted, (Shape(accepts),))
    return _instance(hint) if isclass(hint) and hint not in (object, Any) else ANYTHING


def _is_number(value: Any) -> bool:
    # NaN is equal to nothing, and would pass every comparison with a bound.
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


_PLAIN: dict[Any, tuple[str, Callable[[Any], bool]]] = {
    NoneType: ("None", lambda value: value is None),
    str: ("text", lambda value: isinstance(value, str)),
    bytes: ("bytes", lambda value: isinstance(value, bytes)),
    bool: ("True or False", lambda value: isinstance(value, bool)),
    int: ("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    float: ("a number", _is_number),
}


def _is(value: Any, option: Any) -> bool:
    return type(value) is type(option) and value == option


def _either(wanted: Sequence[str]) -> str:
    """`'a', 'b' or 'c'`; None stands behind a comma, as what goes before may be long."""
    *first, last = wanted
    return f"{', '.join(first)}{',' if last == 'None' else ''} or {last}" if first else last


def _one_of(kinds: list[Kind]) -> Kind:
    if ANYTHING in kinds:
        return ANYTHING
    return Kind(_either([kind.wanted for kind in kinds]), tuple(shape for kind in kinds for shape in kind.shapes))


# ---- what `Annotated` adds


def _narrowed(kind: Kind, rules: Sequence[Any]) -> Kind:
    wanted, holds = kind.wanted, list[Callable[[Any], object]]()
    for rule in rules:
        if isinstance(rule, Rule):
            wanted = rule.wanted
            holds.append(rule.holds)
        elif isinstance(rule, Meta):
            wanted += _bounds(rule)
            holds.append(_within(rule))
    return Kind(wanted, tuple(_with(shape, holds) for shape in kind.shapes))


def _with(shape: Shape, holds: Sequence[Callable[[Any], object]]) -> Shape:
    accepts = shape.accepts
    return Shape(
        lambda value: accepts(value) and all(hold(value) for hold in holds), shape.parts, shape.items, shape.hint
    )


def _bounds(rule: Meta) -> str:
    says = {" of {:,} or more": rule.ge, " above {:,}": rule.gt, " of at most {:,}": rule.le, " below {:,}": rule.lt}
    return " and".join(text.format(bound) for text, bound in says.items() if bound is not None)


def _within(rule: Meta) -> Callable[[Any], bool]:
    ge, gt, le, lt = rule.ge, rule.gt, rule.le, rule.lt

    def holds(value: Any) -> bool:
        above = (ge is None or value >= ge) and (gt is None or value > gt)
        return above and (le is None or value <= le) and (lt is None or value < lt)

    return holds


# ---- mappings, lists and functions


def _generic(origin: type[Any], args: Sequence[Any]) -> Kind:
    if issubclass(origin, Mapping):
        return _mapping(*map(kind_of, args))
    if origin is tuple and args[-1:] != (...,):
        return _row([kind_of(arg) for arg in args])
    if issubclass(origin, Iterable):
        # What is kept as a tuple may be given as a list.
        return _several(cast(type, Sequence if origin in (list, tuple) else origin), kind_of(args[0]))
    return _function(args) if origin.__name__ == "Callable" else _instance(origin)


def _mapping(key: Kind, value: Kind) -> Kind:
    def parts(given: Mapping[Any, Any]) -> Iterator[tuple[str, Kind, Any]]:
        for name, item in given.items():
            yield f"'s key {shown(name)}", key, name
            yield f"[{shown(name)}]", value, item

    return Kind("a mapping", (Shape(lambda given: isinstance(given, Mapping), parts),))


def _row(kinds: list[Kind]) -> Kind:
    def accepts(given: Any) -> bool:
        return isinstance(given, tuple) and len(cast(Sequence[Any], given)) == len(kinds)

    def parts(given: Sequence[Any]) -> Iterator[tuple[str, Kind, Any]]:
        return ((f"[{place}]", kind, item) for place, (kind, item) in enumerate(zip(kinds, given, strict=True)))

    return Kind(f"a tuple of {len(kinds)}: {', '.join(kind.wanted for kind in kinds)}", (Shape(accepts, parts),))


def _several(origin: type, item: Kind) -> Kind:
    def accepts(given: Any) -> bool:
        # A text is a sequence of texts, and a mapping one of its keys; neither is ever meant.
        return isinstance(given, origin) and not isinstance(given, str | bytes | Mapping)

    def parts(given: Iterable[Any]) -> Iterator[tuple[str, Kind, Any]]:
        if isinstance(given, Collection):  # Else it may end when it is read once, and is checked then.
            yield from ((f"[{place}]", item, one) for place, one in enumerate(given))

    def hint(given: Any) -> str:
        return f"write [{shown(given)}]" if item is not ANYTHING and item.accepts(given) else ""

    return Kind("a list", (Shape(accepts, parts, item, hint),))


def _function(args: Sequence[Any]) -> Kind:
    """A function; where it must return something at once, no coroutine function."""
    returned = args[-1] if args else Any
    origins = [get_origin(hint) for hint in (returned, *get_args(returned))]
    if returned is Any or any(isclass(origin) and issubclass(origin, Awaitable) for origin in origins):
        return Kind("a function", (Shape(callable),))

    def hint(given: Any) -> str:
        return "it is a coroutine function, and nobody would await it" if iscoroutinefunction(given) else ""

    accepts = Shape(lambda given: callable(given) and not iscoroutinefunction(given), hint=hint)
    return Kind("a plain function", (accepts,))


# ---- instances of classes, and what has the members of a protocol


def _instance(kind: type[Any]) -> Kind:
    """An instance, and what it holds where nothing else checks that: the fields of Structs that logs are made of, whose
    constructors must be fast, and the attributes that our other classes declare.
    """
    if getattr(kind, "_is_protocol", False):
        return _protocol(kind)
    config = cast(Any, kind).__struct_config__ if issubclass(kind, Struct) else None

    def parts(given: Any) -> Iterator[tuple[str, Kind, Any]]:
        of = cast(type[Any], type(given)) if config else kind
        return ((f".{name}", inner, getattr(given, name)) for name, inner in fields_of(of))

    def hint(given: Any) -> str:
        return f"give an instance of it, {given.__name__}()" if isclass(given) and kind in given.__mro__ else ""

    deep = config.array_like and config.frozen if config else kind.__module__.startswith(f"{__package__}.")
    shape = Shape(lambda given: isinstance(given, kind), parts if deep else None, hint=hint)
    return Kind(f"{'an' if kind.__name__[0] in 'AEIO' else 'a'} `{kind.__name__}`", (shape,))


def _protocol(kind: type[Any]) -> Kind:
    own = {name: isfunction(member) for name, member in vars(kind).items() if not name.startswith("_")}
    members = own | dict.fromkeys(kind.__annotations__, False)
    methods = [name for name, is_method in own.items() if is_method]
    known: WeakSet[type] = WeakSet()
    """Classes that have all members, for this is asked at every turn."""

    def missing(given: Any) -> list[str]:
        return [name for name, is_method in members.items() if not has(given, name, is_method)]

    def accepts(given: Any) -> bool:
        if type(given) in known:
            return True
        if isclass(given) or missing(given):
            return False
        of = cast(type[Any], type(given))
        if all(getattr(of, name, None) is not None for name in methods):
            known.add(of)
        return True

    def parts(given: Any) -> Iterator[tuple[str, Kind, Any]]:
        return ((f".{name}", inner, getattr(given, name)) for name, inner in fields_of(kind))

    def hint(given: Any) -> str:
        if isclass(given):
            whole = all(callable(getattr(given, name, None)) for name in methods)
            return f"give an instance of it, {given.__name__}()" if whole else ""
        return f"it has no {', '.join(map(repr, missing(given)))}" if type(given).__module__ != "builtins" else ""

    return Kind(f"a `{kind.__name__}`", (Shape(accepts, parts, hint=hint),))


def has(given: Any, name: str, is_method: bool = False) -> bool:
    """Whether a value has a member; a property is not asked for its value."""
    found = getattr(cast(Any, type(given)), name, None)
    if found is None:
        return callable(getattr(given, name, None)) if is_method else hasattr(given, name)
    return callable(found) or not is_method


# ---- what several functions take


def having(member: str, wanted: str) -> Rule:
    """What is known by a member, where its class must not be imported."""
    return Rule(lambda value: not isclass(value) and has(value, member), wanted)


def _is_path(value: Any) -> bool:
    try:
        name = os.fsencode(value)
        return name != b"" and b"\0" not in name
    except UnicodeEncodeError:
        return False


Positive = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]
Pathname = Annotated[str | os.PathLike[str], Rule(_is_path, "a path")]
"""A path of this machine."""
