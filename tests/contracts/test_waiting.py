"""What becomes of a request whose connection is lost, or that a server keeps waiting: real SDKs, servers on loopback."""

import asyncio
import re

import pytest
from harness.providers import Answer, Provider, cut, sse
from harness.wires import FORMATS, HELLO, WIRES, reply

from minideep import Agent, Limits, ModelError, RateLimited, ToolCall, ToolContext, tool
from minideep.events import Restarted
from minideep.models import ScriptedModel
from minideep.workers import in_thread


@pytest.fixture(params=FORMATS)
def wire(request):
    return WIRES[request.param]


def limited(wire, **headers):
    return wire.refusal(429, "rate_limit_exceeded", "slow down", **headers)


# ---- a connection that is lost


def ends_of_events(answer):
    """Where the events of *answer* end, and 0."""
    return [0, *(place.end() for place in re.finditer(b"\n\n", answer.body))]


async def cut_everywhere(kind, sizes, whole, told=None, retries=0, **settings):
    """For each of *sizes*: how many requests were made, the reply, and the events, of an answer that is cut there and
    then comes as a *whole*."""
    seen = []
    with Provider() as provider:
        async with WIRES[kind].connected(provider.url, retries=retries) as client:
            for size in sizes:
                provider.answers.extend([cut(whole, size), whole])
                provider.bodies.clear()
                events = []
                answered = await WIRES[kind].model(client, **settings).complete(HELLO, events.append if told else None)
                seen.append((len(provider.bodies), answered, events))
                provider.answers.clear()
    return seen


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_stream_that_is_cut_at_any_event_is_asked_for_again_and_listeners_begin_anew(kind):
    whole = reply(kind, ("a", {"path": "/"}), text="hi there", stream=True)
    sizes = [len(whole.body) - 1, *ends_of_events(whole)[:-1]]
    (_, unbroken, all_events), *seen = await cut_everywhere(kind, sizes, whole, told=True)
    all_events = all_events[-6:]  # Two of the thoughts, two of the text, and two of the call.
    for asked, answered, events in seen:
        withdrawn = events[: events.index(Restarted())] if Restarted() in events else []
        # A reply whose last words have come is whole, and only its counts may be missing.
        assert (asked in (1, 2), answered.message) == (True, unbroken.message)
        assert events == [*all_events[: len(withdrawn)], *([Restarted()] if withdrawn else []), *all_events]
    assert {len(events) for _, _, events in seen} == {6, 8, 9, 10, 11, 12, 13}


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_reply_that_is_cut_is_asked_for_again_if_nobody_listens(kind):
    whole = reply(kind, ("a", {"path": "/"}), text="hi there")
    sizes = [0, len(whole.body) // 2]  # The SDK waits half a second before it asks again.
    seen = await cut_everywhere(kind, sizes, whole, retries=1)
    assert [asked for asked, _, _ in seen] == [2] * 2
    assert {answered.message.text for _, answered, _ in seen} == {"hi there"}


async def test_a_stream_that_nobody_listens_to_is_asked_for_again_too():
    whole = reply("anthropic", ("a", {"path": "/"}), text="hi there", stream=True)
    last = whole.body.index(b"event: message_delta")
    ends = [end for end in ends_of_events(whole) if end <= last]
    seen = await cut_everywhere("anthropic", ends, whole, max_tokens=64_000)
    assert {(asked, answered.message.text) for asked, answered, _ in seen} == {(2, "hi there")}


@pytest.mark.parametrize("size", [0, None], ids=["at once", "in the middle"])
def test_a_connection_that_is_lost_twice_is_one_error_that_may_pass(wire, size):
    lost = wire.BROKEN["cut"] if size is None else cut(wire.WHOLE, size)
    with pytest.raises(ModelError, match=r"peer closed connection [^:]*\)$") as caught:
        wire.ask(lost, lost, wire.WHOLE)
    assert (type(caught.value), caught.value.transient) == (ModelError, True)


@pytest.mark.parametrize("listen", [True, False])
def test_a_server_that_says_nothing_for_too_long_is_an_error_that_may_pass(wire, listen):
    held = sse(*wire.events(wire.said("hi there"))[:3], hold=True)
    with pytest.raises(ModelError, match=r"[Tt]ime") as caught:
        wire.ask(held, held, listen=listen, timeout=0.1)
    assert (type(caught.value), caught.value.transient) == (ModelError, True)


# ---- a wait


@pytest.mark.parametrize("listen", [True, False])
async def test_a_wait_of_an_hour_is_an_error_at_once_and_not_a_turn_that_hangs(wire, listen):
    with Provider(limited(wire, retry_after="3600"), wire.answer(wire.said("never"))) as provider:
        model = wire.model(None, base_url=provider.url, api_key="sk-0123456789")
        with pytest.raises(RateLimited, match="slow down; it asks to wait 3,600 s") as caught:
            await asyncio.wait_for(model.complete(HELLO, (lambda _: None) if listen else None), 20)
        assert (caught.value.retry_after, len(provider.bodies)) == (3600.0, 1)
        await (await model._client.get()).close()


def delegating(model):
    """An agent whose only tool is a subagent with *model*."""

    @tool
    async def ask(ctx: ToolContext) -> str:
        """Ask."""
        return (await ctx.run(Agent(model), "go")).status

    return Agent(ScriptedModel([ToolCall("ask"), "so"]), [ask], limits=Limits(seconds=0.3))


async def streamed(agent):
    stream = agent.stream("go")
    async for _ in stream:
        pass
    return stream.turn


@pytest.mark.parametrize(
    ("agent_of", "stream"), [(lambda model: Agent(model, limits=Limits(seconds=0.3)), True), (delegating, False)]
)
@pytest.mark.parametrize("waits", ["the server says nothing", "the SDK waits before it tries again"])
async def test_a_model_call_is_cut_when_the_seconds_of_the_run_are_spent(wire, waits, agent_of, stream):
    busy = waits.startswith("the SDK")
    answer = limited(wire, retry_after="60") if busy else Answer(b"", hold=True)
    with Provider(wire.answer(wire.said("hi")), answer) as provider:
        async with wire.connected(provider.url, retries=2) as client:
            await wire.model(client).complete(HELLO, None)  # A client's first request takes far longer than the others.
            agent = agent_of(wire.model(client))
            turn = await asyncio.wait_for(streamed(agent) if stream else agent.run("go"), 20)
        assert (turn.status, turn.reason, len(provider.bodies)) == ("exhausted", "seconds", 2)
        assert busy or await in_thread(provider.left.wait, 10)
