"""A budget of money holds through models, subagents, summaries and blueprints: unknown spending is never taken for nothing."""

import json

import msgspec
import pytest
from harness.agents import PING, answers, ping, sub, task
from harness.blueprints import ask as question_of, is_planner, plan, research
from msgspec import structs

from minideep import (
    Agent,
    AssistantMessage,
    ConfigError,
    LimitExceeded,
    Limits,
    MemoryCheckpointer,
    Reply,
    Spent,
    ToolCall,
    ToolContext,
    Usage,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.backends import StateBackend
from minideep.blueprint import STOCK_ROLES, Blueprint
from minideep.checkpoint import format as codec
from minideep.cli.render import Screen, summary
from minideep.core import apply
from minideep.costs import Costs
from minideep.evals import Golden, evaluate
from minideep.events import Compacted, ModelReplied, TurnExhausted, UserSaid
from minideep.middleware import SummarizationMiddleware
from minideep.middleware.context.summarizer import Summary
from minideep.models import (
    Anthropic,
    FallbackModel,
    OfflineModel,
    OpenAI,
    OpenAIChat,
    Policy,
    Price,
    RateLimiter,
    ScriptedModel,
)
from minideep.models.catalog import Tariff
from minideep.models.scripted import as_reply
from minideep.state import State

DOLLAR = Limits(cost=1.0)


class Mine:
    """A model of one's own, which says what it was told to; nothing of tokens or money unless a reply does."""

    def __init__(self, *said, name="mine", states_cost=None):
        self.name, self.asked, self._said = name, 0, said
        if states_cost is not None:
            self.states_cost = states_cost

    async def complete(self, request, emit):
        self.asked += 1
        said = self._said[min(self.asked, len(self._said)) - 1]
        said = said(request) if callable(said) else said
        return said if isinstance(said, Reply) else Reply(as_reply(said).message)


def unknown(said, **more):
    return Reply(as_reply(said).message, **more)


def honest(*said, **more):
    return Mine(*said, states_cost=True, **more)


# ---- models without a price are refused


REFUSED = r"Limits\(cost=1.0\).*model '{}' has no price, so it could spend without end; give the model "
REMEDY = r"`price=Price\(input, output\)`, describe it with `minideep.models.add_model_info`, or set `states_cost = True` on it if each of its replies says its cost"


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (Mine("hi"), "mine"),
        (Mine("hi", states_cost=False), "mine"),
        (Anthropic("claude-unheard-of"), "claude-unheard-of"),
        (OpenAI("gpt-unheard-of"), "gpt-unheard-of"),
        (OpenAIChat("gpt-unheard-of"), "gpt-unheard-of"),
        ("openai-chat:gpt-unheard-of", "gpt-unheard-of"),
        (RateLimiter(Mine("hi")), "mine"),
        (FallbackModel([ScriptedModel([]), Mine("hi")]), "scripted or mine"),
        (RateLimiter(FallbackModel([Mine("hi"), Anthropic("claude-sonnet-5-5")])), "mine or claude-sonnet-5-5"),
    ],
)
def test_a_budget_of_money_is_refused_for_a_model_without_a_price(model, name):
    for make in (Agent, create_deep_agent, Blueprint):
        with pytest.raises(ConfigError, match=REFUSED.format(name) + REMEDY):
            make(model, limits=DOLLAR)
        make(model, limits=Limits(tokens=5))


@pytest.mark.parametrize(
    "model",
    [
        Mine("hi", states_cost=True),
        Anthropic("claude-sonnet-5-5"),
        Anthropic("claude-unheard-of", price=Price(1, 1)),
        OpenAI("gpt-6-luna"),
        OpenAI("gpt-unheard-of", price=Price(1, 1)),
        OpenAIChat("gpt-5"),
        OpenAIChat("qwen3", price=Price(0, 0)),
        OpenAIChat("qwen3", base_url="http://127.0.0.1:1/v1"),
        ScriptedModel([]),
        OfflineModel(),
        "offline:",
        Policy(lambda request: "hi"),
        FallbackModel(["offline:", Anthropic("claude-sonnet-5-5")]),
        RateLimiter("anthropic:claude-sonnet-5-5"),
    ],
)
def test_a_budget_of_money_is_accepted_for_every_model_whose_replies_have_a_cost(model):
    for make in (Agent, create_deep_agent, Blueprint):
        make(model, limits=DOLLAR)


