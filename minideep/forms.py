"""The forms that values have in JSON: how they are described as JSON Schema, and how they are read.

A `Form` is derived from an annotation, so that a new field of an event needs nothing here. What JSON says in another
way than the class does, such as the calls of a message, has a form of its own.
"""

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Meta, Struct, structs

from .errors import ConfigError
from .export import FILE_FIELDS, ROLES
from .field_docs import field_docs, first_words
from .kinds import shown
from .messages import AnyBlock, AssistantMessage, Content, Text, ToolCall, ToolMessage, Usage, UserMessage
from .plain_json import arguments_json, from_json, to_json
from .state import Edit, Interrupt

Schema = dict[str, Any]


class Form(Struct, frozen=True):
    """How the values of an annotation look in JSON."""

    wanted: str
    schema: Schema
    accepts: Callable[[Any], bool]
    """Tests the value itself, not its parts."""
    read: Callable[[Any, str], Any]
    """Takes an accepted value and its place, and returns what it stands for."""


def read(form: Form, value: Any, place: str) -> Any:
    """Return what a value of JSON stands for.

    Raises:
        ConfigError: it is not of the form; the text names the place.
    """
    if not form.accepts(value):
        raise ConfigError(f"{place}: expected {form.wanted}, found {shown(value)}")
    return form.read(value, place)


