"""Children: their own messages and logs, pauses and cancels on every level, and what their parents see."""

import asyncio

import pytest
from harness.agents import answers, cancelled, pay, pays, ping, results, sub
from harness.middleware import AskFirst
from harness.processes import python
from harness.stores import InstrumentedStore, copy_of
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    ConfigError,
    DiskCheckpointer,
    Limits,
    MemoryCheckpointer,
    Middleware,
    Overloaded,
    Reply,
    Subagent,
    Text,
    Thinking,
    ToolCall,
    ToolContext,
    ToolMessage,
    Usage,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.events import Noted
from minideep.models import ScriptedModel


@tool
async def look(at: str) -> str:
    """Look at something."""
    return f"saw {at}"


def task(description, kind="critic", id=None):
    return ToolCall("task", {"description": description, "subagent_type": kind}, id)


def critic(*script, **more):
    return Subagent(name="critic", description="finds faults", system_prompt="You find faults.",
                    model=ScriptedModel(script), **more)  # fmt: skip


async def test_a_subagent_sees_its_own_prompt_and_nothing_of_its_parent():
    child = ScriptedModel([ToolCall("look", {"at": "it"}), "bad"])
    about = Subagent(name="critic", description="finds faults", system_prompt="You find faults.", model=child)
    parent = ScriptedModel([task("judge it"), "thanks"])
    turn = await create_deep_agent(parent, [look], "You are the boss.", subagents=[about]).run("secret plan")
    request = child.requests[0]
    assert list(request.messages) == [UserMessage("judge it")]
    assert request.system.startswith("You find faults.")
    assert "You are the boss." not in request.system
    assert "secret plan" not in repr(child.requests)
    assert "task" not in [item.name for item in request.tools]
    assert answers(turn) == ["bad"]
    assert len(turn.messages) == 4


async def test_the_history_of_a_subagent_is_stored(store):
    def agent(*script):
        child = critic(ToolCall("look", {"at": "it"}, "x1"), "bad")
        return create_deep_agent(ScriptedModel(script), [look], subagents=[child], checkpointer=store)

    await agent(task("judge it", id="t1"), "thanks").run("go", "thread")
    state = agent().get_state("thread", subagents=True)
    assert state.subagents["t1"].agent == "critic"
    assert state.subagents["t1"].status == "ended"
    assert state.subagents["t1"].messages == [
        UserMessage("judge it"),
        AssistantMessage((ToolCall("look", {"at": "it"}, "x1"),)),
        ToolMessage("saw it", "x1", "look"),
        AssistantMessage("bad"),
    ]
    assert agent().get_state("thread").subagents == {}


async def test_the_general_purpose_subagent_has_a_log_too():
    def say(request):
        if "task" in [item.name for item in request.tools]:
            return task("look", "general-purpose", "t1") if len(request.messages) == 1 else "done"
        return "looked"

    agent = create_deep_agent(ScriptedModel(say), [look])
    turn = await agent.run("go", "thread")
    assert answers(turn) == ["looked"]
    assert agent.get_state("thread", subagents=True).subagents["t1"].agent == "general-purpose"


async def test_a_checkpointer_set_after_the_agent_was_built_keeps_subagents_too(store):
    agent = create_deep_agent(ScriptedModel([task("a", id="t1"), "ok"]), subagents=[critic("bad")])
    agent.checkpointer = store
    await agent.run("go", "thread")
    reader = Agent(ScriptedModel([]), checkpointer=store)
    assert list(reader.get_state("thread", subagents=True).subagents) == ["t1"]


async def test_two_runs_of_one_subagent_know_nothing_of_each_other():
    model = ScriptedModel(["first", "second"])
    about = sub("critic", model)
    agent = create_deep_agent(ScriptedModel([task("one", id="a"), task("two", id="b"), "ok"]), subagents=[about])
    turn = await agent.run("go", "thread")
    assert [list(request.messages) for request in model.requests] == [[UserMessage("one")], [UserMessage("two")]]
    assert answers(turn) == ["first", "second"]
    tree = agent.get_state("thread", subagents=True).subagents
    assert {key: child.text for key, child in tree.items()} == {"a": "first", "b": "second"}


async def test_parallel_subagents_run_side_by_side_and_answer_in_call_order():
    gate = asyncio.Event()

    async def say(request):
        if request.messages[0].text == "last":
            gate.set()
        await gate.wait()
        return request.messages[0].text.upper()

    about = sub("critic", ScriptedModel(say))
    script = [[task(text) for text in ("one", "two", "last")], "ok"]
    turn = await create_deep_agent(ScriptedModel(script), subagents=[about]).run("go")
    assert answers(turn) == ["ONE", "TWO", "LAST"]


