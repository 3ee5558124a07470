"""Reads whole documents of JSON, which are events, turns and decisions, and describes them as JSON Schema."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, TypeVar, cast

from .checks import checked
from .errors import ConfigError
from .export import ABOUT
from .forms import Form, Schema, decoded, definitions, fields_of, form_of, object_form, read
from .kinds import shown
from .state import Approve, Decision, Edit, Path, Reject, Respond

DIALECT = "https://json-schema.org/draft/2020-12/schema"
T = TypeVar("T")

# ---- whole documents


@cache
def document(kind: type[Any]) -> Form:
    """Return the form of an event or of a turn, which begins with the name of its class."""
    fields, made = fields_of(kind)
    if hasattr(kind, "path"):
        about = {"path": Path, "number": int, "id": str, "at": float}
        fields = {name: (form_of(about[name]), None) for name in ABOUT} | fields
    return object_form(kind, fields, ("event", kind.__name__), made)


def read_document(raw: str | bytes | Mapping[str, Any], kinds: Sequence[type[T]], place: str) -> tuple[type[T], Any]:
    """Return the class of a document, which is one of *kinds*, and the arguments to make it with.

    Raises:
        ConfigError: it is not a document of these kinds; the text names the place.
    """
    value = decoded(raw, place)
    name = value.get("event")
    for kind in kinds:
        if kind.__name__ == name:
            return kind, read(document(kind), value, kind.__name__)
    names = kinds[0].__name__ if len(kinds) == 1 else "the name of an event"
    raise ConfigError(f"{place}: expected {names} in 'event', found {shown(name)}")


def read_turn(raw: str | bytes | Mapping[str, Any], kind: type[T]) -> T:
    """Return the turn that *raw* is, as an instance of *kind*."""
    return kind(**read_document(raw, [kind], "the turn")[1])


def schema_of(kinds: Sequence[type[Any]], title: str) -> Schema:
    """Return a JSON Schema, of draft 2020-12, of the documents of *kinds*; several are told apart by `event`."""
    forms = [document(kind) for kind in kinds]
    whole: Schema = forms[0].schema if len(forms) == 1 else {"oneOf": [form.schema for form in forms]}
    return {"$schema": DIALECT, "title": title, **whole, "$defs": dict(sorted(_needed(whole).items()))}


def _needed(schema: Schema) -> dict[str, Schema]:
    """Return the definitions that *schema* refers to, and those that they refer to."""
    found: dict[str, Schema] = {}
    left: list[Any] = [schema]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += cast(list[Any], one)
        elif isinstance(one, dict):
            parts = cast(dict[str, Any], one)
            left += parts.values()
            name = str(parts.get("$ref", "")).rpartition("/")[2]
            if name and name not in found:
                found[name] = definitions[name]
                left.append(found[name])
    return found


# ---- decisions

_ALLOWED = {"approve": set[str](), "edit": {"args"}, "reject": {"reason", "message"}, "respond": {"text"}}
"""What a decision of each type may hold."""


@checked
def decision_from_json(raw: str | bytes | Mapping[str, Any]) -> Approve | Edit | Reject | Respond:
    """Return the decision that *raw* is: `{"type": "approve"}`, `{"type": "edit", "args": {...}}`, `{"type": "reject",
    "reason": "..."}` or `{"type": "respond", "text": "..."}`; as text, bytes, or already decoded.

    A rejection may call its reason `message`, as LangChain does. A field that its type does not have is refused, so
    that nothing runs that a person did not mean: LangChain's `edited_action` may name another tool, so send its `args`
    only.

    Raises:
        ConfigError: it is not a decision; the text says what was expected.
    """
    return _decision(decoded(raw, "raw"), "raw")


@checked
def decisions_from_json(raw: str | bytes | Mapping[str, Any]) -> dict[str, Decision]:
    """Return the decisions in `{"call id": decision, ...}`, as `Agent.resume` takes them; see `decision_from_json`.

    Raises:
        ConfigError: one of them is not a decision; the text names its call.
    """
    decisions: dict[str, Decision] = {}
    for call_id, one in decoded(raw, "raw").items():
        place = f"raw[{call_id!r}]"
        decisions[call_id] = _decision(read(form_of(dict[str, Any]), one, place), place)
    return decisions


def _decision(value: dict[str, Any], place: str) -> Approve | Edit | Reject | Respond:
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in _ALLOWED:
        names = '"approve", "edit", "reject" or "respond"'
        raise ConfigError(f"{place}.type: expected {names}, found {shown(kind)}")
    if unknown := sorted(value.keys() - _ALLOWED[kind] - {"type"}):
        allowed = ", ".join(map(repr, sorted(_ALLOWED[kind]))) or "no other field"
        raise ConfigError(f"{place}: {kind!r} takes {allowed}, found {', '.join(map(repr, unknown))}")
    if kind == "reject" and "message" in value:
        if "reason" in value:
            raise ConfigError(f"{place}: expected 'reason' or 'message', found both")
        value = {"type": kind, "reason": value["message"]}
    return read(form_of(Decision), value, place)
