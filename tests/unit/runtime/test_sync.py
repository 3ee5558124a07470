"""`run_sync`: whatever ends a run reaches the caller, and the event loop that scripts share goes on."""

import asyncio
import gc
import os
import signal
import threading
import time

import pytest
from harness.agents import results
from harness.processes import python

from minideep import (
    Agent,
    AssistantMessage,
    Middleware,
    ToolCall,
    ToolContext,
    ToolError,
    tool,
)
from minideep.events import (
    TextDelta,
)
from minideep.models import ScriptedModel
from minideep.runtime.sync import run_sync

ENOUGH = 100
"""Seconds after which a call is taken to hang."""


def ends(function):
    """Return the result of *function*, or the exception that it raises; it runs on a thread, as it may hang."""
    outcome = []

    def call():
        try:
            outcome.append(function())
        except BaseException as exc:
            outcome.append(exc)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(ENOUGH)
    assert outcome, "it hangs"
    return outcome[0]


def in_a_script(agent):
    return agent.run_sync("go", "t")


def in_a_coroutine(agent):
    async def main():
        return agent.run_sync("go", "t")

    return asyncio.run(main())


def on_a_loop(agent):
    return asyncio.run(agent.run("go", "t"))


def agent_where(place, exc):
    """An agent in which *exc* is raised at *place*."""

    def raising(*args):
        raise exc

    async def raises(*args):
        raise exc

    @tool
    async def slow() -> str:
        await asyncio.sleep(0.01)
        return "ok"

    @tool
    async def breaks() -> str:
        raise exc

    @tool(timeout=ENOUGH)
    async def breaks_apart() -> str:
        raise exc

    @tool
    async def asks(ctx: ToolContext) -> str:
        return (await ctx.run(Agent(ScriptedModel(raising)), "go")).text

    called = {"tool": [breaks], "tool in a task": [breaks_apart], "child": [asks], "parallel": [slow, breaks]}
    calls = tuple(ToolCall(tool.name, {}, tool.name) for tool in called.get(place, [slow]))
    model = ScriptedModel(raising) if place == "model" else ScriptedModel([AssistantMessage(calls), "done"])
    hooks = type("Hooks", (Middleware,), {place: raises} if hasattr(Middleware, place) else {})
    redact = raising if place == "redact" else None
    return Agent(model, [slow, breaks, breaks_apart, asks], middleware=[hooks()], redact=redact)


HOOKS = ["before_model", "before_tool", "after_tool", "before_finish"]
TOOLS = ["tool", "tool in a task", "child", "parallel"]
CASES = [
    (place, exc) for place in ["model", *HOOKS, "redact"] for exc in (SystemExit, KeyboardInterrupt, GeneratorExit)
]
CASES += [(place, KeyboardInterrupt) for place in TOOLS]


@pytest.mark.parametrize("way", [in_a_script, in_a_coroutine, on_a_loop])
@pytest.mark.parametrize(("place", "kind"), CASES)
def test_a_base_exception_reaches_the_caller_and_the_thread_is_saved(place, kind, way):
    agent = agent_where(place, kind("stop"))
    raised = ends(lambda: way(agent))
    assert (type(raised), raised.args) == (kind, ("stop",))
    if place != "redact":  # Which lets nothing be saved.
        assert agent.get_state("t").status == "cancelled"
    assert ends(lambda: Agent(ScriptedModel(["fine"])).run_sync("and now?")).text == "fine"


@pytest.mark.parametrize("way", [in_a_script, in_a_coroutine, on_a_loop])
@pytest.mark.parametrize("place", TOOLS)
def test_an_exit_in_a_tool_is_the_error_result_of_its_call(place, way):
    turn = ends(lambda: way(agent_where(place, SystemExit("stop"))))
    assert turn.status == "ended"
    assert turn.messages[-2].is_error
    assert turn.messages[-2].text.endswith("failed: SystemExit: stop")


def test_turns_beside_one_that_stops_the_loop_go_on():
    async def long(request):
        await asyncio.sleep(0.2)
        return "still here"

    beside = []
    thread = threading.Thread(target=lambda: beside.append(Agent(ScriptedModel(long)).run_sync("go")), daemon=True)
    thread.start()
    assert isinstance(ends(lambda: in_a_script(agent_where("model", SystemExit(1)))), SystemExit)
    thread.join(ENOUGH)
    assert [turn.text for turn in beside] == ["still here"]


def test_a_loop_that_a_model_stops_goes_on():
    async def stops(request):
        asyncio.get_running_loop().stop()
        await asyncio.sleep(0.01)
        return "still here"

    assert ends(lambda: Agent(ScriptedModel(stops)).run_sync("go")).text == "still here"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_broken_loop_is_replaced_and_its_callers_get_an_error():
    async def breaks(request):
        loop = asyncio.get_running_loop()
        for when in (ENOUGH, 1j, ENOUGH):  # The loop compares them with each other, and with its clock.
            loop.call_soon(loop.call_at, when, print)
        await waits(request)

    async def waits(request):
        await asyncio.Event().wait()

    beside = []
    thread = threading.Thread(target=lambda: beside.append(ends(lambda: Agent(ScriptedModel(waits)).run_sync("go"))))
    thread.start()
    time.sleep(0.1)
    beside.append(ends(lambda: Agent(ScriptedModel(breaks)).run_sync("go")))
    thread.join(ENOUGH)
    for raised in beside:
        assert str(raised).startswith("the event loop of `run_sync` broke: TypeError(")
    assert len(beside) == 2
    assert ends(lambda: Agent(ScriptedModel(["fine"])).run_sync("go")).text == "fine"
    beside.clear()
    del raised  # The tracebacks hold tasks.
    until = time.monotonic() + ENOUGH
    while sum(thread.name == "minideep-loop" for thread in threading.enumerate()) > 1 and time.monotonic() < until:
        time.sleep(0.01)  # The broken loop's own thread complains as it ends.
    gc.collect()  # What the broken loop has left is complained of here, and not in the next test.