def test_a_budget_of_money_is_accepted_for_an_adapter_whose_server_states_costs():
    model = OpenAIChat("qwen3")
    model.states_cost = True
    Agent(model, limits=DOLLAR)


def test_a_subagent_without_a_price_below_a_budget_of_money_is_refused_when_the_agent_is_built():
    below = r"agent 'main' has .*, which holds for agent '{}' below it, but model 'mine' has no price"
    for limits in (None, Limits()):
        with pytest.raises(ConfigError, match="agent '(main|critic)' has " + REFUSED.format("mine")):
            create_deep_agent("offline:", subagents=[sub("critic", Mine("hi"), limits=limits)], limits=DOLLAR)
    with pytest.raises(ConfigError, match=below.format("critic")):
        create_deep_agent("offline:", subagents=[sub("critic", Mine("hi"), limits=Limits())], limits=DOLLAR)
    inner = sub("inner", Mine("hi"), limits=Limits())
    with pytest.raises(ConfigError, match=below.format("inner")):
        create_deep_agent(
            "offline:", subagents=[sub("outer", "offline:", subagents=[inner], limits=Limits())], limits=DOLLAR
        )
    with pytest.raises(ConfigError, match=r"agent 'outer' has .* below it, but model 'mine' has no price"):
        create_deep_agent("offline:", subagents=[sub("outer", "offline:", subagents=[inner], limits=DOLLAR)])
    with pytest.raises(ConfigError, match=r"agent 'critic' has .* but model 'mine' has no price"):
        create_deep_agent("offline:", subagents=[sub("critic", Mine("hi"), limits=DOLLAR)])
    # The one above it has no budget, and the one beside it has its own.
    create_deep_agent(Mine("hi"), subagents=[sub("critic", "offline:", limits=DOLLAR)], limits=Limits(tokens=9))


def test_a_summarizer_without_a_price_is_refused_under_a_budget_of_money():
    mine = SummarizationMiddleware("offline:", StateBackend(), summarizer=Mine("so far", name="cheap"))
    critic = sub("critic", "offline:", middleware=[mine], limits=Limits())
    with pytest.raises(ConfigError, match=REFUSED.format("cheap")):
        create_deep_agent("offline:", middleware=[mine], limits=DOLLAR)
    with pytest.raises(ConfigError, match=REFUSED.format("cheap")):
        Agent("offline:", middleware=[mine], limits=DOLLAR)
    with pytest.raises(ConfigError, match=r"'main' has .*, which holds for agent 'critic' below it, but model 'cheap'"):
        create_deep_agent("offline:", subagents=[critic], limits=DOLLAR)
    create_deep_agent("offline:", middleware=[mine])


def test_every_part_of_a_blueprint_needs_a_price_under_a_budget_of_money():
    below = "agent 'blueprint' has .*, which holds for agent '{}' below it, but model 'mine' has no price"
    role = structs.replace(STOCK_ROLES[0], name="poet", model=Mine("hi"))
    for part, more in {
        "planner": {"planner_model": Mine("hi")},
        "reflection": {"reflection_model": Mine("hi")},
        "poet": {"roles": [*STOCK_ROLES, role]},
    }.items():
        with pytest.raises(ConfigError, match=below.format(part)):
            Blueprint("offline:", limits=DOLLAR, **more)
        Blueprint("offline:", **more)


