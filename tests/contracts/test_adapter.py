"""What every adapter promises of its requests, its stream and its errors: real SDKs, servers on loopback."""

import asyncio
import json
import re
import traceback
from importlib.metadata import version
from inspect import signature
from operator import attrgetter
from pathlib import Path

import pytest
from harness.providers import Answer, Provider, cut, sse
from harness.wires import FORMATS, HELLO, WIRES, plain_ls, reply

from minideep import (
    Agent,
    AssistantMessage,
    AuthenticationFailed,
    ConfigError,
    Limits,
    ModelError,
    RateLimited,
    Reply,
    Request,
    Text,
    ToolCall,
    ToolContext,
    Usage,
    UserMessage,
    tool,
)
from minideep.events import Restarted, TextDelta
from minideep.models import ScriptedModel
from minideep.models.adapter import OPTIONS
from minideep.workers import in_thread

ROOT = Path(__file__).parents[2]
HEARD = [TextDelta("hi t"), TextDelta("here")]
BROKEN = [(kind, name) for kind in FORMATS for name in WIRES[kind].BROKEN]


@pytest.fixture(params=FORMATS)
def wire(request):
    return WIRES[request.param]


def limited(wire, **headers):
    return wire.refusal(429, "rate_limit_exceeded", "slow down", **headers)


# ---- replies


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
def test_text_is_answered(wire, stream):
    reply = wire.ask(wire.answer(wire.said("hi there"), stream), listen=stream).reply
    assert reply == Reply(AssistantMessage((Text("hi there"),)), Usage(7, 3))


def test_a_request_is_the_same_bytes_up_to_what_is_new(wire):
    messages = (UserMessage("a"), AssistantMessage("b"), UserMessage("c"), AssistantMessage("d"))
    requests = (Request("s", messages[:3], (plain_ls,)), Request("s", messages, (plain_ls,)))
    first, second = wire.ask(*[wire.answer(wire.said("x"))] * 2, requests=requests, listen=False).bodies
    name = "input" if "input" in first else "messages"
    assert len(second[name]) == len(first[name]) + 1
    assert json.dumps(second | {name: second[name][:-1]}) == json.dumps(first)


# ---- a stream that breaks


@pytest.mark.parametrize(("kind", "name"), BROKEN)
def test_a_stream_that_breaks_in_the_middle_is_retried_once_as_a_whole(kind, name):
    wire = WIRES[kind]
    heard = wire.ask(wire.BROKEN[name], wire.WHOLE)
    before = 1 if kind == "anthropic" and name != "cut" else 2
    assert heard.reply.message.text == "hi there"
    assert heard.events == [*HEARD[:before], Restarted(), *HEARD]
    assert heard.bodies[0] == heard.bodies[1]


