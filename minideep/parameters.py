"""What the function of a tool takes: its parameters as a JSON Schema, and as a decoder of a call's arguments.

A service that builds an agent for each request makes tools of the same functions again and again, or of functions that
the same `def` makes for each request. So what was read is kept with the code of the function.
"""

import inspect
import re
from collections.abc import Callable
from copy import deepcopy
from functools import lru_cache, partial
from operator import is_
from types import CodeType, FunctionType, MethodType, NoneType
from typing import Any, cast, get_args, get_type_hints
from weakref import WeakKeyDictionary

import msgspec
from msgspec import Struct

from .datatypes import decoded_by_its_class, schema_of, unknown_type
from .errors import ConfigError
from .hints import NOTHING, of_parameter
from .kinds import Injected, shown
from .plain_json import to_json


class Alias:
    """Other names under which a model may give a parameter: `Annotated[str, Alias("path", "filename")]`.

    The schema that the model is sent does not show them. With *joined*, a call may give several names: their texts
    become one, with an empty line between them.
    """

    def __init__(self, *names: str, joined: bool = False) -> None:
        self.names = names
        self.joined = joined


class Parameters(Struct, frozen=True, eq=False):
    """The parameters of a function."""

    arguments: type[Struct]
    """Those that a model gives, as fields: msgspec decodes, checks and describes them, all in one pass over the call's
    JSON.
    """
    decoder: "msgspec.json.Decoder[Any]"
    schema: bytes
    """JSON, as each tool has a schema of its own, which may be changed."""
    has_objects: bool
    """Whether objects with fields may stand in the arguments. Decoding drops those that it does not know."""
    is_async: bool
    context: str
    """The parameter that the run fills in; an empty string if there is none."""
    aliases: dict[str, Alias]
    """Other names of parameters, by parameter."""
    names: tuple[str, ...]
    """All parameters of the function, also those that the model does not give."""


class _Kept(Struct, frozen=True, eq=False):
    """Parameters that were read before."""

    source: list[Any]
    hints: dict[str, Any] | None
    """The annotations, if some hold names as text, which may stand for something else by now."""
    parameters: Parameters


_kept: WeakKeyDictionary[CodeType, _Kept] = WeakKeyDictionary()


def tool_parameters(name: str, function: Callable[..., Any]) -> Parameters:
    """Return the parameters of the function of the tool *name*.

    Raises:
        ConfigError: it is not a function, or a model cannot give what it takes.
    """
    try:
        code, source = _source(function)
        kept = _kept.get(code) if code else None
        if kept and (len(kept.source) != len(source) or not all(map(is_, kept.source, source))):
            kept = None
        if kept and kept.hints is None:
            return kept.parameters
        plain = plain_function(function)
        _check_kind(name, plain)
        hints = get_type_hints(plain, include_extras=True)
        if kept and kept.hints == hints:
            return kept.parameters
        signature = _signature(function)
    except (ArithmeticError, AttributeError, LookupError, NameError, SyntaxError, TypeError, ValueError) as exc:
        # An annotation may be any text, and Python evaluates it here, so a typing mistake can raise any of these.
        raise ConfigError(f"tool {name!r}: its signature cannot be read: {type(exc).__name__}: {exc}") from exc
    named = tuple(inspect.signature(plain).parameters)
    parameters = _read(name, signature, hints, inspect.iscoroutinefunction(plain), named)
    if code:
        _kept[code] = _Kept(source, hints if _names_are_text(function, hints) else None, parameters)
    return parameters


def plain_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that runs when a `partial`, or an object that can be called, is called."""
    if type(function) in (FunctionType, MethodType):
        return function
    while isinstance(function, partial):
        function = cast(Callable[..., Any], cast(Any, function).func)
    is_object = (
        not inspect.isroutine(function) and not inspect.isclass(function) and not hasattr(function, "__wrapped__")
    )
    return function.__call__ if is_object else function


def described(
    plain: Callable[..., Any], parameters: tuple[str, ...], has_description: bool
) -> tuple[str, str, dict[str, str]]:
    """Return the name of a plain function, and what its docstring says of it and of its *parameters*, by their names.

    Of a method these may be its base class's; of the `__call__` of an object, its class's.
    """
    name, doc = getattr(plain, "__name__", type(plain).__name__), plain.__doc__
    if name == "__call__" and (owner := getattr(plain, "__self__", None)) is not None:
        name, doc = type(owner).__name__, doc or type(owner).__doc__
    if type(doc) is not str:  # That of a base class takes long to find.
        doc = "" if has_description else inspect.getdoc(plain) or ""
    return name, *_documented(doc, parameters)


@lru_cache(maxsize=1000)
def _documented(doc: str, parameters: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    doc = inspect.cleandoc(doc)
    if not _DESCRIBES.search(doc):
        return doc, {}
    from .docstrings import split

    return split(doc, parameters)


_DESCRIBES = re.compile("^(?:Arg|Param|:param)", re.MULTILINE)


def _signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the parameters that are left to the model: not those that a `partial` has been given, a key perhaps."""
    signature = inspect.signature(function)
    if not isinstance(function, partial):
        return signature
    given: Any = cast(Any, function).keywords
    return signature.replace(parameters=[one for one in signature.parameters.values() if one.name not in given])


