"""Everything that `create_deep_agent` builds, together: long runs, small windows, restarts, approvals, failures."""

import asyncio
import itertools
import json

import pytest
from harness.stores import copy_of
from msgspec import structs

from minideep import (
    Approve,
    Edit,
    Limits,
    MemoryCheckpointer,
    ToolCall,
    ToolContext,
    Usage,
    create_deep_agent,
)
from minideep.backends import FilesystemBackend
from minideep.errors import ContextOverflow, ModelError, RateLimited
from minideep.events import Compacted, TextDelta
from minideep.messages import AssistantMessage, Text, ToolMessage, UserMessage
from minideep.middleware.context import tokens
from minideep.middleware.context.summarizer import PROMPT
from minideep.models import FallbackModel, ScriptedModel
from minideep.tools import tool

CHILD = "You do one task for another agent"
SKILL = "---\nname: one\ndescription: does one thing\n---\nDo it."


def size_of(request):
    return tokens.of_head(request) + sum(map(tokens.of_message, request.messages))


def wrong_in(messages):
    """Return what no provider accepts: calls without a result right behind them, and results without a call."""
    waiting, wrong = set(), ["begins with a reply" for m in messages[:1] if isinstance(m, AssistantMessage)]
    for index, message in enumerate(messages):
        if isinstance(message, ToolMessage):
            wrong += [] if message.call_id in waiting else [f"result {index} of no call"]
            waiting.discard(message.call_id)
            continue
        wrong += [f"before {index} nobody answered {call_id}" for call_id in waiting]
        waiting = {call.id for call in message.calls} if isinstance(message, AssistantMessage) else set()
    return wrong + [f"nobody answered {call_id}" for call_id in waiting]


class Provider(ScriptedModel):
    """A model that refuses requests that are too large, notes those that make no sense, and reports its usage."""

    def __init__(self, replies, window=8_000, summary="Known: a thing.", reports=True):
        super().__init__(replies, window)
        self.summary, self.reports = summary, reports
        self.wrong, self.summaries, self.refused = [], 0, 0

    async def complete(self, request, emit):
        size = size_of(request)
        self.wrong += wrong_in(request.messages)
        if size > self.window:
            self.refused += 1
            raise ContextOverflow(f"{size:,.0f} tokens, more than {self.window:,}")
        if request.system == PROMPT:
            self.summaries += 1
            reply = await ScriptedModel([self.summary]).complete(request, None)
        else:
            reply = await super().complete(request, emit)
        return structs.replace(reply, usage=Usage(round(size), 10)) if self.reports else reply


@tool
async def look(about: str = "") -> str:
    """Look at something of 30 KB."""
    return f"{about} " + "lorem ipsum dolor sit amet\n" * 1_100


@tool
async def glance(about: str = "") -> str:
    """Look at something of 5 KB."""
    return f"{about} " + "lorem ipsum dolor sit amet\n" * 200


def deep(model, *tools, store=None, **options):
    options = {"memory": ["/AGENTS.md"], "skills": ["/skills"]} | options
    return create_deep_agent(model, tools or [look], checkpointer=store or MemoryCheckpointer(), **options)


def times(count, reply, last="done"):
    """A script that gives *reply* so many times, and then *last*."""
    numbers = itertools.count()
    return lambda request: reply if next(numbers) < count else last


# ---- requests


def shown(request):
    tools = [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in request.tools]
    return len(request.system) + len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False))


async def test_with_memory_and_skills_a_request_carries_at_most_2500_tokens(tmp_path):
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    (tmp_path / "skills" / "one").mkdir(parents=True)
    (tmp_path / "skills" / "one" / "SKILL.md").write_text(SKILL)
    model = ScriptedModel(["hi"])
    await deep(model, backend=FilesystemBackend(tmp_path)).run("hello")
    assert "Be brief." in model.requests[0].system
    assert "does one thing" in model.requests[0].system
    assert shown(model.requests[0]) / 4 <= 2_500


