"""What every adapter promises of its requests, its stream and its errors: real SDKs, servers on loopback."""

import asyncio
import json
import os
import re
import socket
import subprocess
import sys
import traceback
from base64 import b64encode
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from importlib.metadata import version
from inspect import signature
from operator import attrgetter
from pathlib import Path

import anthropic
import openai
import pytest
from harness.providers import Answer, Provider, cut, json_answer, sse
from harness.wires import FORMATS, HELLO, WIRES, plain_ls
from pydantic import BaseModel, Field

from minideep import (
    Agent,
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
from minideep.models import FallbackModel, ScriptedModel, Timeouts
from minideep.models.settings import OPTIONS
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
    messages = (UserMessage("a"), AssistantMessage("b"), UserMessage("c"), AssistantMessage("d"), UserMessage("e"))
    requests = (Request("s", messages[:3], (plain_ls,)), Request("s", messages, (plain_ls,)))
    first, second = wire.ask(*[wire.answer(wire.said("x"))] * 2, requests=requests, listen=False).bodies
    name = "input" if "input" in first else "messages"
    assert len(second[name]) == len(first[name]) + 2
    assert json.dumps(second | {name: second[name][:-2]}) == json.dumps(first)


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


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("model", "the model's name is the first argument"),
        ("messages", "the messages are those of the agent: `agent.run(text)`"),
        ("input", "the messages are those of the agent: `agent.run(text)`"),
        ("system", "give the prompt to the agent: `Agent(model, system_prompt=...)`"),
        ("instructions", "give the prompt to the agent: `Agent(model, system_prompt=...)`"),
        ("stream", "a reply is streamed to whoever listens: `agent.stream(text)`"),
        ("max_retries", "give it to a client of the SDK: `client=...`"),
    ],
)
def test_what_is_no_setting_is_refused_with_what_to_do_instead(wire, name, instead):
    with pytest.raises(ConfigError, match=re.escape(f"{name!r} is not a setting; {instead}")):
        wire.model(None, **{name: "x"})


class Deployment(BaseModel):
    """A setting as the SDKs' own types are made."""

    region: str = Field(alias="aRegion")
    tier: int = 7


def test_settings_are_sent_as_the_sdk_sends_them(wire):
    given = {
        "metadata": {"user_id": "u", "of": Deployment(aRegion="eu")},
        "extra_body": {"top_k": 3, "metadata": None, "model": "another"},
        "extra_headers": {"X-Team": "blue"},
        "extra_query": {"trace": "on"},
    }

    async def go():
        with Provider(wire.answer(wire.said("hi"))) as provider:
            async with wire.connected(provider.url) as client:
                await wire.model(client, **given).complete(HELLO, None)
        return provider

    provider = asyncio.run(go())
    assert provider.paths == [f"{wire.model(None).path}?trace=on"]
    assert provider.headers[0]["x-team"] == "blue"
    assert {name: provider.bodies[0][name] for name in ("top_k", "metadata", "model")} == given["extra_body"]


def test_what_becomes_of_the_settings_of_a_caller_changes_no_request(wire):
    given = {
        "metadata": {"of": Deployment(aRegion="eu")},
        "tools": [wire_tool(wire, "search")],
        "extra_body": {"top": {"k": 1}},
        "extra_headers": {"X-Team": "blue"},
    }
    before = deepcopy(given)
    left_out = {"service_tier": openai.omit, "tool_choice": anthropic.NOT_GIVEN}

    async def go():
        with Provider(*[wire.answer(wire.said("hi"))] * 2) as provider:
            async with wire.connected(provider.url) as client:
                model = wire.model(client, **given, **left_out)
                await model.complete(HELLO, None)
                assert given == before
                given["metadata"]["of"] = 1
                given["tools"].clear()
                given["extra_body"]["top"]["k"] = 2
                given["extra_headers"]["X-Team"] = "red"
                await model.complete(HELLO, None)
        return provider

    provider = asyncio.run(go())
    first, second = provider.bodies
    assert first == second
    assert (first["metadata"], first["top"]) == ({"of": {"aRegion": "eu"}}, {"k": 1})
    assert [headers["x-team"] for headers in provider.headers] == ["blue"] * 2
    assert "service_tier" not in first
    assert "tool_choice" not in first


def wire_tool(wire, name):
    """A tool that the provider runs, or that only this server has."""
    return {"type": f"{name}_of_the_server", "name": name}