async def test_subagents_may_have_subagents():
    inner = Subagent(name="inner", description="deeper", model=ScriptedModel(["deep"]))
    outer = critic(task("dig", "inner", "t2"), "outer done", subagents=[inner])
    agent = create_deep_agent(ScriptedModel([task("judge", id="t1"), "ok"]), subagents=[outer])
    await agent.run("go", "thread")
    tree = agent.get_state("thread", subagents=True)
    assert tree.subagents["t1"].subagents["t2"].text == "deep"


async def test_one_call_id_in_two_runs_is_two_calls():
    child = critic(ToolCall("look", {"at": "child"}, "c1"), "bad")
    script = [ToolCall("look", {"at": "parent"}, "c1"), task("judge", id="t1"), "ok"]
    agent = create_deep_agent(ScriptedModel(script), [look], subagents=[child])
    await agent.run("go", "thread")
    state = agent.get_state("thread", subagents=True)
    assert [m.call_id for m in state.messages if isinstance(m, ToolMessage)] == ["c1", "t1"]
    assert [m.call_id for m in state.subagents["t1"].messages if isinstance(m, ToolMessage)] == ["c1"]


@pytest.mark.parametrize(
    ("script", "told", "is_error"),
    [
        (["said", ""], None, None),
        ([Overloaded("busy")], "subagent critic failed: busy.", True),
        ([""], "subagent critic ended without a word; look at its files, or ask again", True),
        (
            [ToolCall("look", {"at": "a"}), ToolCall("look", {"at": "b"}), "ok"],
            "subagent critic stopped at its limit",
            True,
        ),
    ],
)
async def test_the_result_of_a_task_says_how_the_subagent_ended(script, told, is_error):
    child = critic(*script, limits=Limits(steps=2))
    turn = await create_deep_agent(ScriptedModel([task("a"), "ok"]), [look], subagents=[child]).run("go")
    message = turn.messages[2]
    assert message.text.startswith(told or "said")
    assert message.is_error == bool(is_error)
    assert (turn.status, turn.text) == ("ended", "ok")


@pytest.mark.parametrize("verb", ["run", "run_sync"])
@pytest.mark.parametrize("fault", [Overloaded("busy"), ToolCall("burn")], ids=["its provider fails", "its tool raises"])
async def test_of_parallel_subagents_one_that_fails_costs_the_others_nothing_now_or_later(store, verb, fault):
    """Their work is done once: whatever comes next, a message or another process, it stands in the thread."""
    seen = []

    @tool
    async def look(at: str) -> str:
        """Look at something."""
        await asyncio.sleep(0.01)  # It ends after the one that fails has failed.
        seen.append(at)
        return f"saw {at}"

    @tool
    def burn() -> str:
        """Burn."""
        raise OSError("fire")

    def work(request):
        what = request.messages[0].text
        if what == "bad":
            return fault if len(request.messages) == 1 else "it burned"
        return ToolCall("look", {"at": what}) if len(request.messages) == 1 else request.messages[-1].text

    script = [[task("one", id="a"), task("bad", id="b"), task("two", id="c")], "so be it"]
    child = sub("critic", ScriptedModel(work), tools=[look, burn])
    agent = create_deep_agent(ScriptedModel(script), subagents=[child], checkpointer=store)
    turn = await agent.run("go", "t") if verb == "run" else await asyncio.to_thread(agent.run_sync, "go", "t")
    told = answers(turn)
    assert (turn.status, told[0], told[2]) == ("ended", "saw one", "saw two")
    assert told[1] in ("subagent critic failed: busy.", "it burned")
    model = ScriptedModel(["thanks"])
    await create_deep_agent(model, checkpointer=store).run("What came out?", "t")  # Another process, a new message.
    shown = [message.text for message in model.requests[0].messages if isinstance(message, ToolMessage)]
    assert (shown, sorted(seen)) == (told, ["one", "two"])


ENDS = {
    "ended": ["done"],
    "failed": [Overloaded("busy")],
    "exhausted": [ToolCall("look", {"at": "a"}), ToolCall("look", {"at": "b"})],
    "paused": [ToolCall("pay", {}, "p1")],
}