def busy(steps):
    """200 steps of a main agent that plans, learns, writes, looks, and has subagents that look as much."""
    main, below = itertools.count(), itertools.count(1)

    def says(request):
        if CHILD in request.system:
            return "an answer" if next(below) % 9 == 0 else ToolCall("look", {"about": "below"})
        step = next(main)
        if step >= steps:
            return "done"
        if step == 1:
            return ToolCall("write_todos", {"todos": [{"content": "look", "status": "in_progress"}]})
        if step % 40 == 2:
            lesson = {"file_path": "/AGENTS.md", "content": f"Lesson {step}. " + "word " * 400}
            return ToolCall("write_file", lesson)
        if step % 50 == 5:
            task = {"description": f"look, {step}", "subagent_type": "general-purpose"}
            return [ToolCall("task", task) for _ in range(3)]
        if step % 29 == 4:
            return ToolCall("write_file", {"file_path": f"/notes{step}", "content": "y" * 8_000})
        return [ToolCall("look", {"about": str(step)}) for _ in range(4 if step % 17 == 3 else 1)]

    return says


@pytest.mark.parametrize("window", [128_000, 32_000, 8_000])
@pytest.mark.parametrize("reports", [True, False])
async def test_a_long_run_stays_below_the_window_with_requests_that_make_sense(window, reports):
    model = Provider(busy(200), window, reports=reports)
    agent = deep(model)
    turn = await agent.run("Find everything", "t")
    assert (turn.status, model.refused, model.wrong) == ("ended", 0, [])
    assert model.summaries > 10
    assert len(turn.messages) == len(agent.transcript("t"))
    assert any("Lesson 162" in request.system for request in model.requests)


async def test_each_request_begins_the_next_one_except_after_compactions_and_changes_of_memory():
    model = Provider(busy(60), 128_000)
    await deep(model).run("Find everything", "t")
    main = [request for request in model.requests if CHILD not in request.system]
    broken = [
        number
        for number, (one, two) in enumerate(itertools.pairwise(main), 1)
        if (one.system, one.tools, list(one.messages)) != (two.system, two.tools, two.messages[: len(one.messages)])
    ]
    learnt = [number for number in broken if main[number].system != main[number - 1].system]
    compacted = [number for number in broken if main[number].messages[0] != main[number - 1].messages[0]]
    assert learnt == [3, 43]
    assert set(broken) == {*learnt, *compacted}
    assert len(compacted) < 10


# ---- a restart


STEPS = [
    ToolCall("write_todos", {"todos": [{"content": "a", "status": "in_progress"}]}, "m0"),
    ToolCall("look", {"about": "1"}, "m1"),
    ToolCall("write_file", {"file_path": "/AGENTS.md", "content": "Be kind. " * 50}, "m2"),
    [ToolCall("task", {"description": f"child {n}", "subagent_type": "general-purpose"}, f"t{n}") for n in range(3)],
    ToolCall("look", {"about": "2"}, "m3"),
    [ToolCall("look", {"about": f"b{number}"}, f"b{number}") for number in range(3)],
    ToolCall("compact_conversation", {}, "m4"),
    ToolCall("edit_file", {"file_path": "/AGENTS.md", "old_string": "kind", "new_string": "fair", "replace_all": True}, "m5"),
    *(ToolCall("look", {"about": str(number)}, f"m{number}") for number in (6, 7, 8)),
    "done",
]  # fmt: skip


class Resumable(Provider):
    """A model that goes through `STEPS` from *start* and fails at step *fails*; its subagents look five times."""

    def __init__(self, start=0, fails=None):
        super().__init__(self.says)
        self.step, self.fails = start, fails

    def says(self, request):
        if CHILD in request.system:
            child = next(m.text for m in request.messages if "child " in m.text).partition("child ")[2][0]
            last = [int(call.id[-1]) for m in request.messages if m.role == "assistant" for call in m.calls]
            look = max(last, default=0) + 1
            return f"answer {child}" if look > 5 else ToolCall("look", {"about": f"child {child}"}, f"c{child}{look}")
        if self.step == self.fails:
            raise ModelError("crash")
        self.step += 1
        return STEPS[self.step - 1]

    @property
    def main(self):
        return [request for request in self.requests if CHILD not in request.system]


