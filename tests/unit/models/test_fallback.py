"""Several models for one: who is asked, when the next is asked instead, and what is kept of who failed."""

import asyncio
import json

import openai
import pytest
from harness.providers import Answer, Provider, cut, json_answer
from harness.wires import chat, claude, connected, ls, reply, responses

from minideep import (
    Agent,
    AuthenticationFailed,
    ConfigError,
    ContextOverflow,
    ModelError,
    Overloaded,
    RateLimited,
    ToolCall,
    Usage,
)
from minideep.events import ModelReplied, Restarted, TextDelta
from minideep.models import Anthropic, FallbackModel, OpenAI, OpenAIChat, Price, ScriptedModel
from minideep.models.scripted import as_reply
from minideep.ports import Reply

BUSY = claude.refusal(529, "overloaded_error", "Overloaded")


class Named(ScriptedModel):
    def __init__(self, name, *replies, **more):
        super().__init__(replies, **more)
        self.name = name


def says(said, cost=None):
    return Reply(as_reply(said).message, Usage(7, 3), cost=cost)


@pytest.mark.parametrize(
    "lost",
    [RateLimited("slow down"), Overloaded("busy"), ConnectionRefusedError("nobody there"), TimeoutError("too long")],
    ids=lambda lost: type(lost).__name__,
)
async def test_the_next_is_asked_where_one_cannot_answer_and_the_reply_says_who_gave_it(lost):
    first, second = Named("first", lost, says("never asked")), Named("second", says("done", 0.5))
    stream = Agent(FallbackModel([first, second])).stream("go")
    replies = [event async for event in stream if isinstance(event, ModelReplied)]
    assert [(event.model, event.usage, event.cost) for event in replies] == [("second", Usage(7, 3), 0.5)]
    assert (stream.turn.text, stream.turn.costs.money) == ("done", 0.5)
    assert first.requests == second.requests


@pytest.mark.parametrize(
    "error",
    [AuthenticationFailed("wrong key"), ContextOverflow("too long"), ModelError("no such field"), ValueError("a bug")],
    ids=lambda error: type(error).__name__,
)
async def test_what_the_next_would_only_hide_is_an_error_at_once(error):
    spare = Named("spare", "never asked")
    turn = await Agent(FallbackModel([Named("first", error), spare])).run("go")
    assert (turn.status, spare.requests) == ("failed", [])
    assert type(turn.error) is (type(error) if isinstance(error, ModelError) else ModelError)
    assert str(error) in str(turn.error)


async def test_every_request_begins_with_the_first_again():
    first = Named("first", Overloaded("busy"), ToolCall("ls", {"path": "/"}), RateLimited("slow down"))
    second = Named("second", ToolCall("ls", {"path": "/"}), "done")
    stream = Agent(FallbackModel([first, second]), [ls]).stream("go")
    who = [event.model async for event in stream if isinstance(event, ModelReplied)]
    assert (who, stream.turn.text) == (["second", "first", "second"], "done")


async def test_when_nobody_answers_the_last_error_tells_of_all():
    models = [
        Named("a", Overloaded("a: busy")),
        Named("b", ConnectionError("gone")),
        Named("c", RateLimited("c: slow")),
    ]
    turn = await Agent(FallbackModel(models)).run("go")
    assert (turn.status, turn.reason) == ("failed", "RateLimited")
    assert str(turn.error) == "a: busy; b: ConnectionError: gone; c: slow"


async def test_the_last_error_keeps_how_long_to_wait():
    limited = RateLimited("b: slow")
    limited.retry_after = 20.0
    turn = await Agent(FallbackModel([Named("a", Overloaded("a: busy")), Named("b", limited)])).run("go")
    assert (turn.error.retry_after, turn.error.transient) == (20.0, True)


async def test_a_fallback_may_be_one_of_the_models():
    inner = FallbackModel([Named("b", Overloaded("b: busy")), Named("c", "done")])
    stream = Agent(FallbackModel([Named("a", Overloaded("a: busy")), inner])).stream("go")
    assert [event.model async for event in stream if isinstance(event, ModelReplied)] == ["c"]