def _source(function: Callable[..., Any]) -> tuple[CodeType | None, list[Any]]:
    """Return the code of a function, below its decorators, and every object that its signature is read from: most of
    them can be set after the function was made. None: the signature is read from something else.
    """
    part = getattr(function, "__func__", function)
    code: CodeType | None = None
    source: list[Any] = [part is function]  # A method takes one parameter less.
    while part is not None:
        if type(part) is not FunctionType:
            return None, []
        code = part.__code__
        source += (code, part.__defaults__, part.__dict__.get("__signature__"))
        for named in (part.__annotations__, part.__kwdefaults__ or {}):
            source += named
            source += named.values()
        part = part.__dict__.get("__wrapped__")
    return code, source


def _names_are_text(function: Callable[..., Any], hints: dict[str, Any]) -> bool:
    written = function.__annotations__
    return any(hint != written[name] and hint is not NoneType for name, hint in hints.items())


def _check_kind(name: str, function: Callable[..., Any]) -> None:
    if inspect.isclass(function):
        raise ConfigError(f"tool {name!r} must be a function, or a method of an object, not {shown(function)}")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"tool {name!r} must return one value, and not `yield`; return a list")


def _read(
    name: str, signature: inspect.Signature, hints: dict[str, Any], is_async: bool, named: tuple[str, ...]
) -> Parameters:
    fields: list[Any] = []
    context, aliases, defaults = "", dict[str, Alias](), dict[str, Any]()
    for parameter in signature.parameters.values():
        hint = hints.get(parameter.name)
        if any(inspect.isclass(kind) and issubclass(kind, Injected) for kind in (hint, *get_args(hint))):
            context = parameter.name
            continue
        _check_parameter(name, parameter, hints)
        if alias := next((about for about in get_args(hint) if isinstance(about, Alias)), None):
            aliases[parameter.name] = alias
        hint, default = of_parameter(hint, NOTHING if parameter.default is parameter.empty else parameter.default)
        if default is NOTHING:
            fields.append((parameter.name, hint))
        else:
            defaults[parameter.name] = default
            fields.append((parameter.name, hint, _field(default)))
    try:
        arguments = msgspec.defstruct("Arguments", fields, kw_only=True, forbid_unknown_fields=True)
        decoder = msgspec.json.Decoder(arguments, dec_hook=decoded_by_its_class)
        schema = to_json(_schema(arguments, defaults))
    except (TypeError, ValueError) as exc:
        problem = f"its function has a parameter of a type that JSON cannot express: {unknown_type(exc)}"
        problem = f"{problem}; take plain data there, and objects from `ctx.context`"
        raise ConfigError(f"tool {name!r}: {problem}") from exc
    has_objects = schema.count(b'"properties":') > 1
    return Parameters(arguments, decoder, schema, has_objects, is_async, context, aliases, named)


def _check_parameter(name: str, parameter: inspect.Parameter, hints: dict[str, Any]) -> None:
    if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
        problem = f"parameter {str(parameter).partition(':')[0]!r} of its function cannot be passed by name"
        raise ConfigError(f"tool {name!r}: {problem}; take a list or a dict, such as `names: list[str]`")
    if parameter.name not in hints:
        from .mistakes import untyped

        problem = f"parameter {parameter.name!r} of its function has no type hint"
        raise ConfigError(f"tool {name!r}: {problem}; {untyped(parameter.name)}")


def _field(default: Any) -> Any:
    """Return a default as a field of a Struct has it: one that can change, or that JSON cannot express, is made."""
    if isinstance(default, list | dict | set | bytearray):
        return msgspec.field(default_factory=partial(deepcopy, cast(Any, default)))
    return default if _as_plain(default) is not NOTHING else msgspec.field(default_factory=lambda: default)


def _as_plain(default: Any) -> Any:
    try:
        return msgspec.to_builtins(default, str_keys=True)
    except (TypeError, ValueError, OverflowError):
        return NOTHING


def _schema(arguments: type[Struct], defaults: dict[str, Any]) -> dict[str, Any]:
    schema = schema_of(arguments)
    schema.pop("title", None)  # The Struct's name, which is ours.
    for name, default in defaults.items():
        if (plain := _as_plain(default)) is not NOTHING:
            schema["properties"][name]["default"] = plain
    _say_type_of_texts(schema)
    return schema


def _say_type_of_texts(part: Any) -> None:
    """Say that a choice between texts is a text: some providers refuse an `enum` that does not."""
    if isinstance(part, list):
        for item in cast(list[Any], part):
            _say_type_of_texts(item)
    elif isinstance(part, dict):
        fields = cast(dict[str, Any], part)
        for name, item in fields.items():
            if name not in ("default", "enum", "examples"):
                _say_type_of_texts(item)
        if isinstance(choice := fields.get("enum"), list) and all(
            isinstance(one, str) for one in cast(list[Any], choice)
        ):
            fields.setdefault("type", "string")