@pytest.mark.parametrize(
    "client",
    [anthropic.Anthropic(api_key="k"), openai.OpenAI(api_key="k"), anthropic.AsyncAnthropic, object(), "client"],
    ids=["anthropic, sync", "openai, sync", "class", "object", "text"],
)
def test_what_is_no_asynchronous_client_is_refused(wire, client):
    with pytest.raises(ConfigError, match=r"client must be an? `(anthropic|openai).Async"):
        wire.model(client)


def test_the_client_of_the_other_sdk_is_refused():
    for wire, other in (("anthropic", "openai"), ("openai", "anthropic"), ("openai-chat", "anthropic")):
        with pytest.raises(ConfigError, match="client must be an"):
            WIRES[wire].model(WIRES[other].connected("http://box"))


OURS = {
    "anthropic": "max_tokens messages model stream system timeout user_profile_id workspace_id",
    "openai": "input instructions model stream timeout",
    "openai-chat": "messages model stream timeout",
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


# ---- the server and its key

KEY = "sk-0123456789abcdef"
SCRIPT = """
import asyncio, sys
from harness.wires import HELLO, WIRES

async def go(*addresses):
    for wire, address in zip(WIRES.values(), addresses):
        print((await wire.model(None, base_url=address or None).complete(HELLO, None)).message.text)

asyncio.run(go(*sys.argv[1:]))
"""
OF_THE_PROVIDER = {
    **{f"OPENAI_{name}": f"their {name}" for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID")},
    **{f"ANTHROPIC_{name}": f"their {name}" for name in ("API_KEY", "AUTH_TOKEN", "PROFILE", "IDENTITY_TOKEN")},
    "OPENAI_CUSTOM_HEADERS": "X-Gateway: their gateway\nauthorization: their other key",
    "ANTHROPIC_CUSTOM_HEADERS": "X-Gateway: their gateway\nX-Api-Key: their other key\nauthorization: their third",
}


def run_script(*addresses, **env):
    env = {**OF_THE_PROVIDER, **env, "PYTHONPATH": os.pathsep.join(sys.path)}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, *addresses], env=env, capture_output=True, text=True, check=True
    )
    return ran.stdout.split()


def all_saying(words):
    return [wire.answer(wire.said(words)) for wire in WIRES.values()]


def test_a_server_at_a_base_url_gets_nothing_that_the_environment_holds_for_the_provider():
    with Provider(*all_saying("hello")) as provider, Provider(*all_saying("proxy")) as proxy:
        said = run_script(*[provider.url] * 3, HTTP_PROXY=proxy.url, ALL_PROXY=proxy.url)
    assert said == ["hello"] * 3
    assert "their" not in str(provider.headers)
    assert [headers["authorization"] for headers in provider.headers] == ["Bearer none"] * 3


def test_without_a_base_url_the_environment_counts_as_the_sdk_has_it():
    with Provider(*all_saying("hello")) as provider:
        said = run_script("", "", "", ANTHROPIC_BASE_URL=provider.url, OPENAI_BASE_URL=provider.url)
    assert said == ["hello"] * 3
    assert all(headers["x-gateway"] == "their gateway" for headers in provider.headers)


@pytest.mark.parametrize("address", [None, "theirs"])
def test_the_providers_own_address_is_asked_by_the_rules_of_the_sdk(wire, address):
    model = wire.model(None, api_key=KEY, base_url=address and f"https://api.{wire.model(None).home}/v1/")

    async def go():
        client = await model._client.get()
        await client.close()
        return client

    client = asyncio.run(go())
    assert (client.api_key, client.base_url.host) == (KEY, f"api.{model.home}")
    assert "authorization" not in {name.lower() for name in client._custom_headers}


async def asked_at(wire, answer, path="", **given):
    """The reply of a model that makes its own client, or the error."""
    with Provider(answer) as provider:
        model = wire.model(None, base_url=provider.url.replace("//", f"//{given.pop('login', '')}") + path, **given)
        try:
            reply = await model.complete(HELLO, None)
        except ModelError as error:
            reply = error
        await (await model._client.get()).close()
    return reply, provider, model


def test_a_key_that_is_given_goes_to_the_server(wire):
    reply, provider, _ = asyncio.run(asked_at(wire, wire.answer(wire.said("hi")), api_key=f" {KEY}\n"))
    assert reply.message.text == "hi"
    assert provider.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_key_is_seen_nowhere(wire, caplog):
    caplog.set_level("DEBUG")
    refused = wire.refusal(401, "invalid_api_key", f"invalid key {KEY}")
    error, _, model = asyncio.run(asked_at(wire, refused, api_key=KEY))
    assert isinstance(error, AuthenticationFailed)
    assert str(error).endswith("invalid key ***; set api_key= to a key that is accepted")
    agent = Agent(model)
    seen = [repr(model), str(vars(model)), repr(agent), repr(agent.spec), caplog.text]
    assert KEY not in "".join([*seen, *traceback.format_exception(error)])