@pytest.mark.parametrize("status", ENDS)
async def test_the_run_of_a_subagent_is_listed_with_how_it_ended_and_its_history_is_kept(store, status):
    child = critic(*ENDS[status], limits=Limits(steps=2), interrupt_on={"pay": True}, tools=[look, pay])
    agent = create_deep_agent(ScriptedModel([task("judge it", id="t1"), "ok"]), subagents=[child], checkpointer=store)
    turn = await agent.run("go", "t")
    (run,) = Agent("offline:", checkpointer=store).runs("t")
    assert (run.agent, run.call_id, run.path, run.status) == ("critic", "t1", ("t1",), status)
    assert run.steps == len(ENDS[status]) - (status == "failed")
    assert run.updated >= run.created > 0
    assert run.bytes_stored > 0
    assert agent.transcript("t", run.call_id)[0].text == "judge it"
    assert turn.messages[1].calls[0].id == run.call_id  # So an interface can open it from the parent's call.


async def test_the_run_of_a_subagent_that_a_kill_cut_short_is_listed_as_running_and_its_history_is_kept():
    copies, store = [], MemoryCheckpointer()

    @tool
    async def keep() -> str:
        """Keep what a kill would leave."""
        copies.append(copy_of(store))
        return "kept"

    def agent(store):
        child = critic(ToolCall("keep"), "done", tools=[keep])
        script = ScriptedModel([task("judge it", id="t1"), "ok"])
        return create_deep_agent(script, subagents=[child], checkpointer=store, durability="tool")

    await agent(store).run("go", "t")
    reader = agent(copies[0])
    assert (await reader.status("t")).status == "interrupted"
    assert [(run.call_id, run.status, run.steps) for run in reader.runs("t")] == [("t1", "running", 1)]
    assert reader.transcript("t", "t1")[0].text == "judge it"


async def test_the_answer_of_a_subagent_is_its_last_text_that_is_not_empty():
    class Nudge(Middleware):
        async def before_finish(self, ctx):
            return UserMessage("go on") if len(ctx.state.messages) < 4 else None

    about = Subagent(name="critic", description="", model=ScriptedModel(["the answer", ""]), middleware=[Nudge()])
    turn = await create_deep_agent(ScriptedModel([task("a"), "ok"]), subagents=[about]).run("go")
    assert answers(turn) == ["the answer"]


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (task("a", "nobody"), 'task: subagent_type must be "critic" | "general-purpose", not \'nobody\'; it takes'),
        (
            task("a", "critik"),
            "task: subagent_type must be \"critic\" | \"general-purpose\", not 'critik'; did you mean 'critic'?",
        ),
        (task(" "), "the description is empty"),
        (
            ToolCall("task", {"description": "a", "model": "b", "subagent_type": "critic"}),
            "task: it takes no 'model'; it takes description (string), subagent_type (\"critic\" | ",
        ),
    ],
)
async def test_a_wrong_call_of_task_is_answered_with_what_would_be_right(call, told):
    turn = await create_deep_agent(ScriptedModel([call, "ok"]), subagents=[critic()]).run("go")
    assert answers(turn)[0].startswith(told)


async def test_a_subagent_gets_the_notes_that_it_shares_by_name():
    class Plan(Middleware):
        async def before_model(self, ctx, request):
            if not ctx.path and "Plan" not in ctx.state.notes:
                ctx.record(Noted("Plan", "goal", "win"))
                ctx.record(Noted("Other", "secret", 1))
            return request

    agent = create_deep_agent(
        ScriptedModel([task("a", id="t1"), "ok"]), subagents=[critic("bad", share=["Plan"])], middleware=[Plan()]
    )
    await agent.run("go", "thread")
    assert agent.get_state("thread", subagents=True).subagents["t1"].notes == {"Plan": {"goal": "win"}}


@pytest.mark.parametrize("shared", ["messages", "todos"])
def test_messages_and_todos_are_never_shared(shared):
    with pytest.raises(ConfigError, match=f"subagent 'critic' shares '{shared}'"):
        create_deep_agent(ScriptedModel([]), subagents=[critic(share=[shared])])


def test_two_subagents_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two subagents are named 'critic'"):
        create_deep_agent(ScriptedModel([]), subagents=[critic(), critic()])


