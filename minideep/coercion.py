"""Reads a value that a model wrote in the way that fits a JSON Schema, if there is only one such way.

Models write `"10"` for a number, `""` or `null` for an argument that they do not want to give, JSON in a text, one
value instead of a list of one, and names in another spelling. To refuse these costs a whole step; to guess between two
meanings may cost more. So a value that fits is never touched, nothing is decoded where a text is wanted, and what could
mean two things is left as it is.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import inf
from typing import Any, cast

from .plain_json import too_deep

Schema = Mapping[str, Any]
Found = list[Any]
"""The readings of a value: none, one, or several that differ."""

MAX_LOOKS = 100_000
"""How often parts of a value are compared with parts of a schema before it is left as it is: a fraction of a second."""
_ABSENT: tuple[Any, ...] = (None, "", [], {})
"""Values by which a model says that it gives nothing."""
_NULLS = ("", "null", "none")
_WRAPPERS = ("arguments", "args", "input", "parameters", "params", "kwargs")
"""Names under which models put all arguments of a call once more."""
ALIASES = "x-aliases"
"""The keyword of a property's schema that lists other names for it."""
JOINED = "x-joined"
"""The keyword that says that texts under several of its names are one text, in parts."""
_BETWEEN_WORDS = re.compile(r"(?<=[^\W\d_])[\s_-]+(?=[^\W_])|(?<=\d)[\s_-]+(?=[^\W\d_])")
_MAY_BE_SEVERAL = re.compile(r"[,;\n]|^\s*\[|^\s*(?:null|none)\s*$", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?\d{1,300}(?:\.0{1,20})?")
_NUMBER = re.compile(r"[+-]?(?:\d{1,300}(?:\.\d{0,300})?|\.\d{1,300})(?:[eE][+-]?\d{1,3})?")
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list, tuple),
    "object": (dict,),
}


def coerced(value: Any, schema: Schema, *, closed: bool = False) -> Any:
    """Return *value* as *schema* wants it; *value* itself if it fits, has no reading that does, or has several. With
    *closed*, an object has no fields but those that are listed, unless its schema says otherwise.

    Bounds, patterns and formats are not looked at: the caller decodes the result, which checks them.

    >>> coerced({"limit": "10", "path": "/a"}, {"type": "object", "properties": {"limit": {"type": "integer"}}})
    {'limit': 10, 'path': '/a'}
    """
    try:
        found = [] if too_deep(value) else Reader(schema, closed=closed).readings(value, schema)
    except TooManyWays:
        return value
    return found[0] if len(found) == 1 else value


Stray = tuple[dict[str, Any], str, Schema]
"""An object, a name in it that its schema says nothing about, and those that it lists."""


def strays(value: Any, schema: Schema) -> list[Stray]:
    """Return what stands in objects of *value* under names that *schema* says nothing about. Most readers drop it."""
    try:
        return [] if too_deep(value) else Reader(schema).strays(value, schema)
    except TooManyWays:
        return []


def is_absent(value: Any) -> bool:
    """Return whether a model says with *value* that it does not want to give an argument."""
    return value is None or value == ""


def spelling(name: str) -> str:
    """Return what spellings of one name have in common: `filePath` and `file-path` are `file_path`."""
    return re.sub(r"[\W_]", "", name).casefold()


class TooManyWays(Exception):
    """A schema whose options refer to themselves can be tried in more ways than there is time for."""