async def test_a_tool_that_runs_an_agent_without_a_price_under_a_budget_of_money_gets_an_error():
    other, free = Agent(Mine("hi"), name="other"), Agent(ScriptedModel(lambda request: "hi"), name="free")

    @tool
    async def delegate(name: str, ctx: ToolContext) -> str:
        """Have it done."""
        return (await ctx.run({"other": other, "free": free}[name], "do it")).text

    calls = [ToolCall("delegate", {"name": name}, name) for name in ("other", "free")]
    agent = Agent(ScriptedModel([calls, "ok"]), [delegate], limits=DOLLAR)
    turn = await agent.run("go", "t")
    assert turn.status == "ended"
    assert answers(turn)[0].startswith("delegate failed: ConfigError: agent 'main' has Limits(cost=1.0), which holds ")
    assert answers(turn)[1] == "hi"
    assert [run.agent for run in agent.runs("t")] == ["free"]
    assert other.spec.model.asked == 0
    without = Agent(ScriptedModel([calls, "ok"]), [delegate], limits=Limits(seconds=600))
    assert answers(await without.run("go")) == ["hi", "hi"]


# ---- when spending becomes unknown


async def test_a_turn_with_a_budget_of_money_stops_at_a_reply_whose_cost_is_not_known(store):
    model = honest(unknown(PING, usage=Usage(7, 3), cost=0.25), unknown(PING, usage=Usage(7, 3)))
    agent = Agent(model, [ping], limits=DOLLAR, checkpointer=store)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason, turn.saved, model.asked) == ("exhausted", "cost", True, 2)
    assert (turn.costs.money, turn.costs.unpriced, str(turn.error)) == (0.25, 1, "the cost of 1 reply is unknown")
    told = r"limit of cost \(the cost of 1 reply is unknown\); `resume` continues with new counters"
    with pytest.raises(LimitExceeded, match=told):
        turn.raise_for_status()
    reader = Agent("offline:", checkpointer=store)
    state = reader.get_state("t")
    assert (state.reason, state.detail) == ("cost", "the cost of 1 reply is unknown")
    assert (state.cost, state.unpriced, state.usage) == (0.25, 1, Usage(14, 6))
    turn = await agent.resume("t")
    assert (turn.reason, model.asked, turn.costs.unpriced) == ("cost", 3, 1)
    assert agent.get_state("t").unpriced == 2


async def test_a_turn_with_a_budget_of_tokens_stops_at_a_reply_whose_tokens_are_not_known():
    model = Mine(unknown(PING, usage=Usage(7, 3)), unknown(PING))
    turn = await Agent(model, [ping], limits=Limits(tokens=1000)).run("go")
    assert (turn.status, turn.reason, model.asked) == ("exhausted", "tokens", 2)
    assert (turn.usage, str(turn.error)) == (Usage(7, 3, unknown=1), "the tokens of 1 reply are unknown")


async def test_without_a_budget_a_turn_goes_on_and_the_ledger_counts_what_is_unknown():
    replies = [unknown(PING), unknown(PING, usage=Usage(7, 3)), unknown(PING, cost=0.5), "done"]
    turn = await Agent(Mine(*replies), [ping], limits=Limits(seconds=600)).run("go")
    assert (turn.status, turn.usage) == ("ended", Usage(7, 3, unknown=3))
    assert (turn.costs.money, turn.costs.unpriced) == (0.5, 3)
    turn = await Agent(Mine("done")).run("go")
    assert (turn.costs.money, turn.costs.unpriced, turn.usage) == (None, 1, Usage(unknown=1))


async def test_a_final_answer_of_unknown_cost_ends_the_turn():
    turn = await Agent(honest("done"), limits=Limits(cost=1, tokens=1)).run("go")
    assert (turn.status, turn.text) == ("ended", "done")