async def test_files_belong_to_the_thread_and_todos_to_the_run():
    todos = ToolCall("write_todos", {"todos": [{"content": "mine", "status": "pending"}]})
    child = critic([ToolCall("write_file", {"file_path": "/a", "content": "child"}), todos], "wrote")
    agent = create_deep_agent(
        ScriptedModel([task("write", id="t1"), ToolCall("read_file", {"file_path": "/a"}), "ok"]), subagents=[child]
    )
    turn = await agent.run("go", "thread")
    assert "child" in answers(turn)[1]
    state = agent.get_state("thread", subagents=True)
    assert (state.files["/a"].content, state.files["/a"].by) == ("child", ("t1",))
    assert (state.todos, [todo.content for todo in state.subagents["t1"].todos]) == ([], ["mine"])
    assert list(turn.artifacts) == ["/a"]


# ---- ctx.run


async def test_one_call_may_run_several_children_by_key():
    helper = Agent(ScriptedModel(lambda request: request.messages[0].text * 2), name="helper")

    @tool
    async def both(ctx: ToolContext) -> str:
        turns = await asyncio.gather(ctx.run(helper, "a", "left"), ctx.run(helper, "b", "right"))
        return "".join(turn.text for turn in turns)

    agent = Agent(ScriptedModel([ToolCall("both", {}, "c"), "ok"]), [both])
    turn = await agent.run("go", "t")
    assert answers(turn) == ["aabb"]
    assert sorted(agent.get_state("t", subagents=True).subagents) == ["c/left", "c/right"]


async def test_a_second_child_without_a_key_of_its_own_is_refused(caplog):
    helper = Agent(ScriptedModel(["one", "two"]), name="helper")

    @tool
    async def twice(ctx: ToolContext) -> str:
        await ctx.run(helper, "a")
        return (await ctx.run(helper, "b")).text

    turn = await Agent(ScriptedModel([ToolCall("twice", {}, "c"), "ok"]), [twice]).run("go")
    assert "already runs a child under key None" in answers(turn)[0]


async def in_group(ctx, one, two):
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(ctx.run(one, "a", "x")), group.create_task(ctx.run(two, "b", "y"))]
    return " ".join(task.result().text for task in tasks)


async def test_an_approved_call_that_was_killed_below_a_child_begins_again_and_nobody_is_asked_twice():
    store, copies = InstrumentedStore(), []

    def answer(request):
        copies.append(copy_of(store))  # What a kill at this moment would leave.
        return "found"

    helper = Agent(ScriptedModel(answer), name="helper")

    @tool
    async def ask(ctx: ToolContext) -> str:
        return (await ctx.run(helper, "look")).text

    def agent(kept, *script):
        return Agent(ScriptedModel(script), [ask], middleware=[AskFirst("ask")], checkpointer=kept, durability="step")

    await agent(store, ToolCall("ask", {}, "a")).run("go", "t")
    turn = await agent(store, "done").resume("t", {"a": Approve()})
    assert (turn.status, turn.text) == ("ended", "done")
    again = await agent(copies[0], "done, after a kill").resume("t")
    assert (again.status, again.text, answers(again)) == ("ended", "done, after a kill", ["found"])


async def test_a_call_waits_for_the_questions_of_all_its_children_also_of_those_that_ask_later():
    async def late(request):
        await asyncio.sleep(0.05)
        return ToolCall("pay", {}, "late")

    first, second = (
        Agent(ScriptedModel(script), [pay], middleware=[AskFirst()], name="helper")
        for script in ([ToolCall("pay", {}, "soon")], late)
    )

    @tool
    async def both(ctx: ToolContext) -> str:
        await asyncio.gather(ctx.run(first, "a", "x"), ctx.run(second, "b", "y"))
        return ""

    turn = await Agent(ScriptedModel([ToolCall("both", {}, "b")]), [both]).run("go", "t")
    assert [wait.call_id for wait in turn.interrupts] == ["soon", "late"]


async def in_gather(ctx, one, two):
    return " ".join(turn.text for turn in await asyncio.gather(ctx.run(one, "a", "x"), ctx.run(two, "b", "y")))


async def caught(ctx, one, two):
    try:
        return f"{(await ctx.run(one, 'a', 'x')).text} {(await ctx.run(two, 'b', 'y')).text}"
    except BaseException:
        return "caught"


