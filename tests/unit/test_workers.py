"""Plain functions run on a bounded number of threads that end when they are idle and never keep a program alive."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest
from harness.threads import ENOUGH, calls, no_longer, tool_threads

from minideep import Agent, AssistantMessage, ToolCall, configure_process, tool
from minideep.loops import MAX_THREADS
from minideep.models import ScriptedModel
from minideep.workers import ThreadPool


@pytest.fixture
def bounds():
    yield configure_process
    configure_process()


async def test_idle_threads_end():
    pool, barrier = ThreadPool(idle_seconds=0.05), threading.Barrier(100)

    def work():
        barrier.wait(ENOUGH)
        return threading.current_thread()

    used = await asyncio.gather(*(pool.start(work) for _ in range(100)))
    assert len(set(used)) == 100
    await no_longer(lambda: any(thread.is_alive() for thread in used))
    assert await pool.start(lambda: "again") == "again"


async def test_a_call_that_arrives_as_its_thread_ends_is_not_lost():
    pool = ThreadPool(idle_seconds=0.001)
    async with asyncio.timeout(ENOUGH):
        for number in range(400):
            assert await pool.start(lambda number=number: number) == number
            await asyncio.sleep(0.0005 + 0.00002 * (number % 50))


async def test_calls_over_the_bound_wait_and_begin_in_order():
    pool, begun, most, now = ThreadPool(3), [], 0, 0

    def work(number):
        nonlocal most, now
        begun.append(number)
        now += 1
        most = max(most, now)
        time.sleep(0.002)
        now -= 1

    futures = [pool.start(lambda number=number: work(number)) for number in range(60)]
    await asyncio.gather(*futures)
    assert most <= 3
    assert sorted(begun) == list(range(60))
    assert all(abs(place - number) <= 3 for place, number in enumerate(begun))


async def test_raising_the_bound_lets_waiting_calls_begin():
    pool, go_on = ThreadPool(1), threading.Event()
    futures = [pool.start(lambda: go_on.wait(ENOUGH)) for _ in range(5)]
    assert [future.begun for future in futures] == [True, False, False, False, False]
    pool.set_max_threads(4)
    assert [future.begun for future in futures] == [True, True, True, True, False]
    pool.set_max_threads(None)
    assert futures[4].begun
    go_on.set()
    await asyncio.gather(*futures)


async def test_a_cancelled_call_that_waits_never_begins_and_one_that_runs_no_longer_counts():
    pool, go_on, begun = ThreadPool(1), threading.Event(), []
    hangs = pool.start(lambda: go_on.wait(ENOUGH))
    never = pool.start(lambda: begun.append("never"))
    later = pool.start(lambda: begun.append("later"))
    never.cancel()
    hangs.cancel()
    async with asyncio.timeout(ENOUGH):
        await later
    go_on.set()
    assert begun == ["later"]


async def test_tools_that_never_end_do_not_keep_others_from_beginning(bounds):
    go_on, looked = threading.Event(), []

    @tool(timeout=0.05)
    def hang() -> str:
        go_on.wait(ENOUGH)
        return "at last"

    @tool
    def look() -> str:
        looked.append(1)
        return "seen"

    bounds(max_tool_threads=2)
    script = [calls(4, "hang"), calls(3, "look"), "done"]
    async with asyncio.timeout(ENOUGH):
        turn = await Agent(ScriptedModel(script), [hang, look]).run("go")
    go_on.set()
    assert [message.text for message in turn.messages[-4:]] == ["seen", "seen", "seen", "done"]


async def test_a_cancelled_turn_begins_no_tool_that_still_waits(bounds):
    go_on, begun = threading.Event(), []

    @tool
    def work(number: int) -> str:
        begun.append(number)
        go_on.wait(ENOUGH)
        return "done"

    bounds(max_tool_threads=1)
    script = AssistantMessage(tuple(ToolCall("work", {"number": number}, f"c{number}") for number in range(3)))
    running = asyncio.ensure_future(Agent(ScriptedModel([script]), [work]).run("go"))
    await no_longer(lambda: not begun)
    running.cancel()
    await asyncio.sleep(0.05)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert begun == [0]


def nested(agent_of, levels):
    """An agent whose plain tool runs an agent whose plain tool runs ... , *levels* deep, two at a time."""

    @tool
    def work() -> str:
        return agent_of(levels - 1).run_sync("go").text if levels else "the bottom"

    return Agent(ScriptedModel([calls(2), "done"]), [work])


@pytest.mark.parametrize("bound", [{"max_tool_threads": 1}, {"max_turns": 1}, {"max_turns": 1, "max_tool_threads": 1}])
async def test_a_call_that_a_tool_starts_never_waits_for_the_thread_of_that_tool(bounds, bound):
    def agent_of(levels):
        return nested(agent_of, levels)

    bounds(**bound)
    async with asyncio.timeout(ENOUGH):
        turns = await asyncio.gather(*(agent_of(3).run("go") for _ in range(3)))
    assert [turn.text for turn in turns] == ["done"] * 3
    assert [message.text for turn in turns for message in turn.messages[2:4]] == ["done"] * 6


async def test_a_burst_of_plain_tools_takes_no_more_threads_than_the_bound():
    count, most = 1_500, 0

    @tool
    def work() -> str:
        nonlocal most
        most = max(most, len(tool_threads()))
        return "done"

    before = len(tool_threads())
    async with asyncio.timeout(ENOUGH):
        turn = await Agent(ScriptedModel([calls(count), "done"]), [work]).run("go")
    assert [message.text for message in turn.messages[2:-1]] == ["done"] * count
    assert most <= max(before, MAX_THREADS) + 1


async def test_a_system_without_more_threads_is_an_error_and_no_call_is_lost():
    class Poor(ThreadPool):
        def _serve(self, inbox):
            raise AssertionError("never begun")

    size = threading.stack_size(2**40)  # More than there is: no thread can be started.
    try:
        pool = Poor(2)
        futures = [pool.start(lambda: "done") for _ in range(5)]
    finally:
        threading.stack_size(size)
    async with asyncio.timeout(ENOUGH):
        failed = await asyncio.gather(*futures, return_exceptions=True)
    assert [str(exc) for exc in failed] == ["can't start new thread"] * 5


async def test_an_idle_thread_holds_nothing_of_its_last_call():
    class Large:
        pass

    pool, large = ThreadPool(), Large()
    gone = weakref.ref(large)
    await pool.start(lambda large=large: None)
    del large
    await no_longer(lambda: gc.collect() and gone() is not None)
    assert gone() is None


# ---- the end of a process


def test_a_program_ends_though_tools_run_wait_and_record():
    code = """
