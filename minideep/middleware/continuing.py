"""Persistent subagents: they go on, by an id, with the messages of an earlier run of theirs."""

from collections.abc import Sequence
from typing import Any, cast

from msgspec import structs

from ..context import ToolContext
from ..errors import ToolError
from ..events import Noted
from ..kinds import shown
from ..messages import Message, Text, ToolResult, UserMessage
from ..runtime import messages_of_run
from ..state import Edit, OpenCall

OWNER = "subagents"
"""The owner of the notes on persistent subagents: by id, `{"agent", "call_id"}`, of the call that went on with it last.
"""


async def continued(ctx: ToolContext, name: str, id: str, description: str) -> list[Message]:
    """Return the input of a persistent subagent that goes on: its messages, and what it is told now.

    Raises:
        ToolError: *id* is not that of an earlier run of it, or another call of this reply goes on with it.
    """
    return [*await _messages(ctx, name, id), UserMessage(description)]


def with_id(ctx: ToolContext, name: str, id: str, result: ToolResult) -> ToolResult:
    """Note under which *id* a persistent subagent goes on, by default its call's, and add it to its answer."""
    id = id or ctx.call_id
    ctx.record(Noted(OWNER, id, {"agent": name, "call_id": ctx.call_id}))
    said = f"\n\n[id: {id}]"
    content = result.content
    return structs.replace(result, content=content + said if isinstance(content, str) else (*content, Text(said)))


async def _messages(ctx: ToolContext, name: str, id: str) -> Sequence[Message]:
    """Return the messages that the subagent *id* has in context."""
    noted: Any = ctx.state.notes.get(OWNER, {}).get(id)
    known = cast(dict[str, Any], noted) if isinstance(noted, dict) else {}  # `redact` may have removed it.
    if known.get("agent") != name:
        found = f"which is a {known['agent']}" if known else "which nobody has"
        raise ToolError(f"no {name} has the id {shown(id)}, {found}; to begin a new one, leave `id` out")
    for entry in ctx.state.open.values():
        if entry.call.id == ctx.call_id:  # Only earlier calls count, or two calls would refuse each other.
            break
        if entry.call.name == "task" and _id_of(entry) == id:
            raise ToolError(f"another call of this reply goes on with {shown(id)}; see its result, then go on with it")
    messages = await messages_of_run(known["call_id"])
    if not messages:
        raise ToolError(f"the messages of {shown(id)} are gone; to begin a new one, leave `id` out")
    return messages


def _id_of(entry: OpenCall) -> Any:
    call = entry.call
    return (entry.decision.args if isinstance(entry.decision, Edit) else call.args).get("id")