@pytest.mark.parametrize("cost", [float("nan"), float("inf")])
async def test_a_cost_of_nan_or_infinity_exhausts_a_budget(cost):
    model = honest(unknown(PING, usage=Usage(7, 3), cost=cost))
    turn = await Agent(model, [ping], limits=Limits(steps=9, cost=1)).run("go")
    assert (turn.reason, model.asked) == ("cost", 1)


@pytest.mark.parametrize(("limits", "reason"), [(DOLLAR, "cost"), (Limits(tokens=1000), "tokens")])
async def test_unknown_spending_of_a_subagent_exhausts_the_budget_above_it(limits, reason):
    child = sub("critic", honest(unknown(PING), "done"), limits=Limits())
    agent = create_deep_agent(ScriptedModel([task("critic", "t1"), "ok"]), [ping], subagents=[child], limits=limits)
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason) == ("exhausted", reason)
    assert answers(turn) == []  # Its call stays open: the subagent goes on when the turn is resumed.
    (run,) = agent.runs("t")
    assert (run.status, run.unknown, run.unpriced, run.cost) == ("exhausted", 1, 1, None)


async def test_the_own_budget_of_a_subagent_stops_that_subagent_alone():
    child = sub("critic", honest(unknown(PING)), limits=DOLLAR)
    agent = create_deep_agent(ScriptedModel([task("critic", "t1"), "ok"]), [ping], subagents=[child])
    turn = await agent.run("go")
    assert (turn.status, turn.text, turn.costs.unpriced, turn.usage.unknown) == ("ended", "ok", 1, 1)
    assert answers(turn) == ["subagent critic stopped at its limit of cost (the cost of 1 reply is unknown)."]


async def test_a_tool_sees_how_many_replies_are_of_unknown_cost():
    seen = []

    @tool
    async def look(ctx: ToolContext) -> str:
        """Look."""
        seen.append(structs.replace(ctx.spent, seconds=0))
        return "seen"

    said = [unknown(ToolCall("look"), usage=Usage(7, 3)), unknown(ToolCall("look"), cost=0.5), "done"]
    await Agent(Mine(*said), [look]).run("go")
    assert seen == [Spent(10, None, 0, 0, 1), Spent(10, 0.5, 0, 1, 1)]


def test_a_budget_is_reached_by_known_and_by_unknown_spending():
    spent = Spent(10, None, 5.0)
    assert [spent.reached(limits) for limits in (Limits(), Limits(tokens=11), Limits(tokens=10))] == [
        None,
        None,
        "tokens",
    ]
    assert (spent.reached(Limits(cost=0.1)), spent.reached(Limits(cost=0))) == (None, "cost")
    assert Spent(0, None, 0, unknown=2).reached(Limits(cost=1, seconds=1)) is None
    assert Spent(0, 0.5, 0, unpriced=2).reached(Limits(tokens=1, seconds=1)) is None
    assert Spent(0, None, 0, unknown=2).missing("tokens") == "the tokens of 2 replies are unknown"
    assert Spent(0, None, 0, unknown=2).missing("cost") == ""


# ---- the summarizer


async def with_summary(reply, **limits):
    """A turn that has its beginning summarized by a model that says *reply*."""
    summarizer = honest(reply, name="cheap")
    middle = SummarizationMiddleware("offline:", StateBackend(), summarizer=summarizer, trigger=1500, keep=1)
    words = [[ToolCall("say", {"text": "word " * 600})] for _ in range(4)]

    @tool
    async def say(text: str) -> str:
        """Repeat."""
        return text

    model = ScriptedModel([*words, "done"])
    agent = create_deep_agent(model, [say], middleware=[middle], limits=Limits(**limits))
    return agent, await agent.run("go", "t"), summarizer


async def test_the_cost_of_a_summary_counts_and_is_the_same_in_the_state_and_in_the_turn():
    agent, turn, summarizer = await with_summary(unknown("so far", usage=Usage(7, 3), cost=0.25))
    assert turn.status == "ended"
    assert summarizer.asked > 0
    state = agent.get_state("t")
    assert (state.cost, state.unpriced, state.usage) == (0.25 * summarizer.asked, 0, turn.usage)
    assert (turn.costs.money, turn.costs.unpriced) == (state.cost, 0)


