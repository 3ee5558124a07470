"""What an error says survives the turn, and what a turn could not do is said."""

import asyncio
import contextlib
import logging
import time

import anthropic
import openai
import pytest
from harness.providers import Provider, cut, json_answer, sse

from minideep import (
    Agent,
    ConfigError,
    ContextOverflow,
    DiskCheckpointer,
    Limits,
    MemoryCheckpointer,
    Middleware,
    ModelError,
    Overloaded,
    RateLimited,
    ToolCall,
    ToolContext,
    create_deep_agent,
    tool,
)
from minideep.blueprint import Blueprint
from minideep.models import Anthropic, OpenAI, OpenAIChat, ScriptedModel
from minideep.runtime import Turns
from minideep.turn import error_of


def said(error):
    return type(error), str(error), error.transient, error.retry_after, error.code


def failing(kind, transient, retry_after, code):
    error = kind("provider: it failed")
    error.transient, error.retry_after, error.code = transient, retry_after, code
    return error


ERRORS = [
    failing(ModelError, True, None, "api_error"),
    failing(ModelError, False, None, "invalid_request_error"),
    failing(RateLimited, True, 12.5, "rate_limit_error"),
    failing(RateLimited, False, None, "insufficient_quota"),
    failing(Overloaded, True, 0.0, "overloaded_error"),
    failing(ContextOverflow, False, None, "context_length_exceeded"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: error.code)
def test_what_a_models_error_says_stands_in_the_turn_and_in_the_log(store, error):
    agent = Agent(ScriptedModel([error]), checkpointer=store)
    assert said(agent.run_sync("go", "t").error) == said(error)
    assert said(error_of(Agent("offline:", checkpointer=store).get_state("t"))) == said(error)


async def test_what_a_childs_error_says_reaches_the_tool_that_ran_it():
    seen = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        seen.append((await ctx.run(Agent(ScriptedModel([ERRORS[2]])), "go")).error)
        return "so"

    await Agent(ScriptedModel([ToolCall("ask"), "so"]), [ask]).run("go")
    assert said(seen[0]) == said(ERRORS[2])


def test_a_turn_that_is_resumed_says_no_more_what_failed():
    agent = Agent(ScriptedModel([ERRORS[2], "so"]))
    agent.run_sync("go", "t")
    assert asyncio.run(agent.resume("t")).error is None
    assert agent.get_state("t").failure is None


@pytest.mark.parametrize("kind", [ConnectionResetError, TimeoutError])
def test_a_lost_connection_of_a_model_of_ones_own_may_pass(kind):
    error = Agent(ScriptedModel([kind("gone")])).run_sync("go").error
    assert (type(error), error.transient) == (ModelError, True)
    assert Agent(ScriptedModel([ValueError("x")])).run_sync("go").error.transient is False


def anthropic_error(kind, status, **headers):
    return json_answer({"type": "error", "error": {"type": kind, "message": "no"}}, status, **headers)


def openai_error(code, status, **headers):
    return json_answer({"error": {"code": code, "type": code, "message": "no"}}, status, **headers)


@pytest.mark.parametrize(
    ("answer", "kind", "transient", "retry_after", "code"),
    [
        (("rate_limit_error", 429, {"retry_after": "7"}), RateLimited, True, 7.0, "rate_limit_error"),
        (("rate_limit_error", 429, {"retry_after_ms": "1500"}), RateLimited, True, 1.5, "rate_limit_error"),
        (("rate_limit_error", 429, {"retry_after": "soon"}), RateLimited, True, None, "rate_limit_error"),
        (("rate_limit_error", 429, {"retry_after": "-1"}), RateLimited, True, None, "rate_limit_error"),
        (("overloaded_error", 529, {"retry_after": "2.5"}), Overloaded, True, 2.5, "overloaded_error"),
        (("api_error", 500, {}), ModelError, True, None, "api_error"),
        (("invalid_request_error", 400, {}), ModelError, False, None, "invalid_request_error"),
    ],
)
@pytest.mark.parametrize("provider", ["anthropic", "openai", "openai-chat"])
def test_what_a_provider_says_of_an_error_is_kept_with_the_turn(provider, answer, kind, transient, retry_after, code):
    make = anthropic_error if provider == "anthropic" else openai_error
    with Provider(make(answer[0], answer[1], **answer[2])) as server:
        error = asyncio.run(failed(provider, server.url))
    assert said(error) == (kind, str(error), transient, retry_after, code)


async def failed(provider, url):
    """The error of a turn that is streamed, as the terminal does."""
    kinds = {"anthropic": Anthropic, "openai": OpenAI, "openai-chat": OpenAIChat}
    make = anthropic.AsyncAnthropic if provider == "anthropic" else openai.AsyncOpenAI
    async with make(base_url=url, api_key="secret-key", max_retries=0) as client:
        stream = Agent(kinds[provider]("m", client=client)).stream("go")
        async for _ in stream:
            pass
        return stream.turn.error


def test_a_date_after_which_to_ask_again_becomes_seconds():
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 60))
    with Provider(anthropic_error("rate_limit_error", 429, retry_after=date)) as server:
        error = asyncio.run(failed("anthropic", server.url))
    assert 50 < error.retry_after <= 60