def same(one, two):
    """Return True if two agents sent the same request; the tool objects of each are its own."""
    views = [(r.system, list(r.messages), [tool.name for tool in r.tools], r.stable, r.cache) for r in (one, two)]
    return views[0] == views[1]


@pytest.mark.parametrize("durability", ["turn", "step", "tool"])
async def test_after_a_failure_at_any_step_the_next_process_sends_the_same_request(durability):
    whole = Resumable()
    assert (await deep(whole).run("go", "t")).status == "ended"
    for step in range(len(STEPS)):
        store = MemoryCheckpointer()
        failed = await deep(Resumable(fails=step), store=store, durability=durability).run("go", "t")
        later = Resumable(start=step)
        assert str(failed.error) == "crash"
        assert (await deep(later, store=store, durability=durability).resume("t")).status == "ended"
        assert same(later.main[0], whole.main[step])
        assert later.wrong == []


async def test_after_a_kill_at_any_model_call_the_next_process_sends_the_same_request():
    store, left = MemoryCheckpointer(), []

    class Watched(Resumable):
        async def complete(self, request, emit):
            if request.system != PROMPT:
                left.append((copy_of(store), request, self.step))
            return await super().complete(request, emit)

    assert (await deep(Watched(), store=store, durability="step").run("go", "t")).status == "ended"
    assert len(left) > len(STEPS) + 15
    for copy, request, step in left:
        later = Resumable(start=step)
        assert (await deep(later, store=copy).resume("t")).status == "ended"
        assert any(same(asked, request) for asked in later.requests)
        assert later.wrong == []


# ---- approvals


async def test_decisions_may_come_in_other_processes_with_compactions_before_and_after():
    paid, store = [], MemoryCheckpointer()

    @tool
    async def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return f"paid {amount}"

    below = [*(ToolCall("glance", {}, f"k{n}") for n in range(9)), ToolCall("pay", {"amount": 5}, "p1"), "paid it"]
    before = [ToolCall("glance", {}, f"a{number}") for number in range(9)]
    both = [ToolCall("task", {"description": "pay 5", "subagent_type": "general-purpose"}, "t1"),
            ToolCall("pay", {"amount": 7}, "p0"), ToolCall("glance", {}, "b1")]  # fmt: skip
    after = [ToolCall("glance", {}, f"z{number}") for number in range(9)]
    scripts = {"main": iter([*before, both, *after, "all paid"]), "child": iter(below)}
    summaries = []

    async def process(decisions=None):
        model = Provider(lambda request: next(scripts["child" if CHILD in request.system else "main"]))
        agent = deep(model, glance, pay, store=store, interrupt_on={"pay": True}, durability="step")
        turn = await (agent.resume("t", decisions) if decisions else agent.run("go", "t"))
        assert (model.wrong, model.refused) == ([], 0)
        summaries.append(model.summaries)
        return turn

    first = await process()
    assert [(wait.call_id, wait.path) for wait in first.interrupts] == [("p1", ("t1",)), ("p0", ())]
    second = await process({"p1": Approve()})
    assert [wait.call_id for wait in second.interrupts] == ["p0"]
    third = await process({"p0": Edit({"amount": 8})})
    assert (third.status, third.text, paid) == ("ended", "all paid", [5, 8])
    assert summaries[0] >= 2
    assert summaries[2] >= 1


# ---- failures


async def test_a_thread_goes_on_after_a_cancel_in_the_middle_of_a_summary():
    asked = asyncio.Event()

    class Slow(Provider):
        async def complete(self, request, emit):
            if request.system == PROMPT and not asked.is_set():
                asked.set()
                await asyncio.Event().wait()
            return await super().complete(request, emit)

    model = Slow(times(12, ToolCall("look")), 32_000)
    agent = deep(model)
    running = asyncio.create_task(agent.run("go", "t"))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (await agent.run("again", "t")).status == "ended"
    assert (model.wrong, model.refused) == ([], 0)
    assert model.summaries > 0


