"""Limits of a turn: tokens, cost and seconds of a run and all runs below it, and how deep and wide these may grow."""

import asyncio

import pytest
from harness.agents import PING, answers, hang, ping, sub, task
from harness.blueprints import blueprint, plan, research
from harness.middleware import AskFirst
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    ConfigError,
    LimitExceeded,
    Limits,
    Middleware,
    ToolCall,
    ToolContext,
    ToolMessage,
    Usage,
    create_deep_agent,
    tool,
)
from minideep.events import TurnEscalated
from minideep.models import ScriptedModel, as_reply


@tool
async def spent(ctx: ToolContext) -> str:
    """Say what was spent."""
    return f"{ctx.spent.tokens} {ctx.spent.cost}"


def ten(say, cost=0.25):
    """A reply of ten tokens."""
    return structs.replace(as_reply(say), usage=Usage(7, 3, 5, 1, 2), cost=cost)


def tens(*script, cost=0.25):
    return ScriptedModel([ten(say, cost) for say in script])


def for_ever(say=PING):
    return ScriptedModel(lambda request: ten(say))


def ends(state):
    """Return how a run ended, and how the runs below it did."""
    return state.status, state.reason, {key: ends(child) for key, child in state.subagents.items()}


# ---- one run


@pytest.mark.parametrize("limits", [Limits(tokens=20), Limits(tokens=11), Limits(cost=0.5), Limits(cost=0.3)])
async def test_a_spent_budget_stops_the_turn_and_what_was_done_is_kept(store, limits):
    turn = await Agent(for_ever(), [ping], limits=limits, checkpointer=store).run("go", "t")
    reason = "tokens" if limits.tokens else "cost"
    assert (turn.status, turn.reason, turn.saved) == ("exhausted", reason, True)
    assert (turn.usage.total, turn.costs.money, answers(turn)) == (20, 0.5, ["pong", "pong"])
    with pytest.raises(LimitExceeded, match=f"limit of {reason}; `resume` continues"):
        turn.raise_for_status()
    reader = Agent("offline:", checkpointer=store)
    state = reader.get_state("t")
    assert (state.status, state.reason, state.limits) == ("exhausted", reason, limits)
    assert state.messages == list(turn.messages)
    assert [boundary.status for boundary in reader.history("t")] == ["exhausted"]


async def test_seconds_count_from_the_input_and_a_running_tool_may_finish():
    @tool
    async def dawdle(ctx: ToolContext) -> str:
        """Take longer than there is."""
        while ctx.spent.seconds < 0.3:
            await asyncio.sleep(0.05)
        return "done all the same"

    agent = Agent(for_ever(ToolCall("dawdle")), [dawdle], limits=Limits(seconds=0.3))
    turn = await agent.run("go")
    assert (turn.status, turn.reason, answers(turn)) == ("exhausted", "seconds", ["done all the same"])


@pytest.mark.parametrize("limits", [Limits(tokens=0), Limits(cost=0), Limits(seconds=0), Limits(steps=0)])
async def test_a_budget_of_zero_asks_no_model(limits):
    model = for_ever()
    turn = await Agent(model, [ping], limits=limits).run("go")
    assert (turn.status, turn.costs.steps, model.requests) == ("exhausted", 0, [])


async def test_a_resumed_turn_and_a_new_turn_have_new_counters():
    agent = Agent(tens(*[PING] * 4, "done", PING, "done again"), [ping], limits=Limits(tokens=20))
    turns = [await agent.run("go", "t"), await agent.resume("t"), await agent.resume("t"), await agent.run("go", "t")]
    assert [(turn.status, turn.usage.total) for turn in turns] == [
        ("exhausted", 20), ("exhausted", 20), ("ended", 10), ("ended", 20),
    ]  # fmt: skip


async def test_an_answer_that_takes_the_rest_of_a_budget_ends_the_turn():
    turn = await Agent(tens(PING, "done"), [ping], limits=Limits(tokens=15)).run("go")
    assert (turn.status, turn.text) == ("ended", "done")


