"""The turns that run in a process at once have a bound, over all event loops; the others wait in order."""

import asyncio
import gc
import threading

import pytest
from harness.threads import ENOUGH, calls

from minideep import Agent, ConfigError, ToolContext, configure_process, tool
from minideep.models import ScriptedModel


@pytest.fixture
def bounds():
    yield configure_process
    configure_process()


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