class Reader:
    """Finds readings below one schema, whose `$ref`s it resolves."""

    def __init__(self, root: Schema, *, closed: bool = False) -> None:
        self._root = root
        self._closed = closed
        self._looks = 0

    def _resolved(self, schema: Any) -> Schema:
        self._looks += 1
        if self._looks > MAX_LOOKS:
            raise TooManyWays
        for _ in range(20):  # A reference may lead to another one, and in a circle.
            if not isinstance(schema, Mapping):
                return {} if schema is not False else {"enum": []}
            ref = cast(Schema, schema).get("$ref")
            if not isinstance(ref, str):
                return cast(Schema, schema)
            found: Any = self._root
            for part in ref.removeprefix("#").strip("/").split("/"):
                found = found.get(part.replace("~1", "/").replace("~0", "~"), {}) if part else found
            schema = found
        return {}

    # ---- what fits as it is

    def fits(self, value: Any, schema: Any) -> bool:
        schema = self._resolved(schema)
        if not all(self.fits(value, part) for part in schema.get("allOf", ())):
            return False
        if (options := _options(schema)) and not any(self.fits(value, option) for option in options):
            return False
        if (allowed := _allowed(schema)) is not None and not any(_same(value, one) for one in allowed):
            return False
        kinds = _kinds(schema)
        if kinds and not any(_is(value, kind) for kind in kinds):
            return False
        if isinstance(value, Mapping):
            return self._object_fits(cast(Schema, value), schema)
        if isinstance(value, list | tuple):
            items = cast(Sequence[Any], value)
            return all(self.fits(item, _item(schema, place)) for place, item in enumerate(items))
        return True

    def _object_fits(self, value: Schema, schema: Schema) -> bool:
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        if any(name not in value for name in schema.get("required", ())):
            return False
        if _says_nothing_of_others(schema) and not value.keys() <= known.keys():
            found, forbidden = named(value, schema, closed=self._closed)
            if forbidden or found.keys() != value.keys():
                return False  # A field is given under another name, which would be dropped.
        return all(self.fits(item, known.get(name, others)) for name, item in value.items())

    # ---- what is no part of the schema

    def strays(self, value: Any, schema: Any) -> list[Stray]:
        schema = self._resolved(schema)
        if options := _options(schema):
            found = [self.strays(value, option) for option in options if self._may_be(value, option)]
            return min(found, key=len) if found else []
        if isinstance(value, list | tuple):
            items = enumerate(cast(Sequence[Any], value))
            return [stray for place, item in items for stray in self.strays(item, _item(schema, place))]
        if not isinstance(value, Mapping):
            return []
        given = cast(dict[str, Any], value)
        known, others = schema.get("properties", {}), schema.get("additionalProperties", {})
        unknown = [name for name, item in given.items() if name not in known and item not in _ABSENT]
        own = [(given, name, known) for name in unknown] if _says_nothing_of_others(schema) else []
        return own + [
            stray for name, item in given.items() for stray in self.strays(item, known.get(name, others))
        ]  # fmt: skip

    def _may_be(self, value: Any, schema: Any) -> bool:
        """Return whether *value* is of the kind of *schema*, and has its tags."""
        schema = self._resolved(schema)
        kinds = _kinds(schema)
        if kinds and not any(_is(value, kind) for kind in kinds):
            return False
        given = cast(Schema, value if isinstance(value, Mapping) else {})
        tags: Schema = {name: tag for name, tag in schema.get("properties", {}).items() if name in given}
        return all(self.fits(given[name], tag) for name, tag in tags.items() if _allowed(self._resolved(tag)))

    # ---- what fits if it is read in another way

    def readings(self, value: Any, schema: Any) -> Found:
        """Return the readings of *value* that fit *schema*: the value alone if it fits."""
        schema = self._resolved(schema)
        if self.fits(value, schema):
            return [value]
        if options := _options(schema):
            return _distinct([reading for option in options for reading in self.readings(value, option)])
        if (allowed := _allowed(schema)) is not None:
            self._looks += len(allowed)
            return _distinct([one for one in allowed if _means(value, one)])
        found = [reading for kind in _kinds(schema) for reading in self._as_kind(kind, value, schema)]
        return _distinct(found)

    def _as_kind(self, kind: str, value: Any, schema: Schema) -> Found:
        match kind:
            case "object":
                return self._as_object(value, schema)
            case "array":
                return self._as_array(value, schema)
            case _:
                return _as_scalar(kind, value)

    def _as_array(self, value: Any, schema: Schema) -> Found:
        if isinstance(value, str) and (decoded := _decoded(value, "[")) is not None:
            return self.readings(decoded, schema)
        if (
            isinstance(value, str)
            and (one := _decoded(value, "{")) is not None
            and (found := self.readings([one], schema))
        ):
            return found
        if not isinstance(value, list | tuple):
            # One value for a list of one. A text with separators may as well be meant as several.
            if value in _ABSENT or (isinstance(value, str) and _MAY_BE_SEVERAL.search(value)):
                return []
            value = [value]
        given = cast(Sequence[Any], value)
        items = [self.readings(item, _item(schema, place)) for place, item in enumerate(given)]
        read: Found = [[found[0] for found in items]] if all(len(found) == 1 for found in items) else []
        # `[1, 2]` for a list of lists is its only row, or a column.
        if read and "array" in _kinds(self._resolved(first := _item(schema, 0))):
            read += [[row] for row in self.readings(value, first)]
        return read

    def _as_object(self, value: Any, schema: Schema) -> Found:
        if isinstance(value, str):
            decoded = _decoded(value, "{")
            return [] if decoded is None else self.readings(decoded, schema)
        if not isinstance(value, Mapping):
            items = cast(Sequence[Any], value) if isinstance(value, list) else ()
            return self.readings(items[0], schema) if len(items) == 1 and isinstance(items[0], dict | str) else []
        given, known = cast(Schema, value), schema.get("properties", {})
        only = next(iter(given)) if len(given) == 1 else None
        if only in _WRAPPERS and only not in known and given[only] not in _ABSENT:
            return self.readings(given[only], schema)
        found, forbidden = named(given, schema, closed=self._closed)
        return [] if forbidden else self._with_parts(found, schema)

    def _with_parts(self, given: dict[str, Any], schema: Schema) -> Found:
        known, others = schema.get("properties", {}), schema.get("additionalProperties", True)
        required, read = schema.get("required", ()), dict[str, Any]()
        for name, item in given.items():
            found = self.readings(item, known.get(name, others))
            if len(found) == 1:
                read[name] = found[0]
            elif name in required or name not in known or not is_absent(item):
                return []  # Otherwise nothing was given for it, and its default holds.
        return [read] if all(name in read for name in required) else []