import threading, time
from minideep import Agent, AssistantMessage, ToolCall, ToolContext, configure_process, tool
from minideep.events import Noted
from minideep.models import ScriptedModel
begun = threading.Event()
@tool
def hang(ctx: ToolContext) -> str:
    begun.set()
    while True:
        ctx.record(Noted("a", "b"))
configure_process(max_tool_threads=20)
model = ScriptedModel([AssistantMessage(tuple(ToolCall("hang", {}, f"c{n}") for n in range(50)))])
threading.Thread(target=lambda: Agent(model, [hang]).run_sync("go"), daemon=True).start()
begun.wait(10)
time.sleep(0.1)
print("over")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=ENOUGH)
    assert (run.returncode, run.stdout) == (0, "over\n"), run.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_process_that_is_forked_while_all_threads_are_busy_has_all_of_its_own():
    code = """
import asyncio, os, threading, warnings
warnings.simplefilter("ignore")
from minideep import Agent, AssistantMessage, ToolCall, configure_process, tool
from minideep.models import ScriptedModel
configure_process(max_turns=1, max_tool_threads=1)
begun = threading.Event()
@tool
def hang() -> str:
    begun.set()
    threading.Event().wait()
@tool
def look() -> str: return "seen"
busy = Agent(ScriptedModel([AssistantMessage(tuple(ToolCall("hang", {}, f"c{n}") for n in range(3)))]), [hang])
threading.Thread(target=lambda: busy.run_sync("go"), daemon=True).start()
begun.wait(10)
if (child := os.fork()) == 0:
    print(Agent(ScriptedModel([ToolCall("look"), "done"]), [look]).run_sync("x").messages[2].text, flush=True)
    os._exit(0)
print(os.waitpid(child, 0)[1])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=ENOUGH)
    assert run.stdout == "seen\n0\n", run.stderr