async def test_a_cancelled_turn_asks_nobody_else():
    asked = asyncio.Event()

    async def hang(request):
        asked.set()
        await asyncio.Event().wait()

    spare = Named("spare", "never asked")
    agent = Agent(FallbackModel([ScriptedModel(hang), spare]))
    turn = asyncio.ensure_future(agent.run("go", "t"))
    await asked.wait()
    turn.cancel()
    await asyncio.wait([turn])
    assert (turn.cancelled(), agent.get_state("t").status, spare.requests) == (True, "cancelled", [])


# ---- what it is as a model


def test_its_window_is_the_smallest_that_is_known():
    sizes = [None, 200_000, 128_000]
    assert FallbackModel([Named(str(size), window=size) for size in sizes]).window == 128_000
    assert FallbackModel([Named("a"), "offline:"]).window == float("inf")
    assert FallbackModel(["openai:gpt-5", "offline:"]).window == 272_000
    assert FallbackModel(["openai:unlisted", "offline:"]).window is None


async def test_it_preloads_all_of_its_models_that_can_be():
    class Cold(Named):
        preloaded = False

        async def preload(self):
            self.preloaded = True

    models = [Cold("a"), Named("b"), Cold("c")]
    await Agent(FallbackModel(models)).preload()
    assert [getattr(model, "preloaded", None) for model in models] == [True, None, True]


def test_models_may_be_named_as_everywhere():
    model = FallbackModel(["anthropic:claude-x", "openai:gpt-x", OpenAIChat("local-x"), "offline:"])
    assert [type(one).__name__ for one in model.models] == ["Anthropic", "OpenAI", "OpenAIChat", "OfflineModel"]
    assert model.name == "claude-x or gpt-x or local-x or offline"
    assert [one.name for one in FallbackModel("openai:gpt-x").models] == ["gpt-x"]


@pytest.mark.parametrize(
    ("models", "told"),
    [
        ([], "needs a model to ask"),
        (["gpt-x"], "unknown model 'gpt-x'"),
        ([None], r"models\[0\] must be text or a `Model`, not None"),
    ],
)
def test_what_is_no_model_is_refused(models, told):
    with pytest.raises(ConfigError, match=told):
        FallbackModel(models)


# ---- over the real SDKs


@pytest.mark.parametrize(
    "failed",
    [
        BUSY,
        claude.refusal(429, "rate_limit_error", "slow down"),
        claude.refusal(500, "api_error", "Oops."),
        Answer(b"<h1>Bad gateway</h1>", 502),
        Answer(b"", 504),
        Answer(b"", 408),
    ],
    ids=["529", "429", "500", "502", "504", "408"],
)
async def test_a_provider_that_fails_is_stood_in_for_by_another(failed):
    with Provider(failed) as one, Provider(json_answer(responses.response(responses.message("done")))) as two:
        async with connected("anthropic", one.url) as a, connected("openai", two.url) as b:
            turn = await Agent(FallbackModel([a, b])).run("go")
    assert (turn.text, len(one.bodies), len(two.bodies)) == ("done", 1, 1)


async def test_a_provider_that_is_out_of_reach_is_stood_in_for_by_another():
    with Provider(json_answer(chat.said("done"))) as provider:
        with Provider() as gone:
            pass  # Nobody listens there any more.
        async with connected("openai", gone.url) as a, connected("openai-chat", provider.url) as b:
            assert (await Agent(FallbackModel([a, b])).run("go")).text == "done"


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (claude.refusal(401, "authentication_error", "invalid x-api-key"), AuthenticationFailed),
        (claude.refusal(400, "invalid_request_error", "prompt is too long: 9 > 8"), ContextOverflow),
        (claude.refusal(400, "invalid_request_error", "bad"), ModelError),
        (claude.refusal(404, "not_found_error", "no such model"), ModelError),
        (json_answer([]), ModelError),
    ],
    ids=["key", "window", "request", "model", "answer"],
)
async def test_a_request_that_a_provider_refuses_goes_to_nobody_else(refused, error):
    with Provider(refused) as one, Provider() as two:
        async with connected("anthropic", one.url) as a, connected("openai", two.url) as b:
            turn = await Agent(FallbackModel([a, b])).run("go")
    assert (type(turn.error), two.bodies) == (error, [])