@pytest.mark.parametrize("says", ["", "z" * 400_000, ModelError("no"), RuntimeError("broken")], ids=repr)
async def test_a_run_goes_on_whatever_its_summarizer_returns_or_raises(says):
    model = Provider(times(60, ToolCall("glance")), summary=says)
    turn = await deep(model, glance).run("go", "t")
    assert (turn.status, model.refused, model.wrong) == ("ended", 0, [])
    assert model.summaries > 0


async def test_a_request_of_a_subagent_that_was_too_large_is_sent_again_smaller():
    class Small(Provider):
        async def complete(self, request, emit):
            if CHILD in request.system and request.system != PROMPT and len(request.messages) == 9 and not self.refused:
                self.refused += 1
                raise ContextOverflow("too long")
            return await super().complete(request, emit)

    below = times(8, ToolCall("look"), "an answer")
    task = ToolCall("task", {"description": "look", "subagent_type": "general-purpose"}, "t1")
    main = iter([task, "done"])
    model = Small(lambda request: below(request) if CHILD in request.system else next(main), 128_000)
    turn = await deep(model).run("go", "t")
    assert (turn.status, turn.messages[2].text, model.refused, model.wrong) == ("ended", "an answer", 1, [])


async def test_the_smallest_window_of_a_fallback_model_counts():
    spare = Provider(times(60, ToolCall("glance")))
    model = FallbackModel([Provider(lambda request: RateLimited("busy"), 128_000), spare])
    turn = await deep(model, glance).run("go", "t")
    assert (turn.status, spare.refused) == ("ended", 0)


async def test_a_budget_counts_summaries_and_a_resumed_turn_has_a_new_one():
    model = Provider(times(60, ToolCall("glance")))
    agent = deep(model, glance, limits=Limits(tokens=60_000))
    first = await agent.run("go", "t")
    second = await agent.resume("t")
    assert [(turn.status, turn.reason) for turn in (first, second)] == [("exhausted", "tokens")] * 2
    assert 60_000 <= first.usage.total < 70_000


async def test_a_thread_with_a_huge_result_goes_on_where_nothing_can_be_written(tmp_path):
    (tmp_path / "large_tool_results").write_text("in the way")

    @tool
    async def big() -> str:
        """Look at 600 KB."""
        return "lorem ipsum dolor sit amet\n" * 24_000

    store, backend = MemoryCheckpointer(), FilesystemBackend(tmp_path)
    first = Provider([ToolCall("big"), "it was large"], 128_000)
    assert (await deep(first, big, store=store, backend=backend).run("go", "t")).text == "it was large"
    assert "It could not be put into a file; ask for less" in first.requests[-1].messages[2].text
    later = Provider(["yes"], 128_000)
    assert (await deep(later, big, store=store, backend=backend).run("still there?", "t")).text == "yes"
    assert (first.refused, later.refused) == (1, 0)
    assert list(later.requests[0].messages[:3]) == list(first.requests[-1].messages)


@pytest.mark.parametrize("folder", [False, True])
async def test_a_search_finds_the_files_of_the_user_and_not_those_of_the_runtime(folder, tmp_path):
    @tool
    async def large() -> str:
        """Look at 98 KB."""
        return "needle\n" * 14_000

    script = [
        ToolCall("write_file", {"file_path": "/src/a.py", "content": "needle = 1\n"}),
        ToolCall("large", {}, "c1"),
        ToolCall("grep", {"pattern": "needle", "output_mode": "content"}),
        ToolCall("glob", {"pattern": "*"}),
        ToolCall("grep", {"pattern": "needle", "path": "/large_tool_results", "max_count": 5}),
        "done",
    ]
    turn = await deep(Provider(script, 128_000), large, backend=FilesystemBackend(tmp_path) if folder else None).run(
        "go"
    )
    results = [message.text for message in turn.messages if message.role == "tool"]
    assert results[2:4] == ["/src/a.py:1: needle = 1", "/src/a.py"]
    assert results[4] in turn.artifacts


