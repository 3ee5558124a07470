"""Arguments checked against a function's own annotations: a wrong one is refused, by name, before anything is done.

What an annotation cannot say is added to it by `Annotated`: bounds as a `msgspec.Meta`, all else as a `Rule`.
Annotations are read when a function is first called, and names that exist for type checkers only allow anything.
"""

import builtins
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, wraps
from inspect import isclass, iscoroutinefunction, isfunction
from reprlib import Repr
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct

from .errors import ConfigError

T = TypeVar("T")

_repr = Repr()  # Cuts what is long, and stands a `__repr__` that raises.
_repr.maxstring = _repr.maxother = 100
shown = _repr.repr
"""A wrong value as an error shows it."""


class Rule(Struct, frozen=True):
    """What a value must fulfil besides its type: `Annotated[str, Rule(str.strip, "text that is not blank")]`."""

    holds: Callable[[Any], object]
    wanted: str


class Kind(Struct, frozen=True):
    """What an annotation accepts."""

    wanted: str
    accepts: Callable[[Any], object]
    """Looks at the value itself, not at what it holds."""
    parts: "Callable[[Any], Iterable[tuple[str, Kind, Any]]] | None" = None
    """What an accepted value holds that is checked as well: where, its kind, and the part."""
    hint: Callable[[Any], str] | None = None
    """What to do instead, for a refused value."""
    items: "Kind | None" = None
    """The kind of what an iterable gives; an iterator is checked as it is read."""


ANYTHING = Kind("anything", lambda value: True)


