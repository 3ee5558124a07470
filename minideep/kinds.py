"""Reads annotations: types, protocols by their members, and the conditions that `Annotated` adds.

A bound of a number is added as a `msgspec.Meta`, everything else as a `Check`.
"""

import operator
import os
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from functools import cache, partial
from importlib import import_module
from inspect import isclass, iscoroutinefunction, isfunction
from reprlib import Repr
from types import FunctionType, MethodType, NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints
from weakref import WeakSet

from msgspec import Meta, Struct, structs

C = TypeVar("C", bound=type[Any])
_repr = Repr()  # Shortens long values, and survives a `__repr__` that raises.
_repr.maxstring = _repr.maxother = 100
_remedies: dict[type, str] = {}


def shown(value: Any) -> str:
    """Render a wrong value for an error message, on one line and without its address."""
    return re.sub(" at 0x[0-9a-fA-F]+", "", _repr.repr(value)).replace("\n", " ")


def _words(name: str, *about: Any) -> Any:
    """Call a function of `mistakes`, which imports this module, and is loaded only when there is one."""
    return getattr(import_module(".mistakes", __package__), name)(*about)


def remedy(text: str) -> Callable[[C], C]:
    """Decorate a class with what to do about a value that should have been one of it, for error messages."""

    def put(kind: C) -> C:
        _remedies[kind] = text
        return kind

    return put


class _Unknown:
    """Stands for a class that is imported for type checkers only; generic or not."""

    def __class_getitem__(cls, parameters: Any) -> Any:
        return cls


class Injected:
    """Base class of parameters that the run fills in, and that are not in a tool's schema."""


class Check(Struct, frozen=True):
    """A check besides a type; *wanted* describes both: `Annotated[str, Check(str.isascii, "ASCII text")]`."""

    holds: Callable[[Any], object]
    wanted: str

    def __repr__(self) -> str:
        """Return what `help()` shows in a signature: not the function, which says nothing."""
        return f"Check({self.wanted!r})"


class Shape(Struct, frozen=True):
    """One of the types that an annotation allows."""

    accepts: Callable[[Any], object]
    """Tests the value itself, not its parts."""
    parts: "Callable[[Any], Sequence[tuple[str, Kind, Any]]] | None" = None
    """Returns the parts of an accepted value to check as well: place, kind and part."""
    items: "Kind | None" = None
    """The kind of the items of an iterable."""
    hint: Callable[[Any], str] | None = None
    """Returns the remedy for a value that is not accepted, or an empty string."""
    meant: Callable[[Any], Any] | None = None
    """Returns the number that a value was probably meant to be, or None."""


class Kind(Struct, frozen=True):
    """The values that an annotation accepts: those of any of its shapes."""

    wanted: str
    shapes: tuple[Shape, ...]
    exact: frozenset[type] = frozenset()
    """Types of which every value is accepted, and has no parts to check: most values need no further look."""

    def accepts(self, value: Any) -> bool:
        return any(shape.accepts(value) for shape in self.shapes)


ANYTHING = Kind("anything", (Shape(lambda value: True),))


def parameters_of(function: Callable[..., Any]) -> dict[str, Kind]:
    """Return the kinds of a function's annotated parameters."""
    anything: dict[str, Any] = {}  # Python 3.14 looks names up in a plain copy of it: `__missing__` would not be asked.
    while True:
        try:
            hints = get_type_hints(function, localns=anything, include_extras=True)
            break
        except NameError as exc:  # A name that is imported for type checkers only allows anything.
            if exc.name is None or exc.name in anything:
                raise
            anything[exc.name] = _Unknown
    hints.pop("return", None)
    return {name: kind_of(hint) for name, hint in hints.items()}


@cache
def fields_of(kind: type) -> tuple[tuple[str, Kind], ...]:
    """Return the fields of a Struct, or the attributes that a class declares, without those that allow anything."""
    hints = get_type_hints(kind, include_extras=True)
    names = cast(Any, kind).__struct_fields__ if issubclass(kind, Struct) else hints
    kinds = ((name, kind_of(hints[name])) for name in names)
    return tuple((name, inner) for name, inner in kinds if inner is not ANYTHING)