@pytest.mark.parametrize("how", [in_group, in_gather, caught])
async def test_however_a_tool_runs_children_every_question_is_asked_and_nothing_runs_twice(how):
    done = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        done.append(amount)
        return "paid"

    @tool
    async def work() -> str:
        """Work."""
        await asyncio.sleep(0.01)
        done.append("work")
        return "worked"

    def say(name):
        def reply(request):
            said = sum(message.role == "assistant" for message in request.messages)
            return [[ToolCall("work"), ToolCall("pay", {"amount": name})], f"{name} done"][said]

        return reply

    one, two = (Agent(ScriptedModel(say(n)), [pay, work], middleware=[AskFirst("pay")], name=f"{n}") for n in (1, 2))

    @tool
    async def both(ctx: ToolContext) -> str:
        """Have both done."""
        return await how(ctx, one, two)

    def lead(request):
        return "all done" if len(request.messages) > 1 else ToolCall("both", {}, "c")

    agent = Agent(ScriptedModel(lead), [both])
    turn = await agent.run("go", "t")
    for _ in range(4):
        if turn.status != "paused":
            break
        turn = await agent.resume("t", {"/".join((*w.path, w.call_id)): Approve() for w in turn.interrupts})
    assert (turn.status, turn.text) == ("ended", "all done")
    assert sorted(item for item in done if item != "work") == [1, 2]
    if how is not in_group:  # A TaskGroup cancels the sibling, in the middle of its work.
        assert done.count("work") == 2


async def test_a_child_that_ended_is_not_run_again_when_its_sibling_goes_on():
    asked = []

    def spend(request):
        asked.append(1)
        return ToolCall("ping")

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    spender = Agent(ScriptedModel(spend), [ping], limits=Limits(steps=2), name="spender")
    payer = Agent(ScriptedModel(lambda r: "paid" if len(r.messages) > 1 else ToolCall("pay", {"amount": 1}, "p")),
                  [pay], middleware=[AskFirst("pay")], name="payer")  # fmt: skip

    @tool
    async def both(ctx: ToolContext) -> str:
        """Have both done."""
        return f"{(await ctx.run(spender, 'a', 'x')).status} {(await ctx.run(payer, 'b', 'y')).text}"

    agent = Agent(ScriptedModel([ToolCall("both"), "ok"]), [both])
    await agent.run("go", "t")
    turn = await agent.resume("t", {"p": Approve()})
    assert (results(turn)[0].text, len(asked)) == ("exhausted paid", 2)


async def test_the_key_of_a_child_must_be_text_that_can_be_stored(caplog):
    helper = Agent(ScriptedModel(["one"]), name="helper")

    @tool
    async def odd(ctx: ToolContext) -> str:
        """Run."""
        return (await ctx.run(helper, "x", key="f\udc80")).text

    agent = Agent(ScriptedModel([ToolCall("odd"), "ok"]), [odd])
    turn = await agent.run("go", "t")
    assert "holds characters that UTF-8 cannot encode" in results(turn)[0].text
    assert turn.saved


async def test_the_artifacts_of_a_child_are_its_own():
    found = []
    child = Agent(ScriptedModel(["nothing written"]), name="child")

    @tool
    async def delegate(ctx: ToolContext) -> str:
        """Delegate."""
        found.append((await ctx.run(child, "x")).artifacts)
        return "ok"

    write = ToolCall("write_file", {"file_path": "/a", "content": "x"})
    await create_deep_agent(ScriptedModel([write, ToolCall("delegate"), "ok"]), [delegate]).run("go")
    assert found == [{}]


# ---- pauses


async def test_a_broad_except_in_a_tool_does_not_swallow_a_pause():
    waiter = Agent(ScriptedModel(pays), [pay], middleware=[AskFirst()])

    @tool
    async def careless(ctx: ToolContext) -> str:
        try:
            return (await ctx.run(waiter, "pay")).text
        except Exception:
            return "swallowed"

    agent = Agent(ScriptedModel([ToolCall("careless", {}, "c"), "done"]), [careless])
    assert (await agent.run("go", "t")).status == "paused"
    turn = await agent.resume("t", {"p": Approve()})
    assert answers(turn) == ["done"]


async def test_a_child_that_was_begun_with_another_input_is_refused(store, caplog):
    inputs = iter(["pay", "steal"])

    @tool(name="pay")
    async def never() -> str:
        raise AssertionError("it was run")

    waiter = Agent(ScriptedModel(pays), [never], middleware=[AskFirst()], name="w")

    @tool
    async def fickle(ctx: ToolContext) -> str:
        return (await ctx.run(waiter, next(inputs))).text

    agent = Agent(ScriptedModel([ToolCall("fickle", {}, "c"), "done"]), [fickle], checkpointer=store)
    await agent.run("go", "t")
    turn = await agent.resume("t", {"p": Approve()})
    assert "was begun by agent 'w' or with another input" in answers(turn)[0]


