"""`DataType`: a type that is read from data, from JSON or from a model's prose, and described as a JSON Schema."""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

import msgspec

from .coercion import Schema, coerced, strays
from .errors import ConfigError
from .kinds import shown

T = TypeVar("T")
MAX_SHAPE = 2_000
"""Characters of a shape as a model is shown it."""


class DataType(Generic[T]):
    """A type that JSON is read into: a Struct, a dataclass, a TypedDict, a Pydantic model, an enum, `list[...]` and
    whatever else msgspec can decode; or a JSON Schema, whose values stay plain data.

    Raises:
        ConfigError: JSON cannot express *kind*.
    """

    def __init__(self, kind: type[T] | Mapping[str, Any], name: str = "") -> None:
        given: Any = kind
        is_schema = isinstance(given, Mapping)
        self.kind: Any = kind
        self.name: str = name or _name_of(kind)
        try:
            self.schema: dict[str, Any] = dict(cast(Schema, given)) if is_schema else schema_of(kind)
            self._convert = _validator(self.schema) if is_schema else self._converted
        except (TypeError, ValueError) as exc:
            raise ConfigError(f"{self.name}: JSON cannot express it: {unknown_type(exc)}") from exc

    def __repr__(self) -> str:
        return f"DataType({self.name})"

    def read(self, value: Any, /) -> T:
        """Return plain data as this type, coerced where it has one reading only (`minideep.coercion`). Fields that the
        type does not have are ignored if it says nothing about them; but some must be its own.

        Raises:
            ValueError: it does not fit; says where, and which shape is wanted.
        """
        try:
            read = self._convert(value)
            if not strays(value, self.schema):
                return read
        except (ValueError, RecursionError):
            pass
        # What is under another spelling would be dropped, as what the type does not have.
        try:
            return self._convert(coerced(value, self.schema))
        except (ValueError, RecursionError) as exc:
            raise ValueError(f"{_problem(exc)}; {self.wanted}") from None

    def read_text(self, text: str) -> T:
        """Return the value of this type that stands in *text*, which a model wrote: alone, in a fence, or among prose.

        Raises:
            ValueError: none does; says what was found, and which shape is wanted.
        """
        from .structured import value_in  # Models that are asked for JSON mostly write JSON.

        return value_in(text, self)

    @property
    def wanted(self) -> str:
        """What a value must be, as a model reads it."""
        return f"give JSON of this shape: {shape_of(self.schema)}"

    def _converted(self, value: Any) -> T:
        known = self.schema.get("properties", ())
        # If all fields have defaults, every object could be read, as one that says nothing.
        if known and isinstance(value, dict) and value and known.keys().isdisjoint(cast(Schema, value)):
            raise ValueError(f"it has none of the fields {', '.join(known)}")
        return msgspec.convert(value, self.kind, dec_hook=decoded_by_its_class)


def _name_of(kind: Any) -> str:
    if isinstance(kind, Mapping):
        return str(cast(Schema, kind).get("title", "JSON Schema"))
    return kind.__name__ if isinstance(kind, type) else str(kind).replace("typing.", "")


def _problem(exc: Exception) -> str:
    """Return what is wrong, without a library's own words around it."""
    errors = getattr(exc, "errors", None)
    if callable(errors):  # Pydantic's, which explains itself on several lines, with addresses.
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in cast(Any, errors)()[:5])
    return str(exc).splitlines()[0] if str(exc) else type(exc).__name__


# ---- types that msgspec does not know


def unknown_type(exc: Exception) -> str:
    """Return the line of msgspec's message that names the type. Those before it are advice to users of msgspec."""
    return str(exc).rpartition("\n")[2]


def is_pydantic(kind: Any) -> bool:
    """Return whether *kind* is a model of Pydantic, without importing it."""
    return isinstance(kind, type) and hasattr(kind, "model_validate") and hasattr(kind, "model_json_schema")


def decoded_by_its_class(kind: Any, value: Any) -> Any:
    """Decode a model of Pydantic: the `dec_hook` of msgspec."""
    if is_pydantic(kind):
        try:
            return kind.model_validate(value)
        except ValueError as exc:
            raise ValueError(_problem(exc)) from None
    raise NotImplementedError(f"{shown(kind)} cannot be read from JSON")