# ---- threads, streams, redaction


@pytest.mark.parametrize("folder", [False, True])
async def test_threads_of_one_agent_see_nothing_of_each_other(folder, tmp_path):
    @tool
    async def who(ctx: ToolContext) -> str:
        """Say which thread this is."""
        await asyncio.sleep(0)
        return f"<{ctx.thread_id}>" * 1_000

    class Watched(Provider):
        async def complete(self, request, emit):
            text = "".join(message.text for message in request.messages)
            self.wrong += ["mixed"] * (sum(f"<{number}>" in text for number in range(6)) > 1)
            await asyncio.sleep(0)
            self.summary = "Known: " + next((f"<{number}>" for number in range(6) if f"<{number}>" in text), "")
            return await super().complete(request, emit)

    questions = itertools.count()

    def says(request):
        return "done" if next(questions) > 90 else ToolCall("who", {}, "call_0")

    model = Watched(says)
    agent = deep(model, who, backend=FilesystemBackend(tmp_path) if folder else None)
    turns = await asyncio.gather(*(agent.run("go", str(number)) for number in range(6)))
    assert {turn.status for turn in turns} == {"ended"}
    assert (model.wrong, model.refused) == ([], 0)
    assert model.summaries > 6


async def test_a_stream_shows_compactions_and_not_the_text_of_the_summarizer():
    task = ToolCall("task", {"description": "look", "subagent_type": "general-purpose"}, "t1")
    main = times(20, ToolCall("glance"), task)
    below = times(20, ToolCall("glance"), "an answer")
    last = iter(["done"])

    def says(request):
        if CHILD in request.system:
            return below(request)
        return next(last) if any(m.text == "an answer" for m in request.messages) else main(request)

    told = [event async for event in deep(Provider(says), glance).stream("go", "t")]
    assert {event.path for event in told if isinstance(event, Compacted)} == {(), ("t1",)}
    assert {event.text for event in told if isinstance(event, TextDelta)} == {"an answer", "done"}


def hidden(value):
    match value:
        case str():
            return value.replace("SECRET", "(not kept)")
        case bytes():
            return value.replace(b"SECRET", b"(not kept)")
        case tuple():
            return tuple(map(hidden, value))
        case Text() | ToolCall() | UserMessage() | AssistantMessage():
            fields = [name for name in ("content", "text", "raw") if name in value.__struct_fields__]
            return structs.replace(value, **{name: hidden(getattr(value, name)) for name in fields})
    return value


def without_secrets(event):
    fields = [name for name in ("content", "message", "summary") if name in event.__struct_fields__]
    return structs.replace(event, **{name: hidden(getattr(event, name)) for name in fields})


async def test_what_is_redacted_from_events_is_in_no_file_summary_or_state(store):
    @tool
    async def large() -> str:
        """Look at 120 KB."""
        return "SECRET and more\n" * 8_000

    calls = itertools.count()

    def says(request):
        call = next(calls)
        return ToolCall("large") if call == 1 else ToolCall("glance", {"about": "SECRET"}) if call < 20 else "SECRET"

    model = Provider(says, summary="Known: SECRET")
    agent = deep(model, large, glance, store=store, redact=without_secrets, durability="step")
    assert (await agent.run("my SECRET", "t")).saved
    later = deep(ScriptedModel([]), store=store)
    state = later.get_state("t")
    kept = [repr(state), *map(repr, later.transcript("t")), *later.export("t")]
    kept += [str(later.read_file("t", file)) for file in state.files]
    assert len(state.files) > 2
    assert model.summaries > 1
    assert not [text for text in kept if "SECRET" in text]