async def test_a_child_that_its_key_alone_identifies_goes_on_with_the_input_that_it_began_with(store):
    inputs = iter(["pay on Monday", "pay on Tuesday"])
    waiter = Agent(ScriptedModel(pays), [pay], middleware=[AskFirst()], name="w")
    waiter.spec = structs.replace(waiter.spec, keyed=True)

    @tool
    async def dated(ctx: ToolContext) -> str:
        return (await ctx.run(waiter, next(inputs))).text

    agent = Agent(ScriptedModel([ToolCall("dated", {}, "c"), "done"]), [dated], checkpointer=store)
    await agent.run("go", "t")
    turn = await agent.resume("t", {"p": Approve()})
    assert answers(turn) == ["done"]
    assert agent.transcript("t", "c")[0].text == "pay on Monday"


async def test_cancelling_records_every_level_and_resume_goes_on_with_the_child():
    started, runs = asyncio.Event(), []

    @tool
    async def slow() -> str:
        runs.append(1)
        started.set()
        if len(runs) == 1:
            await asyncio.sleep(60)
        return "slow"

    child = sub("critic", ScriptedModel([ToolCall("slow", {}, "s"), "bad"]), tools=[slow])
    agent = create_deep_agent(ScriptedModel([task("a", id="t1"), "ok"]), subagents=[child])
    await cancelled(agent, started)
    state = agent.get_state("t", subagents=True)
    assert (state.status, state.subagents["t1"].status) == ("cancelled", "cancelled")
    turn = await agent.resume("t")
    assert (turn.status, answers(turn), len(runs)) == ("ended", ["bad"], 2)
    assert next(m.text for m in agent.get_state("t", subagents=True).subagents["t1"].messages) == "a"


async def test_a_new_message_after_a_cancel_leaves_the_old_child_alone():
    started = asyncio.Event()

    @tool
    async def slow() -> str:
        started.set()
        await asyncio.sleep(60)
        return ""

    child = sub("critic", ScriptedModel([ToolCall("slow", {}, "s"), "bad"]), tools=[slow])
    agent = create_deep_agent(ScriptedModel([task("a", id="t1"), "fine"]), subagents=[child])
    await cancelled(agent, started)
    turn = await agent.run("never mind", "t")
    assert (turn.status, turn.text) == ("ended", "fine")
    assert agent.get_state("t", subagents=True).subagents["t1"].status == "cancelled"


async def test_the_events_of_a_child_have_its_path_and_its_todos_are_its_own():
    todos = ToolCall("write_todos", {"todos": [{"content": "mine"}]})
    agent = create_deep_agent(ScriptedModel([task("a", id="t1"), "ok"]), subagents=[critic(todos, "bad")])
    paths = {}
    async for event in agent.stream("go"):
        paths.setdefault(type(event).__name__, set()).add(event.path)
    assert paths["TodosWritten"] == {("t1",)}
    assert paths["TurnEnded"] == {(), ("t1",)}
    assert paths["ToolStarted"] == {(), ("t1",)}


async def test_the_ledger_of_a_turn_counts_its_subagents():
    agent = create_deep_agent(
        ScriptedModel([task("a"), "ok"]), [look], subagents=[critic(ToolCall("look", {"at": "x"}), "bad")]
    )
    costs = (await agent.run("go")).costs
    assert (costs.steps, costs.tool_calls, costs.tool_chars) == (4, 2, len("saw x") + len("bad"))


async def test_a_parent_grows_only_by_the_answer_of_its_subagent():
    child = critic(*([ToolCall("look", {"at": "x" * 5000})] * 40), "short")
    agent = create_deep_agent(ScriptedModel([task("a", id="t1"), "ok"]), [look], subagents=[child])
    turn = await agent.run("go", "t")
    assert sum(len(message.text) for message in turn.messages) < 50
    spent = agent.get_state("t", subagents=True).subagents["t1"]
    assert sum(len(message.text) for message in spent.messages) > 200_000
    assert sum(len(message.text) for message in agent.get_state("t").messages) < 50


# ---- a history of its own


