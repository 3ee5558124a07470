"""Limits of single tools: a call too many gets an error result that says so, and the run goes on."""

from collections.abc import Mapping
from typing import Annotated

from msgspec import Meta

from ..checks import checked
from ..context import ToolContext
from ..events import Noted
from ..messages import ToolCall, ToolResult
from ..ports import Middleware


class ToolCallLimits(Middleware):
    """Bounds how often a run may call each of the named tools in one turn: `ToolCallLimits({"search": 5})`.

    A call too many is not run: its result is an error that says how many are allowed. Calls count in the order in which
    the model asked for them, also those that are refused, fail or wait for a person. Every run below the agent has the
    same limits and counts for itself, as with `Limits.tool_calls`; a turn that is resumed has new counters, unless it
    was cut short.

    Raises:
        ConfigError: *limits* is not a mapping of tool names to whole numbers from 0 on.
    """

    @checked
    def __init__(self, limits: Mapping[str, Annotated[int, Meta(ge=0)]]) -> None:
        self._limits = dict(limits)

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | ToolResult:
        most = self._limits.get(call.name)
        if most is None or self._number(ctx, call.name) <= most:
            return call
        problem = f"not run: {call.name} may be called {most} times in a turn, and this is one more"
        return ToolResult(f"{problem}; go on with what you have", is_error=True)

    def _number(self, ctx: ToolContext, name: str) -> int:
        """Return the number of this call among the turn's calls of the tool, counted from 1."""
        state = ctx.state
        ids = [entry.call.id for entry in state.open.values() if entry.call.name == name]
        place = ids.index(ctx.call_id) if ctx.call_id in ids else len(ids)
        reply = [state.start.number, state.step]
        # Noted for the whole reply at once: its calls run at the same time, and this hook runs again after a decision.
        # In the log, as messages disappear in a compaction and the turn may go on in another process.
        *noted, total = state.notes.get(self.name, {}).get(name, [0, 0, 0])
        if noted != reply:
            total = (total if noted[:1] == reply[:1] else 0) + len(ids)
            ctx.record(Noted(self.name, name, [*reply, total]))
        return total - len(ids) + place + 1
