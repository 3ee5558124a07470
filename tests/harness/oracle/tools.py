"""Tools in a request: their names and schemas, and the choice among them."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any

import jsonschema


def name_faults(names: Iterable[Any], longest: int, where: str) -> Iterator[str]:
    for name in names:
        if not isinstance(name, str) or not re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{longest}}}", name):
            yield f"{where} must match ^[a-zA-Z0-9_-]{{1,{longest}}}$, found {name!r}"


def duplicates(names: Iterable[Any], what: str) -> Iterator[str]:
    for name, count in Counter(name for name in names if name is not None).items():
        if count > 1:
            yield f"{what} {name!r} stands {count} times in the request"


def schema_faults(schema: Any, where: str) -> Iterator[str]:
    """The faults of the schema of a tool's arguments, which must describe an object."""
    # https://github.com/dearlordylord/huly-mcp/issues/66 and https://github.com/anthropics/claude-code/issues/27337;
    # OpenAI has the same rule: https://github.com/anomalyco/opencode/issues/35516
    if not isinstance(schema, dict) or schema.get("type") != "object":
        yield f"{where} must be a schema of type 'object', found {json.dumps(schema)[:80]}"
        return
    if combined := [word for word in ("oneOf", "anyOf", "allOf") if word in schema]:
        yield f"{where} must not have {combined} at its top level"
    if fault := invalid(json.dumps(schema)):
        yield f"{where} is not a JSON schema: {fault}"


@lru_cache(maxsize=1000)
def invalid(schema: str) -> str:
    """The fault of a schema by https://json-schema.org/draft/2020-12, or nothing."""
    try:
        jsonschema.Draft202012Validator.check_schema(json.loads(schema))
    except jsonschema.SchemaError as exc:
        return exc.message
    return ""


def strict_faults(schema: Any, where: str) -> Iterator[str]:
    """The faults of a schema that a reply must follow strictly."""
    # https://developers.openai.com/api/docs/guides/structured-outputs#supported-schemas: each object names all its
    # properties as required, and allows no others.
    if isinstance(schema, list):
        for part in schema:
            yield from strict_faults(part, where)
    if not isinstance(schema, dict):
        return
    if "properties" in schema or schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            yield f"{where}: an object needs additionalProperties false: {json.dumps(schema)[:120]}"
        if set(schema.get("required", ())) != set(schema.get("properties", ())):
            yield f"{where}: an object needs all its properties in required: {json.dumps(schema)[:120]}"
    for word in ("items", "anyOf", "prefixItems"):
        yield from strict_faults(schema.get(word), where)
    for word in ("properties", "$defs", "definitions"):
        yield from strict_faults(list(schema.get(word, {}).values()), where)


def held_faults(schema: Any, where: str) -> Iterator[str]:
    """The faults of a schema to which Claude is to be held."""
    # https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations, and for the
    # number of unions https://github.com/vercel/ai/pull/17268.
    parts = list(parts_of(schema))
    for part in parts:
        if part.get("type") == "object" and part.get("additionalProperties") is not False:
            yield f"{where}: an object needs additionalProperties false: {json.dumps(part)[:120]}"
        if refused := sorted(part.keys() & REFUSED):
            yield f"{where}: {', '.join(refused)} are not supported: {json.dumps(part)[:120]}"
    unions = sum("anyOf" in part or isinstance(part.get("type"), list) for part in parts)
    if unions > 16:
        yield f"{where}: {unions} parameters with union types, the limit is 16"
    names = dict(schema.get("$defs", {}))
    for name, definition in names.items():
        left, seen = [definition], set()
        while left:
            refs = {str(part["$ref"]).rpartition("/")[2] for part in parts_of(left.pop()) if "$ref" in part} - seen
            seen |= refs
            left += [names[ref] for ref in refs if ref in names]
        if name in seen:
            yield f"{where}: {name} is recursive"


REFUSED = {
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "maxItems",
    "uniqueItems", "minProperties", "maxProperties", "prefixItems", "oneOf", "patternProperties",
}  # fmt: skip
"""Keywords that no schema may have."""


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Every schema in a schema, itself first."""
    if not isinstance(schema, dict):
        return
    yield schema
    lists = [*schema.get("anyOf", ()), *schema.get("allOf", ())]
    named = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    for part in [schema.get("items"), *lists, *named]:
        yield from parts_of(part)


def json_object(text: Any) -> bool:
    try:
        return isinstance(text, str) and isinstance(json.loads(text), dict)
    except ValueError:
        return False