async def test_all_messages_of_a_subagent_are_kept_and_its_parent_gets_one(store):
    seen = ToolCall("look", {"at": "it"}, "x1")
    again = ToolCall("look", {"at": "that"}, "x2")
    first = AssistantMessage((Thinking("hm", "anthropic", b"{}"), Text("I look twice"), seen, again))
    agent = create_deep_agent(
        ScriptedModel([task("judge it", id="t1"), "thanks"]),
        [look],
        subagents=[critic(first, "bad")],
        checkpointer=store,
    )
    await agent.run("go", "t")
    state = Agent(ScriptedModel([]), checkpointer=store).get_state("t", subagents=True)
    assert state.messages == [
        UserMessage("go"),
        AssistantMessage((task("judge it", id="t1"),)),
        ToolMessage("bad", "t1", "task"),
        AssistantMessage("thanks"),
    ]
    assert state.subagents["t1"].messages == [
        UserMessage("judge it"),
        first,
        ToolMessage("saw it", "x1", "look"),
        ToolMessage("saw that", "x2", "look"),
        AssistantMessage("bad"),
    ]


async def test_each_turn_is_kept_in_the_store_that_the_agent_has_then(tmp_path):
    agent = create_deep_agent(ScriptedModel([task("a", id="t1"), "ok"] * 2), subagents=[critic("one", "two")])
    found = []
    for name in ("first", "second"):
        with DiskCheckpointer(tmp_path / name) as store:
            agent.checkpointer = store
            await agent.run("go", "t")
            found.append(agent.get_state("t", subagents=True).subagents["t1"].text)
    assert found == ["one", "two"]


async def test_a_later_turn_begins_a_new_run_of_the_subagent_and_keeps_the_old_one(store):
    model = ScriptedModel(["first", "second"])
    about = sub("critic", model)
    script = [task("one", id="a"), "ok", task("two", id="b"), "ok"]
    agent = create_deep_agent(ScriptedModel(script), subagents=[about], checkpointer=store)
    await agent.run("go", "t")
    await agent.run("again", "t")
    assert list(model.requests[1].messages) == [UserMessage("two")]
    tree = agent.get_state("t", subagents=True).subagents
    assert {key: (child.agent, child.status, child.text) for key, child in tree.items()} == {
        "a": ("critic", "ended", "first"),
        "b": ("critic", "ended", "second"),
    }


async def test_parallel_runs_of_one_subagent_have_histories_of_their_own():
    about = Subagent(name="critic", description="", model=ScriptedModel(lambda r: f"did {r.messages[0].text}"))
    agent = create_deep_agent(ScriptedModel([[task("a", id="1"), task("b", id="2")], "ok"]), subagents=[about])
    await agent.run("go", "t")
    tree = agent.get_state("t", subagents=True).subagents
    assert {key: [message.text for message in child.messages] for key, child in tree.items()} == {
        "1": ["a", "did a"],
        "2": ["b", "did b"],
    }


def test_another_process_reads_what_a_subagent_did_and_goes_on_with_the_thread(tmp_path):
    with DiskCheckpointer(tmp_path) as store:
        child = critic(ToolCall("look", {"at": "it"}, "x1"), "bad")
        agent = create_deep_agent(ScriptedModel([task("judge it", id="t1"), "thanks"]), [look], subagents=[child],
                                  checkpointer=store)  # fmt: skip
        agent.run_sync("go", "t")
    code = """
        import sys
        from minideep import DiskCheckpointer, create_deep_agent
        from minideep.models import ScriptedModel

        with DiskCheckpointer(sys.argv[1]) as store:
            agent = create_deep_agent(ScriptedModel(["and bye"]), checkpointer=store)
            child = agent.get_state("t", subagents=True).subagents["t1"]
            print(child.agent, child.status, [(m.role, m.text) for m in child.messages])
            print(agent.run_sync("more", "t").text, list(agent.get_state("t", subagents=True).subagents))
    """
    said = [("user", "judge it"), ("assistant", ""), ("tool", "saw it"), ("assistant", "bad")]
    assert python(code, tmp_path) == f"critic ended {said}\nand bye ['t1']\n"


async def test_a_nested_subagent_inherits_what_it_does_not_set():
    tools = []

    def say(request):
        tools.append([item.name for item in request.tools])
        if request.messages[0].text == "dig":
            return "deep"
        return task("dig", "inner", "t2") if len(request.messages) == 1 else "done"

    inner = Subagent(name="inner", description="deeper")
    outer = Subagent(name="outer", description="", model=ScriptedModel(say), tools=[], subagents=[inner])
    agent = create_deep_agent(ScriptedModel([task("judge", "outer", "t1"), "ok"]), [look], subagents=[outer])
    assert answers(await agent.run("go", "t")) == ["done"]
    assert ["task" in names for names in tools] == [True, False, True]
    assert not any("look" in names for names in tools)


# ---- budgets of runs above


