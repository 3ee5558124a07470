"""Prompt caching: requests only grow at their end, and what they have in common is paid for once."""

import json
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anthropic
import openai
import pytest
from harness.billing import MINIMUM, Bank, blocks_of, without_marks
from harness.providers import Provider, json_answer
from harness.wires import FORMATS, chat, claude, connected, plain_ls, reply, responses
from hypothesis import given, strategies as st
from msgspec import structs

from minideep import Agent, AssistantMessage, ConfigError, Limits, MemoryCheckpointer, Middleware, UserMessage, tool
from minideep.backends import FilesystemBackend, StateBackend
from minideep.cli.render import summary
from minideep.events import Compacted
from minideep.messages import ProviderBlock, Text, Thinking, ToolCall, ToolMessage, Usage
from minideep.middleware import (
    EnvironmentMiddleware,
    FilesystemMiddleware,
    MemoryMiddleware,
    PromptCachingMiddleware,
    Subagent,
    SubAgentMiddleware,
)
from minideep.models import Anthropic, OpenAI, OpenAIChat, ScriptedModel
from minideep.models.anthropic import breakpoints
from minideep.plain_json import to_json
from minideep.ports import Cache, Request

PROMPT = "You keep a library. " * 300
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


@pytest.fixture(params=FORMATS)
def kind(request):
    return request.param


# ---- the law: a request begins with the one before it


def parts(kind, body):
    """The request as the provider caches it, block by block, breakpoints aside."""
    if kind == "anthropic":
        return [(where, json.dumps(without_marks(block))) for where, block in blocks_of(body)]
    tools = [("tools", json.dumps(said)) for said in body["tools"]]
    head = [("system", body["instructions"])] if kind == "openai" else []
    return [*tools, *head, *((item.get("role"), json.dumps(item)) for item in body.get("input") or body["messages"])]


def heads_and_messages(kind, body):
    found = parts(kind, body)
    head = [part for part in found if part[0] in ("tools", "system")]
    return head, found[len(head) :]


async def test_over_50_steps_a_restart_and_a_change_of_memory_requests_only_grow_at_their_end(kind, tmp_path):
    memory = tmp_path / "AGENTS.md"
    memory.write_text("rule ONE")
    store = MemoryCheckpointer()

    @tool
    async def ls(path: str) -> str:
        """List a folder."""
        if path == "/change":
            memory.write_text("rule TWO")
        return f"in {path}"

    def answer(step):
        if step == 29:
            return reply(kind, ("c29", {"path": "/change"}))
        if step % 10 == 3:
            return reply(kind, *((f"c{step}_{n}", {"path": f"/{n}"}) for n in range(12)), text="many")
        return reply(kind, (f"c{step}", {"path": "/x"}), text="one")

    with Provider(*map(answer, range(50)), reply(kind, text="done")) as provider:
        for steps, ask in ((20, lambda agent: agent.run("go", "t")), (40, lambda agent: agent.resume("t"))):
            async with connected(kind, provider.url) as model:
                middleware = [PromptCachingMiddleware(), MemoryMiddleware(["AGENTS.md"], FilesystemBackend(tmp_path))]
                agent = Agent(model, [ls], PROMPT, middleware, checkpointer=store, limits=Limits(steps=steps))
                turn = await ask(agent)
    assert (turn.status, turn.text, len(provider.bodies)) == ("ended", "done", 51)
    found = [heads_and_messages(kind, body) for body in provider.bodies]
    for (_, said), (_, more) in pairwise(found):
        assert said == more[: len(said)]
        assert len(said) < len(more)
    before, after = found[0][0], found[-1][0]
    assert [head for head, _ in found] == [before] * 30 + [after] * 21
    assert after == [*before[:-1], (before[-1][0], before[-1][1].replace("rule ONE", "rule TWO"))]
    assert before[-1][1].find("You keep a library") < before[-1][1].index("rule ONE")


