"""What a thread has cost is read from its log: every amount once, in the turn, the run and the step it belongs to."""

import asyncio
import time
from random import Random

import pytest
from harness.agents import ping, sub, task
from harness.histories import cut, merge
from harness.stores import plain
from msgspec import structs

from minideep import (
    Agent,
    Approve,
    Interrupt,
    MemoryCheckpointer,
    Middleware,
    Overloaded,
    ToolCall,
    ToolContext,
    UnknownThread,
    Usage,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.checkpoint import format as codec, open_store, thread_costs
from minideep.checkpoint.layout import after, log_prefix, thread_prefix
from minideep.events import Compacted
from minideep.messages import AssistantMessage
from minideep.models import ScriptedModel
from minideep.ports import Reply


def reply(content, tokens=10, cost=0.5):
    """A reply that takes ten times as many tokens of input, of which half were cached."""
    message = AssistantMessage(content if isinstance(content, str) else tuple(content))
    return Reply(message, usage=Usage(tokens * 10, tokens, tokens * 5, 0, 1), cost=cost)


def random_text():
    """200,000 characters that hardly shrink, always the same."""
    return Random(1).randbytes(100_000).hex()


class NoPrices:
    """A model that does not state what its replies cost, but for those that do."""

    name = "no-prices"

    def __init__(self, replies):
        self._replies = iter(replies)

    async def complete(self, request, emit):
        return next(self._replies)


class Ask(Middleware):
    async def before_tool(self, ctx, call):
        return Interrupt(call, "sure?") if call.name == "pay" and ctx.decision is None else call


@tool
async def pay() -> str:
    """Pay."""
    return "paid"


def costs_of(store, thread="t"):
    return thread_costs(open_store(store), thread)


def office(store, *replies, helper=("helped",) * 9, **about):
    """A default agent with a subagent that may have to ask before it pays."""
    below = sub(
        "helper",
        NoPrices(helper) if isinstance(helper, list) else ScriptedModel(helper),
        tools=[pay, ping],
        middleware=[Ask()],
    )
    model = ScriptedModel(list(replies))
    return create_deep_agent(model, [ping], subagents=[below], checkpointer=store, name="boss", **about)


async def test_what_turns_runs_and_steps_have_cost_adds_up_to_what_the_turn_itself_has_counted(store):
    helper = [reply([ToolCall("ping", {"text": "abc"})], 3), reply("helped", 4, None)]
    agent = office(
        store, reply([ToolCall("ping"), task("helper", "h")]), reply("done", 20), reply("again"), helper=helper
    )
    turns = [await agent.run("go", "t"), await agent.run("and?", "t")]
    found = costs_of(store)
    assert [(turn.number, turn.said, turn.status) for turn in found.turns] == [(1, "go", "ended"), (2, "and?", "ended")]
    for turn, costs in zip(turns, (one.run.total for one in found.turns), strict=True):
        counted = turn.costs
        assert (costs.replies, costs.tool_calls, costs.tool_chars, costs.usage, costs.cost, costs.unpriced) == (
            counted.steps, counted.tool_calls, counted.tool_chars, counted.usage, counted.money, counted.unpriced,
        )  # fmt: skip
        assert costs.model_s == pytest.approx(counted.model_s)
    assert found.total.replies == 5
    assert found.turns[0].harness_s == turns[0].costs.harness_s

    first, second = found.turns[0].run.steps
    assert [(call.name, len(call.runs)) for call in first.calls] == [("ping", 0), ("task", 1)]
    (child,) = first.calls[1].runs
    assert (child.agent, child.path, child.status) == ("helper", ("h",), "ended")
    assert [[call.name for call in step.calls] for step in child.steps] == [["ping"], []]
    assert (child.total.replies, child.total.usage, child.total.cost, child.total.unpriced) == (
        2, Usage(70, 7, 35, 0, 2), 0.5, 1,
    )  # fmt: skip
    assert (first.own.usage, second.own.usage, first.own.tool_chars) == (
        Usage(100, 10, 50, 0, 1), Usage(200, 20, 100, 0, 1), len("pong") + len("helped"),
    )  # fmt: skip
    assert found.turns[0].run.own.usage + child.total.usage == found.turns[0].run.total.usage
    assert {one.agent: (one.runs, one.own.replies) for one in found.agents} == {"boss": (1, 3), "helper": (1, 2)}


async def test_the_time_of_a_call_that_ran_a_subagent_is_the_subagents(store):
    async def slow(request):
        await asyncio.sleep(0.03)
        return reply("helped")

    below = sub("helper", ScriptedModel(slow))
    model = ScriptedModel([[task("helper", "h"), ToolCall("ping")], "done"])
    agent = create_deep_agent(model, [ping], subagents=[below], checkpointer=store)
    await agent.run("go", "t")
    (turn,) = costs_of(store).turns
    delegated, pinged = turn.run.steps[0].calls
    assert delegated.seconds > 0.02
    assert turn.run.total.tools_s == pinged.seconds
    assert turn.run.total.model_s > 0.02
    (child,) = delegated.runs
    assert turn.start <= child.start < child.steps[0].replied <= child.end <= turn.end
    assert child.steps[0].replied - child.start > 0.02


async def test_what_runs_two_levels_below_is_in_the_sums_of_those_above(store):
    def above(agent, id):
        @tool
        async def delegate(ctx: ToolContext) -> str:
            """Have it done."""
            return (await ctx.run(agent, "go on")).text

        return Agent(NoPrices([reply([ToolCall("delegate", {}, id)]), reply("done")]), [delegate], name=f"above {id}")

    lowest = Agent(NoPrices([reply("lowest", 7)]), name="lowest")
    top = above(above(lowest, "b"), "a")
    top.checkpointer = store
    await top.run("go", "t")
    (turn,) = costs_of(store).turns
    (middle,) = turn.run.steps[0].calls[0].runs
    (below,) = middle.steps[0].calls[0].runs
    assert [run.agent for run in (turn.run, middle, below)] == ["above a", "above b", "lowest"]
    assert [run.total.replies for run in (turn.run, middle, below)] == [5, 3, 1]
    assert [run.total.usage.output for run in (turn.run, middle, below)] == [47, 27, 7]


async def test_the_bytes_of_a_file_belong_to_the_run_that_wrote_it():
    store = MemoryCheckpointer()
    write = ToolCall("write_file", {"file_path": "/a", "content": "words " * 10_000})
    await office(store, [task("helper", "h")], "done", helper=[reply([write]), reply("written")]).run("go", "t")
    (turn,) = costs_of(store).turns
    (child,) = turn.run.steps[0].calls[0].runs
    assert child.own.bytes_raw > 120_000  # The call has the text too.
    assert turn.run.own.bytes_raw < 2_000


async def test_a_file_that_two_turns_wrote_is_counted_once():
    store = MemoryCheckpointer()
    write = [ToolCall("write_file", {"file_path": f"/{name}", "content": random_text()}) for name in "ab"]
    agent = office(store, write[0], "ok", write[1], "ok")
    for text in ("go", "again"):
        await agent.run(text, "t")
    blobs = sum(len(data) for _, data in plain(store).rows("blob/", "blob0"))
    logs = sum(len(data) for _, data in plain(store).rows("log/", "log0"))
    assert len(plain(store).rows("blob/", "blob0")) == 3  # Two calls, and one file.
    assert costs_of(store).total.bytes_stored == blobs + logs


async def test_the_bytes_of_events_add_up_to_the_rows_of_the_log_before_and_after_a_merge(store):
    large = "large " * 40_000
    agent = office(store, [ToolCall("ping", {"text": large}), task("helper", "h")], *["ok"] * 4)
    for text in ("go", "and?", "and then?", "is that all?"):
        await agent.run(text, "t")
    rows = plain(store).rows

    def stored():
        prefix = thread_prefix("log", "t")
        return sum(len(data) for _, data in [*rows(prefix, after(prefix)), *rows("blob/", "blob0")])

    found = costs_of(store)
    assert found.total.bytes_raw > 2 * len(large)  # As an argument and as a result.
    assert found.total.bytes_stored == stored()
    start = log_prefix("t", ())
    if (keys := [key for key, _ in rows(start, after(start))]) and len(keys) > 1:
        assert merge(store, keys) > 0
    again = costs_of(store)
    assert again.total.bytes_stored == stored() < found.total.bytes_stored
    assert again.total.bytes_raw == pytest.approx(found.total.bytes_raw, rel=0.001)  # Times in a segment are offsets.


async def test_waiting_for_a_person_is_no_time_of_the_turn_and_what_goes_on_stands_below_its_call(store):
    agent = office(store, [task("helper", "h")], "done", helper=([ToolCall("pay", {}, "p")], "paid"))
    await agent.run("pay", "t")
    (turn,) = costs_of(store).turns
    assert (turn.status, turn.waited_s) == ("paused", None)
    await asyncio.sleep(0.2)
    await agent.resume("t", {"p": Approve()})
    found = costs_of(store)
    assert found.turns[0].waited_s == found.waited_s > 0.15
    assert found.turns[1].waited_s == 0.0
    assert found.seconds == pytest.approx(sum(turn.end - turn.start for turn in found.turns))
    earlier, answer = found.turns[1].run.steps
    assert (earlier.kind, [call.name for call in earlier.calls], answer.kind) == ("continued", ["task"], "reply")
    assert (earlier.own.tool_calls, answer.own.tool_calls) == (1, 0)
    (child,) = earlier.calls[0].runs
    assert [(step.kind, [call.name for call in step.calls]) for step in child.steps] == [
        ("continued", ["pay"]), ("reply", []),
    ]  # fmt: skip
    assert [run.status for run in (found.turns[0].run.steps[0].calls[0].runs[0], child)] == ["paused", "ended"]


async def test_a_question_to_the_person_is_waited_for_as_well():
    from harness.histories import ask_back

    store = MemoryCheckpointer()
    agent = Agent(ScriptedModel([ToolCall("ask_back"), "fine"]), [ask_back], checkpointer=store)
    await agent.run("go", "t")
    await asyncio.sleep(0.05)
    await agent.run("that one", "t")
    assert [(turn.status, turn.waited_s > 0.04) for turn in costs_of(store).turns] == [
        ("escalated", True), ("ended", False),
    ]  # fmt: skip


async def test_a_summary_is_a_step_of_its_own_and_no_reply(store):
    class Forgetful(Middleware):
        async def before_finish(self, ctx):
            if ctx.state.step == 1:
                ctx.record(Compacted(UserMessage("so far"), 1, Usage(7, 2), "small", 0.25, 0.125))

    agent = Agent(ScriptedModel([reply("done"), reply("again")]), middleware=[Forgetful()], checkpointer=store)
    turn = await agent.run("go", "t")
    found = costs_of(store)
    reply_step, summary = found.turns[0].run.steps
    assert (reply_step.kind, summary.kind, summary.model) == ("reply", "summary", "small")
    assert (summary.own.replies, summary.own.usage, summary.own.model_s, summary.own.cost) == (
        0,
        Usage(7, 2),
        0.25,
        0.125,
    )
    assert (found.total.replies, found.total.usage, found.total.cost) == (1, turn.usage, turn.costs.money)
    assert found.agents[0].models == ("scripted", "small")
    assert found.snapshots > 0


async def test_of_turns_that_retention_removed_tokens_and_money_are_kept(store):
    agent = Agent(ScriptedModel([reply("ok", n) for n in range(1, 7)]), checkpointer=store)
    turns = [await agent.run(f"go {n}", "t") for n in range(6)]
    whole = costs_of(store)
    cut(store, 2)
    found = costs_of(store)
    removed, last = found.turns
    assert (removed.number, removed.removed, removed.status, last.number, last.said) == (5, 5, "ended", 6, "go 5")
    assert removed.run.total.usage == sum((turn.usage for turn in turns[:5]), Usage())
    assert (found.total.usage, found.total.cost) == (whole.total.usage, whole.total.cost)
    assert last.run.total.bytes_raw == pytest.approx(whole.turns[5].run.total.bytes_raw, rel=0.1)


async def test_a_fork_has_cost_what_was_copied(store):
    agent = office(store, reply([task("helper", "h")]), reply("done"), reply("again"))
    for text in ("go", "and?"):
        await agent.run(text, "t")
    agent.fork("t", at=1, thread_id="copy")
    (turn,) = costs_of(store, "copy").turns
    copied, original = turn.run.total, costs_of(store).turns[0].run.total
    assert structs.replace(copied, bytes_stored=0) == structs.replace(original, bytes_stored=0)  # Ids differ in length.
    assert turn.run.steps[0].calls[0].runs[0].agent == "helper"


async def test_a_turn_that_was_cut_short_says_so_and_its_dead_time_is_not_counted(store):
    asked = asyncio.Event()

    async def hang(request):
        asked.set()
        await asyncio.Event().wait()

    first = Agent(ScriptedModel(hang), checkpointer=store)
    await first.start("go", "t")
    await asked.wait()
    await first.aclose()
    assert [(turn.status, turn.end) for turn in costs_of(store).turns] == [("running", None)]
    died = time.time()
    await asyncio.sleep(0.1)
    dead = time.time() - died
    await Agent(ScriptedModel([reply("done")]), checkpointer=store).resume("t")
    (turn,) = costs_of(store).turns
    assert (turn.number, turn.status, turn.cut_short, turn.said) == (1, "ended", 1, "go")
    assert 0 < turn.seconds <= turn.end - turn.start - dead


async def test_the_time_of_requests_that_failed_is_known(store):
    async def busy(request):
        await asyncio.sleep(0.03)
        raise Overloaded("busy")

    agent = Agent(ScriptedModel(busy), checkpointer=store)
    assert (await agent.run("go", "t")).status == "failed"
    (turn,) = costs_of(store).turns
    assert (turn.status, turn.run.total.replies, turn.run.total.model_s) == ("failed", 0, 0.0)
    assert turn.unanswered_s > 0.02


async def test_a_log_without_times_of_events_is_not_taken_for_one_in_which_nothing_took_time():
    """As formats before 1.4 wrote it: all events of an append have its time."""
    store = MemoryCheckpointer()

    async def slow(request):
        await asyncio.sleep(0.02)
        return ToolCall("ping") if len(request.messages) < 4 else "done"

    agent = Agent(ScriptedModel(slow), [ping], checkpointer=store)
    await agent.run("go", "t")
    assert costs_of(store).turns[0].timed
    prefix = log_prefix("t", ())
    for key, data in plain(store).rows(prefix, after(prefix)):
        header, entries = codec.read_segment(data, key)
        events = [codec.encode(entry.number, entry.event) for entry in entries]
        row = codec.seal(structs.replace(header, age=0, bytes_raw=codec.raw_size(events)), events)
        head = plain(store).head("t")
        plain(store).append("t", head, head, {key: row})
    (turn,) = costs_of(store).turns
    assert not turn.timed
    assert {(step.replied, step.ended) for step in turn.run.steps} == {(None, None)}
    assert (turn.run.start, turn.run.total.model_s > 0.06, turn.seconds > 0.06) == (None, True, True)


def test_a_thread_that_does_not_exist_is_unknown(store):
    with pytest.raises(UnknownThread):
        costs_of(store)
