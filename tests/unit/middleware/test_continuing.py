"""Persistent subagents, which go on by id, and subagents that were built before."""

import pytest
from harness.agents import answers, pay, results, sub, task, texts
from harness.middleware import AskFirst

from minideep import (
    Agent,
    Approve,
    ConfigError,
    Limits,
    MemoryCheckpointer,
    Subagent,
    ToolCall,
    create_deep_agent,
    tool,
)
from minideep.blueprint import Blueprint
from minideep.models import ScriptedModel


def again(id, kind="worker", description="and more", call=None):
    return ToolCall("task", {"description": description, "subagent_type": kind, "id": id}, call)


class Worker:
    """The model of a persistent subagent, which says how many messages it has read."""

    def __init__(self):
        self.read = []
        self.model = ScriptedModel(self._reply)

    def _reply(self, request):
        self.read.append(texts(request.messages))
        return f"read {len(request.messages)}"

    def of(self, script, *, tools=(), checkpointer=None, **more):
        worker = sub("worker", self.model, persistent=True, **more)
        model = ScriptedModel(script)
        return create_deep_agent(model, tools, subagents=[worker], checkpointer=checkpointer or MemoryCheckpointer())


async def test_a_persistent_subagent_goes_on_by_id_and_starts_fresh_without(store):
    worker = Worker()
    script = [task("worker", "c1", "first"), again("c1", call="c2"), task("worker", "c3", "other"), again("c1"), "ok"]
    agent = worker.of(script, checkpointer=store)
    turn = await agent.run("go", "t")
    assert answers(turn) == ["read 1\n\n[id: c1]", "read 3\n\n[id: c1]", "read 1\n\n[id: c3]", "read 5\n\n[id: c1]"]
    assert worker.read[2] == ["other"]
    assert worker.read[3] == ["first", "read 1", "and more", "read 3", "and more"]


async def test_it_goes_on_in_a_later_turn_and_in_another_process():
    worker, store = Worker(), MemoryCheckpointer()
    await worker.of([task("worker", "c1", "first"), "ok"], checkpointer=store).run("go", "t")
    turn = await worker.of([again("c1"), "ok"], checkpointer=store).run("go on", "t")
    assert answers(turn) == ["read 3\n\n[id: c1]"]
    assert worker.read[1] == ["first", "read 1", "and more"]


async def test_two_calls_of_one_reply_cannot_go_on_with_one_subagent():
    worker = Worker()
    agent = worker.of([task("worker", "c1"), [again("c1", call="c2"), again("c1", call="c3")], "ok"])
    first, second, third = results(await agent.run("go", "t"))
    assert [first.is_error, second.is_error, third.is_error] == [False, False, True]
    assert "another call of this reply goes on with 'c1'" in third.text
    assert len(worker.read) == 2


async def test_an_unknown_id_and_one_of_another_kind_are_refused():
    worker = Worker()
    other = sub("other", ScriptedModel([]), persistent=True)
    plain = sub("plain", ScriptedModel([]))
    model = ScriptedModel([task("worker", "c1"), [again("zz"), again("c1", "other"), again("c1", "plain")], "ok"])
    agent = create_deep_agent(model, subagents=[sub("worker", worker.model, persistent=True), other, plain])
    _, unknown, *wrong = answers(await agent.run("go", "t"))
    assert unknown == "no worker has the id 'zz', which nobody has; to begin a new one, leave `id` out"
    assert ["which is a worker" in answer for answer in wrong] == [True, True]


async def test_an_id_that_is_gone_on_with_may_pause_and_nothing_of_it_runs_twice(store):
    paid = []

    @tool
    async def buy() -> str:
        """Buy."""
        paid.append(1)
        return "bought"

    replies = iter(["looked", ToolCall("buy", {}, "p"), "done", "more"])
    seen = []
    model = ScriptedModel(lambda request: (seen.append(texts(request.messages)), next(replies))[1])
    worker = sub("worker", model, persistent=True, tools=[buy], middleware=[AskFirst("buy")])
    boss = ScriptedModel([task("worker", "c1", "look"), again("c1", call="c2"), again("c1"), "ok"])
    agent = create_deep_agent(boss, subagents=[worker], checkpointer=store)
    turn = await agent.run("go", "t")
    assert turn.status == "paused"
    turn = await agent.resume("t", {"p": Approve()})
    assert answers(turn)[-1] == "more\n\n[id: c1]"
    assert seen[-1] == ["look", "looked", "and more", "", "bought", "done", "and more"]
    assert paid == [1]