async def test_nothing_of_a_stream_that_broke_off_is_kept_and_listeners_are_told():
    """The first provider breaks off twice, as the adapter itself tries once more; the second is whole."""
    broken = cut(reply("anthropic", text="half of it", stream=True))
    broken = Answer(broken.body[: broken.body.index(b"content_block_stop")], headers=broken.headers, cut=True)
    with (
        Provider(broken, broken) as one,
        Provider(reply("openai", ("c", {"path": "/"}), text="whole", stream=True)) as two,
        Provider(reply("anthropic", text="done", stream=True)) as three,
    ):
        async with (
            connected("anthropic", one.url) as a,
            connected("openai", two.url) as b,
            connected("anthropic", three.url) as c,
        ):
            stream = Agent(Then(FallbackModel([a, b]), c), [ls]).stream("go")
            events = [event async for event in stream]
    kinds = [type(event) for event in events]
    whole = events[len(kinds) - 1 - kinds[::-1].index(Restarted) :]
    assert kinds.count(Restarted) == 2
    assert "".join(event.text for event in whole if isinstance(event, TextDelta)) == "wholedone"
    assert "half" not in repr(stream.turn.messages)
    assert "half" not in json.dumps(three.bodies)
    assert [event.model for event in events if isinstance(event, ModelReplied)] == ["gpt-x", "claude-x"]


class Then:
    """A model for the first request, and another for all others."""

    name = "then"

    def __init__(self, first, others):
        self.models = [first, others]

    async def complete(self, request, emit):
        model = self.models[len(request.messages) > 1]
        answer = await model.complete(request, emit)
        return answer if answer.model else Reply(answer.message, answer.usage, model=model.name)


async def test_what_was_taken_back_is_not_taken_back_again():
    """The first provider breaks off, and has no capacity when its adapter tries once more."""
    whole = reply("anthropic", text="half of it", stream=True)
    broken = cut(whole, whole.body.index(b"content_block_stop"))
    with Provider(broken, BUSY) as one, Provider(reply("openai", text="whole", stream=True)) as two:
        async with connected("anthropic", one.url) as a, connected("openai", two.url) as b:
            stream = Agent(FallbackModel([a, b])).stream("go")
            kinds = [type(event) async for event in stream]
    assert (stream.turn.text, len(one.bodies), kinds.count(Restarted)) == ("whole", 2, 1)


async def test_who_heard_nothing_of_a_failed_reply_is_told_nothing_of_it():
    with Provider(BUSY) as one, Provider(reply("openai", text="whole", stream=True)) as two:
        async with connected("anthropic", one.url) as a, connected("openai", two.url) as b:
            stream = Agent(FallbackModel([a, b])).stream("go")
            assert Restarted not in [type(event) async for event in stream]


async def test_a_thread_goes_on_with_another_provider_and_back_and_is_billed_by_who_answered():
    """The thoughts of each go back to it alone."""
    with (
        Provider(reply("anthropic", ("a", {"path": "/x"})), BUSY, reply("anthropic", text="done")) as one,
        Provider(reply("openai", ("b", {"path": "/y"}))) as two,
    ):
        async with claude.connected(one.url) as sdk, openai.AsyncOpenAI(base_url=two.url, api_key="k" * 9) as other:
            models = [
                Anthropic("claude-x", client=sdk, price=Price(1, 10)),
                OpenAI("gpt-x", client=other, price=Price(100, 0)),
            ]
            turn = await Agent(FallbackModel(models), [ls]).run("go")
    assert turn.text == "done"
    signed, sealed = "c2lnbmVk==", "c2VhbGVk=="
    assert [signed in json.dumps(body) for body in one.bodies] == [False, True, True]
    assert [(signed in json.dumps(body), sealed in json.dumps(body)) for body in two.bodies] == [(False, False)]
    assert sealed not in json.dumps(one.bodies)
    assert all("in /y" in json.dumps(body) for body in one.bodies[2:])
    assert turn.costs.money == pytest.approx((2 * (7 * 1 + 3 * 10) + 7 * 100) / 1e6)


def test_an_error_says_whether_another_model_need_not_meet_it():
    assert [error("x").transient for error in (RateLimited, Overloaded)] == [True, True]
    assert [error("x").transient for error in (ModelError, AuthenticationFailed, ContextOverflow)] == [False] * 3
