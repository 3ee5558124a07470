"""Plain functions run on a bounded number of threads that reach the loop safely and end when idle."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import pytest

from minideep import Agent, AssistantMessage, ConfigError, ToolCall, ToolContext, configure_process, tool
from minideep.errors import ToolError
from minideep.events import Noted, TextDelta
from minideep.loops import MAX_THREADS, call_on
from minideep.models import ScriptedModel
from minideep.workers import ThreadPool

ENOUGH = 100


@pytest.fixture
def bounds():
    yield configure_process
    configure_process()


def calls(count, name="work", **arguments):
    return AssistantMessage(tuple(ToolCall(name, arguments, f"c{number}") for number in range(count)))


def tool_threads():
    return [thread for thread in threading.enumerate() if thread.name == "minideep-tool"]


async def no_longer(condition):
    async with asyncio.timeout(ENOUGH):
        while condition():
            await asyncio.sleep(0.01)


# ---- from a thread to the loop


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


async def test_an_exception_of_a_listener_becomes_the_error_result_of_the_plain_tool_that_records():
    @tool
    def work(ctx: ToolContext) -> str:
        ctx.record(Noted("a", "b"))
        return "recorded"

    def listener(event):
        if isinstance(event, Noted):
            raise LookupError("a broken listener")

    agent = Agent(ScriptedModel([ToolCall("work"), "done"]), [work])
    terms = agent._terms(None, listener, False)
    async with asyncio.timeout(ENOUGH):
        turn = await agent._threads.turn(terms, "go", "t")
    assert turn.messages[2].text == "work failed: LookupError: a broken listener"


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


# ---- how many there are


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


# ---- turns


async def test_turns_over_the_bound_wait_and_begin_in_order(bounds):
    begun, now, most = [], 0, 0

    async def reply(request):
        nonlocal now, most
        begun.append(request.messages[0].text)
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.005)
        now -= 1
        return "done"

    bounds(max_turns=3)
    agent = Agent(ScriptedModel(reply))
    await asyncio.gather(*(agent.run(str(number)) for number in range(20)))
    assert most == 3
    assert begun == [str(number) for number in range(20)]


async def test_a_turn_that_waits_can_be_cancelled_and_passes_its_place_on(bounds):
    go_on = asyncio.Event()

    async def reply(request):
        await go_on.wait()
        return "done"

    bounds(max_turns=1)
    agent = Agent(ScriptedModel(reply))
    first, second, third = (asyncio.ensure_future(agent.run("go", name)) for name in "abc")
    await asyncio.sleep(0.01)
    second.cancel()
    go_on.set()
    async with asyncio.timeout(ENOUGH):
        done = await asyncio.gather(first, second, third, return_exceptions=True)
    assert isinstance(done[1], asyncio.CancelledError)
    assert (done[0].text, done[2].text) == ("done", "done")
    assert [info.thread_id for info in agent.threads()] == ["c", "a"]
    assert (await agent.run("again")).text == "done"


async def test_a_turn_that_is_cancelled_as_it_may_begin_passes_its_place_on(bounds):
    """Between the end of the first turn and the next step of the second one."""
    bounds(max_turns=1)
    agent = Agent(ScriptedModel(lambda request: "done"))
    for _ in range(50):
        first = asyncio.ensure_future(agent.run("go"))
        second = asyncio.ensure_future(agent.run("go"))
        first.add_done_callback(lambda _, second=second: second.cancel())
        third = asyncio.ensure_future(agent.run("go"))
        async with asyncio.timeout(ENOUGH):
            await asyncio.wait([first, second])
            assert (await third).text == "done"


def test_turns_of_several_loops_share_one_bound(bounds):
    now, most, lock = 0, 0, threading.Lock()

    async def reply(request):
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        await asyncio.sleep(0.005)
        with lock:
            now -= 1
        return "done"

    bounds(max_turns=2)
    agent, said = Agent(ScriptedModel(reply)), []
    ways = [lambda: said.append(agent.run_sync("go").text), lambda: said.append(asyncio.run(agent.run("go")).text)]
    threads = [threading.Thread(target=way, daemon=True) for way in ways * 8]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ENOUGH)
    assert said == ["done"] * 16
    assert most == 2


def test_turns_whose_loop_has_ended_hold_no_place(bounds):
    async def hang(request):
        await asyncio.sleep(ENOUGH)

    bounds(max_turns=2)
    loop = asyncio.new_event_loop()
    tasks = [loop.create_task(Agent(ScriptedModel(hang)).run("go")) for _ in range(4)]  # Two run, and two wait.
    loop.run_until_complete(asyncio.sleep(0.05))
    for task in tasks:
        task._log_destroy_pending = False
    del tasks, task
    loop.close()
    del loop
    gc.collect()
    assert Agent(ScriptedModel(["fine"])).run_sync("go").text == "fine"


async def test_children_do_not_count_as_turns(bounds):
    child = Agent(ScriptedModel(lambda request: "the child"))

    @tool
    async def work(ctx: ToolContext) -> str:
        return (await ctx.run(child, "go")).text

    bounds(max_turns=1)
    async with asyncio.timeout(ENOUGH):
        turn = await Agent(ScriptedModel([calls(3), "done"]), [work]).run("go")
    assert [message.text for message in turn.messages[2:]] == ["the child"] * 3 + ["done"]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "3", float("inf")])
@pytest.mark.parametrize("name", ["max_turns", "max_tool_threads"])
def test_a_bound_must_be_a_whole_number_above_0(name, wrong):
    with pytest.raises(ConfigError, match=f"{name} must be a whole number above 0, or None"):
        configure_process(**{name: wrong})


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
