"""Environment: the model knows how its run works and which day it is, and the provider's cache does not suffer."""

import asyncio
import re
import sys
from datetime import UTC, datetime

import pytest

from minideep import Agent, Approve, MemoryCheckpointer, Subagent, ToolCall, UserMessage, create_deep_agent, tool
from minideep.backends import StateBackend
from minideep.context import ToolContext
from minideep.events import Resumed, UserSaid
from minideep.middleware import EnvironmentMiddleware, FilesystemMiddleware, MemoryMiddleware
from minideep.models import ScriptedModel
from minideep.ports import Request
from minideep.runtime import LoneRun

MIDNIGHT = datetime(2026, 11, 22, tzinfo=UTC).timestamp()


def on(*at):
    """A context of a run whose turn began, and was then resumed, at these times."""
    run = LoneRun()
    run.record(UserSaid(UserMessage("go"), at[0], agent="main"))
    for moment in at[1:]:
        run.record(Resumed(moment))
    return ToolContext(run)


def shown(ctx, system="You help.", stable=None):
    return asyncio.run(EnvironmentMiddleware().before_model(ctx, Request(system, (), stable=stable)))


def day_of(at):
    return f"Today is {datetime.fromtimestamp(at, UTC):%A, %Y-%m-%d} (UTC)."


WEEK = [MIDNIGHT + day * 86_400 for day in range(7)]


@pytest.mark.parametrize("at", [*WEEK, MIDNIGHT + 0.5, MIDNIGHT + 86_399.9, MIDNIGHT - 0.1, 951_782_400.0, 1.0])
def test_the_day_is_that_on_which_the_turn_began(at):
    assert shown(on(at)).system == f"You help.\n\n{day_of(at)}"


def test_a_turn_that_goes_on_in_another_process_has_the_day_on_which_it_went_on():
    assert shown(on(MIDNIGHT, MIDNIGHT + 3 * 86_400)).system.endswith("Wednesday, 2026-11-25 (UTC).")


def test_the_day_stands_behind_all_that_never_changes():
    request = shown(on(MIDNIGHT), "You help.")
    assert request.system[: request.stable] == "You help."
    request = shown(on(MIDNIGHT), "You help.\n\n<memory>", stable=9)
    assert (request.system, request.stable) == (f"You help.\n\n<memory>\n\n{day_of(MIDNIGHT)}", 9)
    assert shown(on(MIDNIGHT), "").system == day_of(MIDNIGHT)


def test_a_thread_that_does_not_say_when_its_turn_began_has_no_day():
    assert shown(on(0.0)).system == "You help."


def test_all_requests_of_a_turn_have_the_same_prompt_and_nothing_is_added_to_their_messages():
    model = ScriptedModel([ToolCall("ls"), [ToolCall("ls"), ToolCall("glob", {"pattern": "*"})], "done", "again"])
    store = MemoryCheckpointer()
    agent = create_deep_agent(model, checkpointer=store)
    asyncio.run(agent.run("go", "t"))
    at = agent.get_state("t").start.at
    asyncio.run(agent.run("and again", "t"))
    assert {(request.system, request.stable) for request in model.requests} == {
        (f"{agent.spec.system}\n\n{day_of(at)}", len(agent.spec.system))
    }
    assert len({id(request.system) for request in model.requests}) == 1  # Nobody behind it compares long prompts.
    assert [[m.role for m in request.messages][-1] for request in model.requests] == ["user", "tool", "tool", "user"]


def test_the_day_is_last_also_behind_memory_and_the_static_prompt_never_has_it():
    model = ScriptedModel([ToolCall("write_file", {"file_path": "/AGENTS.md", "content": "Be brief."}), "done"])
    agent = create_deep_agent(model, memory=["/AGENTS.md"], skills=["/skills"])
    asyncio.run(agent.run("go"))
    assert re.search(r"Be brief\.\n</memory>\n\nToday is \w+, [-\d]+ \(UTC\)\.$", model.requests[1].system)
    assert "Today is" not in agent.spec.system


def test_a_subagent_is_told_the_day_on_which_it_was_begun_or_went_on():
    @tool
    def pay() -> str:
        """Pay."""
        return "paid"

    task = ToolCall("task", {"description": "Pay.", "subagent_type": "clerk"}, "t1")
    model = ScriptedModel([task, ToolCall("pay", {}, "p1"), "paid", "done"])
    clerk = Subagent(name="clerk", description="pays", interrupt_on={"pay": True})
    agent = create_deep_agent(model, [pay], subagents=[clerk], checkpointer=MemoryCheckpointer())
    asyncio.run(agent.run("go", "t"))
    assert asyncio.run(agent.resume("t", {"p1": Approve()})).text == "done"
    for request in model.requests:
        assert request.system.endswith(day_of(agent.get_state("t").start.at))


def test_the_system_is_named_by_its_name():
    names = {"linux": "Linux", "darwin": "macOS"}
    assert f"The system is {names[sys.platform]}." in EnvironmentMiddleware().prompt


def test_another_one_takes_its_place_in_the_agent_and_in_general_purpose():
    class Elsewhere(EnvironmentMiddleware):
        async def before_model(self, ctx, request):
            return request

    task = ToolCall("task", {"description": "Look.", "subagent_type": "general-purpose"})
    model = ScriptedModel([task, "seen", "done"])
    asyncio.run(create_deep_agent(model, middleware=[Elsewhere()]).run("go"))
    assert not any("Today" in request.system for request in model.requests)


def test_it_works_alone_and_before_memory():
    model, files = ScriptedModel([ToolCall("write_file", {"file_path": "/m", "content": "x"}), "done"]), StateBackend()
    middleware = [EnvironmentMiddleware(), FilesystemMiddleware(files), MemoryMiddleware(["/m"], files)]
    agent = Agent(model, middleware=middleware)
    asyncio.run(agent.run("go"))
    assert model.requests[1].system[: model.requests[1].stable] == agent.spec.system
