"""`Agent.with_options`: other limits, another model, tags, and decisions where nobody attends."""

import asyncio

import pytest

from minideep import (
    Agent,
    Approve,
    ConfigError,
    DiskCheckpointer,
    Interrupt,
    Limits,
    MemoryCheckpointer,
    Middleware,
    Reject,
    Respond,
    Subagent,
    ToolCall,
    ToolContext,
    create_deep_agent,
    tool,
)
from minideep.blueprint import Blueprint
from minideep.events import Noted
from minideep.models import ScriptedModel
from minideep.testing import recorded


class AskFirst(Middleware):
    def __init__(self, *decisions):
        self.decisions = decisions

    async def before_tool(self, ctx, call):
        return Interrupt(call, "sure?", decisions=self.decisions) if ctx.decision is None else call


class AskForEver(Middleware):
    async def before_tool(self, ctx, call):
        return Interrupt(call, "sure?")


def paying(paid):
    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    return pay


def payer(paid, *middleware, store=None):
    script = ScriptedModel([ToolCall("pay", {"amount": 5}, "p"), "done"])
    return Agent(script, [paying(paid)], middleware=middleware, checkpointer=store)


def test_limits_of_some_turns_leave_those_of_the_agent():
    agent = Agent(ScriptedModel([ToolCall("pay", {"amount": 1}), ToolCall("pay", {"amount": 2}), "done"]), [paying([])])
    turn = agent.with_options(limits=Limits(steps=1)).run_sync("go", "t")
    assert (turn.status, turn.reason) == ("exhausted", "steps")
    assert agent.resume_sync("t").status == "ended"


def test_one_step_at_a_time_is_a_pause_before_each_question_to_the_model():
    paid = []
    agent = Agent(
        ScriptedModel([ToolCall("pay", {"amount": 1}), ToolCall("pay", {"amount": 2}), "done"]), [paying(paid)]
    )
    stepping = agent.with_options(limits=Limits(steps=1))
    turns = [stepping.run_sync("go", "t"), stepping.resume_sync("t"), stepping.resume_sync("t")]
    assert [turn.status for turn in turns] == ["exhausted", "exhausted", "ended"]
    assert paid == [1, 2]


def test_a_hook_pauses_the_turn_with_a_question_before_the_model_is_asked():
    from minideep.events import TurnEscalated

    class AskBeforeModel(Middleware):
        async def before_model(self, ctx, request):
            if ctx.state.step == 1 and "go on" not in ctx.state.said.text:
                ctx.record(TurnEscalated(0.0, "Shall I go on?"))
            return request

    model = ScriptedModel([ToolCall("pay", {"amount": 1}), "done"])
    agent = Agent(model, [paying([])], middleware=[AskBeforeModel()])
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.question, len(model.requests)) == ("escalated", "Shall I go on?", 1)
    assert agent.run_sync("yes, go on", "t").text == "done"


def test_another_model_answers_some_turns_with_the_same_threads_and_tools():
    agent = Agent(ScriptedModel(["first"]), [paying([])])
    agent.run_sync("hi", "t")
    other = ScriptedModel(["second"])
    turn = agent.with_options(model=other).run_sync("hi again", "t")
    assert turn.text == "second"
    assert [one.name for one in other.requests[0].tools] == ["pay"]
    assert len(agent.get_state("t").messages) == 4


def test_a_model_without_a_price_is_refused_under_a_budget_of_cost():
    agent = Agent(ScriptedModel(["hi"]), limits=Limits(cost=1.0))
    free = type("Unpriced", (), {"name": "unpriced", "complete": ScriptedModel.complete})()
    with pytest.raises(ConfigError, match="has no price"):
        agent.with_options(model=free)


def test_tags_are_noted_with_a_turn_and_find_its_thread(tmp_path):
    store = DiskCheckpointer(tmp_path / "s")
    agent = Agent(ScriptedModel(["ok"] * 4), checkpointer=store)
    agent.with_options(tags={"user": "ann", "plan": "free"}).run_sync("hi", "a/1")
    agent.with_options(tags={"user": "bob"}).run_sync("hi", "a/2")
    agent.run_sync("hi", "b/1")
    agent.run_sync("again", "a/1")  # A turn without tags leaves the thread's.
    store.close()
    agent = Agent(ScriptedModel([]), checkpointer=DiskCheckpointer(tmp_path / "s"))

    def ids(**given):
        return [info.thread_id for info in agent.threads(**given)]

    assert ids(tags={"user": "ann"}) == ["a/1"]
    assert ids(tags={"user": "ann", "plan": "paid"}) == []
    assert ids(prefix="a/") == ["a/1", "a/2"]
    assert ids(prefix="a/", limit=1) == ["a/1"]
    assert ids() == ["a/1", "b/1", "a/2"]
    assert ids(status="ended", limit=2) == ["a/1", "b/1"]
    assert ids(status="paused") == ids(limit=0) == ids(prefix="c") == []


