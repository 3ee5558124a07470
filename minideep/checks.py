"""Arguments are checked against a function's own annotations: a wrong one is refused, by name, before anything is done.

Annotations are read when a function is first called. What they cannot say is added to them, see `kinds`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import wraps
from inspect import isclass, iscoroutinefunction, isfunction
from typing import Any, TypeVar, cast

from .errors import ConfigError
from .kinds import ANYTHING, Kind, Shape, fields_of, kind_of, parameters_of, shown

T = TypeVar("T")


def checked(function: T) -> T:
    """A function whose arguments are checked; of a class, its constructor and its public methods.

    >>> @checked
    ... def repeat(text: str, times: int = 1) -> str:
    ...     return text * times
    >>> repeat("x", "2")
    Traceback (most recent call last):
    minideep.errors.ConfigError: repeat: times must be a whole number, not '2'
    """
    if isclass(function):
        for name, member in list(vars(function).items()):
            if isfunction(member) and (name == "__init__" or not name.startswith("_")):
                setattr(function, name, checked(member))
        return cast(T, function)
    return cast(T, _wrapped(cast(Callable[..., Any], function)))


def check(value: Any, annotation: Any, name: str, owner: str) -> None:
    """Check one value against an annotation, or against the kind that was made of one.

    Raises:
        ConfigError: it does not fit; says what of *owner* is wrong, what is wanted, and what was given.
    """
    _check(value, annotation if isinstance(annotation, Kind) else kind_of(annotation), name, owner)


def check_fields(thing: object) -> None:
    """Check the fields of a Struct, for its `__post_init__`; or the attributes that the class of an object declares.

    Raises:
        ConfigError: one of them does not fit.
    """
    kind = type(thing)
    for name, wanted in fields_of(kind):
        _check(getattr(thing, name), wanted, name, kind.__name__)


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    arguments = _Arguments(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = arguments.checked(args, kwargs)
        return function(*args, **kwargs)

    @wraps(function)
    async def call_async(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = arguments.checked(args, kwargs)
        return await function(*args, **kwargs)

    return call_async if iscoroutinefunction(function) else call


class _Arguments:
    """The parameters of one function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._owner = function.__qualname__.removesuffix(".__init__")
        self._kinds: dict[str, Kind] | None = None
        self._positional: list[tuple[str, Kind]] = []

    def checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments; one that can be read only once is a generator that checks what it gives."""
        kinds = self._kinds if self._kinds is not None else self._read()
        for place, ((name, kind), value) in enumerate(zip(self._positional, args, strict=False)):
            if kind is not ANYTHING and (items := self._items(name, kind, value)):
                args = (*args[:place], items, *args[place + 1 :])
        for name, value in kwargs.items():
            kind = kinds.get(name, ANYTHING)  # If there is no such parameter, Python says so.
            if kind is not ANYTHING and (items := self._items(name, kind, value)):
                kwargs = {**kwargs, name: items}
        return args, kwargs

    def _items(self, name: str, kind: Kind, value: Any) -> Iterator[Any] | None:
        items = _check(value, kind, name, self._owner).items
        return _checking(value, items, name, self._owner) if items and not isinstance(value, Collection) else None

    def _read(self) -> dict[str, Kind]:
        code = self._function.__code__
        self._kinds = kinds = parameters_of(self._function)
        self._positional = [(name, kinds.get(name, ANYTHING)) for name in code.co_varnames[: code.co_argcount]]
        return kinds


def _check(value: Any, kind: Kind, name: str, owner: str) -> Shape:
    """Check a value and all that it holds; returns the shape that it has."""
    for shape in kind.shapes:
        if shape.accepts(value):
            if shape.parts is not None:
                for place, inner, part in shape.parts(value):
                    _check(part, inner, name + place, owner)
            return shape
    hint = next((said for shape in kind.shapes if shape.hint and (said := shape.hint(value))), "")
    raise ConfigError(f"{owner}: {name} must be {kind.wanted}, not {shown(value)}{hint and f'; {hint}'}")


def _checking(values: Iterable[Any], kind: Kind, name: str, owner: str) -> Iterator[Any]:
    for place, value in enumerate(values):
        _check(value, kind, f"{name}[{place}]", owner)
        yield value
