"""Running a recorded thread with other parts: another model, another prompt, or an agent that has changed since."""

import asyncio
import json
from contextlib import nullcontext
from typing import Any, Literal

from msgspec import structs

from ..backends import read_only
from ..checkpoint import CheckedStore, thread_events
from ..context import DRIVEN, ToolContext
from ..errors import ConfigError, IllegalEvent
from ..events import TurnFailed
from ..messages import ToolCall, ToolResult
from ..models import profile_of, resolve
from ..ports import Model, Request, RunTool
from ..spec import AgentSpec
from ..state import Decision, Interrupt, Path, Reject, Respond
from ..turn import Turn
from .answers import RecordedAnswers, given_again
from .comparison import Replay
from .player import apart, replayed, say_again, say_at_once, say_beside
from .recording import RecordedCall, RecordedInput, Recording, as_given
from .script import Script

Others = Literal["refuse", "run"]
"""What becomes of calls that the recording does not hold: an error result, or they run."""
NOBODY = "nobody has decided about this call when the thread was recorded"
"""What a model reads of a call that waits now and did not wait then."""
REFUSED = "a replay runs only calls that were made before with the same arguments; do without it, or with those"
MANY = 100
"""Pauses after one message, after which a replay gives up."""


async def replay(
    agent: Any,
    store: CheckedStore,
    thread_id: str,
    at: int | None,
    model: str | Model | None,
    system_prompt: str | None,
    others: Others,
    context: Any,
) -> Replay:
    """Run the messages of a thread again with *agent*, on a thread of its own in memory: see `Agent.replay`."""
    recording = Recording(thread_events(store, thread_id), thread_id)
    if at is not None:
        recording = recording.until(at)
    recording.check()
    variant = _Variant(recording, agent, None if model is None else resolve(model), others, context)
    if system_prompt is not None:
        variant.agent.spec = structs.replace(variant.agent.spec, system=_system(agent, variant.agent, system_prompt))
    with read_only("a replay") if others == "refuse" else nullcontext():
        return await variant.run()


def _system(agent: Any, mine: Any, system_prompt: str) -> str:
    """Return the whole prompt of *agent* with *system_prompt* in place of its own.

    Raises:
        ConfigError: it has none, as its replies are computed.
    """
    if getattr(agent.spec.model, "free", False):
        raise ConfigError(f"agent {agent.spec.name!r} asks no model itself, so it has no system_prompt to replace")
    parts = [part.prompt for part in agent._middleware]
    return "\n\n".join(filter(None, map(str.strip, [system_prompt, *parts, profile_of(agent.spec.model).suffix])))


class _Variant:
    """Gives an agent the messages of a recording, and decides about waiting calls as a person did."""

    def __init__(self, recording: Recording, agent: Any, model: Model | None, others: Others, context: Any) -> None:
        self._recording = recording
        self._context = context
        self._script = Script(recording)
        self._answers = _Answers(self._script, recording, others)
        self._answers.say = self._say
        self.agent: Any = apart(agent, (self._answers,), model)
        self._decided_calls: dict[str, list[RecordedCall]] = {}
        self._undecided: set[str] = set()
        for call in recording.calls():
            if call.decisions:
                self._decided_calls.setdefault(key_of(call.call), []).append(call)
            elif call.result is None:
                self._undecided.add(key_of(call.call))

    async def run(self) -> Replay:
        """Give all inputs, and compare the two threads."""
        turn: Turn | None = None
        for index, given in enumerate(self._recording.inputs):
            if given.is_history:
                continue  # It comes with the input after it.
            self._script.input_index = index
            if given.message is not None and turn and turn.status == "failed" and not self._failed(index - 1):
                break  # What was said next was said to an agent that had answered.
            turn = await self._decided(await self._give(index, given, turn))
        return replayed(self._recording, self.agent, turn)

    async def _give(self, index: int, given: RecordedInput, last: Turn | None) -> Turn:
        if given.message is not None or last is None:
            early = asyncio.ensure_future(say_at_once(self.agent, given))
            try:
                return await say_again(self.agent, self._recording, index, self._context)
            finally:
                early.cancel()
        if last.status in ("failed", "cancelled", "exhausted"):
            return await self.agent.resume(self._thread, context=self._context)
        return last

    @property
    def _thread(self) -> str:
        return self._recording.thread_id

    def _failed(self, index: int) -> bool:
        return isinstance(self._recording.inputs[index].end, TurnFailed)

    async def _decided(self, turn: Turn) -> Turn:
        """Resume a turn that waits, as long as there is anything to decide."""
        for _ in range(MANY):
            found = {wait.key: self._decision(wait) for wait in turn.interrupts}
            decisions = {key: decision for key, decision in found.items() if decision is not None}
            if turn.status != "paused" or not decisions:
                break
            turn = await self.agent.resume(self._thread, decisions, context=self._context)
        return turn

    def _decision(self, wait: Interrupt) -> Decision | None:
        """Return what a person has decided about the same call; None if it waited until the end then, too."""
        key = key_of(wait.call)
        if found := next_of(self._decided_calls, key):
            self._answers.chosen[wait.path, wait.call_id] = found  # So that the result is that of the decision.
            return as_given(found.decisions[-1])
        return None if key in self._undecided else Reject(NOBODY)

    async def _say(self, text: str) -> None:
        await say_beside(self.agent, self._thread, text)