@pytest.mark.parametrize("prefix", ["", "a", "a/", "ä", "a%", "~", "a\x7f"])
def test_a_prefix_finds_exactly_the_threads_that_begin_with_it(prefix):
    ids = ["a", "a/", "a/1", "a/2", "aa", "b", "ä", "äö", "a%", "a%2F", "~x", "a\x7fz", "A"]
    agent = Agent(ScriptedModel(["ok"] * len(ids)), checkpointer=MemoryCheckpointer())
    for thread_id in ids:
        agent.run_sync("hi", thread_id)
    found = {info.thread_id for info in agent.threads(prefix=prefix)}
    assert found == {thread_id for thread_id in ids if thread_id.startswith(prefix)}


def test_where_nobody_attends_a_call_gets_the_decision_made_beforehand():
    for decision, paid_then, read in (
        (Approve(), [5], "paid 5"),
        (Reject("nobody is here"), [], "a person rejected this call: nobody is here"),
        (Respond("paid by hand"), [], "paid by hand"),
    ):
        paid = []
        agent = payer(paid, AskFirst())
        turn = agent.with_options(unattended=decision).run_sync("go", "t")
        assert (turn.status, paid, turn.messages[-2].text) == ("ended", paid_then, read)
        assert payer([], AskFirst()).run_sync("go").status == "paused"


def test_a_decision_that_may_not_be_given_leaves_the_call_waiting():
    agent = payer(paid := [], AskFirst("reject", "edit"))
    assert agent.with_options(unattended=Approve()).run_sync("go", "t").status == "paused"
    assert (paid, agent.resume_sync("t", {"p": Reject("no")}).status) == ([], "ended")


def test_a_hook_that_asks_for_ever_waits_at_last():
    assert payer([], AskForEver()).with_options(unattended=Approve()).run_sync("go").status == "paused"


def test_a_question_is_answered_where_nobody_attends_and_each_only_once():
    asked = []

    @tool
    async def book(ctx: ToolContext) -> str:
        """Book."""
        answers = [ctx.interrupt(question) for question in ("Hotel?", "Nights?")]
        asked.append(answers)
        return "booked"

    agent = Agent(ScriptedModel([ToolCall("book"), "done"]), [book])
    unattended = agent.with_options(unattended=Respond("decide yourself"))
    assert unattended.run_sync("go").status == "ended"
    assert asked == [["decide yourself", "decide yourself"]]


def test_the_decision_holds_in_subagents_and_is_in_the_log():
    child = Subagent(name="clerk", description="pays", tools=[paying(paid := [])])
    script = ScriptedModel(
        [
            ToolCall("task", {"description": "pay 5", "subagent_type": "clerk"}),
            ToolCall("pay", {"amount": 5}),
            "paid",
            "all done",
        ]
    )
    agent = create_deep_agent(script, subagents=[child], interrupt_on={"pay": True})
    turn = agent.with_options(unattended=Approve()).run_sync("go", "t")
    assert (turn.text, paid) == ("all done", [5])

    async def events():
        return [type(event).__name__ async for event in agent.follow("t")]

    assert asyncio.run(events()).count("Decided") == 1


def test_a_call_that_was_cut_short_waits_though_nobody_attends(tmp_path):
    store = DiskCheckpointer(tmp_path / "s")
    paid = []

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        raise KeyboardInterrupt

    model = ScriptedModel([ToolCall("pay", {"amount": 5}, "p"), "done"])
    agent = Agent(model, [pay], middleware=[AskFirst()], checkpointer=store).with_options(unattended=Approve())
    with pytest.raises(KeyboardInterrupt):
        agent.run_sync("go", "t")
    turn = agent.resume_sync("t")
    assert (turn.status, paid) == ("paused", [5])
    assert "may have taken effect" in turn.interrupts[0].reason


def test_a_stream_is_read_by_a_plain_for_and_leaving_it_cancels_the_turn():
    agent = Agent(ScriptedModel(["hello", "never"]))
    stream = agent.stream("hi", "t")
    assert [type(event).__name__ for event in stream][-1] == "TurnEnded"
    assert stream.turn.text == "hello"
    for _ in agent.stream("more", "t"):
        break
    assert agent.get_state("t").status in ("cancelled", "ended")