def _options(schema: Schema) -> Sequence[Any]:
    return schema.get("anyOf") or schema.get("oneOf") or ()


def _allowed(schema: Schema) -> Sequence[Any] | None:
    return [schema["const"]] if "const" in schema else schema.get("enum")


def _kinds(schema: Schema) -> Sequence[str]:
    kinds = schema.get("type", ())
    return [kinds] if isinstance(kinds, str) else kinds


def _item(schema: Schema, place: int) -> Any:
    """Return the schema of the item at *place* of an array."""
    first = schema.get("prefixItems", ())
    return first[place] if place < len(first) else schema.get("items", {})


def _is(value: Any, kind: str) -> bool:
    if isinstance(value, bool):  # To Python it is an int.
        return kind == "boolean"
    return isinstance(value, _TYPES.get(kind, (object,)))


def _same(value: Any, other: Any) -> bool:
    return value == other and isinstance(value, bool) == isinstance(other, bool)


def _means(value: Any, allowed: Any) -> bool:
    """Return whether *value* is a spelling of *allowed*, one of several that are listed."""
    if isinstance(allowed, str):
        text = str(value) if _is(value, "integer") else value
        # A sign may turn a meaning round or be all of it, as in `-created` and `C++`: only what joins words goes.
        return isinstance(text, str) and len(text) < len(allowed) + 100 and _words(text) == _words(allowed) != ""
    kind = next((kind for kind in ("boolean", "integer", "number", "null") if _is(allowed, kind)), "")
    return any(_same(reading, allowed) for reading in _as_scalar(kind, value))