class _Answers(RecordedAnswers):
    """Answers calls that were made before, in whatever run, with their recorded results; the others are refused or run.

    Calls that change nothing but the thread, which is a new one, run; so do those that run other agents.
    """

    def __init__(self, script: Script, recording: Recording, others: Others) -> None:
        super().__init__(script)
        self._others = others
        self.chosen: dict[tuple[Path, str], RecordedCall] = {}
        """Recorded calls whose decisions were given about calls that waited, by the run and the id of these."""
        self._known: dict[str, list[RecordedCall]] = {}
        self._delegating: set[str] = set()
        """Names of tools that run other agents."""
        for call in recording.calls():
            if call.ran_agents:
                self._delegating.add(call.call.name)
            # The result of a call that did not run is a person's.
            elif call.result is not None and not any(isinstance(one, Reject | Respond) for one in call.decisions):
                self._known.setdefault(key_of(call.call), []).append(call)

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        return request

    def found(self, ctx: ToolContext) -> RecordedCall | None:
        """Return a recorded call with the tool and the arguments of this one."""
        if self._runs(ctx):
            return None
        chosen = self.chosen.get((ctx.path, ctx.call_id))
        if chosen is not None and chosen.result is not None:
            return chosen
        return next_of(self._known, key_of(ctx.state.open[ctx.call_id].call))

    async def answer(self, ctx: ToolContext, found: RecordedCall | None, call: ToolCall, run: RunTool) -> ToolResult:
        if found is not None:
            try:
                return given_again(ctx, found, self.seen(ctx))
            except IllegalEvent as exc:
                return ToolResult(f"{call.name} was not run: what it did then does not fit now: {exc}", is_error=True)
        if self._others == "run" or self._runs(ctx):
            return await run(call)
        return ToolResult(f"{call.name} was not run: {REFUSED}", is_error=True)

    def _runs(self, ctx: ToolContext) -> bool:
        """Return whether a call changes nothing but the thread, or runs other agents."""
        spec: AgentSpec = DRIVEN.get().spec
        asked = ctx.state.open[ctx.call_id].call
        tool = spec.tools.get(asked.name)
        # A model that is free computes its calls: they are parts of the agent, such as those of a blueprint. And an
        # unknown tool has its own error.
        if tool is None or asked.name in self._delegating or getattr(spec.model, "free", False):
            return True
        return tool.thread_only


def next_of(calls: dict[str, list[RecordedCall]], key: str) -> RecordedCall | None:
    """Return the next of the calls under *key*, since the same call may have had another result later; at the end the
    last one again.
    """
    known = calls.get(key)
    return None if not known else known.pop(0) if len(known) > 1 else known[0]


def key_of(call: ToolCall) -> str:
    """Return what is the same for calls of one tool with the same arguments, in whatever way these are written."""
    return json.dumps([call.name, call.malformed or call.args], sort_keys=True)