async def test_scripted_replies_that_state_no_cost_cost_nothing():
    free, dear = [ten(say, None) for say in (PING, ToolCall("spent"))], ten(ToolCall("spent"), 0.2)
    agent = Agent(ScriptedModel([*free, dear, "never asked"]), [ping, spent], limits=Limits(cost=0.1))
    turn = await agent.run("go")
    assert (turn.status, turn.reason, answers(turn)) == ("exhausted", "cost", ["pong", "20 0.0", "30 0.2"])


async def test_without_a_budget_any_spending_is_allowed():
    dear = structs.replace(as_reply(PING), usage=Usage(10**12, 10**12), cost=1e9)
    turn = await Agent(ScriptedModel([dear, dear, "done"]), [ping]).run("go")
    assert (turn.status, turn.text) == ("ended", "done")


async def test_a_hook_that_asks_the_person_comes_before_a_spent_budget():
    class AskIfShort(Middleware):
        async def before_model(self, ctx, request):
            if ctx.spent.tokens >= 20:
                ctx.record(TurnEscalated(1.0, "may I go on?"))
            return request

    turn = await Agent(for_ever(), [ping], middleware=[AskIfShort()], limits=Limits(tokens=20)).run("go")
    assert (turn.status, turn.question, turn.error) == ("escalated", "may I go on?", None)


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        (Limits(steps=-1), "steps must be a whole number of 0 or more, or None, not -1"),
        (Limits(tool_calls="3"), "tool_calls must be a whole number of 0 or more, or None, not '3'"),
        (Limits(tokens=1.5), "tokens must be a whole number of 0 or more, or None, not 1.5"),
        (Limits(cost=float("nan")), "cost must be a number of 0 or more, or None, not nan"),
        (Limits(seconds=True), "seconds must be a number of 0 or more, or None, not True"),
    ],
)
def test_a_limit_of_the_wrong_type_is_refused_when_the_agent_is_built(limits, told):
    with pytest.raises(ConfigError, match=told):
        Agent(for_ever(), limits=limits)
    with pytest.raises(ConfigError, match=told):
        create_deep_agent(for_ever(), subagents=[sub("critic", for_ever(), limits=limits)])


# ---- and all below it


async def test_what_subagents_spend_counts_for_the_main_agent(store):
    child = sub("critic", for_ever(), limits=Limits())
    agent = create_deep_agent(tens(task("critic", "t1")), [ping], subagents=[child], limits=Limits(tokens=30))
    agent.checkpointer = store
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason, turn.usage.total) == ("exhausted", "tokens", 30)
    assert answers(turn) == []  # Its call stays open.
    state = Agent("offline:", checkpointer=store).get_state("t", subagents=True)
    assert ends(state) == ("exhausted", "tokens", {"t1": ("exhausted", "tokens", {})})


@pytest.mark.parametrize("limits", [Limits(tokens=20), Limits(cost=0.5)])
async def test_the_own_budget_of_a_subagent_stops_it_alone_and_its_parent_reads_so(limits):
    child = sub("critic", for_ever(), limits=limits)
    script, enough = tens(task("critic", "t1"), PING, "ok"), Limits(tokens=1000, cost=10, seconds=600)
    agent = create_deep_agent(script, [ping], subagents=[child], limits=enough)
    turn = await agent.run("go", "t")
    reason = "tokens" if limits.tokens else "cost"
    assert (turn.status, turn.text, turn.usage.total) == ("ended", "ok", 50)
    assert answers(turn) == [f"subagent critic stopped at its limit of {reason}.", "pong"]
    tree = agent.get_state("t", subagents=True)
    assert ends(tree) == ("ended", "done", {"t1": ("exhausted", reason, {})})


async def test_the_seconds_of_a_subagent_are_its_own():
    child = sub("critic", for_ever(), limits=Limits(seconds=0))
    turn = await create_deep_agent(tens(task("critic", "t1"), "ok"), subagents=[child]).run("go")
    assert (turn.status, answers(turn)) == ("ended", ["subagent critic stopped at its limit of seconds."])