async def test_a_summary_of_unknown_cost_stops_a_budget_of_money():
    agent, turn, summarizer = await with_summary(unknown("so far", usage=Usage(7, 3)), cost=1)
    assert (turn.status, turn.reason, summarizer.asked) == ("exhausted", "cost", 1)
    assert (agent.get_state("t").unpriced, turn.costs.unpriced) == (1, 1)


async def test_a_summary_of_unknown_tokens_stops_a_budget_of_tokens():
    _, turn, summarizer = await with_summary(unknown("so far", cost=0.25), tokens=1000)
    assert (turn.status, turn.reason, turn.usage.unknown, summarizer.asked) == ("exhausted", "tokens", 1, 1)


async def test_a_summary_of_several_replies_has_a_cost_if_each_of_them_has():
    assert [Summary(costs=costs).cost for costs in ([], [0.25, 0.5], [0.25, None])] == [None, 0.75, None]


async def test_a_compaction_without_a_model_costs_nothing():
    state, asked = State(), UserMessage("go")
    apply(state, UserSaid(asked, 1.0))
    apply(state, Compacted(UserMessage("so far"), 1))
    assert (state.cost, state.unpriced) == (None, 0)
    apply(state, Compacted(UserMessage("so far"), 1, Usage(7, 3), "cheap"))
    apply(state, Compacted(UserMessage("so far"), 1, Usage(7, 3), "cheap", 0.5, 0.25))
    assert (state.cost, state.unpriced, state.usage) == (0.25, 1, Usage(14, 6))


# ---- what is stored


async def test_states_runs_forks_and_the_turn_agree_on_what_was_spent(store):
    script = [task("critic", "t1"), "ok"]
    child = sub("critic", Mine(unknown(PING, usage=Usage(7, 3), cost=0.25), "done"))
    agent = create_deep_agent(ScriptedModel(script), [ping], subagents=[child], checkpointer=store)
    turn = await agent.run("go", "t")
    reader = Agent("offline:", checkpointer=store)
    (run,) = reader.runs("t")
    tree = reader.get_state("t", subagents=True)
    below = tree.subagents["t1"]
    assert (tree.cost, tree.unpriced, tree.usage) == (0.0, 0, Usage())
    assert (below.cost, below.unpriced, below.usage) == (0.25, 1, Usage(7, 3, unknown=1))
    assert (run.cost, run.unpriced, run.tokens, run.unknown) == (0.25, 1, 10, 1)
    assert (turn.costs.money, turn.costs.unpriced, turn.usage) == (0.25, 1, Usage(7, 3, unknown=1))
    agent.fork("t", thread_id="u")
    assert [(one.cost, one.unpriced, one.unknown) for one in reader.runs("u")] == [(0.25, 1, 1)]
    assert reader.history("t")[-1].usage == Usage()


def test_events_of_an_earlier_version_are_read_as_they_were():
    message = AssistantMessage("hi")
    event = ModelReplied(message, "done", Usage(1, 2, 3, 4, 5), "m", 0.5, 0.25)
    raw = codec.encode(7, event)
    assert codec.decode(raw) == event
    number, (tag, said, stop, usage, *rest), _ = msgspec.msgpack.decode(raw)
    assert usage == [1, 2, 3, 4, 5, 0]
    old = msgspec.msgpack.encode([number, [tag, said, stop, usage[:5], *rest]])
    assert codec.decode(old) == event
    number, (tag, at, limit, *_), _ = msgspec.msgpack.decode(codec.encode(7, TurnExhausted(1.5, "cost", "why")))
    assert codec.decode(msgspec.msgpack.encode([number, [tag, at, limit]])) == TurnExhausted(1.5, "cost")