def test_a_name_and_a_password_in_the_address_reach_the_server_and_nobody_else(wire, caplog):
    caplog.set_level("DEBUG")
    refused = wire.refusal(401, "invalid_api_key", "who are you?")
    error, provider, model = asyncio.run(asked_at(wire, refused, login="me:sesame99@"))
    assert provider.headers[0]["authorization"] == f"Basic {b64encode(b'me:sesame99').decode()}"
    seen = [repr(model), str(vars(model)), repr(Agent(model).spec), caplog.text, *traceback.format_exception(error)]
    assert "HTTP Request" in caplog.text
    assert "sesame99" not in "".join(seen)


def test_a_key_that_is_missing_is_asked_for_by_the_name_of_the_argument(wire):
    refused = wire.refusal(401, "invalid_api_key", "no key")
    error, _, _ = asyncio.run(asked_at(wire, refused))
    assert str(error).endswith("no key; set api_key= to a key that is accepted")


@pytest.mark.parametrize("given", [{"api_key": KEY}, {"base_url": "http://box"}, {"api_key": ""}, {"base_url": ""}])
def test_what_the_client_has_is_not_given_twice(wire, given):
    with pytest.raises(ConfigError, match=r"takes an? (api_key|base_url) or a client, not both; give it to the client"):
        wire.model(wire.connected("http://box"), **given)


def test_a_blank_key_is_refused_when_the_model_is_made(wire):
    with pytest.raises(ConfigError, match="api_key is blank; give the key, or leave it out"):
        wire.model(None, api_key=" ")


def test_a_model_at_a_server_of_ones_own_has_no_price_by_that(wire):
    model = wire.model(None, base_url="http://box/v1")
    # A server of Chat Completions is trusted to state the cost with each reply; one that does not ends the turn.
    assert model.states_cost is (wire.model(None).path == "/chat/completions")


@pytest.mark.parametrize("kind", ["openai", "openai-chat"])
@pytest.mark.parametrize(
    "answer",
    [
        Answer(b"404 page not found", 404),
        json_answer({"error": "Unexpected endpoint or method. (POST /chat/completions)"}),
    ],
    ids=["Ollama", "LM Studio"],
)
def test_an_address_that_lacks_its_path_is_named_with_the_path(kind, answer):
    error, provider, model = asyncio.run(asked_at(WIRES[kind], answer, login="me:sesame99@"))
    assert str(error).endswith(f"; most servers have the API below /v1: write base_url='{model.base_url}/v1'")
    assert model.base_url == provider.url
    error, _, _ = asyncio.run(asked_at(WIRES[kind], answer, "/v1"))
    assert "write base_url" not in str(error)


def test_an_address_with_the_path_that_the_sdk_adds_is_named_without_it():
    error, provider, _ = asyncio.run(asked_at(WIRES["anthropic"], Answer(b"404 page not found", 404), "/v1"))
    assert provider.paths == ["/v1/v1/messages"]
    assert str(error).endswith(f"; the SDK adds /v1 itself: write base_url='{provider.url}'")


# ---- clients of clouds


def azure(url):
    return openai.AsyncAzureOpenAI(
        azure_endpoint=url, api_version="2026-10-01", azure_deployment=None, api_key=KEY, max_retries=0
    )


def bedrock(url):
    return anthropic.AsyncAnthropicBedrock(base_url=url, api_key=KEY, aws_region="eu-west-1", max_retries=0)


def vertex(url):
    return anthropic.AsyncAnthropicVertex(
        base_url=url, access_token=KEY, region="eu", project_id="a-project", max_retries=0
    )


CLOUDS = [
    ("openai-chat", azure, "/openai/deployments/m-1/chat/completions?api-version=2026-10-01", False),
    ("openai-chat", azure, "/openai/deployments/m-1/chat/completions?api-version=2026-10-01", True),
    ("openai", azure, "/openai/responses?api-version=2026-10-01", False),
    ("openai", azure, "/openai/responses?api-version=2026-10-01", True),
    ("anthropic", bedrock, "/model/m-1/invoke", False),
    ("anthropic", bedrock, "/model/m-1/invoke-with-response-stream", True),
    ("anthropic", vertex, "/projects/a-project/locations/eu/publishers/anthropic/models/m-1:rawPredict", False),
    ("anthropic", vertex, "/projects/a-project/locations/eu/publishers/anthropic/models/m-1:streamRawPredict", True),
]