async def test_each_run_of_a_subagent_has_a_budget_of_its_own():
    child = sub("critic", tens(PING, "one", PING, "two"), limits=Limits(tokens=20))
    agent = create_deep_agent(tens(task("critic", "a"), task("critic", "b"), "ok"), [ping], subagents=[child])
    turn = await agent.run("go")
    assert (turn.status, answers(turn)) == ("ended", ["one", "two"])


async def test_parallel_subagents_spend_from_one_budget_and_a_running_model_call_may_finish():
    gate, asked = asyncio.Event(), []

    async def say(request):
        asked.append(1)
        if len(asked) == 3:
            gate.set()
        await gate.wait()
        return ten(PING)

    child = sub("critic", ScriptedModel(say), limits=Limits())
    script = tens([task("critic", id) for id in ("a", "b", "c")])
    agent = create_deep_agent(script, [ping], subagents=[child], limits=Limits(tokens=40))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.usage.total) == ("exhausted", 60)  # Two were being asked when the third took the rest.
    stopped = ("exhausted", "tokens", {})
    assert ends(agent.get_state("t", subagents=True))[2] == {"a": stopped, "b": stopped, "c": stopped}


async def test_the_budget_of_a_subagent_stops_the_runs_below_it_and_nothing_above():
    outer = sub("outer", tens(task("inner", "t2")), limits=Limits(tokens=30),
                subagents=[sub("inner", for_ever(), limits=Limits())])  # fmt: skip
    agent = create_deep_agent(tens(task("outer", "t1"), "ok"), [ping], subagents=[outer])
    turn = await agent.run("go", "t")
    assert (turn.text, turn.usage.total) == ("ok", 50)
    stopped = ("exhausted", "tokens", {"t2": ("exhausted", "tokens", {})})
    assert ends(agent.get_state("t", subagents=True)) == ("ended", "done", {"t1": stopped})


async def test_a_resumed_turn_gives_a_subagent_that_its_budget_stopped_new_counters_too():
    child = tens(PING, PING, PING, "found it")
    script = tens(task("critic", "t1"), "then with it")
    agent = create_deep_agent(script, [ping], subagents=[sub("critic", child)], limits=Limits(tokens=30))
    assert (await agent.run("go", "t")).status == "exhausted"
    turn = await agent.resume("t")
    assert (turn.status, turn.text, turn.usage.total, answers(turn)) == ("ended", "then with it", 30, ["found it"])


async def test_a_resumed_turn_does_not_run_a_subagent_again_that_reached_its_own_budget():
    child = for_ever()
    kind = sub("critic", child, limits=Limits(tokens=20))
    script = tens(task("critic", "t1"), PING, PING, "then without")
    agent = create_deep_agent(script, [ping], subagents=[kind], limits=Limits(tokens=50))
    assert (await agent.run("go", "t")).status == "exhausted"
    turn = await agent.resume("t")
    assert (turn.status, turn.text, turn.usage.total, len(child.requests)) == ("ended", "then without", 10, 2)


async def test_a_decision_gives_every_run_new_counters():
    child = sub("critic", tens(PING, "done"), middleware=[AskFirst("ping")], limits=Limits(tokens=15, cost=0.3))
    script = tens(task("critic", "t1"), "ok")
    agent = create_deep_agent(script, [ping], subagents=[child], limits=Limits(tokens=25))
    (wait,) = (await agent.run("go", "t")).interrupts
    turn = await agent.resume("t", {wait.call_id: Approve()})
    assert (turn.status, turn.text, turn.usage.total) == ("ended", "ok", 20)


async def test_a_tool_sees_what_its_run_and_all_below_it_have_spent():
    child = sub("critic", tens(PING, ToolCall("spent"), "done", cost=None))
    script = tens(ToolCall("spent"), task("critic", "t1"), ToolCall("spent"), "ok")
    agent = create_deep_agent(script, [ping, spent], subagents=[child])
    turn = await agent.run("go", "t")
    tree = agent.get_state("t", subagents=True)
    assert answers(turn) == ["10 0.25", "done", "60 0.75"]
    assert [m.text for m in tree.subagents["t1"].messages if isinstance(m, ToolMessage)] == ["pong", "20 0.0"]