@pytest.mark.parametrize("caching", [[], [PromptCachingMiddleware()]])
async def test_without_the_middleware_a_request_does_not_mention_caching(kind, caching, tmp_path):
    (tmp_path / "AGENTS.md").write_text("rule ONE")
    with Provider(reply(kind, text="hi")) as provider:
        async with connected(kind, provider.url) as model:
            middleware = [*caching, MemoryMiddleware(["AGENTS.md"], FilesystemBackend(tmp_path))]
            await Agent(model, (), PROMPT, middleware).run("go")
    body = json.dumps(provider.bodies[0])
    assert ("cache" in body) == (bool(caching) and kind != "openai-chat")
    assert kind != "anthropic" or len(provider.bodies[0]["system"]) == 1 + bool(caching)


# ---- Anthropic: where the breakpoints are


def marks(body):
    """The numbers, and the marks, of the marked blocks of messages; before them those of tools and prompt."""
    said = list(blocks_of(body))
    head = sum(where in ("tools", "system") for where, _ in said)
    return {at - head: block["cache_control"] for at, (_, block) in enumerate(said) if "cache_control" in block}


def asked(*messages, cache=Cache(), prompt=PROMPT, stable=None, own=(), **settings: Any):  # noqa: B008
    """The request as Anthropic receives it; *own* are tools of the agent."""
    request = Request(prompt, messages, own, stable=stable, cache=cache)
    answer = json_answer(claude.message(claude.text("ok")))
    return claude.ask(answer, requests=(request,), listen=False, **settings).bodies[0]


def step(number, calls):
    """A reply with so many calls, and their results."""
    names = [f"c{number}_{n}" for n in range(calls)]
    return AssistantMessage(tuple(ToolCall("ls", {}, name) for name in names)), *(
        ToolMessage("x", name, "ls") for name in names
    )


HELLO = UserMessage("hello")


def test_prompt_memory_and_the_ends_of_the_last_two_requests_are_marked():
    body = asked(HELLO, *step(1, 2), *step(2, 1), prompt=PROMPT + "memory", stable=len(PROMPT), own=(plain_ls,))
    assert body["system"] == [
        {"type": "text", "text": PROMPT, "cache_control": MARK},
        {"type": "text", "text": "memory", "cache_control": MARK},
    ]
    assert marks(body) == dict.fromkeys([-2, -1, 4, 6], MARK)


def test_without_memory_the_request_before_the_last_is_marked_too():
    body = asked(HELLO, *step(1, 2), *step(2, 1), own=(plain_ls,))
    assert marks(body) == dict.fromkeys([-1, 0, 4, 6], MARK)


@tool
def look() -> str:
    """Look around."""
    return "nothing"


def test_without_a_prompt_the_tools_are_marked():
    body = asked(HELLO, prompt=" ", own=(plain_ls, look))
    assert [tool.get("cache_control") for tool in body["tools"]] == [None, MARK]
    assert marks(body) == dict.fromkeys([-1, 0], MARK)


def test_a_ttl_of_an_hour_is_sent():
    assert marks(asked(HELLO, cache=Cache("1h"))) == dict.fromkeys([-1, 0], HOUR)


def test_a_message_that_is_shown_only_once_is_not_marked():
    body = asked(HELLO, *step(1, 2), UserMessage("remember the milk"), cache=Cache(stable_prefix=4))
    assert list(marks(body)) == [-1, 0, 4]
    assert len(body["messages"][-1]["content"]) == 3


def test_a_breakpoint_moves_to_an_earlier_block_if_its_own_takes_none():
    thought = Thinking("hm", "anthropic", to_json({"type": "thinking", "thinking": "hm", "signature": "s"}))
    new = ProviderBlock("anthropic", to_json({"type": "not_yet_invented"}))
    body = asked(HELLO, AssistantMessage((Text("so"), thought, new)), part=True)
    assert marks(body) == dict.fromkeys([-1, 0, 1], MARK)
    assert marks(asked(UserMessage((new,)))) == {-1: MARK}


def test_marks_do_not_stay_on_the_stored_messages():
    plain = Request(PROMPT, (HELLO, *step(1, 2)))
    requests = plain, structs.replace(plain, cache=Cache()), plain
    answers = [json_answer(claude.message(claude.text("ok")))] * 3
    before, between, after = claude.ask(*answers, requests=requests, listen=False).bodies
    assert before == after
    assert (marks(before), len(marks(between))) == ({}, 3)