@pytest.mark.parametrize(("kind", "cloud", "path", "listen"), CLOUDS)
def test_the_client_of_a_cloud_reads_the_body_and_asks_where_it_must(kind, cloud, path, listen):
    wire = WIRES[kind]

    async def go():
        with Provider(wire.answer(wire.said("hi there"), listen)) as provider:
            async with cloud(provider.url) as client:
                told = []
                model = wire.model(client, "m-1", timeout=Timeouts())
                reply = await model.complete(HELLO, told.append if listen else None)
        return reply, told, provider

    reply, told, provider = asyncio.run(go())
    assert (reply.message.text, told) == ("hi there", HEARD if listen else [])
    assert provider.paths == [path]
    assert ("model" in provider.bodies[0]) is (cloud is azure)


# ---- how long it may take


def never(wire):
    """An answer of which nothing comes but its head."""
    return replace(sse(), hold=True)


def half(wire):
    return sse(*wire.events(wire.said("hi there"))[:-1], hold=True)


SLOW = {
    "first_byte": (never, Timeouts(first_byte=0.5), "no answer began within 0.5 s"),
    "between": (half, Timeouts(between=0.1), "nothing more came within 0.1 s"),
    "total": (half, 0.5, "the reply was not complete within 0.5 s"),
}


# The clocks are those of all adapters.
@pytest.mark.parametrize(
    ("kind", "limit", "listen"), [*zip(FORMATS, SLOW, [True] * 3, strict=True), ("openai", "first_byte", False)]
)
def test_a_server_that_is_too_slow_is_left(kind, limit, listen):
    wire = WIRES[kind]
    answer, timeout, said = SLOW[limit]

    async def go():
        with Provider(answer(wire)) as provider:
            async with wire.connected(provider.url, retries=2) as client:
                with pytest.raises(ModelError) as caught:
                    await wire.model(client, timeout=timeout).complete(HELLO, (lambda _: None) if listen else None)
                return caught.value, await in_thread(provider.left.wait, 10), len(provider.bodies)

    error, left, requests = asyncio.run(go())
    assert (type(error), error.transient, left, requests) == (ModelError, True, True, 1)
    assert f"{said}; set timeout=Timeouts({limit}=...) to wait longer" in str(error)


def test_a_fallback_is_asked_when_the_time_is_over(wire):
    async def go():
        with Provider(half(wire)) as provider:
            async with wire.connected(provider.url) as client:
                slow = wire.model(client, timeout=Timeouts(between=0.1))
                told = []
                reply = await FallbackModel([slow, ScriptedModel(["spare"])]).complete(HELLO, told.append)
        return reply.message.text, Restarted() in told

    assert asyncio.run(go()) == ("spare", True)


def test_a_server_that_accepts_no_connection_is_left(wire):
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server, ExitStack() as opened:
        address = server.getsockname()
        for _ in range(3):  # As many as it lets wait.
            waiting = opened.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(address)

        async def go():
            async with wire.connected(f"http://127.0.0.1:{address[1]}") as client:
                await wire.model(client, timeout=Timeouts(connect=0.1)).complete(HELLO, None)

        with pytest.raises(ModelError, match=r"no connection was accepted within 0\.1 s; set .*connect=") as caught:
            asyncio.run(go())
    assert caught.value.transient


def test_comments_keep_a_stream_alive(wire):
    events = sse(*wire.events(wire.said("hi there"))).body.split(b"\n\n", 1)
    answer = replace(sse(), body=b"\n\n".join([events[0], *[b": still there"] * 30, events[1]]), gap=0.02)

    async def go():
        with Provider(answer) as provider:
            async with wire.connected(provider.url) as client:
                timeout = Timeouts(first_byte=0.5, between=0.5)
                return await wire.model(client, timeout=timeout).complete(HELLO, lambda _: None)

    assert asyncio.run(go()).message.text == "hi there"


def test_a_client_of_ones_own_keeps_its_own_timeouts(wire):
    async def go():
        with Provider(never(wire), never(wire)) as provider:
            async with wire.connected(provider.url).with_options(timeout=0.1) as client:
                await wire.model(client).complete(HELLO, lambda _: None)

    with pytest.raises(ModelError, match=r"imed out|ReadTimeout") as caught:
        asyncio.run(go())
    assert caught.value.transient


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