async def test_a_tool_sees_what_a_parallel_subagent_has_spent_so_far():
    begun, looked = asyncio.Event(), asyncio.Event()

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look when the child has begun, and before it ends."""
        await begun.wait()
        seen = f"{ctx.spent.tokens} {ctx.spent.cost}"
        looked.set()
        return seen

    @tool
    async def wait() -> str:
        """Wait until somebody looked."""
        begun.set()
        await looked.wait()
        return "seen"

    child = sub("critic", tens(ToolCall("wait"), "done"))
    agent = create_deep_agent(tens([task("critic", "t1"), ToolCall("look")], "ok"), [look, wait], subagents=[child])
    assert answers(await agent.run("go")) == ["done", "20 0.5"]


# ---- how deep and how wide


def failed(turn):
    return [message.call_id for message in turn.messages if isinstance(message, ToolMessage) and message.is_error]


def nested(levels, **more):
    """A subagent that delegates, and so on, *levels* deep."""
    below = [nested(levels - 1)] if levels > 1 else []
    script = [task(f"level-{levels - 1}", f"t{levels - 1}"), "did it below"] if below else ["did it"]
    return sub(f"level-{levels}", ScriptedModel(script), subagents=below, **more)


async def test_a_call_that_delegates_too_deep_is_refused_and_begins_nothing(store):
    script = ScriptedModel([task("level-3", "t3"), "ok"])
    agent = create_deep_agent(script, subagents=[nested(3)], limits=Limits(max_depth=2), checkpointer=store)
    stream = agent.stream("go", "t")
    begun = {event.path async for event in stream}
    assert (stream.turn.status, stream.turn.text, begun) == ("ended", "ok", {(), ("t3",), ("t3", "t2")})
    last = agent.get_state("t", subagents=True).subagents["t3"].subagents["t2"]
    assert [(m.text, m.is_error) for m in last.messages if isinstance(m, ToolMessage)] == [
        (
            "not begun: below 'main' there may be 2 levels of subagents; do this work yourself with the tools that "
            "you have",
            True,
        )
    ]
    assert last.subagents == {}


async def test_a_depth_of_zero_lets_nobody_delegate():
    child = ScriptedModel([])
    agent = create_deep_agent(
        tens(task("critic", "t1"), "ok"), subagents=[sub("critic", child)], limits=Limits(max_depth=0)
    )
    turn = await agent.run("go")
    assert (turn.text, failed(turn), child.requests) == ("ok", ["t1"], [])


async def test_a_subagent_may_have_a_depth_of_its_own():
    agent = create_deep_agent(
        tens(task("level-2", "t2"), "ok"), subagents=[nested(2, limits=Limits(max_depth=0))], limits=Limits(max_depth=9)
    )
    await agent.run("go", "t")
    child = agent.get_state("t", subagents=True).subagents["t2"]
    assert [m.is_error for m in child.messages if isinstance(m, ToolMessage)] == [True]
    assert (child.status, child.text) == ("ended", "did it below")


async def test_a_reply_with_too_many_subagents_keeps_the_first_ones_and_the_next_reply_may_go_on():
    wide = [task("critic", id) for id in "abc"]
    child = sub("critic", ScriptedModel(lambda request: "done"))
    agent = create_deep_agent(
        tens([*wide, PING], task("critic", "d"), "ok"), [ping], subagents=[child], limits=Limits(max_children=2)
    )
    turn = await agent.run("go", "t")
    refused = (
        "not begun: one reply of 'main' may begin 2 subagents, and has; do this work yourself with the tools that "
        "you have, or ask again in your next reply"
    )
    assert answers(turn) == ["done", "done", refused, "pong", "done"]
    assert (turn.text, failed(turn)) == ("ok", ["c"])
    assert list(agent.get_state("t", subagents=True).subagents) == ["a", "b", "d"]


async def test_runs_that_subagents_begin_count_for_the_reply_that_began_these():
    leaf = sub("leaf", ScriptedModel(lambda request: "leaf"))

    def delegates(request):
        calls = [message for message in request.messages if message.role == "assistant"]
        return "done" if calls else [task("leaf", id) for id in "xyz"]

    child = sub("critic", ScriptedModel(delegates), subagents=[leaf], limits=Limits(max_children=2))
    script = tens([task("critic", id) for id in "ab"], "ok")
    agent = create_deep_agent(script, subagents=[child], limits=Limits(max_children=5))
    turn = await agent.run("go", "t")
    below = agent.get_state("t", subagents=True).subagents
    assert (turn.text, failed(turn)) == ("ok", [])
    assert {key: list(state.subagents) for key, state in below.items()} == {"a": ["x", "y"], "b": ["x"]}
    told = [m.text.split(";")[0] for m in below["b"].messages if isinstance(m, ToolMessage) and m.is_error]
    assert told == ["not begun: one reply of 'main' may begin 5 subagents, and has"] * 2


async def test_a_tool_that_runs_agents_of_its_own_has_the_same_limits():
    child = Agent(ScriptedModel(lambda request: "done"), name="child")

    @tool
    async def each(ctx: ToolContext) -> str:
        """Run one after the other."""
        return " ".join([(await ctx.run(child, "go", key)).text for key in "abc"])

    turn = await Agent(tens(ToolCall("each"), "ok"), [each], limits=Limits(max_children=2)).run("go")
    assert (turn.text, answers(turn)[0].split(";")[0]) == (
        "ok",
        "not begun: one reply of 'main' may begin 2 subagents, and has",
    )


async def test_a_run_that_is_resumed_after_a_pause_counts_for_no_limit_and_has_its_cost_at_each_boundary(store):
    def agent(limits):
        child = ScriptedModel(lambda request: ten("done" if len(request.messages) > 1 else PING))
        asks = sub("critic", child, middleware=[AskFirst("ping")])
        script = tens([task("critic", id) for id in "ab"], "ok") if limits.max_children else tens("ok")
        return create_deep_agent(script, [ping], subagents=[asks], limits=limits, checkpointer=store)

    waits = (await agent(Limits(max_children=2)).run("go", "t")).interrupts
    stricter = agent(Limits(max_depth=0, max_children=0))
    for wait in waits:
        turn = await stricter.resume("t", {"/".join((*wait.path, wait.call_id)): Approve()})
    assert (len(waits), turn.text, failed(turn), answers(turn)) == (2, "ok", [], ["done", "done"])
    assert [run.cost for run in stricter.runs("t")] == [0.5, 0.5]
    stricter.fork("t", at=1, thread_id="then")
    assert [run.cost for run in stricter.runs("then")] == [0.25, 0.25]


@pytest.mark.parametrize("limit", ["max_depth", "max_children"])
def test_a_negative_depth_or_number_of_children_is_refused(limit):
    with pytest.raises(ConfigError, match=f"limits.{limit} must be a whole number of 0 or more, or None, not -1"):
        Agent(for_ever(), limits=Limits(**{limit: -1}))


async def test_a_cancelled_run_goes_on_whatever_the_limits_are_now(store):
    def agent(child, *script, **limits):
        below = sub("critic", child, limits=Limits())
        return create_deep_agent(tens(*script), subagents=[below], limits=Limits(**limits), checkpointer=store)

    async with agent(ScriptedModel(hang), task("critic", "a")).stream("go", "t") as stream:
        async for event in stream:
            if event.path:
                break
    turn = await agent(tens("done"), "ok", max_depth=0, max_children=0).resume("t")
    assert (turn.text, failed(turn), answers(turn)) == ("ok", [], ["done"])


async def test_depth_and_children_of_a_blueprint_apply_to_its_roles():
    plans = [plan(research("a.md"), research("b.md"))]
    team = blueprint(plans=plans, limits=Limits(steps=9, max_depth=0, max_children=0))
    turn = await team.run("go", "t")
    assert (turn.status, len(turn.artifacts)) == ("ended", 2)
    assert team.get_state("t").limits == Limits(steps=None)
    assert {role.spec.limits for role in team.pool.agents.values()} == {Limits(steps=9, max_depth=0, max_children=0)}