def checked(function: T) -> T:
    """A function whose arguments are checked; of a class, its constructor and its public methods.

    >>> @checked
    ... def repeat(text: str, times: Annotated[int, Meta(ge=1)] = 1) -> str:
    ...     return text * times
    >>> repeat("x", 0)
    Traceback (most recent call last):
    minideep.errors.ConfigError: repeat: times must be a whole number of 1 or more, not 0
    """
    if isclass(function):
        for name, member in list(vars(function).items()):
            if isfunction(member) and (name == "__init__" or not name.startswith("_")):
                setattr(function, name, checked(member))
        return cast(T, function)
    return cast(T, _wrapped(cast(Callable[..., Any], function)))


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    arguments = _Arguments(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = arguments.check(args, kwargs)
        return function(*args, **kwargs)

    @wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = arguments.check(args, kwargs)
        return await function(*args, **kwargs)

    return call_async if iscoroutinefunction(function) else call


class _Arguments:
    """The parameters of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._owner = function.__qualname__.removesuffix(".__init__")
        self._kinds: dict[str, Kind] | None = None
        self._positional: list[tuple[str, Kind]] = []

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments, with each iterator in a generator that checks what it gives."""
        kinds = self._kinds if self._kinds is not None else self._read()
        for place, ((name, kind), value) in enumerate(zip(self._positional, args, strict=False)):
            if kind is not ANYTHING:
                check(value, kind, name, self._owner)
                if kind.items and _is_read_once(value):
                    args = (*args[:place], checking(value, kind.items, name, self._owner), *args[place + 1 :])
        for name, value in kwargs.items():
            if (kind := kinds.get(name)) is not None:  # Else Python says that there is no such parameter.
                check(value, kind, name, self._owner)
                if kind.items and _is_read_once(value):
                    kwargs = {**kwargs, name: checking(value, kind.items, name, self._owner)}
        return args, kwargs

    def _read(self) -> dict[str, Kind]:
        code = self._function.__code__
        self._kinds = kinds = {name: kind_of(hint) for name, hint in hints_of(self._function).items()}
        self._positional = [(name, kinds.get(name, ANYTHING)) for name in code.co_varnames[: code.co_argcount]]
        return kinds


def check(value: Any, kind: Kind, name: str, owner: str) -> None:
    """Check one value, and what it holds.

    Raises:
        ConfigError: it is not of its kind; says whose parameter it is, what is wanted, and what was given.
    """
    if not kind.accepts(value):
        hint = kind.hint(value) if kind.hint else ""
        raise ConfigError(f"{owner}: {name} must be {kind.wanted}, not {shown(value)}{hint and f'; {hint}'}")
    if kind.parts is not None:
        for place, inner, part in kind.parts(value):
            check(part, inner, name + place, owner)


def _is_read_once(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, Collection)


def checking(values: Iterable[Any], kind: Kind, name: str, owner: str) -> Iterator[Any]:
    """What *values* gives, each one checked when it is taken."""
    for place, value in enumerate(values):
        check(value, kind, f"{name}[{place}]", owner)
        yield value


def check_fields(thing: object) -> None:
    """Check the fields of a Struct, for its `__post_init__`; or the attributes that the class of an object declares.

    Raises:
        ConfigError: one of them is not of its kind.
    """
    kind = type(thing)
    for name, wanted in fields_of(kind):
        check(getattr(thing, name), wanted, name, kind.__name__)


# ---- annotations as kinds


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of a function, without that of what it returns."""
    try:
        hints = get_type_hints(function, include_extras=True)
    except NameError:  # Of a name that is imported for type checkers only: it allows anything.
        hints = get_type_hints(function, localns=_Names(function.__globals__), include_extras=True)
    hints.pop("return", None)
    return hints


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Any)


def kind_of(hint: Any) -> Kind:
    """What an annotation accepts."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _narrowed(kind_of(args[0]), args[1:])
    if origin in (Union, UnionType):
        return _one_of([kind_of(arg) for arg in args])
    if origin is Literal:
        return _literal(args)
    if isclass(origin):
        return _generic(origin, args)
    if hint in _PLAIN:
        return _PLAIN[hint]
    return _instance(hint) if isclass(hint) and hint not in (object, Any) else ANYTHING


_PLAIN: dict[Any, Kind] = {
    NoneType: Kind("None", lambda value: value is None),
    str: Kind("text", lambda value: isinstance(value, str)),
    bytes: Kind("bytes", lambda value: isinstance(value, bytes)),
    bool: Kind("True or False", lambda value: isinstance(value, bool)),
    int: Kind("a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)),
    # NaN is equal to nothing, and would pass every comparison with a bound.
    float: Kind("a number", lambda value: isinstance(value, int | float) and value == value and value is not True),
}


def _narrowed(kind: Kind, rules: Sequence[Any]) -> Kind:
    wanted, holds = kind.wanted, list[Callable[[Any], object]]()
    for rule in rules:
        if isinstance(rule, Rule):
            wanted = rule.wanted
            holds.append(rule.holds)
        elif isinstance(rule, Meta):
            wanted += _bounds(rule)
            holds.append(_within(rule))
    accepts = kind.accepts
    return Kind(wanted, lambda value: accepts(value) and all(hold(value) for hold in holds), kind.parts, kind.hint)


def _bounds(rule: Meta) -> str:
    says = {" of {:,} or more": rule.ge, " above {:,}": rule.gt, " of at most {:,}": rule.le, " below {:,}": rule.lt}
    return " and".join(text.format(bound) for text, bound in says.items() if bound is not None)


def _within(rule: Meta) -> Callable[[Any], bool]:
    ge, gt, le, lt = rule.ge, rule.gt, rule.le, rule.lt

    def holds(value: Any) -> bool:
        above = (ge is None or value >= ge) and (gt is None or value > gt)
        return above and (le is None or value <= le) and (lt is None or value < lt)

    return holds


def _one_of(kinds: list[Kind]) -> Kind:
    if ANYTHING in kinds:
        return ANYTHING

    def parts(value: Any) -> Iterable[tuple[str, Kind, Any]]:
        found = next(kind for kind in kinds if kind.accepts(value))
        return found.parts(value) if found.parts else ()

    def hint(value: Any) -> str:
        return next((said for kind in kinds if kind.hint and (said := kind.hint(value))), "")

    return Kind(
        _either([kind.wanted for kind in kinds]),
        lambda value: any(kind.accepts(value) for kind in kinds),
        parts if any(kind.parts for kind in kinds) else None,
        hint,
        next((kind.items for kind in kinds if kind.items), None),
    )


def _either(wanted: list[str]) -> str:
    """`'a', 'b' or 'c'`; None stands behind a comma, as what goes before may be long."""
    *first, last = wanted
    return f"{', '.join(first)}{',' if last == 'None' else ''} or {last}" if first else last


def _literal(options: Sequence[Any]) -> Kind:
    return Kind(
        _either([*map(repr, options)]), lambda value: any(type(value) is type(one) and value == one for one in options)
    )


def _generic(origin: type[Any], args: Sequence[Any]) -> Kind:
    if issubclass(origin, Mapping):
        return _mapping(*map(kind_of, args))
    if origin is tuple and args[-1:] != (...,):
        return _row([kind_of(arg) for arg in args])
    if issubclass(origin, Iterable):
        # What is a tuple when it is kept may be given as a list.
        return _several(cast(type, Sequence if origin in (list, tuple) else origin), kind_of(args[0]))
    return _function(args) if origin.__name__ == "Callable" else _instance(origin)


def _mapping(key: Kind, value: Kind) -> Kind:
    def parts(given: Mapping[Any, Any]) -> Iterator[tuple[str, Kind, Any]]:
        for name, item in given.items():
            yield f"'s key {shown(name)}", key, name
            yield f"[{shown(name)}]", value, item

    return Kind("a mapping", lambda given: isinstance(given, Mapping), parts)


def _row(kinds: list[Kind]) -> Kind:
    def parts(given: Sequence[Any]) -> Iterator[tuple[str, Kind, Any]]:
        return ((f"[{place}]", kind, item) for place, (kind, item) in enumerate(zip(kinds, given, strict=True)))

    wanted = f"a tuple of {len(kinds)}: {', '.join(kind.wanted for kind in kinds)}"
    return Kind(wanted, lambda given: isinstance(given, tuple) and len(cast(Sequence[Any], given)) == len(kinds), parts)


def _several(origin: type, item: Kind) -> Kind:
    def parts(given: Iterable[Any]) -> Iterator[tuple[str, Kind, Any]]:
        if isinstance(given, Collection):
            yield from ((f"[{place}]", item, one) for place, one in enumerate(given))

    def hint(given: Any) -> str:
        alone = not isinstance(given, bytes) and item is not ANYTHING and item.accepts(given)
        return f"write [{shown(given)}]" if alone else ""

    # A text is a sequence of texts, and a mapping one of its keys; neither is ever meant.
    return Kind(
        "a list",
        lambda given: isinstance(given, origin) and not isinstance(given, str | bytes | Mapping),
        parts,
        hint,
        item if issubclass(Iterator, origin) else None,
    )


def _function(args: Sequence[Any]) -> Kind:
    """A function; one that must return a value at once may be no coroutine function."""
    returned = kind_of(args[-1]) if args and args[-1] is not object else None
    if returned is ANYTHING or (args and Awaitable in {get_origin(arg) for arg in (args[-1], *get_args(args[-1]))}):
        return Kind("a function", callable)

    def hint(given: Any) -> str:
        return "it is a coroutine function, and would not be awaited" if iscoroutinefunction(given) else ""

    return Kind("a plain function", lambda given: callable(given) and not iscoroutinefunction(given), None, hint)


def _instance(kind: type[Any]) -> Kind:
    """An instance of a class; of a protocol, anything that has its members. What it holds is checked where nothing else
    checks it: the attributes that a class declares, and the fields of Structs that are read from logs by the thousand.
    """
    is_struct, members = issubclass(kind, Struct), _members(kind)
    config = cast(Any, kind).__struct_config__ if is_struct else None
    deep = members or (config.array_like and config.frozen if config else kind.__module__.startswith(__package__ or ""))

    def parts(given: Any) -> Iterator[tuple[str, Kind, Any]]:
        for name, inner in fields_of(kind if members or not is_struct else type(given)):
            yield f".{name}", inner, getattr(given, name)

    def accepts(given: Any) -> bool:
        if members:
            return not isclass(given) and not _missing(given, members)
        return isinstance(given, kind)

    def hint(given: Any) -> str:
        if isclass(given) and (not _missing(given, members) if members else kind in given.__mro__):
            return f"give an instance of it, {given.__name__}()"
        if members and type(given).__module__ != "builtins":
            return f"it has no {', '.join(map(repr, _missing(given, members)))}"
        return ""

    article = "an" if kind.__name__[0] in "AEIO" else "a"
    return Kind(f"{article} `{kind.__name__}`", accepts, parts if deep else None, hint)


def _members(kind: type) -> Mapping[str, bool]:
    """The members of a protocol, and whether each is a method; of another class none."""
    if not getattr(kind, "_is_protocol", False):
        return {}
    own = {name: value for name, value in vars(kind).items() if not name.startswith("_")}
    return {name: True for name, value in own.items() if isfunction(value)} | dict.fromkeys(
        [*(name for name, value in own.items() if isinstance(value, property)), *kind.__annotations__], False
    )


def _missing(given: Any, members: Mapping[str, bool]) -> list[str]:
    return [name for name, is_method in members.items() if not _has(given, name, is_method)]


def _has(given: Any, name: str, is_method: bool) -> bool:
    found = getattr(cast(Any, type(given)), name, None)  # First of the class: a property is not asked for its value.
    if found is None:
        found = getattr(given, name, None)
        return callable(found) if is_method else hasattr(given, name)
    return callable(found) or not is_method


@cache
def fields_of(kind: type) -> tuple[tuple[str, Kind], ...]:
    """The fields of a Struct, or the attributes that a class declares, but for those that may be anything."""
    hints = get_type_hints(kind, include_extras=True)
    names = cast(Any, kind).__struct_fields__ if issubclass(kind, Struct) else hints
    kinds = ((name, kind_of(hints[name])) for name in names)
    return tuple((name, inner) for name, inner in kinds if inner is not ANYTHING)


# ---- kinds that several functions take


def having(member: str, wanted: str) -> Rule:
    """What is known by a member, where its class must not be imported."""
    return Rule(lambda value: not isclass(value) and _has(value, member, False), wanted)


def _is_path(value: Any) -> bool:
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


Positive = Annotated[int, Meta(gt=0)]
Seconds = Annotated[float, Meta(gt=0)]
Pathname = Annotated[str | os.PathLike[str], Rule(_is_path, "a path")]
"""A path of this machine."""