@lru_cache(maxsize=4_000)
def _words(text: str) -> str:
    """Return what ways of joining the same words have in common: `In Progress` and `in-progress` are `in_progress`."""
    return _BETWEEN_WORDS.sub("", text.strip()).casefold()


def _as_scalar(kind: str, value: Any) -> Found:
    text = value.strip() if isinstance(value, str) else None
    match kind:
        case "string":
            return [str(value)] if _is(value, "integer") else []
        case "integer" if text is not None:
            return [int(text.partition(".")[0])] if _WHOLE.fullmatch(text) else []
        case "integer":
            return [int(value)] if isinstance(value, float) and value.is_integer() else []
        case "number" if text is not None and _NUMBER.fullmatch(text):
            number = int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
            return [number] if abs(number) != inf else []
        case "boolean" if text is not None:
            return [text.casefold() == "true"] if text.casefold() in ("true", "false") else []
        case "boolean":
            return [bool(value)] if _is(value, "integer") and value in (0, 1) else []
        case "null":
            return [None] if text is not None and text.casefold() in _NULLS else []
        case _:
            return []


def _decoded(text: str, first: str) -> Any:
    """Return the JSON in *text* if it is of the kind that begins with *first*, else None."""
    if text.lstrip()[:1] not in (first, '"', "`"):
        return None
    from .structured import whole_value  # Most values are no texts that should be something else.

    try:
        value = whole_value(text)
    except ValueError:
        return None
    return value if _is(value, "array" if first == "[" else "object") else None


def named(given: Schema, schema: Schema, *, closed: bool) -> tuple[dict[str, Any], list[str]]:
    """Return *given* under the names that *schema* knows, and the names in it that it forbids: those that it does not
    know and that have a value, and second names of what is given as something else. *closed* holds if the schema does
    not say whether there may be other names.
    """
    known: Schema = schema.get("properties", {})
    no_others = closed if _says_nothing_of_others(schema) else schema.get("additionalProperties") is False
    found, forbidden = {name: item for name, item in given.items() if name in known}, list[str]()
    meant = _by_spelling(known) if len(found) < len(given) else {}
    for name, item in given.items():
        if name in known:
            continue
        one = meant.get(spelling(str(name)), "")  # Data that is not from JSON may have other keys.
        if one and found.get(one) in _ABSENT:
            found[one] = item
        elif one and _joins(known[one], found[one], item):
            found[one] = f"{found[one]}\n\n{item}"
        elif not no_others:
            found[name] = item
        elif item not in _ABSENT and not (one and _same(found[one], item)):
            forbidden.append(str(name))
    in_order = [*(name for name in known if name in found), *(name for name in found if name not in known)]
    return {name: found[name] for name in in_order}, forbidden


def _says_nothing_of_others(schema: Schema) -> bool:
    """Return whether a schema lists fields and does not say if there may be others."""
    return bool(schema.get("properties")) and "additionalProperties" not in schema


def _by_spelling(known: Schema) -> dict[str, str]:
    """Return the names in *known* by the spelling of each and of its other names; "" if several share one."""
    found: dict[str, str] = {}
    for one, about in known.items():
        others = cast(Schema, about).get(ALIASES, ()) if isinstance(about, Mapping) else ()
        for written in map(spelling, (one, *others)):
            found[written] = one if written and found.get(written, one) == one else ""
    return found


def _joins(about: Any, item: Any, other: Any) -> bool:
    both = isinstance(item, str) and isinstance(other, str) and bool(item.strip() and other.strip()) and item != other
    return both and isinstance(about, Mapping) and bool(cast(Schema, about).get(JOINED))


def _distinct(found: Found) -> Found:
    kept: Found = []
    for reading in found:
        if not any(_same(reading, other) for other in kept):
            kept.append(reading)
    return kept
