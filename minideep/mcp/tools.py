"""A tool of an MCP server as a `Tool`: its name and its schema as providers take them, the server's own on the wire."""

import hashlib
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, cast

from msgspec import structs

from ..coercion import Schema, coerced
from ..errors import ToolError
from ..kinds import Injected
from ..messages import ToolCall, ToolResult
from ..plain_json import from_json, to_json
from ..tools import Tool

CallTool = Callable[[str, dict[str, Any]], Awaitable[ToolResult]]
MAX_NAME = 64
"""Characters that every provider takes in the name of a tool, and of one of its arguments."""
NOT_IN_NAMES, NOT_IN_KEYS = re.compile(r"[^a-zA-Z0-9_-]"), re.compile(r"[^a-zA-Z0-9_.-]")
"""What some provider does not take in these; a name of an argument that has it makes every request fail as well:
https://github.com/twilio-labs/mcp/issues/56
"""
CHOICES = ("anyOf", "oneOf", "allOf", "not", "enum")
"""Keywords that no provider takes at the top of a schema; one tool that has them makes every request fail:
https://github.com/makenotion/notion-mcp-server/issues/340
"""


async def _declared() -> None:
    """Stand for a function whose parameters the server declares."""


class MCPTool(Tool):
    """A tool of an MCP server.

    Arguments are read as a model writes them, and checked by the server alone.
    """

    def __init__(self, name: str, listed: Any, server: str, timeout: float | None, call: CallTool) -> None:
        self.listed: Any = listed
        """The tool as the SDK has it."""
        own: str = listed.name
        title = listed.title or getattr(listed.annotations, "title", None)

        async def function(**arguments: Any) -> ToolResult:
            return await call(own, {self._keys.get(name, name): value for name, value in arguments.items()})

        super().__init__(_declared, name=name, description=listed.description or title or own, timeout=timeout)
        self.function = function
        self._schema, self._keys = _with_fitting_keys(listed.input_schema)
        self.read_only: bool = bool(getattr(listed.annotations, "read_only_hint", False))
        """Whether the server says that a call changes nothing. It is the server's word, so trust it as you trust it."""
        self.rename: str = f"connect to {server} with `MCPClient(..., prefix=...)`"

    @cached_property
    def schema(self) -> dict[str, Any]:
        return self._schema

    def normalized(self, call: ToolCall) -> ToolCall:
        call = call.as_json()
        written: Any = call.malformed or call.args
        try:
            read = coerced(written, self.schema)
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):  # It is the server's schema.
            return call
        if read is written or not isinstance(read, dict):
            return call
        return structs.replace(call, raw=to_json(read))

    def bind(self, call: ToolCall, ctx: Injected | None) -> dict[str, Any]:
        if text := call.malformed:
            problem = f"{call.name}: the arguments are not a JSON object: {text[:200]!r}"
            raise ToolError(f"{problem}; it takes {self.signature}; fix the arguments and call it again")
        return from_json(call.raw)


def fitting_names(names: Sequence[str], refused: re.Pattern[str] = NOT_IN_NAMES) -> list[str]:
    """Return names that every provider takes for these *names*, which have to differ: none with a character *refused*.

    A name that has to be changed so much that it could be mistaken for another one ends with a hash of what it was, and
    so is the same whatever the other tools are called.
    """
    plain = [refused.sub("_", name) for name in names]
    found: list[str] = []
    for name, fit in zip(names, plain, strict=True):
        if len(fit) > MAX_NAME or not name or (fit != name and plain.count(fit) > 1):
            fit = f"{fit[: MAX_NAME - 9]}_{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:8]}"
        found.append(fit)
    return found


def _with_fitting_keys(schema: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Return *schema* with names of arguments that every provider takes, and the server's own for those that differ."""
    fit = dict(zip(schema["properties"], fitting_names([*schema["properties"]], NOT_IN_KEYS), strict=True))
    own = {sent: name for name, sent in fit.items() if sent != name}
    if not own:
        return schema, own
    required = {"required": [fit[name] for name in schema["required"]]} if "required" in schema else {}
    return {**schema, "properties": {fit[name]: about for name, about in schema["properties"].items()}, **required}, own


def mended(listed: Any) -> dict[str, Any]:
    """Return a tool as a server has *listed* it so that the SDK and every provider take it.

    It loses the schema of its results: a result that is not quite of it is still what the call has brought about.
    """
    tool = _mapping(listed)
    schema, hint = fitting_schema(_mapping(tool.get("inputSchema")))
    description = f"{tool.get('description') or ''}{hint}".strip()
    kept = {name: part for name, part in tool.items() if name not in ("outputSchema", "description")}
    return {**kept, "inputSchema": schema} | ({"description": description} if description else {})


def fitting_schema(schema: Schema) -> tuple[dict[str, Any], str]:
    """Return *schema* as every provider takes it, and what the description has to say in place of what is missing.

    It stays as it is, but for its top: that is an object with properties, and the properties of choices there are among
    them, of which none is required.
    """
    own, parts = _mapping(schema.get("properties")), [*_branches(schema, "allOf")]
    choices = [[*_branches(schema, keyword)] for keyword in ("anyOf", "oneOf")]
    properties = {
        name: dict(_mapping(about))
        for branch in (*chain(*choices), *parts, {"properties": own})
        for name, about in _mapping(branch.get("properties")).items()
    }
    required = [name for part in (schema, *parts) for name in _names(part.get("required")) if name in properties]
    fit = {name: part for name, part in schema.items() if name not in (*CHOICES, "required")}
    fit |= {"type": "object", "properties": properties} | ({"required": [*dict.fromkeys(required)]} if required else {})
    groups = [[", ".join(_names(branch.get("required"))) for branch in branches] for branches in choices]
    return fit, "".join(f"\nGive {'; or '.join(names)}." for names in groups if names and all(names))


def _branches(schema: Schema, keyword: str) -> Iterable[Schema]:
    """Yield the objects in the list at *keyword*, references into the schema's own definitions followed."""
    listed = schema.get(keyword)
    for branch in map(_mapping, cast(list[Any], listed) if isinstance(listed, list) else ()):
        at, found = str(branch.get("$ref", "")), branch
        if at.startswith("#/"):
            found = schema
            for part in at[2:].split("/"):
                found = _mapping(found.get(part))
        yield found


def _mapping(part: Any) -> Schema:
    return cast(Schema, part) if isinstance(part, Mapping) else {}


def _names(listed: Any) -> list[str]:
    return [name for name in cast(list[Any], listed) if isinstance(name, str)] if isinstance(listed, list) else []