def test_the_cancellation_of_a_coroutine_by_itself_reaches_the_caller():
    async def cancelled():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)

    assert isinstance(ends(lambda: run_sync(cancelled())), asyncio.CancelledError)


INTERRUPTED = """
import asyncio, os, signal, sys, threading, time
from minideep import Agent
from minideep.models import ScriptedModel

async def slow(request):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.{name})).start()
    await asyncio.sleep(30)

if signal.{name} == signal.SIGTERM:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
agent = Agent(ScriptedModel(slow))
try:
    agent.run_sync("go", "t")
except BaseException as exc:
    print(type(exc).__name__, agent.get_state("t").status)
print(Agent(ScriptedModel(["fine"])).run_sync("and now?").text)
"""


@pytest.mark.parametrize(("name", "raised"), [("SIGINT", "KeyboardInterrupt"), ("SIGTERM", "SystemExit")])
def test_a_signal_cancels_the_turn_saves_it_and_raises(name, raised):
    assert python(INTERRUPTED.format(name=name), seconds=ENOUGH) == f"{raised} cancelled\nfine\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_has_a_loop_of_its_own():
    code = """
import os, warnings
warnings.simplefilter("ignore")
from minideep import Agent, tool, ToolCall
from minideep.models import ScriptedModel
@tool
def look() -> str:
    "Look."
    return "seen"
def go(): return [m.text for m in Agent(ScriptedModel([ToolCall("look"), "done"]), [look]).run_sync("x").messages[2:]]
go()
if (child := os.fork()) == 0:
    print(go(), flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1], go())
"""
    assert python(code, seconds=ENOUGH) == "['seen', 'done']\n0 ['seen', 'done']\n"


def test_a_signal_handler_does_not_wait_for_a_call_that_never_began():
    """Cancelled before its first step, a coroutine runs nothing, not even its `finally`."""
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL

    async def block():
        time.sleep(0.5)

    async def never():
        await asyncio.sleep(ENOUGH)

    def alarm(*_):
        raise TimeoutError("the alarm")

    threading.Thread(target=lambda: run_sync(block()), daemon=True).start()
    time.sleep(0.1)
    signal.signal(signal.SIGALRM, alarm)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(TimeoutError, match="the alarm"):
            run_sync(never())
    finally:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def test_a_call_below_run_sync_on_the_loop_cannot_wait_for_that_loop():
    told, outer = [], []

    @tool
    def tell() -> str:
        """Tell whoever listens to the agent above."""
        try:
            outer[0].emit(TextDelta("x"))
        except ToolError as exc:
            told.append(str(exc))
        return "told"

    inner = Agent(ScriptedModel([ToolCall("tell"), "in"]), [tell])

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask the other agent, on the event loop itself."""
        outer.append(ctx)
        return inner.run_sync("go").text

    agent = Agent(ScriptedModel([ToolCall("ask"), "out"]), [ask])
    assert ends(lambda: asyncio.run(agent.run("go"))).text == "out"
    assert len(told) == 1
    assert "is blocked in `run_sync`, which waits for this very call" in told[0]


def test_run_sync_within_run_sync_is_refused_with_the_remedy():
    inner = Agent(ScriptedModel(["ok"]))

    @tool
    async def nested() -> str:
        """Nest."""
        return inner.run_sync("x").text

    turn = Agent(ScriptedModel([ToolCall("nested"), "ok"]), [nested]).run_sync("go")
    assert "`await agent.run(...)` there" in results(turn)[0].text


def test_run_sync_works_without_a_loop_and_reuses_one():
    agent = Agent(ScriptedModel(["one", "two"]))
    assert [agent.run_sync("go", "t").text, agent.run_sync("go", "t").text] == ["one", "two"]


async def test_run_sync_works_where_a_loop_runs_already():
    assert Agent(ScriptedModel(["one"])).run_sync("go").text == "one"


def test_ctrl_c_in_run_sync_saves_the_thread_and_raises(tmp_path):
    code = """
import asyncio, os, signal, sys
from minideep import *
async def hang(request):
    os.kill(os.getpid(), signal.SIGINT)
    await asyncio.Event().wait()
from minideep.models import ScriptedModel
agent = Agent(ScriptedModel(hang), checkpointer=DiskCheckpointer(sys.argv[1]))
try:
    agent.run_sync("go", "t")
except KeyboardInterrupt:
    print(agent.get_state("t").status)
"""
    assert python(code, tmp_path) == "cancelled\n"
