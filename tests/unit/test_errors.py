"""The fields of an error survive the turn: in `turn.error`, in the log, and for the tool that ran a child."""

import asyncio
import time

import pytest
from harness.agents import stored
from harness.providers import Provider, cut, sse
from harness.wires import FORMATS, WIRES, connected

from minideep import (
    Agent,
    ContextOverflow,
    ModelError,
    Overloaded,
    RateLimited,
    ToolCall,
    ToolContext,
    tool,
)
from minideep.models import ScriptedModel
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
def test_the_fields_of_a_model_error_are_in_the_turn_and_in_the_log(store, error):
    agent = Agent(ScriptedModel([error]), checkpointer=store)
    assert said(agent.run_sync("go", "t").error) == said(error)
    assert said(error_of(Agent("offline:", checkpointer=store).get_state("t")).exception()) == said(error)


async def test_the_fields_of_an_error_of_a_child_reach_the_tool_that_ran_it():
    seen = []

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        seen.append((await ctx.run(Agent(ScriptedModel([ERRORS[2]])), "go")).error)
        return "so"

    await Agent(ScriptedModel([ToolCall("ask"), "so"]), [ask]).run("go")
    assert said(seen[0]) == said(ERRORS[2])


def test_a_turn_that_ends_after_a_resume_has_no_error():
    agent = Agent(ScriptedModel([ERRORS[2], "so"]))
    agent.run_sync("go", "t")
    assert asyncio.run(agent.resume("t")).error is None
    assert agent.get_state("t").failure is None


@pytest.mark.parametrize("kind", [ConnectionResetError, TimeoutError])
def test_a_lost_connection_of_any_model_is_transient(kind):
    error = Agent(ScriptedModel([kind("gone")])).run_sync("go").error
    assert (type(error), error.transient) == (ModelError, True)
    assert Agent(ScriptedModel([ValueError("x")])).run_sync("go").error.transient is False


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
@pytest.mark.parametrize("provider", FORMATS)
def test_the_fields_of_an_error_of_a_provider_are_kept_with_the_turn(
    provider, answer, kind, transient, retry_after, code
):
    with Provider(WIRES[provider].refusal(answer[1], answer[0], "no", **answer[2])) as server:
        error = asyncio.run(failed(provider, server.url))
    assert said(error) == (kind, str(error), transient, retry_after, code)


async def failed(provider, url):
    """The error of a turn that is streamed, as the terminal does."""
    async with connected(provider, url) as model:
        stream = Agent(model).stream("go")
        async for _ in stream:
            pass
        return stream.turn.error


def test_a_retry_after_date_becomes_seconds():
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + 60))
    with Provider(WIRES["anthropic"].refusal(429, "rate_limit_error", "no", retry_after=date)) as server:
        error = asyncio.run(failed("anthropic", server.url))
    assert 50 < error.retry_after <= 60


def test_a_stream_that_breaks_twice_is_a_transient_error():
    broken = cut(sse({"choices": [{"delta": {"content": "a"}}]}, {"choices": [{"delta": {"content": "b"}}]}))
    with Provider(broken, broken) as server:
        error = asyncio.run(failed("openai-chat", server.url))
    assert (type(error), error.transient) == (ModelError, True)


@pytest.mark.parametrize("text", ["\ud800", "x" * 20_000_000])
async def test_an_error_whose_text_cannot_be_stored_still_fails_the_turn(text):
    agent = Agent(ScriptedModel([ModelError(text)]))
    turn = await agent.run("go", "t")
    assert (turn.status, turn.saved) == ("failed", True)
    assert stored(agent).status == "failed"