def test_usage_adds_up_unknown_counts_too():
    some = Usage(1, 2, 3, 4, 5, 6)
    assert some + some - some == some
    assert Price(1, 1).of(Usage(5, 5)) == pytest.approx(1e-5)
    assert Price(1, 1).of(Usage(5, 5, unknown=1)) is None
    assert Tariff("gpt-5", None).cost(Usage(5, 5, unknown=1)) is None


# ---- what a person sees


def test_the_terminal_shows_what_is_unknown():
    assert "· 7 tokens in, 3 out · $0.2500 · model" in summary(Costs(usage=Usage(7, 3), money=0.25))
    assert "· tokens unknown · $ unknown · model" in summary(Costs(usage=Usage(unknown=1), unpriced=1))
    assert "· tokens unknown · $ unknown · model" in summary(Costs(usage=Usage(unknown=1), unpriced=1, money=0.0))
    some = Costs(usage=Usage(7, 3, unknown=1), unpriced=1, money=0.25)
    assert "· at least 7 tokens in, 3 out · at least $0.2500 · model" in summary(some)


async def test_the_terminal_shows_why_a_turn_stopped_and_what_a_run_took(capsys):
    agent = Agent(honest(unknown(PING)), [ping], limits=DOLLAR)
    Screen().turn(await agent.run("go", "t"), lambda call: (), again="")
    Screen().transcript("t", agent.get_state("t"), whole=False)
    told = capsys.readouterr().out
    assert "exhausted: cost: the cost of 1 reply is unknown\n" in told
    assert "# thread t: exhausted, unknown tokens\n" in told


async def test_a_blueprint_asks_the_person_whether_to_go_on_when_spending_is_unknown():
    subtasks = plan(research("a.md"), research("b.md", "a.md"))
    model = honest(unknown(subtasks, usage=Usage(7, 3)))
    agent = Blueprint(model, limits=DOLLAR)
    turn = await agent.run("go", "t")
    assert (turn.status, model.asked) == ("escalated", 1)
    assert turn.question == (
        "This turn may spend 1.0 US dollars and has spent at least 0 (the cost of 1 reply is unknown); "
        "subtasks left: 2. Shall I go on?"
    )


async def test_the_trace_of_a_blueprint_and_an_evaluation_show_unknown_tokens():
    def parts(request):
        return plan(research("a.md")) if is_planner(request) else question_of("what?")

    store = MemoryCheckpointer()
    agent = Blueprint(Mine(parts), checkpointer=store)
    report = await evaluate(agent, [Golden("go", expected_status="escalated")], store=store)
    (case,) = report.cases
    records = [json.loads(line) for line in agent.trace(case.thread_id)]
    assert [(record["node"], record["unknown"]) for record in records if "unknown" in record][:1] == [("planner", 1)]
    assert (case.tokens, report.unknown) == (0, case.unknown)
    assert case.unknown > 1
    assert report.table().endswith("unknown tokens, cost unknown")
    assert "unknown tokens" in report.junit()


# ---- impossible costs and counts


@pytest.mark.parametrize("cost", [-1.0, -1, float("nan"), float("inf")])
def test_an_impossible_cost_is_unknown_and_exhausts_a_budget(cost):
    said = structs.replace(as_reply(PING), cost=cost)
    agent = Agent(ScriptedModel([said] * 5), [ping], limits=DOLLAR)
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.reason, turn.costs.steps) == ("exhausted", "cost", 1)
    assert str(turn.error) == "the cost of 1 reply is unknown"
    assert agent.get_state("t").cost is None


def test_negative_tokens_are_unknown_and_exhaust_a_budget():
    said = structs.replace(as_reply(PING), usage=Usage(-100, 5))
    agent = Agent(ScriptedModel([said] * 5), [ping], limits=Limits(tokens=1000))
    turn = agent.run_sync("go", "t")
    assert (turn.status, turn.reason, turn.costs.steps) == ("exhausted", "tokens", 1)