def test_readers_for_coroutines_return_what_the_others_do():
    agent = Agent(ScriptedModel([ToolCall("pay", {"amount": 5}), "done"]), [paying([])])
    agent.run_sync("go", "t")

    async def same():
        assert (await agent.aget_state("t")) == agent.get_state("t")
        assert (await agent.ahistory("t")) == agent.history("t")
        assert (await agent.atranscript("t")) == agent.transcript("t")
        assert (await agent.aruns("t")) == agent.runs("t") == []
        assert (await agent.aexport("t")) == agent.export("t")
        assert (await agent.athreads()) == agent.threads()
        with pytest.raises(ConfigError):
            await agent.aread_file("t", "/none")
        with pytest.raises(ConfigError):
            await agent.adiff("t", 1, 2)

    asyncio.run(same())


def test_a_thread_that_nobody_attended_runs_again_in_a_replay():
    agent = payer([], AskFirst())
    agent.with_options(unattended=Approve()).run_sync("go", "t")
    again = asyncio.run(agent.replay("t", model=ScriptedModel([ToolCall("pay", {"amount": 5}), "done again"])))
    assert again.turn.text == "done again"


def test_a_recording_that_nobody_attended_is_a_test():
    store = MemoryCheckpointer()
    payer([], AskFirst(), store=store).with_options(unattended=Approve()).run_sync("go", "t")
    again = recorded(store, "t").run_sync(payer(paid := [], AskFirst()))
    assert (again.turn.text, paid) == ("done", [])


def test_leaving_a_plain_with_cancels_the_turn_and_waits_until_it_is_saved():
    agent = Agent(ScriptedModel([ToolCall("pay", {"amount": 5}), "done"]), [paying([])])
    with agent.stream("hi", "t") as stream:
        next(iter(stream))
    assert agent.get_state("t").status in ("cancelled", "ended")


def test_tags_that_cannot_be_saved_are_refused_when_they_are_given():
    agent = Agent(ScriptedModel(["ok"]))
    for tags in ({"user": "\ud800"}, {"\ud800": "ann"}):
        with pytest.raises(ConfigError, match="text that UTF-8 can encode"):
            agent.with_options(tags=tags)


@pytest.mark.parametrize("value", [["ann"], "ann", {"user": 5, 7: "x", "team": "a"}])
def test_whatever_a_tool_notes_in_place_of_tags_the_thread_can_be_read(store, value):
    @tool
    async def note(ctx: ToolContext) -> str:
        """Note."""
        ctx.record(Noted("agent", "tags", value))
        return "noted"

    agent = Agent(ScriptedModel([ToolCall("note", {}), "ok", "ok"]), [note], checkpointer=store)
    agent.run_sync("hi", "t")
    assert agent.run_sync("again", "t").saved
    assert agent.get_state("t").notes["agent"]["tags"] == value
    (info,) = agent.threads()
    assert (info.status, dict(info.tags)) == ("ended", {"team": "a"} if isinstance(value, dict) else {})
    assert Agent(ScriptedModel([]), checkpointer=store).get_state("t").turn == 2


def test_another_model_is_refused_where_its_parts_ask_their_own():
    with pytest.raises(ConfigError, match=r"another model would have no effect; `override\(model=\.\.\.\)`"):
        Blueprint(ScriptedModel([])).with_options(model=ScriptedModel(["42"]))


async def test_a_stream_that_is_read_with_and_without_await_is_refused_and_does_not_wait_for_itself():
    agent = Agent(ScriptedModel(endless))
    stream = agent.stream("go", "a")
    await anext(stream)
    with pytest.raises(ConfigError, match="use `async with` and `async for` only"), stream:
        pass
    stream = agent.stream("go", "b")
    await anext(stream)
    with pytest.raises(ConfigError, match="one stream is read both with `await` and without"):
        list(stream)
    stream = agent.stream("go", "c")
    next(iter(stream))  # Leaving it ends the turn.
    stream = agent.stream("go", "d")
    events = iter(stream)
    next(events)
    with pytest.raises(ConfigError, match="one stream is read both"):
        await anext(stream)
    await stream.aclose()
    while "running" in {info.status for info in agent.threads()}:
        await asyncio.sleep(0)
    assert {info.status for info in agent.threads()} == {"cancelled"}


async def endless(request):
    await asyncio.Event().wait()
    return ""