def paid(*script):
    """A script whose replies take 100 tokens each."""
    replies = [AssistantMessage((item,)) if isinstance(item, ToolCall) else AssistantMessage(item) for item in script]
    return ScriptedModel([Reply(reply, Usage(90, 10), cost=0.01) for reply in replies])


@pytest.mark.parametrize("durability", ["turn", "tool"])
async def test_subagents_that_the_budget_of_the_main_agent_stops_go_on_when_it_is_resumed(durability, tmp_path):
    seen = []

    @tool
    async def read(page: int) -> str:
        """Read a page."""
        seen.append(page)
        return f"page {page}"

    def office(boss, one, two):
        kinds = [Subagent(name=name, description="reads", model=model) for name, model in (("one", one), ("two", two))]
        return create_deep_agent(boss, [read], subagents=kinds, limits=Limits(tokens=350), durability=durability,
                                 checkpointer=store)  # fmt: skip

    with DiskCheckpointer(tmp_path) as store:
        both = Reply(AssistantMessage((task("a", "one", "t1"), task("b", "two", "t2"))), Usage(90, 10), cost=0.01)
        one = paid(*[ToolCall("read", {"page": page}) for page in range(9)])
        agent = office(ScriptedModel([both]), one, paid(ToolCall("read", {"page": 7}), ToolCall("read", {"page": 8})))
        turn = await agent.run("Read.", "t")
        assert (turn.status, turn.reason) == ("exhausted", "tokens")
        assert {run.status for run in agent.runs("t")} == {"exhausted"}
        before = list(seen)
        assert len(before) == 3

        # In another process: what was read is not read again, and neither subagent is lost.
        agent = office(paid("all read"), paid("one has read"), paid("two has read"))
        turn = await agent.resume("t")
        assert (turn.status, turn.text, answers(turn)) == ("ended", "all read", ["one has read", "two has read"])
        assert seen == before
        assert {run.status for run in agent.runs("t")} == {"ended"}


async def test_a_run_that_stopped_two_levels_below_the_budget_goes_on_and_no_tool_swallows_that():
    inner = Agent(paid(ToolCall("look", {"at": "it"}, "l1"), "deep"), [look], name="inner")

    @tool
    async def dig(ctx: ToolContext) -> str:
        """Dig."""
        try:
            return (await ctx.run(inner, "dig")).text
        except BaseException:
            return "swallowed"

    outer = Agent(paid(ToolCall("dig", {}, "d1"), "dug"), [dig], name="outer")

    @tool
    async def hand_on(ctx: ToolContext) -> str:
        """Hand on."""
        return (await ctx.run(outer, "dig")).text

    agent = Agent(paid(ToolCall("hand_on", {}, "h1"), "done"), [hand_on], limits=Limits(tokens=300))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason, agent.get_state("t").messages[-1].text) == ("exhausted", "tokens", "")
    assert [(run.path, run.status) for run in agent.runs("t")] == [
        (("h1",), "exhausted"),
        (("h1", "d1"), "exhausted"),
    ]
    turn = await agent.resume("t")
    assert (turn.status, turn.text, answers(turn)) == ("ended", "done", ["dug"])
    assert [message.text for message in agent.transcript("t", ("h1", "d1"))] == ["dig", "", "saw it", "deep"]


async def test_a_subagent_that_reaches_a_limit_of_its_own_is_over_and_its_caller_reads_so():
    child = critic(ToolCall("look", {"at": "it"}), limits=Limits(steps=1))
    agent = create_deep_agent(ScriptedModel([task("judge"), "so"]), [look], subagents=[child], limits=Limits(tokens=9))
    turn = await agent.run("go")
    assert (turn.status, answers(turn)) == ("ended", ["subagent critic stopped at its limit of steps."])


async def test_a_new_message_closes_the_calls_that_a_spent_budget_left_open():
    kinds = [Subagent(name="critic", description="reads", model=paid(ToolCall("look", {"at": "it"}), "never said"))]
    boss = ScriptedModel([Reply(AssistantMessage((task("a", id="t1"),)), Usage(90, 10)), "fine"])
    agent = create_deep_agent(boss, [look], subagents=kinds, limits=Limits(tokens=200))
    assert (await agent.run("go", "t")).reason == "tokens"
    turn = await agent.run("Leave it.", "t")
    assert (turn.status, turn.text) == ("ended", "fine")
    assert [message.text for message in agent.transcript("t") if message.role == "tool"] == [
        "this call did not complete: the turn went on without its result"
    ]
