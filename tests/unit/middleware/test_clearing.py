"""Clearing of old results: by which rule, in which steps, and with the same outcome after a restart."""

import asyncio
import itertools

import pytest
from harness.agents import sub, task, texts
from harness.files import RunAlone
from harness.stores import copy_of
from hypothesis import given, settings, strategies as st

from minideep import (
    Agent,
    AssistantMessage,
    ConfigError,
    MemoryCheckpointer,
    ToolCall,
    ToolContext,
    ToolMessage,
    Usage,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.backends import StateBackend
from minideep.messages import Messages
from minideep.middleware import (
    ClearToolResults,
    FilesystemMiddleware,
    OffloadMiddleware,
    PatchToolCallsMiddleware,
    SummarizationMiddleware,
)
from minideep.middleware.context import tokens
from minideep.middleware.context.clearing import CLEARED
from minideep.models import ScriptedModel
from minideep.ports import Reply, Request
from minideep.testing import tool_context


def looking(size=4_000):
    @tool
    async def look(about: str = "") -> str:
        """Look."""
        return f"{about} {'x' * size}"

    return look


@tool
async def keep_in_view(about: str = "") -> str:
    """Look."""
    return f"kept {'x' * 4_000}"


def looks(count, *last):
    return [*(ToolCall("look", {"about": str(n)}, f"c{n}") for n in range(count)), *(last or ["done"])]


def cleared(messages):
    """The places among the results that are shown as cleared."""
    shown = [message.text == CLEARED for message in messages if isinstance(message, ToolMessage)]
    return [place for place, is_cleared in enumerate(shown) if is_cleared]


async def run(script, *rest, tools=None, **options):
    model = ScriptedModel(script)
    agent = Agent(model, tools or [looking(), keep_in_view], middleware=[ClearToolResults(**options), *rest])
    turn = await agent.run("go", "t")
    assert turn.status == "ended", turn.error
    return model.requests, turn, agent


async def test_above_the_bound_all_but_the_last_results_are_cleared_at_once_and_stay_so():
    requests, turn, agent = await run(looks(12), above=5_000, keep=2)
    shown = [cleared(request.messages) for request in requests]
    steps = list(dict.fromkeys(map(tuple, shown)))
    assert steps == [(), (0, 1, 2), tuple(range(6)), tuple(range(9))]  # In steps, not one more at each request.
    assert all(sum(map(tokens.of_message, request.messages)) < 6_000 for request in requests)
    assert CLEARED not in "".join(texts(turn.messages))  # It is not recorded.
    assert tuple(agent.transcript("t")) == turn.messages


async def test_below_the_bound_the_request_is_the_same_object():
    middleware = ClearToolResults(above=5_000)
    agent = Agent(ScriptedModel(looks(3)), [looking()])
    await agent.run("go", "t")
    ctx = tool_context(messages=agent.get_state("t").messages)
    request = Request("", ctx.state.messages)
    assert await middleware.before_model(ctx, request) is request


async def test_it_clears_in_steps_even_if_the_rest_alone_is_above_the_bound():
    model = ScriptedModel(looks(20))
    agent = Agent(model, [looking(1_600)], middleware=[ClearToolResults(above=5_000, keep=1)])
    await agent.run("x" * 24_000)
    steps = [len(cleared(request.messages)) for request in model.requests]
    assert steps[-1] >= 17
    assert len({*steps}) <= 11  # Two results or more at a time: one saves less than a tenth of the bound.


async def test_results_that_the_model_has_not_read_are_never_cleared():
    batch = [ToolCall("look", {"about": "new"}, f"b{n}") for n in range(8)]
    requests, _, _ = await run([*looks(3)[:-1], batch, "done", *looks(1)], above=5_000, keep=1)
    last = requests[4].messages
    assert len([message for message in last if isinstance(message, ToolMessage)]) == 11
    assert cleared(last) == [0, 1, 2]


async def test_tools_that_are_excluded_and_small_results_stay():
    script = [ToolCall("keep_in_view"), ToolCall("ping"), *looks(6)]

    @tool
    async def ping() -> str:
        """Answer."""
        return "pong"

    requests, _, _ = await run(
        script, tools=[looking(), keep_in_view, ping], above=5_000, keep=1, exclude=["keep_in_view"]
    )
    assert cleared(requests[-1].messages)
    assert not {0, 1} & {*cleared(requests[-1].messages)}


async def test_calls_and_results_still_belong_together():
    requests, _, _ = await run(looks(8), above=5_000, keep=1)
    for message in requests[-1].messages:
        if isinstance(message, ToolMessage):
            assert (message.name, message.call_id[0]) == ("look", "c")
    assert [len(request.messages) for request in requests] == [*range(1, 19, 2)]


async def test_what_is_left_is_counted_before_anything_is_summarized():
    """Without it, the same conversation is summarized."""
    for middleware, summaries in (([ClearToolResults(above=5_000, keep=2)], 0), ([], 1)):
        model, summarizer = ScriptedModel(looks(20)), ScriptedModel(["short"] * 9)
        files = StateBackend()
        compaction = SummarizationMiddleware(model, files, summarizer=summarizer, trigger=10_000, keep=4)
        agent = create_deep_agent(model, [looking()], backend=files, middleware=[*middleware, compaction])
        assert (await agent.run("go", "t")).status == "ended"
        assert bool(summarizer.requests) == bool(summaries)


async def test_after_a_summary_it_begins_again_with_what_is_left():
    model, files = ScriptedModel(looks(40)), StateBackend()
    compaction = SummarizationMiddleware(model, files, summarizer=ScriptedModel(["short"] * 40), trigger=6_000, keep=8)
    agent = Agent(model, [looking()], middleware=[ClearToolResults(above=5_000, keep=5), compaction])
    turn = await agent.run("go", "t")
    assert turn.status == "ended", turn.error
    assert any(
        request.messages[0].text.startswith("[Summary") and cleared(request.messages) for request in model.requests
    )
    assert all(sum(map(tokens.of_message, request.messages)) < 10_000 for request in model.requests)


async def test_long_messages_are_stubs_and_old_results_cleared_at_the_same_time():
    model, files = ScriptedModel(looks(12)), StateBackend()
    hooks = [OffloadMiddleware(files, message_tokens=1_000), PatchToolCallsMiddleware()]
    for order in ([ClearToolResults(above=5_000), *hooks], [*hooks, ClearToolResults(above=5_000)]):
        model = ScriptedModel(looks(12))
        turn = await Agent(model, [looking()], middleware=[FilesystemMiddleware(files), *order]).run("long " * 4_000)
        assert turn.status == "ended", turn.error
        last = model.requests[-1].messages
        assert "too large to be shown" in last[0].text
        assert len(cleared(last)) >= 6


async def test_a_subagent_is_shown_its_own_results_by_the_same_rule():
    child = ScriptedModel(looks(8))
    main = ScriptedModel([task("one"), "ok"])
    agent = create_deep_agent(
        main, [looking()], subagents=[sub("one", child)], middleware=[ClearToolResults(above=5_000, keep=1)]
    )
    assert (await agent.run("go")).status == "ended"
    assert cleared(child.requests[-1].messages)


@pytest.mark.parametrize("summarized", [False, True])
async def test_another_process_is_shown_the_same(summarized):
    def middleware(model):
        files = StateBackend()
        compaction = SummarizationMiddleware(model, files, summarizer=ScriptedModel(["s"] * 99), trigger=7_000, keep=6)
        return [OffloadMiddleware(files), ClearToolResults(above=5_000, keep=3), *([compaction] if summarized else [])]

    store, left = MemoryCheckpointer(), []

    class Watched(ScriptedModel):
        async def complete(self, request, emit):
            left.append(copy_of(store))
            reply = await super().complete(request, emit)
            size = sum(map(tokens.of_message, request.messages)) + tokens.of_head(request)
            return Reply(reply.message, Usage(round(size * 1.2), 5))

    model = Watched(looks(25))
    agent = Agent(model, [looking()], middleware=middleware(model), checkpointer=store, durability="step")
    assert (await agent.run("go", "t")).status == "ended"
    assert cleared(model.requests[-1].messages)
    for at, copy in enumerate(left):
        later = ScriptedModel(["done"])
        other = Agent(later, [looking()], middleware=middleware(later), checkpointer=copy)
        assert (await other.resume("t")).status == "ended"
        assert list(later.requests[0].messages) == list(model.requests[at].messages), at


@st.composite
def conversations(draw):
    messages = [UserMessage("go")]
    for step in range(draw(st.integers(0, 12))):
        names = draw(st.lists(st.sampled_from(["look", "keep"]), min_size=1, max_size=4))
        calls = [ToolCall(name, {}, f"{step}-{n}") for n, name in enumerate(names)]
        messages.append(AssistantMessage(tuple(calls)))
        messages += [ToolMessage("x" * draw(st.integers(0, 6_000)), call.id, call.name) for call in calls]
        if draw(st.booleans()):
            messages += [AssistantMessage("so"), UserMessage("and?")]
    return messages


class Following:
    """A run that grows message by message, and is shown by one middleware all the time."""

    def __init__(self, middleware):
        self.run = RunAlone()
        self.run.scratch = {}
        self.run.state.messages.clear()
        self.middleware = middleware

    async def shown(self, messages):
        state = self.run.state
        state.messages.extend(messages[len(state.messages) :])
        request = Request("", Messages(state.messages))
        return list((await self.middleware.before_model(ToolContext(self.run), request)).messages)


@given(conversations(), st.integers(200, 5_000), st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_step_by_step_and_at_once_show_the_same(messages, above, keep):
    asked = [at for at, message in enumerate(messages) if message.role == "assistant"] + [len(messages)]
    by_step = Following(ClearToolResults(above, keep, ["keep"]))
    for at in asked:
        step = asyncio.run(by_step.shown(messages[:at]))
        assert step == asyncio.run(Following(ClearToolResults(above, keep, ["keep"])).shown(messages[:at]))
        places = [place for place, message in enumerate(step) if message.role == "tool"]
        gone = [place for place in places if step[place].text == CLEARED]
        assert not gone or sum(map(tokens.of_message, messages[:at])) > above
        assert all(step[place].name == "look" for place in gone)
        unread = itertools.takewhile(lambda message: message.role != "assistant", reversed(step))
        assert CLEARED not in texts(unread)
        assert not {*gone} & {*[place for place in places if step[place].name == "look"][-keep:]}
        assert [message for place, message in enumerate(step) if place not in gone] == [
            message for place, message in enumerate(messages[:at]) if place not in gone
        ]


@pytest.mark.parametrize("wrong", [{"above": 0}, {"keep": 0}, {"exclude": "look"}, {"keep": "x"}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ConfigError):
        ClearToolResults(**wrong)