def kind_of(hint: Any) -> Kind:
    """Return the values that an annotation accepts."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _narrowed(kind_of(args[0]), args[1:])
    if origin in (Union, UnionType):
        kinds = [kind_of(arg) for arg in args]
        shapes = tuple(shape for kind in kinds for shape in kind.shapes)
        exact = frozenset[type]().union(*(kind.exact for kind in kinds))
        return ANYTHING if ANYTHING in kinds else Kind(_either([kind.wanted for kind in kinds]), shapes, exact)
    if origin is Literal:
        # Equal is not enough: 1 is equal to True.
        def same(value: Any) -> bool:
            return any(type(value) is type(arg) and value == arg for arg in args)

        meant = Shape(same, hint=lambda value: _words("did_you_mean", value, map(str, args))[2:])
        return Kind(_either([*map(repr, args)]), (meant,))
    if isclass(origin):
        return _generic(origin, args)
    if hint in _NAMES:
        return _plain(hint)
    return _instance(hint) if isclass(hint) and hint not in (object, Any, _Unknown) else ANYTHING


def _either(wanted: Sequence[str]) -> str:
    """Join to `'a', 'b' or 'c'`; None stands behind a comma, as what goes before may be long."""
    *first, last = wanted
    return f"{', '.join(first)}{',' if last == 'None' else ''} or {last}" if first else last


_NAMES: dict[Any, str] = {NoneType: "None", str: "text", bytes: "bytes", bool: "True or False", int: "a whole number"}
_NAMES[float] = "a number"


def _plain(kind: type) -> Kind:
    """A plain type without its subclasses: msgspec does not encode those, and would refuse one late, when recorded.

    It does encode the members of an Enum, as their values.
    """
    exact = (int, float) if kind is float else (kind,)

    def accepts(value: Any) -> bool:
        # NaN is equal to nothing, and would pass every comparison with a bound.
        return (type(value) in exact or (isinstance(value, Enum) and isinstance(value, exact))) and value == value

    def hint(value: Any) -> str:
        is_subclass = isinstance(value, exact) and type(value) not in (*exact, bool)
        return f"convert it with {kind.__name__}(), as a subclass cannot be stored" if is_subclass else ""

    meant = partial(_words, "number", kind) if kind in (int, float) else None
    # A float may be NaN.
    return Kind(_NAMES[kind], (Shape(accepts, hint=hint, meant=meant),), frozenset({*exact} - {float}))


# ---- conditions that `Annotated` adds


_BOUNDS: list[tuple[str, str, Callable[[Any, Any], bool]]] = [
    ("ge", " of {:,} or more", operator.ge),
    ("gt", " above {:,}", operator.gt),
    ("le", " of at most {:,}", operator.le),
    ("lt", " below {:,}", operator.lt),
]


def _narrowed(kind: Kind, checks: Sequence[Any]) -> Kind:
    for check in checks:
        if isinstance(check, Meta):
            check = _within(check, kind.wanted)
        if isinstance(check, Check):
            kind = Kind(check.wanted, tuple(_with(shape, check.holds) for shape in kind.shapes))
    return kind


def _with(shape: Shape, holds: Callable[[Any], object]) -> Shape:
    def accepts(value: Any) -> object:
        return shape.accepts(value) and holds(value)

    return structs.replace(shape, accepts=accepts)


def _within(meta: Meta, wanted: str) -> Check:
    bounds = [(text, test, bound) for name, text, test in _BOUNDS if (bound := getattr(meta, name)) is not None]
    says = " and".join(text.format(bound) for text, _, bound in bounds)
    return Check(lambda value: all(test(value, bound) for _, test, bound in bounds), wanted + says)


# ---- mappings, lists and functions


def _generic(origin: type[Any], args: Sequence[Any]) -> Kind:
    if issubclass(origin, Mapping):
        return _mapping(*map(kind_of, args))
    if origin is tuple and args[-1:] != (...,):
        return _row([kind_of(arg) for arg in args])
    if issubclass(origin, Iterable):
        # A list may be given for what is kept as a tuple.
        return _several(cast(type, Sequence if origin in (list, tuple) else origin), kind_of(args[0]))
    return _function(args) if origin.__name__ == "Callable" else _instance(origin)


def _mapping(key: Kind, value: Kind) -> Kind:
    def parts(given: Mapping[Any, Any]) -> list[tuple[str, Kind, Any]]:
        both = [
            ((f"'s key {shown(name)}", key, name), (f"[{shown(name)}]", value, item)) for name, item in given.items()
        ]
        return [part for parts in both for part in parts]

    def hint(given: Any) -> str:
        return _words("item_of_mapping", key, value, given)

    return Kind("a mapping", (Shape(lambda given: isinstance(given, Mapping), parts, hint=hint),))


def _row(kinds: list[Kind]) -> Kind:
    def accepts(given: Any) -> bool:
        return isinstance(given, tuple) and len(cast(Sequence[Any], given)) == len(kinds)

    def parts(given: Sequence[Any]) -> list[tuple[str, Kind, Any]]:
        return [(f"[{place}]", kind, item) for place, (kind, item) in enumerate(zip(kinds, given, strict=True))]

    return Kind(f"a tuple of {len(kinds)}: {', '.join(kind.wanted for kind in kinds)}", (Shape(accepts, parts),))


def _several(origin: type, item: Kind) -> Kind:
    plain = {kind for kind in (list, tuple) if issubclass(kind, origin)}

    def accepts(given: Any) -> bool:
        # A text is a sequence of texts, and a mapping one of its keys; neither is ever meant.
        return type(given) in plain or (isinstance(given, origin) and not isinstance(given, str | bytes | Mapping))

    def parts(given: Iterable[Any]) -> Sequence[tuple[str, Kind, Any]]:
        # Reading an iterator here would use it up; its items are checked as they are read.
        is_read = type(given) in plain or isinstance(given, Collection)
        return [(f"[{place}]", item, one) for place, one in enumerate(given)] if is_read else ()

    def hint(given: Any) -> str:
        return _words("item_of_list", item, given)

    return Kind("a list", (Shape(accepts, parts, item, hint),))


def _function(args: Sequence[Any]) -> Kind:
    """A function, and no coroutine function where the caller needs the result at once."""
    returned = args[-1] if args else Any
    origins = [get_origin(hint) for hint in (returned, *get_args(returned))]
    if returned is Any or any(isclass(origin) and issubclass(origin, Awaitable) for origin in origins):
        return Kind("a function", (Shape(callable, hint=_by_name),), frozenset({FunctionType, MethodType}))

    def hint(given: Any) -> str:
        no_await = "it is a coroutine function, and nobody would await it; write a plain `def`"
        return no_await if iscoroutinefunction(given) else _by_name(given)

    accepts = Shape(lambda given: callable(given) and not iscoroutinefunction(given), hint=hint)
    return Kind("a plain function", (accepts,))


def _by_name(given: Any) -> str:
    return "pass the function itself" if isinstance(given, str) else ""


# ---- instances of classes, and objects with the members of a protocol


def _instance(kind: type[Any]) -> Kind:
    """An instance, and those of its parts that nothing else checks.

    These are the fields of the Structs in a log, whose constructors must be fast, and the attributes that our other
    classes declare.
    """
    if getattr(kind, "_is_protocol", False):
        return _protocol(kind)
    config = cast(Any, kind).__struct_config__ if issubclass(kind, Struct) else None
    deep = config.array_like and config.frozen if config else kind.__module__.startswith(f"{__package__}.")
    parts = _members(None if config else kind) if deep else None

    def hint(given: Any) -> str:
        if isclass(given) and kind in given.__mro__:
            return f"pass an instance, {_words('written', given)}"
        return _remedies.get(kind, "") or (f"write {_words('written', kind, given)}" if config else "")

    article = "an" if kind.__name__[0] in "AEIO" else "a"
    exact = frozenset[type]() if parts and _declares_members(kind) else frozenset({kind})
    return Kind(f"{article} `{kind.__name__}`", (Shape(kind.__instancecheck__, parts, hint=hint),), exact)


def _declares_members(kind: type) -> bool:
    # Python 3.14 keeps a function that makes the annotations.
    return any({"__annotations__", "__annotate_func__"} & vars(base).keys() for base in kind.__mro__)


def _protocol(kind: type[Any]) -> Kind:
    own = {name: isfunction(member) for name, member in vars(kind).items() if not name.startswith("_")}
    members = own | dict.fromkeys(kind.__annotations__, False)
    methods = [name for name, is_method in own.items() if is_method]
    known: WeakSet[type] = WeakSet()
    """Classes with all members: this is asked in every turn."""

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

    def hint(given: Any) -> str:
        if isclass(given) and all(callable(getattr(given, name, None)) for name in methods):
            return f"pass an instance, {_words('written', given)}"
        # One that has some of the members is meant to be one; another object is something else.
        lacks = missing(given) if type(given).__module__ != "builtins" else []
        partly = 0 < len(lacks) < len(members)
        problem = f"it has no {', '.join(map(repr, lacks))}" if partly or (lacks and kind not in _remedies) else ""
        return "; ".join(filter(None, (problem, _remedies.get(kind))))

    return Kind(f"a `{kind.__name__}`", (Shape(accepts, _members(kind), hint=hint),))


def _members(kind: type | None) -> Callable[[Any], Sequence[tuple[str, Kind, Any]]]:
    """Return a function that returns the attributes that *kind*, or the class of the value itself, declares."""

    def members(given: Any) -> Sequence[tuple[str, Kind, Any]]:
        fields = fields_of(kind or type(given))
        return [(f".{name}", inner, getattr(given, name)) for name, inner in fields] if fields else ()

    return members


def has(given: Any, name: str, is_method: bool = False) -> bool:
    """Return whether a value has a member, without reading a property."""
    found = getattr(cast(Any, type(given)), name, None)
    if found is None:
        return callable(getattr(given, name, None)) if is_method else hasattr(given, name)
    return callable(found) or not is_method


# ---- annotations that several functions share


def having(member: str, wanted: str) -> Check:
    """Return a check that knows a value by a member, for a class that must not be imported."""

    def holds(value: Any) -> bool:
        # An SDK's synchronous client has the same members, and would fail at the first request.
        is_sync = has(value, "__enter__") and not has(value, "__aenter__")
        return not isclass(value) and has(value, member) and not is_sync

    return Check(holds, wanted)


def _is_path(value: Any) -> bool:
    try:
        name = os.fsencode(value)
        return name != b"" and b"\0" not in name
    except UnicodeEncodeError:
        return False


Positive = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]
Pathname = Annotated[str | os.PathLike[str], Check(_is_path, "a path")]
"""A path of this machine."""