def schema_of(*kinds: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type, its own object at the top.

    Raises:
        TypeError: JSON cannot express it.
    """
    (schema,), parts = msgspec.json.schema_components(
        kinds, schema_hook=_schema_by_its_class, ref_template="#/$defs/{name}"
    )
    # The definitions of a Pydantic model stand inside its schema; references look for them at the top.
    for part in [schema, *parts.values()]:
        parts |= _lifted(part)
    if list(schema) == ["$ref"]:  # Providers want an object at the top, not a reference.
        name = schema["$ref"].rpartition("/")[2]
        own = parts[name] if _refers(parts, name) else parts.pop(name)
        schema = dict(own)
    return {**schema, "$defs": parts} if parts else schema


def _schema_by_its_class(kind: Any) -> dict[str, Any]:
    if is_pydantic(kind):
        return kind.model_json_schema()
    raise NotImplementedError(f"JSON cannot express {shown(kind)}")


def _lifted(schema: Any) -> dict[str, Any]:
    """Take the definitions out of every part of *schema*, and return them."""
    found: dict[str, Any] = {}
    left: list[Any] = [schema]
    while left:
        part = left.pop()
        if isinstance(part, dict):
            fields = cast(dict[str, Any], part)
            if isinstance(fields.get("$defs"), dict):
                found |= fields.pop("$defs")
            left += fields.values()
        elif isinstance(part, list):
            left += cast(list[Any], part)
    for part in list(found.values()):
        found |= _lifted(part)
    return found


def _refers(schema: Any, name: str) -> bool:
    """Return whether a part of *schema* refers to the definition *name*."""
    return f'"#/$defs/{name}"'.encode() in msgspec.json.encode(schema)


def _validator(schema: dict[str, Any]) -> Any:
    """Return the function that checks plain data against a JSON Schema of the user's.

    Raises:
        ConfigError: the package `jsonschema` is missing.
        ValueError: it is not a JSON Schema.
    """
    try:
        from jsonschema import exceptions, validators
    except ImportError:
        raise ConfigError("a JSON Schema needs the package jsonschema; install minideep[schema]") from None
    kind: Any = validators.validator_for(schema, validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except exceptions.SchemaError as exc:
        raise ValueError(exc.message) from None
    checker, best_match = kind(schema), cast(Any, exceptions).best_match

    def check(value: Any) -> Any:
        problem: Any = best_match(checker.iter_errors(value))
        if problem is not None:
            raise ValueError(f"{problem.message[:300]} at {problem.json_path}")
        return value

    return check


# ---- shapes


def shape_of(schema: Schema) -> str:
    """Return a schema in few words: `{"name": string, "tags"?: [string], "kind": "a" | "b"}`; `?` says optional.

    >>> shape_of({"type": "array", "items": {"type": "integer"}})
    '[integer]'
    """
    text = _shape(schema, schema, 0)
    return text if len(text) <= MAX_SHAPE else f"{text[:MAX_SHAPE]} ..."


def _shape(schema: Any, root: Schema, depth: int) -> str:
    if not isinstance(schema, Mapping) or depth > 8:
        return "any"
    about = cast(Schema, schema)
    if isinstance(ref := about.get("$ref"), str):
        return _shape(root.get("$defs", {}).get(ref.rpartition("/")[2]), root, depth + 1)
    for options in (about.get("anyOf"), about.get("oneOf")):
        if options:
            return " | ".join(dict.fromkeys(_shape(option, root, depth + 1) for option in options))
    if (allowed := [about["const"]] if "const" in about else about.get("enum")) is not None:
        return " | ".join(msgspec.json.encode(one).decode() for one in allowed)
    kinds = about.get("type", "any")
    if kinds == "object" and (fields := about.get("properties")):
        required = about.get("required", ())
        parts = (
            f'"{name}"{"" if name in required else "?"}: {_shape(part, root, depth + 1)}'
            for name, part in fields.items()
        )
        return f"{{{', '.join(parts)}}}"
    if kinds == "object" and isinstance(others := about.get("additionalProperties"), Mapping):
        return f"{{string: {_shape(others, root, depth + 1)}}}"
    if kinds == "array":
        return f"[{_shape(about.get('items', {}), root, depth + 1)}]"
    return kinds if isinstance(kinds, str) else " | ".join(kinds)