async def test_the_tool_says_of_ids_only_if_a_subagent_is_persistent():
    fresh = create_deep_agent(ScriptedModel([]), subagents=[sub("worker", ScriptedModel([]))]).spec.tools["task"]
    lasting = Worker().of([]).spec.tools["task"]
    assert "id" not in fresh.schema["properties"]
    assert "id" in lasting.schema["properties"]
    assert "id" not in lasting.schema["required"]
    assert "with the `id` at the end of an earlier answer that subagent goes on" in lasting.description
    assert "Each call starts a new subagent" in fresh.description
    assert "Each call starts a new subagent" not in lasting.description


# ---- an agent that was built before


async def test_an_agent_is_a_subagent_under_the_name_that_it_is_given(store):
    given = Agent(ScriptedModel(["I am here."]), system_prompt="Be brief.", name="elsewhere")
    about = Subagent(name="brief", description="is brief", agent=given)
    agent = create_deep_agent(ScriptedModel([task("brief", "c1"), "ok"]), subagents=[about], checkpointer=store)
    assert answers(await agent.run("go", "t")) == ["I am here."]
    assert [(run.agent, run.path) for run in agent.runs("t")] == [("brief", ("c1",))]
    assert given.threads() == []


async def test_the_dict_of_a_compiled_subagent_is_taken():
    given = Agent(ScriptedModel(["I am here."]))
    about = {"name": "brief", "description": "is brief", "runnable": given, "mode": "isolated"}
    agent = create_deep_agent(ScriptedModel([task("brief"), "ok"]), subagents=[about])
    assert answers(await agent.run("go")) == ["I am here."]


async def test_a_given_agent_is_held_by_guards_budgets_and_approvals_of_its_parent():
    given = Agent(ScriptedModel([ToolCall("pay", {}, "p"), "paid it"]), [pay])
    about = Subagent(name="brief", description="is brief", agent=given)
    agent = create_deep_agent(ScriptedModel([task("brief"), "ok"]), subagents=[about], interrupt_on={"pay": True})
    turn = await agent.run("go", "t")
    assert [wait.call_id for wait in turn.interrupts] == ["p"]
    assert answers(await agent.resume("t", {"p": Approve()}))[-1] == "paid it"

    class Dear:
        name = "dear"

        async def complete(self, request, emit): ...

    with pytest.raises(ConfigError, match="model 'dear' has no price"):
        create_deep_agent(
            ScriptedModel([]),
            subagents=[Subagent(name="brief", description="is brief", agent=Agent(Dear()))],
            limits=Limits(cost=1.0),
        )


async def test_a_given_deep_agent_keeps_its_own_subagents():
    inner = create_deep_agent(ScriptedModel([task("helper"), "built"]), subagents=[sub("helper", ScriptedModel(["h"]))])
    about = Subagent(name="builder", description="builds", agent=inner)
    agent = create_deep_agent(ScriptedModel([task("builder", "c1"), "ok"]), subagents=[about])
    assert answers(await agent.run("go", "t")) == ["built"]
    assert [run.agent for run in agent.runs("t")] == ["builder", "helper"]


async def test_a_blueprint_is_a_subagent_too():
    about = Subagent(name="team", description="works in a team", agent=Blueprint("offline:"))
    agent = create_deep_agent(ScriptedModel([task("team"), "ok"]), subagents=[about])
    await agent.run("go", "t")
    assert [run.agent for run in agent.runs("t")] == ["team", "planner", "research-specialist", "reflection"]


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"agent": 3}, "agent must be None or an `Agent`, not 3"),
        ({"agent": Agent("offline:"), "model": "offline:"}, "has both agent= and model=; build it into the agent"),
        ({"agent": Agent("offline:"), "fork": True}, "has both agent= and fork="),
        ({"fork": True, "system_prompt": "x"}, "has both fork= and system_prompt="),
        ({"fork": True, "background": True}, "has both fork= and background="),
        ({"background": True, "persistent": True}, "is both background and persistent"),
    ],
)
def test_fields_that_contradict_each_other_are_refused(fields, told):
    with pytest.raises(ConfigError, match=told):
        Subagent(name="worker", description="works", **fields)