def test_a_stream_that_breaks_before_anything_was_said_begins_anew_in_silence(wire):
    assert wire.ask(cut(wire.WHOLE, 0), wire.WHOLE).events == HEARD


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
    sizes = [0, 1, len(whole.body) // 2, len(whole.body) - 1]
    seen = await cut_everywhere(kind, sizes, whole, retries=1)
    assert [asked for asked, _, _ in seen] == [2] * 4
    assert {answered.message.text for _, answered, _ in seen} == {"hi there"}


async def test_a_stream_that_nobody_listens_to_is_asked_for_again_too():
    whole = reply("anthropic", ("a", {"path": "/"}), text="hi there", stream=True)
    seen = await cut_everywhere("anthropic", ends_of_events(whole)[:-1], whole, max_tokens=64_000)
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


# ---- errors


@pytest.mark.parametrize("listen", [True, False])
def test_the_sdk_waits_and_tries_again(wire, listen):
    answers = limited(wire, retry_after="0.01"), wire.answer(wire.said("hi"), listen)
    heard = wire.ask(*answers, listen=listen, retries=1)
    assert (heard.reply.message.text, Restarted() in heard.events) == ("hi", False)


@pytest.mark.parametrize("listen", [True, False])
async def test_a_wait_of_an_hour_is_an_error_at_once_and_not_a_turn_that_hangs(wire, listen):
    with Provider(limited(wire, retry_after="3600"), wire.answer(wire.said("never"))) as provider:
        model = wire.model(None, base_url=provider.url, api_key="sk-0123456789")
        with pytest.raises(RateLimited, match="slow down; it asks to wait 3,600 s") as caught:
            await asyncio.wait_for(model.complete(HELLO, (lambda _: None) if listen else None), 20)
        assert (caught.value.retry_after, len(provider.bodies)) == (3600.0, 1)
        await (await model._client.get()).close()


def test_a_request_that_is_refused_is_not_repeated_by_us(wire):
    with pytest.raises(RateLimited, match="slow down"):
        wire.ask(limited(wire), wire.answer(wire.said("never")))


def test_a_server_that_is_not_there_is_a_model_error(wire):
    async def go():
        with Provider() as provider:
            pass
        async with wire.connected(provider.url) as client:
            await wire.model(client, "x").complete(HELLO, None)

    with pytest.raises(ModelError, match=r"^x: APIConnectionError: Connection error: All connection attempts"):
        asyncio.run(go())


def test_a_setting_that_the_sdk_does_not_know_is_refused_when_the_model_is_made(wire):
    with pytest.raises(
        ConfigError, match="knows no setting 'no_such_setting'; what only the server knows goes into extra"
    ):
        wire.model(None, no_such_setting=0)
    with pytest.raises(ConfigError, match="did you mean 'tool_choice'"):
        wire.model(None, tol_choice={})
    with pytest.raises(ConfigError, match="must be values that JSON can express"):
        wire.model(None, metadata=object())


OURS = {
    "anthropic": "max_tokens messages model stream system user_profile_id workspace_id",
    "openai": "input instructions model stream",
    "openai-chat": "messages model stream",
}
"""The arguments that are the adapter's own, or that `extra_headers` says."""


@pytest.mark.parametrize("kind", FORMATS)
def test_the_settings_are_the_arguments_of_the_sdk(kind):
    client = WIRES[kind].connected("http://127.0.0.1:1")
    methods = {"anthropic": "messages", "openai": "responses", "openai-chat": "chat.completions"}
    create = attrgetter(methods[kind])(client).create
    known = WIRES[kind].model(None).known_settings | OPTIONS | set(OURS[kind].split())
    found = set(signature(create).parameters)
    sdk = WIRES[kind].model(None).sdk
    locked = f"{sdk}=={version(sdk)} " in (ROOT / "requirements.lock").read_text()
    assert known == found if locked else known <= found  # A later SDK may have more.


@pytest.mark.parametrize("broken_header", [False, True], ids=["echoed", "malformed"])
def test_the_key_never_stands_in_an_error(wire, broken_header):
    key = "sk-0123456789abcdef"

    async def go():
        with Provider(wire.refusal(401, "invalid_api_key", f"invalid key {key}")) as provider:
            async with wire.connected(provider.url, f"{key}\n" if broken_header else key) as client:
                await wire.model(client).complete(HELLO, None)

    with pytest.raises(ModelError) as caught:
        asyncio.run(go())
    if not broken_header:
        assert isinstance(caught.value, AuthenticationFailed)
        assert "invalid key ***" in str(caught.value)
    assert key not in "".join(traceback.format_exception(caught.value))


# ---- the task


def test_cancelling_hangs_up(wire):
    async def go():
        with Provider(sse(*wire.events(wire.said("hi there"))[:-1], hold=True)) as provider:
            async with wire.connected(provider.url) as client:
                told = asyncio.Event()
                task = asyncio.create_task(wire.model(client).complete(HELLO, lambda _: told.set()))
                await told.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                return await in_thread(provider.left.wait, 10)

    assert asyncio.run(go())


def test_a_listener_that_fails_hangs_up(wire):
    def fail(_):
        raise KeyError("listener")

    async def go():
        with Provider(sse(*wire.events(wire.said("hi there"))[:-1], hold=True)) as provider:
            async with wire.connected(provider.url) as client:
                with pytest.raises(ModelError, match="listener"):
                    await wire.model(client).complete(HELLO, fail)
                return await in_thread(provider.left.wait, 10)

    assert asyncio.run(go())


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


@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
@pytest.mark.parametrize("agent_of", [lambda model: Agent(model, limits=Limits(seconds=0.3)), delegating])
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
