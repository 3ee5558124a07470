"""Gives an agent the inputs of a recorded thread again: messages, decisions, what was said meanwhile, cancellations."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import Future
from copy import copy
from functools import partial
from typing import Any

from msgspec import structs

from ..backends import read_only
from ..checkpoint import MemoryCheckpointer, open_store, thread_events
from ..errors import MinideepError, ModelError
from ..events import TurnCancelled, TurnFailed
from ..messages import UserMessage
from ..ports import Middleware, Model
from ..runtime import Turns, check_prices, inheriting, turns_of, with_model
from ..state import Decision, Path
from ..turn import Fault, Turn
from .answers import RecordedAnswers
from .comparison import Replay, compared
from .model import RecordedModel
from .recording import RecordedCall, RecordedInput, Recording
from .script import Script

SOON = 1_000
"""Rounds of the event loop in which a turn has begun, unless its input is refused."""
QUIET = 0.02
"""Seconds without progress after which the other runs of a turn that is to be cut are taken to have come as far as they
can.
"""


def apart(agent: Any, parts: tuple[Middleware, ...], model: Model | None) -> Any:
    """Return a copy of *agent* with a store of its own in memory, and with *parts* outside its hooks. Unless *model* is
    None, it stands in place of all its models.

    Raises:
        ConfigError: the agent has a cost budget, and *model* does not state its cost.
    """
    mine = copy(agent)
    mine.checkpointer, mine._turns = MemoryCheckpointer(), Turns()
    # Of its own origin: what overrides the agent's model here does not override this one.
    mine.spec = structs.replace(inheriting(agent.spec, parts), origin=object())
    if model is not None:
        mine.spec = with_model(mine.spec, model)
        check_prices(mine.spec, mine.spec.limits, mine.spec.name)
    return mine


async def play(recording: Recording, agent: Any, context: Any = None) -> Replay:
    """Run *recording* again with *agent*, exactly: its models and tools answer what they answered.

    Raises:
        MinideepError: an input was refused, or the thread was changed by `update_state`.
    """
    recording.check()
    with read_only("a replay"):
        return await _Player(recording, agent, context).play()


async def say_at_once(agent: Any, given: RecordedInput) -> list[Any]:
    """Say what was said before the first step of a turn, as soon as the turn runs. Return the turns that run then."""
    running: list[Any] = []
    for _ in range(SOON):
        if running := turns_of(agent._turns):
            break
        await asyncio.sleep(0)
    for live in running:  # Not by `say`, which takes a moment, and the first step comes at once.
        live.inbox.extend((UserMessage(text), Future[bool]()) for text in given.said)
    return running


class _Player:
    """Gives a recording its inputs, one by one."""

    def __init__(self, recording: Recording, agent: Any, context: Any) -> None:
        self._recording = recording
        self._script = Script(recording)
        self._script.ending = self._end
        self._context = context
        answers = RecordedAnswers(self._script)
        answers.say, answers.answered = self._say, self._answered
        self._agent = apart(agent, (answers,), RecordedModel(self._script))

    async def play(self) -> Replay:
        """Run all inputs, and compare the thread that they lead to with the recording."""
        turn: Turn | None = None
        for index, given in enumerate(self._recording.inputs):
            if not given.is_history:  # It comes with the input after it.
                self._script.input_index = index
                turn = await self._give(index, given, turn)
        return replayed(self._recording, self._agent, turn)

    @property
    def _thread(self) -> str:
        return self._recording.thread_id  # The same, as files are named after it.

    async def _at_once(self, given: RecordedInput) -> None:
        """Do what was done between an input and the first step: say something, or stop the turn."""
        running = await say_at_once(self._agent, given)
        if not given.is_begun:
            self._stop_now(given, running)

    async def _give(self, index: int, given: RecordedInput, last: Turn | None) -> Turn:
        early = asyncio.ensure_future(self._at_once(given))
        try:
            turn = await self._given(index, given, last)
            while turn.status == "paused" and (decisions := self._decisions(given.beforehand, turn)):
                turn = await self._agent.resume(self._thread, decisions, context=self._context)
            return turn
        finally:
            early.cancel()

    async def _given(self, index: int, given: RecordedInput, last: Turn | None) -> Turn:
        if given.message is not None or last is None:
            return await say_again(self._agent, self._recording, index, self._context)
        decisions = self._decisions(given.decisions, last)
        if last.status == "ended" or (last.status in ("paused", "escalated") and not decisions):
            return last
        return await self._agent.resume(self._thread, decisions, context=self._context)

    def _decisions(self, decisions: dict[str, Decision], last: Turn) -> dict[str, Decision]:
        """Return those of the recorded *decisions* that are about the calls that wait now."""
        found: dict[str, Decision] = {}
        for wait in last.interrupts:
            place = self._script.place(wait.path)
            recorded = "/".join(("", *place, self._script.recorded_id(place, wait.call_id)))
            if recorded in decisions:
                found[wait.key] = decisions[recorded]
        return found

    async def _say(self, text: str) -> None:
        await say_beside(self._agent, self._thread, text)

    def _answered(self, call: RecordedCall) -> None:
        """Stop the turn if it was stopped right after this answer."""
        given = self._recording.inputs[self._script.input_index or 0]
        if call.result is None or call.result.number != given.last or self._script.has_replies_left():
            return
        self._stop_now(given, turns_of(self._agent._turns))

    def _stop_now(self, given: RecordedInput, running: Iterable[Any]) -> None:
        """Stop the turn before its next step, if it was stopped there."""
        for live in running:
            if given.end is None:
                live.scope.request_cancel("shutdown")
            elif isinstance(given.end, TurnCancelled):
                live.scope.request_cancel("agent", given.end.reason)

    async def _end(self, place: Path) -> MinideepError | None:
        """Do what was done where a run has nothing more to go by: fail, be cancelled, or be cut short."""
        input_index = self._script.input_index or 0
        run, end = self._recording.runs.get(place), self._recording.inputs[input_index].end
        own = next((end for at, end in reversed(run.ends) if at == input_index), None) if run else None
        if isinstance(own, TurnFailed):
            more = structs.asdict(own.failure) if own.failure else {}
            error = Fault(own.kind, own.text, **more).exception()
            return error if isinstance(error, ModelError) else None
        if end is None or isinstance(end, TurnCancelled):
            cancel = partial(self._agent.cancel, self._thread)
            beside(self._stop(self._agent.aclose if end is None else partial(cancel, end.reason)))
            await asyncio.Event().wait()  # Until it is cancelled.
        return None

    async def _stop(self, stop: Callable[[], Awaitable[object]]) -> None:
        """Stop the turn once its other runs have come as far as they can."""
        for seen in iter(lambda: self._script.given, None):
            await asyncio.sleep(QUIET)
            if self._script.given == seen:
                break
        await stop()


def replayed(recording: Recording, agent: Any, turn: Turn | None) -> Replay:
    """Compare the thread that *agent* has run, up to *turn*, with *recording*."""
    assert turn is not None  # The first input is a message.
    events = thread_events(open_store(agent.checkpointer), recording.thread_id)
    return compared(recording, Recording(events, recording.thread_id), turn, agent)


async def say_again(agent: Any, recording: Recording, index: int, context: Any) -> Turn:
    """Run the turn of a recorded message."""
    given, message = recording.inputs[index], recording.input(index)
    more = {"key": given.key or None, "files": given.files or None, "context": context}
    return await agent.run(message, recording.thread_id, **more)


async def say_beside(agent: Any, thread_id: str, text: str) -> None:
    """Say *text* to a running turn from inside it. It is heard before the next request to the model."""
    beside(agent.say(thread_id, text))
    await asyncio.sleep(0)  # Until it is there.


_others: set[asyncio.Task[Any]] = set()
"""What is done beside a turn, since the event loop itself keeps no task alive."""


def beside(work: Coroutine[Any, Any, Any]) -> None:
    """Do *work* beside the turn that calls this, which does not wait for it."""
    _others.add(task := asyncio.ensure_future(work))
    task.add_done_callback(_others.discard)
