"""What every adapter promises of its requests, its stream and its errors: real SDKs, servers on loopback."""

import asyncio
import json
import traceback
from importlib.metadata import version
from inspect import signature
from operator import attrgetter
from pathlib import Path

import pytest
from harness.providers import Provider, cut, sse
from harness.wires import FORMATS, HELLO, WIRES, plain_ls

from minideep import (
    AssistantMessage,
    AuthenticationFailed,
    ConfigError,
    ModelError,
    RateLimited,
    Reply,
    Request,
    Text,
    Usage,
    UserMessage,
)
from minideep.events import Restarted, TextDelta
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


# ---- errors


@pytest.mark.parametrize("listen", [True, False])
def test_the_sdk_waits_and_tries_again(wire, listen):
    answers = limited(wire, retry_after="0.01"), wire.answer(wire.said("hi"), listen)
    heard = wire.ask(*answers, listen=listen, retries=1)
    assert (heard.reply.message.text, Restarted() in heard.events) == ("hi", False)


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