def test_a_stream_that_breaks_twice_may_pass():
    broken = cut(sse({"choices": [{"delta": {"content": "a"}}]}, {"choices": [{"delta": {"content": "b"}}]}))
    with Provider(broken, broken) as server:
        error = asyncio.run(failed("openai-chat", server.url))
    assert (type(error), error.transient) == (ModelError, True)


# ---- what could not be saved


def test_a_turn_that_is_not_saved_says_so_in_its_repr_and_in_the_log(tmp_path, caplog):
    (tmp_path / "state").write_text("a file where the folder should be")
    with DiskCheckpointer(tmp_path / "state") as store, caplog.at_level(logging.WARNING, "minideep"):
        try:
            turn = Agent(ScriptedModel(["so"]), checkpointer=store).run_sync("go", "t")
        except Exception as exc:
            pytest.fail(f"the answer was lost: {exc}")
    assert repr(turn) == "<Turn of 't': ended, unsaved, 2 messages, 'so'>"
    assert any("thread 't' is not saved: cannot write the state" in record.getMessage() for record in caplog.records)


def test_a_turn_that_is_saved_does_not_say_so():
    assert repr(Agent(ScriptedModel(["so"])).run_sync("go", "t")) == "<Turn of 't': ended, 2 messages, 'so'>"


# ---- what cannot be changed


@pytest.mark.parametrize("name", ["model", "tools", "system_prompt", "middleware", "limits", "name", "version"])
@pytest.mark.parametrize("make", [Agent, create_deep_agent, Blueprint])
def test_what_an_agent_is_made_of_cannot_be_set_afterwards(make, name):
    agent = make(ScriptedModel([]))
    with pytest.raises(ConfigError, match=rf"agent\.{name} cannot be changed"):
        setattr(agent, name, "other")


def test_what_is_read_when_a_turn_begins_can_be_set():
    agent = Agent(ScriptedModel(["so"]))
    agent.checkpointer, agent.durability, agent.redact = MemoryCheckpointer(), "step", None
    assert agent.run_sync("go").saved


# ---- a model that takes too long


async def hanging(request):
    await asyncio.sleep(30)


async def test_a_model_that_is_asked_is_cut_short_when_the_time_is_up(store):
    agent = Agent(ScriptedModel(hanging), limits=Limits(seconds=0.05), checkpointer=store)
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    assert (turn.status, turn.reason, turn.saved) == ("exhausted", "seconds", True)
    other = Agent(ScriptedModel(["so"]), limits=Limits(seconds=60), checkpointer=store)
    assert (await other.resume("t")).text == "so"


async def test_so_is_one_that_a_subagent_asks_when_the_time_of_the_main_agent_is_up():
    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        return (await ctx.run(Agent(ScriptedModel(hanging)), "go")).status

    agent = Agent(ScriptedModel([ToolCall("ask"), "so"]), [ask], limits=Limits(seconds=0.05))
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    assert (turn.status, turn.reason, turn.messages[-1].text) == ("exhausted", "seconds", "exhausted")


async def test_so_is_a_hook_that_asks_a_model_of_its_own():
    class Slow(Middleware):
        async def before_model(self, ctx, request):
            await asyncio.sleep(30)
            return request

    agent = Agent(ScriptedModel(["so"]), middleware=[Slow()], limits=Limits(seconds=0.05))
    assert (await asyncio.wait_for(agent.run("go", "t"), 10)).reason == "seconds"


@pytest.mark.parametrize("error", [ModelError("lost"), RuntimeError("lost"), TimeoutError("lost")])
async def test_what_a_model_makes_of_being_cut_short_is_not_what_stopped_the_turn(error):
    async def translating(request):
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            raise error from None

    turn = await asyncio.wait_for(Agent(ScriptedModel(translating), limits=Limits(seconds=0.05)).run("go", "t"), 10)
    assert (turn.status, turn.reason) == ("exhausted", "seconds")


async def test_a_model_that_swallows_a_cancel_is_left_behind():
    over = asyncio.Event()

    async def stubborn(request):
        while not over.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await over.wait()
        return "too late"

    agent = Agent(ScriptedModel(stubborn), limits=Limits(seconds=0.05))
    agent._turns = Turns(grace=0.1)
    turn = await asyncio.wait_for(agent.run("go", "t"), 10)
    over.set()
    await asyncio.sleep(0.05)
    assert (turn.status, turn.reason) == ("exhausted", "seconds")
    assert [message.role for message in agent.transcript("t")] == ["user"]


async def test_a_model_that_raises_a_timeout_of_its_own_has_failed():
    agent = Agent(ScriptedModel([TimeoutError("mine")]), limits=Limits(seconds=60))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.reason) == ("failed", "ModelError")


async def test_whoever_cancels_a_turn_with_a_time_limit_cancels_it():
    task = asyncio.create_task(Agent(ScriptedModel(hanging), limits=Limits(seconds=60)).run("go", "t"))
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
