"""Code on another thread reaches the event loop of its turn, and gets an answer even when that loop has ended."""

import asyncio
import threading

import pytest
from harness.threads import ENOUGH, no_longer

from minideep import Agent, ToolCall, ToolContext, tool
from minideep.errors import ToolError
from minideep.events import Noted, TextDelta
from minideep.loops import call_on
from minideep.models import ScriptedModel
from minideep.workers import ThreadPool

NO_EVENTS = [None, 5, "text", {"text": "x"}, TextDelta, TextDelta(5)]


@pytest.mark.parametrize("event", NO_EVENTS, ids=repr)
@pytest.mark.parametrize("plain", [True, False])
async def test_emit_refuses_an_object_that_is_no_event(event, plain):
    def work(ctx: ToolContext) -> str:
        ctx.emit(event)
        return "emitted"

    async def work_on_the_loop(ctx: ToolContext) -> str:
        return work(ctx)

    name = "work" if plain else "work_on_the_loop"
    stream = Agent(ScriptedModel([ToolCall(name), "done"]), [tool(work), tool(work_on_the_loop)]).stream("go")
    async with asyncio.timeout(ENOUGH), stream:
        seen = [event async for event in stream]
    assert "emit takes an event such as TextDelta" in stream.turn.messages[2].text
    assert stream.turn.status == "ended"
    assert {event.text for event in seen if isinstance(event, TextDelta)} == {"done"}


async def test_an_event_that_a_plain_tool_emits_reaches_the_stream():
    @tool
    def work(ctx: ToolContext) -> str:
        ctx.emit(TextDelta("half done"))
        return "done"

    stream = Agent(ScriptedModel([ToolCall("work"), "done"]), [work]).stream("go")
    assert TextDelta("half done") in [event async for event in stream]


@pytest.mark.parametrize(
    "raised",
    [ValueError("no"), TimeoutError("no"), SystemExit("no"), GeneratorExit("no"), asyncio.CancelledError("no")],
)
async def test_whatever_is_raised_on_the_loop_reaches_the_thread(raised):
    def act():
        raise raised

    def on_a_thread():
        try:
            call_on(loop, act)
        except BaseException as exc:
            return exc

    loop = asyncio.get_running_loop()
    async with asyncio.timeout(ENOUGH):
        assert await ThreadPool().start(on_a_thread) is raised


@pytest.mark.parametrize("closed", [True, False])
def test_a_thread_does_not_wait_for_a_loop_that_has_ended(closed):
    loop = asyncio.new_event_loop()
    if closed:
        loop.close()
    told = []

    def on_a_thread():
        try:
            call_on(loop, lambda: told.append("called"))
        except ToolError as exc:
            told.append(str(exc))

    thread = threading.Thread(target=on_a_thread, daemon=True)
    thread.start()
    thread.join(ENOUGH)
    assert told == ["the event loop of this turn has ended; nothing can be recorded or emitted any more"]
    if not closed:
        loop.run_until_complete(asyncio.sleep(0))  # What was refused does not happen afterwards.
        assert len(told) == 1
        loop.close()


def test_a_tool_that_was_left_behind_ends_once_its_loop_has():
    """`asyncio.run` ends while the tool works; what it then records is refused, and nothing waits."""
    go_on, told = threading.Event(), []

    @tool(timeout=0.05)
    def work(ctx: ToolContext) -> str:
        go_on.wait(ENOUGH)
        try:
            ctx.record(Noted("a", "b"))
        except ToolError as exc:
            told.append(str(exc))
        return "too late"

    turn = asyncio.run(Agent(ScriptedModel([ToolCall("work"), "done"]), [work]).run("go"))
    assert "did not end within 0.05 s" in turn.messages[2].text
    go_on.set()
    asyncio.run(no_longer(lambda: not told))
    assert "its context is closed" in told[0]