def test_the_models_own_cache_settings_win():
    automatic = asked(HELLO, cache_control=MARK)
    assert (marks(automatic), automatic["cache_control"]) == ({}, MARK)


@pytest.mark.parametrize(("own", "ours"), [(1, [-1, 2, 4]), (2, [-1, 4]), (3, [4]), (4, [])])
def test_breakpoints_of_the_user_are_kept_and_counted_and_ours_last_as_long(own, ours):
    blocks = [{"type": "text", "text": f"page {n}"} | ({"cache_control": HOUR} if n < own else {}) for n in range(4)]
    pages = UserMessage(tuple(ProviderBlock("anthropic", to_json(block)) for block in blocks))
    places = {place if place < 0 else place + 1: HOUR for place in ours}
    assert marks(asked(pages, *step(1, 1))) == dict.fromkeys(range(own), HOUR) | places


def test_a_user_who_mixes_lifetimes_sets_all_breakpoints():
    cited = [{"type": "text", "text": "page"} | {"cache_control": mark} for mark in (HOUR, MARK)]
    pages = UserMessage(tuple(ProviderBlock("anthropic", to_json(block)) for block in cited))
    assert marks(asked(pages, *step(1, 1))) == {0: HOUR, 1: MARK}


def test_tools_of_the_settings_are_marked_and_not_written_to():
    search = {"type": "web_search_20250305", "name": "search"}
    assert asked(HELLO, prompt="", tools=[search])["tools"] == [search | {"cache_control": MARK}]
    own = search | {"cache_control": HOUR}
    assert asked(HELLO, prompt="", tools=[own])["tools"] == [own]
    assert search == {"type": "web_search_20250305", "name": "search"}


@tool
def fetch(cache_control: str) -> str:
    """Fetch a page."""
    return cache_control


def test_a_parameter_and_an_argument_of_that_name_are_no_breakpoints():
    called = AssistantMessage((ToolCall("fetch", {"cache_control": "no-store"}, "c1"),))
    body = asked(HELLO, called, ToolMessage("found", "c1", "fetch"), prompt="", own=(fetch,))
    assert body["tools"][0]["cache_control"] == MARK
    assert marks(body) == {-1: MARK, 0: MARK, 2: MARK}


@given(st.lists(st.integers(0, 90), min_size=1, max_size=4, unique=True), st.integers(0, 4))
def test_breakpoints_begin_at_the_end_and_see_where_the_last_request_ended(ends, most):
    ends = sorted(ends, reverse=True)
    found = breakpoints.places(ends, most)
    assert len(found) <= most
    assert found == sorted(set(found), reverse=True)
    assert found[:1] == ends[: min(most, 1)]
    if most > 1 and len(ends) > 1:
        assert any(place - 20 < ends[1] <= place for place in found)
        if ends[0] - ends[1] < 20 * most:
            assert all(a - b <= 20 or b < ends[1] for a, b in pairwise(found))


# ---- Anthropic: what they are good for


@asynccontextmanager
async def banked(say):
    with Bank(say) as bank:
        async with anthropic.AsyncAnthropic(base_url=bank.url, api_key="k" * 9, max_retries=0) as client:
            yield bank, Anthropic("claude-x", client=client)


def calling(name, *arguments):
    return [{"type": "tool_use", "id": f"{name}{n}", "name": "read", "input": one} for n, one in enumerate(arguments)]


@tool
async def read(size: int) -> str:
    """Read so many characters."""
    return "x" * size


@pytest.mark.parametrize("calls", [1, 12, 60])
@pytest.mark.parametrize("remind", [False, True])
async def test_after_any_number_of_parallel_calls_all_that_was_sent_before_is_read_from_the_cache(
    calls, remind, tmp_path
):
    class Reminder(Middleware):
        async def before_model(self, ctx, request):
            return structs.replace(request, messages=[*request.messages, UserMessage(f"step {ctx.state.step}")])

    (tmp_path / "AGENTS.md").write_text("rule ONE")
    thinking = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}

    def say(body):
        if len(bank.bills) == 6:
            return [claude.text("done")]
        return [thinking, claude.text("so"), *calling(f"c{len(bank.bills)}_", *[{"size": 500}] * calls)]

    memory = MemoryMiddleware(["AGENTS.md"], FilesystemBackend(tmp_path))
    middleware = [PromptCachingMiddleware(), memory, EnvironmentMiddleware()]
    async with banked(say) as (bank, model):
        turn = await Agent(model, [read], PROMPT, [*middleware, *([Reminder()] if remind else [])]).run("go")
    assert turn.status == "ended", turn.error
    kept = [bill.read + bill.written for bill in bank.bills]
    assert [bill.read for bill in bank.bills] == [0, *kept[:-1]]
    assert all((bill.rest > 0) == remind for bill in bank.bills)


