"""The strict form of a JSON Schema: the part of the language in which all providers can hold a reply to it.

Each provider takes a part of JSON Schema only, and refuses a request whose schema goes beyond it. This is what their
parts have in common:

* Every object lists all its properties as required and allows no others. An optional property may be null.
* There are no bounds, lengths and patterns: they go into the description, and the reply is checked against them anyway.
* No schema contains itself, and at most 16 places of it allow several types.

https://platform.claude.com/docs/en/build-with-claude/structured-outputs,
https://developers.openai.com/api/docs/guides/structured-outputs and, for the 16,
https://github.com/vercel/ai/pull/17268
"""

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, cast

from .plain_json import to_json

Schema = dict[str, Any]
MAX_UNIONS = 16
"""Places that allow several types."""
FORMATS = {"date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_NULL = {"type": "null"}
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_IN_WORDS = (
    "format contentEncoding minimum maximum exclusiveMinimum exclusiveMaximum multipleOf minLength maxLength pattern "
    "minItems maxItems uniqueItems minProperties maxProperties examples"
)
"""Keywords that go into the description, so that the model reads them."""
_DROPPED = {"title", "description", "default", "discriminator", "deprecated", "readOnly", "writeOnly", "$schema", "$id"}
"""Keywords that say nothing about a value."""


class NoStrictForm(ValueError):
    """A schema has no strict form."""


def strict(schema: Mapping[str, Any]) -> Schema:
    """Return the strict form of *schema*, which describes an object.

    Raises:
        NoStrictForm: it has none, because it allows an object with any names, for example, or a value of any type.
    """
    form = _Strict(schema)
    made = form.of(schema)
    if made.get("type") != "object":
        raise NoStrictForm("the schema must describe an object")
    if form.unions > MAX_UNIONS:
        raise NoStrictForm(f"more than {MAX_UNIONS} places allow several types")
    return {**made, "$defs": form.parts} if form.parts else made


class _Strict:
    """The strict forms of one schema's parts."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._definitions: Mapping[str, Any] = root.get("$defs") or {}
        self.parts: Schema = {}
        """The definitions that are referred to."""
        self._inside: list[str] = []
        self.unions = 0

    def of(self, schema: Any) -> Schema:
        """Return the strict form of one part."""
        if not isinstance(schema, Mapping):
            raise NoStrictForm(f"a part of it is {schema!r}")
        given = dict(cast(Mapping[str, Any], schema))
        if "$ref" in given:
            return self._reference(str(given["$ref"]))
        given.pop("$defs", None)
        whole = given.get("allOf")
        if isinstance(whole, list) and len(cast(list[Any], whole)) == 1:
            given |= given.pop("allOf")[0]
            return self.of(given)
        made = self._form(given)
        if unknown := given.keys() - _DROPPED - {*_IN_WORDS.split()}:
            raise NoStrictForm(f"it has {', '.join(sorted(unknown))}")
        if words := _description(given, made):
            made["description"] = words
        return made

    def _form(self, given: Schema) -> Schema:
        """Take out of *given* what says which values are allowed, and return its form."""
        options = given.pop("anyOf", None) or given.pop("oneOf", None)
        kind = given.pop("type", None)
        if options:
            return self._any_of(self.of(option) for option in options)
        if "const" in given or "enum" in given:
            return self._one_of([given.pop("const")] if "const" in given else given.pop("enum"))
        if isinstance(kind, list):
            return self._any_of([self._of_kind(one, given) for one in cast(list[Any], kind)])
        return self._of_kind(kind, given)

    def _of_kind(self, kind: Any, given: Schema) -> Schema:
        match kind:
            case "object":
                return self._object(given)
            case "array":
                if not given.get("items") or "prefixItems" in given:
                    raise NoStrictForm("it has a list of any items")
                return {"type": "array", "items": self.of(given.pop("items"))}
            case "string" if given.get("format") in FORMATS:
                return {"type": "string", "format": given.pop("format")}
            case "string" | "integer" | "number" | "boolean" | "null":
                return {"type": kind}
            case _:
                raise NoStrictForm("it allows a value of any type")

    def _object(self, given: Schema) -> Schema:
        known, required = cast(Schema, given.pop("properties", {})), given.pop("required", ())
        others = given.pop("additionalProperties", not known)
        if others is not False and not (known and others is True):
            raise NoStrictForm("it has an object with any names")
        properties: Schema = {}
        for name, about in known.items():
            properties[name] = self.of(about) if name in required else self._optional(about)
        return {
            "type": "object",
            "properties": properties,
            "required": [*properties],
            "additionalProperties": False,
        }

    def _optional(self, schema: Any) -> Schema:
        made = self.of(schema)
        default = cast(Mapping[str, Any], schema).get("default")
        if not _allows_null(made):
            described = made.pop("description", "") if "anyOf" in made else ""
            made = self._any_of([made, _NULL])
            if described:
                made["description"] = described
        if default not in (None, "", [], {}):
            note = f"null: {to_json(default).decode()}"
            made["description"] = "; ".join(filter(None, (made.get("description"), note)))
        return made

    def _any_of(self, forms: Iterable[Schema]) -> Schema:
        options: list[Any] = []
        for form in forms:
            inner = form["anyOf"] if form.keys() == {"anyOf"} else [form]
            options += [option for option in inner if option not in options]
        if len(options) == 1:
            return dict(options[0])
        self.unions += 1
        return {"anyOf": options}

    def _one_of(self, values: list[Any]) -> Schema:
        if any(type(value) not in _TYPES for value in values):
            raise NoStrictForm("it lists values that are no plain ones")
        by_kind = groupby(sorted(values, key=_kind), _kind)
        return self._any_of(
            _NULL if kind == "null" else {"type": kind, "enum": list(listed)} for kind, listed in by_kind
        )

    def _reference(self, ref: str) -> Schema:
        name = ref.removeprefix("#/$defs/")
        if name == ref or name not in self._definitions:
            raise NoStrictForm(f"{ref} is no definition")
        if name in self._inside:
            raise NoStrictForm(f"{name} contains itself")
        if name not in self.parts:
            self._inside.append(name)
            self.parts[name] = self.of(self._definitions[name])
            self._inside.pop()
        return {"$ref": ref}


def _kind(value: Any) -> str:
    return _TYPES[type(value)]


def _allows_null(made: Schema) -> bool:
    return made == _NULL or _NULL in made.get("anyOf", ())


def _description(given: Schema, made: Schema) -> str:
    """Return the description of *given*, with what the strict form leaves out."""
    bounds = {name: given[name] for name in _IN_WORDS.split() if name in given and name not in made}
    bounded = f"({', '.join(f'{name}: {to_json(value).decode()}' for name, value in bounds.items())})" if bounds else ""
    return " ".join(filter(None, (given.get("description"), bounded)))
