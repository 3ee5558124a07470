"""Answering calls out of a recording: as tools, or as a middleware round the tools of an agent."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import cached_property, partial
from typing import Any, cast

from msgspec import structs

from ..context import DRIVEN, ToolContext
from ..errors import ToolError
from ..events import FILE_EVENTS, AnyEvent, Compacted, FileDeleted, FileWritten, Noted, TurnEscalated
from ..kinds import Injected
from ..messages import Content, Text, ToolCall, ToolResult, clean
from ..middleware import ANSWERS, SUMMARIES
from ..ports import Ask, Middleware, Reply, Request, RunTool
from ..spec import AgentSpec
from ..state import Edit
from ..tools import Tool
from .recording import RecordedCall
from .script import Script

Seen = Mapping[int, Any]
"""What the state shows of events, by their `id`."""
EDITED = "\n[A person changed this call; its arguments were "
"""Begins the note that the loop adds to the result of a call that a person has edited."""


class RecordedAnswers(Middleware):
    """Stands outside all hooks of an agent and of the runs below it, and answers their calls out of a recording.

    Hooks before and after a call run as ever; `wrap_tool` hooks and tools do not. Only a tool that ran other agents
    runs again, for nobody else knows them; their own replies and calls are answered out of the recording in turn.
    """

    inherit: bool | None = True

    def __init__(self, script: Script) -> None:
        self._script = script
        self.say: Callable[[str], Awaitable[None]] | None = None
        """Says to the running turn what a person has said to the recorded one."""
        self.answered: Callable[[RecordedCall], None] | None = None
        """Called when a call is about to be answered."""

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        """Record the compaction that came before this reply, and files that hooks wrote, so that no hook does again."""
        found = self._script.reply(ctx.path, ctx.state)
        if found is None or not any(map(_is_of_context, found.before)):
            return request
        for event in filter(_is_of_context, found.before):
            _record(ctx, event)
        return structs.replace(request, messages=ctx.state.messages)

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Ask) -> Reply:
        found = self._script.reply(ctx.path, ctx.state)
        reply = await ask(request)
        if found is not None and not ctx.path and self.say is not None:
            for text in found.said:
                await self.say(text)
        return reply

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall:
        found = self.found(ctx)
        ctx.scratch[self, ctx.call_id] = found, seen_of(ctx, found)
        return call

    async def wrap_tool(self, ctx: ToolContext, call: ToolCall, run: RunTool) -> ToolResult:
        found, _ = ctx.scratch[self, ctx.call_id]
        return await self.answer(ctx, found, call, run)

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        """Record the notes of the tool. Last: a hook that makes the same note has made it by now."""
        found, seen = ctx.scratch.pop((self, ctx.call_id), (None, {}))
        if found is not None and not found.ran_agents:
            for event in found.effects:
                if isinstance(event, Noted) and not _was_made(ctx, event, seen[id(event)]):
                    ctx.record(event)
        if found is not None and self.answered is not None:
            self.answered(found)
        return result

    def found(self, ctx: ToolContext) -> RecordedCall | None:
        """Return the recorded call that a call stands for."""
        return self._script.call(ctx.path, ctx.state, ctx.call_id)

    async def answer(self, ctx: ToolContext, found: RecordedCall | None, call: ToolCall, run: RunTool) -> ToolResult:
        """Return the result of a call; *found* is the recorded one. Results come in the order in which they came."""
        if found is not None and found.ran_agents:
            result = await run(call)
            if found.result is None or self._script.is_later(found.input_index):  # Its answer was never saved.
                await self._script.end(ctx.path, ctx.state, f"result of {call.name}")
            await self._earlier_ones(ctx, found)
            return result
        await self._earlier_ones(ctx, found)
        refused = _refused(ctx, found, call)
        return refused or await answered(self._script, ctx, found, call, self.seen(ctx))

    async def _earlier_ones(self, ctx: ToolContext, found: RecordedCall | None) -> None:
        """Wait until the calls beside this one that were answered before it are: their notes must stand before its own.

        A call that has not begun by now is not waited for: a limit that is lower now keeps it from running.
        """
        if found is None or found.result is None or self._script.is_later(found.input_index):
            return
        await asyncio.sleep(0)  # Until all calls of the reply that run now have begun.
        is_late = partial(self._script.has_earlier, ctx.path, ctx.state, found, partial(self._has_begun, ctx))
        for _ in iter(is_late, False):
            await asyncio.sleep(0)

    def seen(self, ctx: ToolContext) -> Seen:
        """Return what the state showed when the call began: what changed since, its hooks have changed."""
        return ctx.scratch[self, ctx.call_id][1]

    def _has_begun(self, ctx: ToolContext, call_id: str) -> bool:
        return (self, call_id) in ctx.scratch


class RecordedTool(Tool):
    """A tool whose results are those of a recording. It takes whatever arguments a model gives."""

    def __init__(self, script: Script, name: str) -> None:
        super().__init__(self._answer, name=name, description="Its results were recorded.")
        self._script = script

    @cached_property
    def schema(self) -> dict[str, Any]:
        """Any arguments."""
        return {"type": "object", "properties": {}, "additionalProperties": True}

    async def _answer(self, ctx: ToolContext) -> ToolResult:
        call = ctx.state.open[ctx.call_id].call
        found = self._script.call(ctx.path, ctx.state, ctx.call_id)
        result = await answered(self._script, ctx, found, call, seen_of(ctx, found))
        for event in found.effects if found else ():
            if isinstance(event, Noted):
                ctx.record(event)
        return result

    def normalized(self, call: ToolCall) -> ToolCall:
        """Return *call*, as it was recorded."""
        return call

    def bind(self, call: ToolCall, ctx: Injected | None) -> dict[str, Any]:
        """Take any arguments: the result is that of the recorded call."""
        return {"ctx": ctx}


async def answered(
    script: Script, ctx: ToolContext, found: RecordedCall | None, call: ToolCall, seen: Seen
) -> ToolResult:
    """Return the recorded result of *call*, or do what was done where there is none."""
    if found is None or found.result is None or script.is_later(found.input_index):
        missing = await script.end(ctx.path, ctx.state, f"result of {call.name}")
        return ToolResult(f"{call.name} was not run: {missing}", is_error=True)
    return given_again(ctx, found, seen)


def _refused(ctx: ToolContext, found: RecordedCall | None, call: ToolCall) -> ToolResult | None:
    """Return the error of a call that its agent refuses as it is now: the tool is gone, or takes other arguments.

    Otherwise a test with a recorded thread would hold for an agent that has lost its tools. A call that failed then
    fails as it did: an error names other tools, so each new one would show as a difference.
    """
    spec: AgentSpec = DRIVEN.get().spec
    if found is None or found.result is None or found.result.is_error:
        return None
    if len(spec.wrap_tool) > 1:  # What is round the tools may have given it other arguments, or answered in its place.
        return None
    if call.name not in spec.tools:
        return ToolResult(f"no tool named {call.name!r}; there is {', '.join(spec.tools) or 'none'}", is_error=True)
    try:
        spec.tools[call.name].bind(call, ctx)
    except ToolError as exc:
        return ToolResult(clean(str(exc)), is_error=True)
    return None


def given_again(ctx: ToolContext, found: RecordedCall, seen: Seen) -> ToolResult:
    """Return the result of a recorded call, after recording what it did to files, todos and context.

    Raises:
        IllegalEvent: that does not fit the state.
    """
    assert found.result is not None
    for event in found.effects:
        if not isinstance(event, Noted):
            _record(ctx, event, seen[id(event)])
    returned = found.result
    content = _without_edit(returned.content) if isinstance(ctx.decision, Edit) else returned.content
    return ToolResult(content, returned.is_error, returned.ends)


def _record(ctx: ToolContext, event: AnyEvent, before: Any = None) -> None:
    """Record an event of the recording again, unless the state shows it already and did not *before*: a hook did it. A
    file that is written once more with the same content is written: it is among what its turn has made.
    """
    if isinstance(event, FILE_EVENTS):
        known = ctx.state.files.get(event.file)
        sha256 = None if isinstance(event, FileDeleted) else event.sha256
        if (known.sha256 if known else None) == sha256 and (known is None or known is not before):
            return
        event = structs.replace(event, by=ctx.path)
    elif isinstance(event, TurnEscalated):
        event = structs.replace(event, costs=None)
    ctx.record(event)


def _is_of_context(event: AnyEvent) -> bool:
    """Return whether an event before a reply is what minideep itself does to keep a context small, or what another
    model has said in this step: it is not asked again.
    """
    match event:
        case Compacted():
            return event.asked
        case Noted(owner=owner, key=key):
            return owner == SUMMARIES or (owner, key) in ANSWERS
        case _:
            return isinstance(event, FileWritten)


def seen_of(ctx: ToolContext, found: RecordedCall | None) -> Seen:
    """Return what the state shows of everything that a recorded call has recorded."""
    return {id(event): _seen(ctx, event) for event in found.effects} if found else {}


def _seen(ctx: ToolContext, event: AnyEvent) -> Any:
    """Return what the state shows of an event: its file; or whether its note is there, or how long the list is to which
    it is appended.
    """
    if isinstance(event, FILE_EVENTS):
        return ctx.state.files.get(event.file)
    if not isinstance(event, Noted):
        return None
    notes: Mapping[str, Any] = ctx.state.notes.get(event.owner, {})
    match event.rule:
        case "append":
            present = notes.get(event.key, ())
            return len(cast(list[Any], present)) if isinstance(present, list) else 0
        case "delete":
            return event.key not in notes
        case "replace":
            return event.key in notes and notes[event.key] == event.value


def _was_made(ctx: ToolContext, event: Noted, seen: int) -> bool:
    """Return whether a hook has made a note since the state showed *seen* of it."""
    if event.rule == "append":
        notes: Mapping[str, Any] = ctx.state.notes.get(event.owner, {})
        return event.value in notes.get(event.key, ())[seen:]
    return bool(_seen(ctx, event)) and not seen


def _without_edit(content: Content) -> Content:
    """Return a recorded result without the note that the loop adds again."""
    if isinstance(content, str):
        return content.rpartition(EDITED)[0] if EDITED in content else content
    last = content[-1] if content else None
    return content[:-1] if isinstance(last, Text) and last.text.startswith(EDITED) else content