def decoded(raw: str | bytes | Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the JSON object that *raw* is, or has been.

    Raises:
        ConfigError: it is not one.
    """
    try:
        value = from_json(raw) if isinstance(raw, str | bytes) else raw
    except (ValueError, RecursionError) as exc:
        raise ConfigError(f"{place}: expected JSON: {exc}") from None
    if not isinstance(value, Mapping):
        raise ConfigError(f"{place}: expected an object, found {shown(value)}")
    return dict(cast(Mapping[str, Any], value))


# ---- forms of annotations


def _same(value: Any, place: str) -> Any:
    return value


def _is(*kinds: type) -> Callable[[Any], bool]:
    return lambda value: type(value) in kinds  # Not by `isinstance`: True is no number.


def _base64(value: str, place: str) -> bytes:
    try:
        return b64decode(value, validate=True)
    except ValueError:
        raise ConfigError(f"{place}: expected base64, found {shown(value)}") from None


PLAIN: dict[Any, Form] = {
    Any: Form("anything", {}, lambda value: True, _same),
    NoneType: Form("null", {"type": "null"}, _is(NoneType), _same),
    str: Form("text", {"type": "string"}, _is(str), _same),
    bool: Form("true or false", {"type": "boolean"}, _is(bool), _same),
    int: Form("a whole number", {"type": "integer"}, _is(int), _same),
    float: Form("a number", {"type": "number"}, _is(int, float), lambda value, place: float(value)),
    bytes: Form("base64", {"type": "string", "contentEncoding": "base64"}, _is(str), _base64),
}


@cache
def form_of(hint: Any) -> Form:
    """Return the form of an annotation."""
    origin, args = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _bounded(form_of(args[0]), args[1:])
    if hint == Content:
        return _content()
    if origin in (Union, UnionType):
        return _either([form_of(arg) for arg in args])
    if origin is Literal:
        names = " or ".join(f'"{arg}"' for arg in args)
        return Form(names, {"enum": list(args)}, lambda value: type(value) is str and value in args, _same)
    if origin in (list, tuple, Sequence):
        return _array(form_of(args[0]), tuple if origin is tuple else list)
    if origin is dict:
        return _mapping(form_of(args[1]))
    if isinstance(hint, TypeVar):  # Whatever JSON a user's type has.
        return PLAIN[Any]
    return PLAIN[hint] if hint in PLAIN else _struct(hint)


def _bounded(form: Form, conditions: Iterable[Any]) -> Form:
    least = next((one.ge for one in conditions if isinstance(one, Meta)), None)
    if least is None:
        return form
    return Form(
        f"{form.wanted} of at least {least}",
        {**form.schema, "minimum": least},
        lambda value: form.accepts(value) and value >= least,
        form.read,
    )


def _either(forms: Sequence[Form]) -> Form:
    def read_first(value: Any, place: str) -> Any:
        return next(form for form in forms if form.accepts(value)).read(value, place)

    wanted = " or ".join(form.wanted for form in forms)
    schema = {"anyOf": [form.schema for form in forms]}
    return Form(wanted, schema, lambda value: any(form.accepts(value) for form in forms), read_first)


def _array(item: Form, made: Callable[[Iterable[Any]], Any]) -> Form:
    def read_items(value: list[Any], place: str) -> Any:
        return made([read(item, part, f"{place}[{index}]") for index, part in enumerate(value)])

    return Form("a list", {"type": "array", "items": item.schema}, _is(list), read_items)


def _mapping(item: Form) -> Form:
    def read_items(value: dict[str, Any], place: str) -> dict[str, Any]:
        return {key: read(item, part, f"{place}[{key!r}]") for key, part in value.items()}

    return Form("an object", {"type": "object", "additionalProperties": item.schema}, _is(dict), read_items)


# ---- forms of objects

Fields = dict[str, tuple[Form, Any]]
"""The form and the default of each field; `NODEFAULT` if it must be there."""
Found = dict[str, Any]
Made = Callable[[Found], Any]
definitions: dict[str, Schema] = {}
"""The schemas of objects, by the name of their class."""


def object_form(kind: type, fields: Fields, tag: tuple[str, str] | None, made: Made) -> Form:
    """Return the form of an object that is defined under the name of its class; *tag* is a field and its one value."""

    def read_fields(value: dict[str, Any], place: str) -> Any:
        try:
            return made(_read_fields(fields, value, place))
        except ValueError as exc:  # Arguments that nest too deep.
            raise ConfigError(f"{place}: {exc}") from None

    docs = field_docs(kind)
    properties = {name: _described(form.schema, docs.get(name, "")) for name, (form, _) in fields.items()}
    constant: Schema = {tag[0]: {"const": tag[1]}} if tag else {}
    described = _described({"type": "object"}, first_words(kind))
    definitions[kind.__name__] = {
        **described, "properties": {**constant, **properties}, "required": [*constant, *properties],
    }  # fmt: skip
    wanted = f'an object with "{tag[0]}": "{tag[1]}"' if tag else "an object"

    def accepts(value: Any) -> bool:
        return type(value) is dict and (tag is None or cast(Found, value).get(tag[0]) == tag[1])

    return Form(wanted, {"$ref": f"#/$defs/{kind.__name__}"}, accepts, read_fields)


def _described(schema: Schema, text: str) -> Schema:
    return {**schema, "description": " ".join(text.split())} if text else schema


def _read_fields(fields: Fields, value: dict[str, Any], place: str) -> Found:
    found: Found = {}
    for name, (form, default) in fields.items():
        if name in value:
            found[name] = read(form, value[name], f"{place}.{name}")
        elif default is NODEFAULT:
            raise ConfigError(f"{place}.{name} is missing")
    return found


def _struct(kind: type[Any]) -> Form:
    if special := _SPECIAL.get(kind):
        return special(kind)
    fields, tag = fields_of(kind)[0], kind.__struct_config__.tag
    made: Made = lambda found: kind(**found)  # noqa: E731
    if fields.keys() >= FILE_FIELDS:
        fields["content"] = form_of(str | None), NODEFAULT
        fields["encoding"] = form_of(Literal["utf-8", "base64"] | None), None
        made = lambda found: kind(**_file(found))  # noqa: E731
    return object_form(kind, fields, ("type", tag) if isinstance(tag, str) else None, made)


def fields_of(kind: type[Any]) -> tuple[Fields, Made]:
    """Return the fields of a Struct by their names in JSON, and what makes its arguments of them."""
    hints = get_type_hints(kind, include_extras=True)
    described = structs.fields(kind)
    fields = {
        field.encode_name: (form_of(hints[field.name]), NODEFAULT if field.required else None) for field in described
    }
    if fields.keys() >= FILE_FIELDS:
        fields["content"] = form_of(str | None), NODEFAULT
        fields["encoding"] = form_of(Literal["utf-8", "base64"] | None), None
        return fields, _file
    names = {field.encode_name: field.name for field in described}
    return fields, lambda found: {names.get(name, name): value for name, value in found.items()}


def _file(found: Found) -> Found:
    """Decode the content of a file that is not text."""
    if found.pop("encoding", None) == "base64":
        try:
            found["content"] = b64decode(found["content"] or "", validate=True)
        except ValueError:
            raise ValueError("the content is not base64") from None
    return found


def _call(kind: type[ToolCall]) -> Form:
    text, args = form_of(str), form_of(dict[str, Any] | str)

    def made(found: Found) -> ToolCall:
        said = found["args"]
        return ToolCall(found["name"], to_json(said) if isinstance(said, str) else arguments_json(said), found["id"])

    return object_form(
        kind, {"id": (text, NODEFAULT), "name": (text, NODEFAULT), "args": (args, NODEFAULT)}, None, made
    )


def _edit(kind: type[Edit]) -> Form:
    args = form_of(dict[str, Any])
    return object_form(kind, {"args": (args, NODEFAULT)}, ("type", "edit"), lambda found: Edit(found["args"]))


def _interrupt(kind: type[Interrupt]) -> Form:
    def made(found: Found) -> Interrupt:
        found.pop("call_id", None)  # Its call has it.
        return Interrupt(**found)

    return object_form(kind, {"call_id": (form_of(str), None), **fields_of(kind)[0]}, None, made)


def _usage(kind: type[Usage]) -> Form:
    def made(found: Found) -> Usage:
        found.pop("total", None)  # The sum of two others.
        return Usage(**found)

    return object_form(kind, {**fields_of(kind)[0], "total": (form_of(int), None)}, None, made)


def _message(kind: type[Any]) -> Form:
    fields: Fields = {"content": (form_of(Content), NODEFAULT)}
    made: Made = lambda found: kind(found["content"])  # noqa: E731
    if kind is AssistantMessage:
        fields["tool_calls"] = form_of(tuple[ToolCall, ...]), NODEFAULT
        made = _reply
    if kind is ToolMessage:
        text, flag = form_of(str), form_of(bool)
        fields |= {"name": (text, NODEFAULT), "tool_call_id": (text, NODEFAULT), "is_error": (flag, None)}
        made = lambda found: ToolMessage(  # noqa: E731
            found["content"], found["tool_call_id"], found["name"], found.get("is_error", False)
        )
    return object_form(kind, fields, ("type", ROLES[kind.role]), made)


def _content() -> Form:
    """Return the form of text, or of a list of blocks. A message holds its calls under `tool_calls`, not there."""
    # A call has no `type` that would tell it from the others.
    blocks = sorted(get_args(AnyBlock), key=lambda block: block is ToolCall)
    return _either([form_of(str), _array(_either([form_of(block) for block in blocks]), tuple)])


def _reply(found: Found) -> AssistantMessage:
    content, calls = found["content"], found["tool_calls"]
    if not calls:
        return AssistantMessage(content)
    said = ((Text(content),) if content else ()) if isinstance(content, str) else content
    return AssistantMessage((*said, *calls))


_SPECIAL: dict[Any, Callable[[Any], Form]] = {
    ToolCall: _call,
    Edit: _edit,
    Interrupt: _interrupt,
    Usage: _usage,
    UserMessage: _message,
    AssistantMessage: _message,
    ToolMessage: _message,
}
