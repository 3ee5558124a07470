"""Checks arguments against a function's own annotations, and refuses a wrong one by name before anything is done.

Annotations are read when a function is first called, so that importing costs nothing. See `kinds` for what they accept.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property, partial, wraps
from inspect import CO_VARKEYWORDS, isclass, iscoroutinefunction, isfunction
from typing import TYPE_CHECKING, Any, TypeVar, cast

from .documented import Struct
from .errors import ConfigError
from .kinds import ANYTHING, Kind, Shape, fields_of, kind_of, parameters_of, shown

T = TypeVar("T")
SECRET = frozenset(("api_key", "cipher", "env", "headers", "secret"))
"""Arguments of which an error tells the type alone, because errors are logged."""


def checked(function: T) -> T:
    """Make a function check its arguments; of a class, the constructor and the public methods.

    >>> @checked
    ... def repeat(text: str, times: int = 1) -> str:
    ...     return text * times
    >>> repeat("x", "2")
    Traceback (most recent call last):
    minideep.errors.ConfigError: repeat: times must be a whole number, not '2'; write 2
    """
    if isclass(function):
        for name, member in list(vars(function).items()):
            if isfunction(member) and (name == "__init__" or not name.startswith("_")):
                setattr(function, name, checked(member))
        return cast(T, function)
    return cast(T, _wrapped(cast(Callable[..., Any], function)))


def check(value: Any, annotation: Any, name: str, owner: str) -> None:
    """Check one value against an annotation, or against the `Kind` made of one.

    Raises:
        ConfigError: the value does not fit; says which *name* of *owner* it is, what is expected, and what was found.
    """
    _check(value, annotation if isinstance(annotation, Kind) else kind_of(annotation), name, owner)


def check_fields(thing: object) -> None:
    """Check the fields of a Struct, for its `__post_init__`, or the attributes that the class of an object declares.

    Raises:
        ConfigError: one of them does not fit.
    """
    kind = type(thing)
    for name, expected in fields_of(kind):
        if type(value := getattr(thing, name)) not in expected.exact:
            _check(value, expected, name, kind.__name__)


if TYPE_CHECKING:  # Type checkers know the constructor of a Struct, and must not see that it is wrapped.
    UserWritten = Struct
else:

    class _UserWritten(type(Struct)):
        def __call__(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                return super().__call__(*args, **kwargs)
            except TypeError:  # msgspec's does not say of which class it is.
                from .mistakes import misfit

                if problem := misfit(cls, args, kwargs):
                    raise TypeError(problem) from None
                raise

    class UserWritten(Struct, metaclass=_UserWritten):
        """Base class of Structs that people write: a wrong argument of the constructor is named, with the right one."""


def word_of_others(self: Any, name: str) -> Any:
    """The `__getattr__` of a class whose attributes have other names in other libraries: say what the name is here."""
    if not name.startswith("_") and not hasattr(cast(type[Any], type(self)), name):
        from .mistakes import other_word

        if instead := other_word(cast(type[Any], type(self)), name):
            problem = f"{type(self).__name__!r} object has no attribute {name!r}; {instead}"
            raise AttributeError(problem, name=name, obj=self)
    return object.__getattribute__(self, name)  # Raises again what a property raised, or Python's own error.


def _wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
    arguments = _Arguments(function)

    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = arguments.checked(args, kwargs)
        return function(*args, **kwargs)

    # Callers and frameworks ask whether a function is a coroutine function, so its wrapper must be one, too.
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

    @cached_property
    def _kinds(self) -> dict[str, Kind]:
        return parameters_of(self._function)

    def _takes(self, name: str) -> bool:
        code = self._function.__code__
        named = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return name in named or bool(code.co_flags & CO_VARKEYWORDS)

    @cached_property
    def _positional(self) -> list[tuple[str, Kind]]:
        code = self._function.__code__
        return [(name, self._kinds.get(name, ANYTHING)) for name in code.co_varnames[: code.co_argcount]]

    def checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments, with an iterator replaced by one that checks its items as they are read."""
        for place, ((name, kind), value) in enumerate(zip(self._positional, args, strict=False)):
            if type(value) not in kind.exact and kind is not ANYTHING and (read := self._read(name, kind, value, args)):
                args = (*args[:place], read, *args[place + 1 :])
        for name, value in kwargs.items():
            kind = self._kinds.get(name, ANYTHING)
            if kind is ANYTHING and not self._takes(name):
                from .mistakes import unexpected

                raise TypeError(unexpected(self._called(args), name, self._function))
            if type(value) not in kind.exact and kind is not ANYTHING and (read := self._read(name, kind, value, args)):
                kwargs = {**kwargs, name: read}
        return args, kwargs

    def _called(self, args: tuple[Any, ...]) -> str:
        """Return what people call: `Agent.fork`, whichever class above `Agent` has the method."""
        name = self._function.__name__
        method = getattr(cast(type[Any], type(args[0])), name, None) if args else None
        if getattr(method, "__wrapped__", None) is not self._function:
            return self._owner
        return f"{type(args[0]).__name__}.{name}".removesuffix(".__init__")

    def _read(self, name: str, kind: Kind, value: Any, args: tuple[Any, ...]) -> Iterator[Any] | None:
        owner = partial(self._called, args)
        items = _check(value, kind, name, owner).items
        return _checking(value, items, name, owner) if items and not isinstance(value, Collection) else None


def _check(value: Any, kind: Kind, name: str, owner: str | Callable[[], str]) -> Shape:
    """Check a value and all its parts; return the shape that accepts it."""
    for shape in kind.shapes:
        if shape.accepts(value):
            if shape.parts is not None:
                for place, inner, part in shape.parts(value):
                    if type(part) not in inner.exact:
                        _check(part, inner, name + place, owner)
            return shape
    is_secret = name.partition("[")[0] in SECRET
    found = f"a value of type {type(value).__name__}" if is_secret else shown(value)
    hint, owner = _remedy(object() if is_secret else value, kind), owner if isinstance(owner, str) else owner()
    raise ConfigError(f"{owner}: {name} must be {kind.wanted}, not {found}{hint and f'; {hint}'}")


def _remedy(value: Any, kind: Kind) -> str:
    for shape in kind.shapes:
        if shape.meant and (meant := shape.meant(value)) is not None and kind.accepts(meant):
            return f"write {meant:g}"
    from .mistakes import best

    return best([said for shape in kind.shapes if shape.hint and (said := shape.hint(value))] or [""], value)


def _checking(values: Iterable[Any], kind: Kind, name: str, owner: Callable[[], str]) -> Iterator[Any]:
    for place, value in enumerate(values):
        _check(value, kind, f"{name}[{place}]", owner)
        yield value
