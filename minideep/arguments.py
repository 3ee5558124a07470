"""What a model wrote as the arguments of a call: read in the one way that fits a tool, or refused with its reasons.

Loaded for the first call whose arguments do not fit as they are.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, cast

import msgspec
from msgspec import structs

from .coercion import ALIASES, JOINED, Reader, Schema, TooManyWays, coerced, is_absent, named, strays
from .datatypes import decoded_by_its_class, shape_of
from .errors import ToolError
from .kinds import shown
from .messages import ToolCall
from .mistakes import did_you_mean
from .parameters import Alias, Parameters
from .plain_json import from_json, to_json
from .structured import is_cut_off, whole_value

MAX_PROBLEMS = 5
"""Problems that one refusal names."""


def reread(call: ToolCall, parameters: Parameters) -> ToolCall:
    """Return *call* with its arguments in the one reading that fits; *call* itself if they fit, or if there is none."""
    try:
        if _fits(call, parameters) and not _dropped(call, parameters):
            return call
        again = _coerced(call, parameters)
        _decoded(again.raw, parameters)
    except Exception:  # noqa: BLE001  A class of the user's may raise anything when it is made of arguments.
        return call
    return again


def check_strays(call: ToolCall, parameters: Parameters, schema: Schema) -> None:
    """Check that objects in the arguments of a call that can be decoded hold nothing that decoding drops.

    Raises:
        ToolError: they do.
    """
    if found := _dropped(call, parameters):
        raise _refusal(call, "; ".join(found[:MAX_PROBLEMS]), schema)


def _dropped(call: ToolCall, parameters: Parameters) -> list[str]:
    """Return what is wrong with the names that decoding drops."""
    schema = from_json(parameters.schema)
    properties, parts = schema["properties"], schema.get("$defs", {})
    args: Schema = from_json(call.raw)
    found = {
        place: stray
        for place, item in args.items()
        if place in properties and (stray := strays(item, {**properties[place], "$defs": parts}))
    }
    if not found:
        return []
    for holder, name, _ in (stray for several in found.values() for stray in several):
        holder.pop(name)
    # A class may know more names than its schema says: then it reads something else without them, or nothing.
    try:
        if _decoded(to_json(args), parameters) != _decoded(call.raw, parameters):
            return []
    except (msgspec.DecodeError, ValueError):
        return []
    return [
        f"{place} takes no {name!r}" + did_you_mean(name, known, f"; it has {', '.join(known)}")
        for place, several in found.items()
        for _, name, known in several[:MAX_PROBLEMS]
    ]


def _fits(call: ToolCall, parameters: Parameters) -> bool:
    try:
        _decoded(call.raw, parameters)
    except (msgspec.DecodeError, ValueError):
        return False
    return True


def _refusal(call: ToolCall, said: str, schema: Schema) -> ToolError:
    return ToolError(f"{call.name}: {said}; it takes {signature_of(schema)}; fix the arguments and call it again")


def checked_slowly(call: ToolCall, parameters: Parameters, schema: Schema, problem: msgspec.DecodeError) -> Any:
    """Return the arguments of a call whose JSON only `json` reads.

    Raises:
        ToolError: the call does not fit; the text names all that is wrong with it, and what the tool takes.
    """
    if not isinstance(problem, msgspec.ValidationError):
        try:
            return _decoded(call.raw, parameters)
        except msgspec.ValidationError as exc:
            problem = exc
    if text := call.malformed:
        said = f"the arguments are not a JSON object: {text[:200]!r}"
        if is_cut_off(text):
            said = f"the arguments break off after {len(text):,} characters: {text[-50:]!r}; write less in one call"
    else:
        found = _problems(call.args, _with_aliases(schema, parameters.aliases))
        said = "; ".join(found or [_problem_when_read(call, parameters) or str(problem)])
    raise _refusal(call, said, schema) from None


def _decoded(raw: bytes, parameters: Parameters) -> Any:
    try:
        return parameters.decoder.decode(raw)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:  # NaN or lone surrogates, which only `json` reads.
        return msgspec.convert(from_json(raw), parameters.arguments, dec_hook=decoded_by_its_class)


def signature_of(schema: Schema) -> str:
    """Return parameters as a model reads them: `path (string), limit (integer, optional)`."""
    required = schema.get("required", [])
    properties: Schema = schema.get("properties", {})
    parts = [f"{name} ({_kind(about)}{'' if name in required else ', optional'})" for name, about in properties.items()]
    return ", ".join(parts) or "no arguments"


def _kind(about: Schema) -> str:
    return shape_of(about) if "enum" in about else about.get("type") or "value"


def _written(call: ToolCall) -> Any:
    """Return what the model wrote as arguments.

    Raises:
        ValueError: it is not JSON.
    """
    text = call.malformed
    written = whole_value(text) if text else call.args
    return {} if written is None else written


def _coerced(call: ToolCall, parameters: Parameters) -> ToolCall:
    """Return *call* with its arguments in their one reading; *call* itself if they fit, or have no such reading.

    Raises:
        ValueError: they are not JSON.
    """
    written = _written(call)
    found = coerced(written, _with_aliases(from_json(parameters.schema), parameters.aliases), closed=True)
    return call if found is written and not call.malformed else structs.replace(call, raw=to_json(found))


def _problem_when_read(call: ToolCall, parameters: Parameters) -> str:
    """Return what is wrong with arguments that have a reading: a bound, or what a class of the user's says."""
    try:
        _decoded(_coerced(call, parameters).raw, parameters)
    except (msgspec.ValidationError, ValueError) as exc:
        return str(exc)
    return ""


def _with_aliases(schema: Schema, aliases: Mapping[str, Alias]) -> Schema:
    properties = dict(schema.get("properties", {}))
    for name, alias in aliases.items():
        properties[name] = {**properties[name], ALIASES: alias.names, JOINED: alias.joined}
    return {**schema, "properties": properties}


def _problems(given: Schema, schema: Schema) -> list[str]:
    """Return what is wrong with arguments, as far as their schema tells: not their bounds and patterns."""
    known, required = cast(Schema, schema["properties"]), schema.get("required", ())
    read, forbidden = named(given, schema, closed=True)
    found = [_unknown(name, known, read) for name in forbidden[:MAX_PROBLEMS]]
    found += [f"{name!r} is missing" for name in required if name not in read]
    reader = Reader(schema, closed=True)
    with suppress(TooManyWays):
        for name, item in read.items():
            left_out = name not in required and is_absent(item)
            if name in known and not left_out and len(reader.readings(item, known[name])) != 1:
                wanted = shape_of({**known[name], "$defs": schema.get("$defs", {})})
                meant = did_you_mean(item, filter(_is_text, known[name].get("enum", ())))
                found.append(f"{name} must be {wanted}, not {shown(item)}{meant}")
    return found[:MAX_PROBLEMS]


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _unknown(name: str, known: Schema, read: Schema) -> str:
    if given := next((one for one in read if name in known[one].get(ALIASES, ())), None):
        return f"{given!r} is given twice, as {name!r} too"
    return f"it takes no {name!r}{did_you_mean(name, known)}"