async def test_the_next_turn_of_a_day_reads_all_that_was_sent_before():
    def say(body):
        return calling(f"c{len(bank.bills)}_", {"size": 8000}) if len(bank.bills) % 2 == 0 else [claude.text("done")]

    async with banked(say) as (bank, model):
        agent = Agent(model, [read], PROMPT, [PromptCachingMiddleware(), EnvironmentMiddleware()])
        for _ in range(3):
            turn = await agent.run("go", "t")
            assert turn.status == "ended", turn.error
    kept = [bill.read + bill.written for bill in bank.bills]
    assert [bill.read for bill in bank.bills] == [0, *kept[:-1]]


async def test_a_change_of_memory_leaves_what_stands_before_it_in_the_cache():
    """The first request after it reads tools and prompt, and each one after that all that was sent before."""
    edits = [
        {"file_path": "/AGENTS.md", "content": "rule ONE " * 600},
        {"file_path": "/AGENTS.md", "content": "rule TWO"},
    ]

    def say(body):
        done = len(bank.bills)
        if done in (1, 4):
            return [{"type": "tool_use", "id": f"w{done}", "name": "write_file", "input": edits[done // 4]}]
        return calling(f"c{done}_", {"size": 8000}) if done < 8 else [claude.text("done")]

    files = StateBackend()
    middleware = [FilesystemMiddleware(files), PromptCachingMiddleware(), MemoryMiddleware(["AGENTS.md"], files)]
    async with banked(say) as (bank, model):
        turn = await Agent(model, [read], PROMPT, middleware).run("go")
    assert turn.status == "ended", turn.error
    kept = [bill.read + bill.written for bill in bank.bills]
    head = bank.bills[1].read
    assert head > MINIMUM
    assert [bill.read for bill in bank.bills] == [0, head, *kept[1:3], head, *kept[4:7]]


class Forgetting(Middleware):
    """A compaction without a model: over *most* characters all but the last messages become a line."""

    def __init__(self, most):
        self.most = most

    async def before_model(self, ctx, request):
        messages = ctx.state.messages
        if sum(len(message.text) for message in messages) <= self.most:
            return request
        ctx.record(Compacted(UserMessage("You have read much; go on."), len(messages) - 6))
        return structs.replace(request, messages=list(ctx.state.messages))


async def test_over_400_steps_with_results_of_30_kb_more_than_four_fifths_come_from_the_cache():
    def say(body):
        bank.bodies.clear()
        done = len(bank.bills)
        return calling(f"c{done}_", {"size": 30_000}) if done < 401 else [claude.text("done")]

    middleware = [Forgetting(0.85 * 128_000 * 4 - 30_000), PromptCachingMiddleware()]
    async with banked(say) as (bank, model):
        turn = await Agent(model, [read], PROMPT, middleware).run("go")
    assert (turn.status, turn.costs.steps) == ("ended", 401)
    assert max(bill.input for bill in bank.bills) < 128_000
    assert bank.share > 0.8
    usage = turn.costs.usage
    assert (usage.cache_read / usage.input, usage.input) == (bank.share, sum(bill.input for bill in bank.bills))
    assert f"{usage.input:,} tokens in, {bank.share:.0%} of it cached" in summary(turn.costs)


async def test_without_the_middleware_nothing_is_cached():
    async with banked(lambda body: [claude.text("done")]) as (bank, model):
        agent = Agent(model, (), PROMPT)
        for _ in range(2):
            await agent.run("go", "t")
    assert [(bill.read, bill.written) for bill in bank.bills] == [(0, 0)] * 2


# ---- OpenAI: the key


async def test_the_requests_of_a_run_have_one_key_also_after_a_restart_and_a_subagent_has_its_own():
    store, task = MemoryCheckpointer(), '{"description": "look", "subagent_type": "critic"}'
    delegate = responses.response(responses.call("c1", task) | {"name": "task"})
    answers = [delegate, *(responses.response(responses.message(text)) for text in ("seen", "done", "again"))]
    thread = "anna@example.com " * 10
    with Provider(*map(json_answer, answers)) as provider:
        for question in ("go", "and now?"):
            async with connected("openai", provider.url) as model:
                critic = Agent(model, (), "You judge.", [PromptCachingMiddleware()], name="critic")
                about = Subagent(name="critic", description="judges", system_prompt="You judge.")
                middleware = [SubAgentMiddleware([(about, critic)]), PromptCachingMiddleware()]
                agent = Agent(model, (), PROMPT, middleware, checkpointer=store)
                turn = await agent.run(question, thread)
    assert turn.text == "again"
    first, child, *others = [body["prompt_cache_key"] for body in provider.bodies]
    assert others == [first, first]
    assert child != first
    assert all(len(key) <= 64 and "anna" not in key for key in (first, child))


async def test_a_cache_key_in_the_settings_wins():
    with Provider(reply("openai", text="hi")) as provider:
        async with openai.AsyncOpenAI(base_url=provider.url, api_key="k" * 9) as client:
            model = OpenAI("gpt-x", client=client, prompt_cache_key="mine")
            await Agent(model, (), "", [PromptCachingMiddleware()]).run("go")
    assert provider.bodies[0]["prompt_cache_key"] == "mine"


@pytest.mark.parametrize("host", ["api.openai.com", "eu.api.openai.com", "notopenai.com", "api.openai.com.example"])
async def test_chat_completions_have_a_key_where_the_server_is_openais(host):
    """The loopback server stands between, as a proxy."""
    with Provider(reply("openai-chat", text="hi")) as provider:
        http = openai.DefaultAsyncHttpxClient(proxy=provider.url)
        async with openai.AsyncOpenAI(base_url=f"http://{host}/v1", api_key="k" * 9, http_client=http) as client:
            turn = await Agent(OpenAIChat("gpt-x", client=client), (), "", [PromptCachingMiddleware()]).run("go")
    assert turn.text == "hi"
    assert provider.paths == [f"http://{host}/v1/chat/completions"]
    assert ("prompt_cache_key" in provider.bodies[0]) == (host in ("api.openai.com", "eu.api.openai.com"))


# ---- any model


async def test_input_means_the_same_everywhere(kind):
    """1,000 tokens went in: 800 were read from the cache, 150 written to it."""
    details = {"cached_tokens": 800, "cache_write_tokens": 150}
    whole = {
        "anthropic": claude.message(
            claude.text("hi"), input_tokens=50, cache_read_input_tokens=800, cache_creation_input_tokens=150
        ),
        "openai": responses.response(
            responses.message("hi"),
            usage={"input_tokens": 1000, "input_tokens_details": details, "output_tokens": 3},
        ),
        "openai-chat": chat.completion({"content": "hi"})
        | {"usage": {"prompt_tokens": 1000, "prompt_tokens_details": details, "completion_tokens": 3}},
    }[kind]
    with Provider(json_answer(whole)) as provider:
        async with connected(kind, provider.url) as model:
            turn = await Agent(model, (), "", [PromptCachingMiddleware()]).run("go")
    assert turn.costs.usage == Usage(1000, 3, 800, 150)
    assert "1,000 tokens in, 80% of it cached" in summary(turn.costs)


async def test_a_model_without_caching_gets_the_same_request():
    model = ScriptedModel(["hi", "hi"])
    await Agent(model, (), PROMPT, [PromptCachingMiddleware()]).run("go")
    await Agent(model, (), PROMPT).run("go")
    cached, plain = model.requests
    assert structs.replace(cached, cache=None) == plain
    assert cached.cache is not None
    assert (cached.cache.ttl, cached.cache.stable_prefix) == ("5m", 1)


def test_a_ttl_that_no_provider_offers_is_refused():
    with pytest.raises(ConfigError, match=r"ttl must be '5m' or '1h', not '2h'"):
        PromptCachingMiddleware("2h")  # type: ignore[arg-type]
