"""Servers that speak Chat Completions, as a table: each by its name, at an address on loopback, with its own key."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from harness.providers import Provider, json_answer
from harness.wires import chat

import minideep.models
from minideep import Agent, ConfigError, Limits, UserMessage
from minideep.models import OpenAIChat, resolve
from minideep.models.openai.served import ServedModel
from minideep.models.servers import SERVERS, server_address
from minideep.ports import Request

LOCAL = [name for name, server in SERVERS.items() if server.start]
HOSTED = [name for name, server in SERVERS.items() if not server.start]
KEY = "sk-test-0123456789"


def says(words="hello", **usage):
    return json_answer(chat.completion({"content": words}, **({"usage": usage} if usage else {})))


def at(provider, name, **env):
    """A model of the server *name*, which is *provider*."""
    return ServedModel(name, "some-model", {SERVERS[name].url_variable: f"{provider.url}/v1"} | env)


async def asked(model, *, times=1, **settings):
    """The last of some turns with *model*, whose connections are then closed."""
    agent = Agent(model, **settings)
    for _ in range(times):
        turn = await agent.run("hi")
    await (await model._client.get()).close()
    return turn


def test_each_server_is_a_provider_of_models_behind_chat_completions():
    for name, server in SERVERS.items():
        model = resolve(f"{name}:org/some-model:tag")
        assert isinstance(model, OpenAIChat)
        assert (model.name, model.key_variable, model.window) == ("org/some-model:tag", server.key_variable, None)
        assert model.unreachable == server.start
        assert server.base_url.startswith("http://127.0.0.1:" if name in LOCAL else "https://")
    assert [name for name in SERVERS if resolve(f"{name}:x").states_cost] == [*LOCAL, "openrouter"]


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_is_asked_at_the_address_in_its_variable_and_with_its_own_key(name):
    with Provider(says()) as provider:
        model = at(provider, name, **{SERVERS[name].key_variable: f" {KEY}\n"})
        assert (await asked(model)).text == "hello"
    assert provider.paths == ["/v1/chat/completions"]
    assert provider.bodies[0]["model"] == "some-model"
    assert provider.headers[0]["authorization"] == f"Bearer {KEY}"


def test_a_model_string_finds_its_address_in_the_environment_and_what_is_there_for_openai_stays_there():
    code = "from minideep import Agent; print(Agent('ollama:some-model').run_sync('hi').text)"
    with Provider(says()) as provider, Provider(says("through a proxy")) as proxy:
        env = {
            "OLLAMA_HOST": provider.url,
            "HTTP_PROXY": proxy.url,
            "ALL_PROXY": proxy.url,
            "PYTHONPATH": os.pathsep.join(sys.path),
        }
        env |= {f"OPENAI_{name}": f"openai's {name}" for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID")}
        env["OPENAI_CUSTOM_HEADERS"] = "X-Gateway: openai's gateway\nauthorization: openai's other key"
        run = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert run.stdout == "hello\n"
    assert provider.headers[0]["authorization"] == "Bearer none"
    assert "openai's" not in str(provider.headers)


@pytest.mark.parametrize("name", HOSTED)
async def test_a_missing_key_gives_one_sentence_that_names_the_variable(name):
    server = SERVERS[name]
    for env in ({}, {server.key_variable: " "}):
        turn = await Agent(ServedModel(name, "m", {"OPENAI_API_KEY": KEY} | env)).run("hi")
        assert str(turn.error) == (
            f"m: MissingKey: {server.title} needs a key; set {server.key_variable} to a key that is accepted"
        )


async def test_a_rejected_key_is_not_shown():
    error = {"error": {"message": f"Incorrect key {KEY}", "code": "invalid_api_key"}}
    with Provider(json_answer(error, 401)) as provider:
        said = str((await asked(at(provider, "groq", GROQ_API_KEY=KEY))).error)
    assert said.endswith("401 invalid_api_key: Incorrect key ***; set GROQ_API_KEY to a key that is accepted")


async def test_a_server_of_ones_own_that_does_not_run_is_a_sentence_that_says_how_to_start_it():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # It does not listen: a connection is refused.
        url = f"http://127.0.0.1:{closed.getsockname()[1]}/v1"
        said = str((await asked(ServedModel("ollama", "m", {"OLLAMA_HOST": url}))).error)
    assert said.startswith("m: APIConnectionError: Connection error")
    assert said.endswith("; start it with `ollama serve`")


async def test_what_runs_on_ones_own_machine_costs_nothing_whether_it_counts_tokens_or_not():
    with Provider(says(), says(unheard=1)) as provider:
        turn = await asked(at(provider, "vllm"), times=2, limits=Limits(cost=0.01))
    assert (turn.status, turn.costs.money, len(provider.bodies)) == ("ended", 0.0, 2)


async def test_what_a_server_says_of_its_cost_counts():
    with Provider(says(prompt_tokens=9, completion_tokens=9, cost=0.25)) as provider:
        turn = await asked(at(provider, "openrouter", OPENROUTER_API_KEY=KEY), limits=Limits(cost=1))
    assert turn.costs.money == 0.25


@pytest.mark.parametrize("paid", ["groq:some-model", "ollama:gpt-oss:120b-cloud", "ollama:big:cloud"])
def test_a_budget_needs_the_price_of_what_is_paid_for(paid):
    with pytest.raises(ConfigError, match=r"has no price, .* give the model `price=Price\(input, output\)`"):
        Agent(paid, limits=Limits(cost=1))


async def test_deepseek_gets_no_schema_which_it_would_reject():
    with Provider(says("{}")) as provider:
        request = Request("", (UserMessage("hi"),), schema={"type": "object"})
        model = at(provider, "deepseek", DEEPSEEK_API_KEY=KEY)
        await model.complete(request, None)
        await (await model._client.get()).close()
    assert provider.bodies[0]["response_format"] == {"type": "text"}


@pytest.mark.parametrize(("name", "sent"), [("groq", False), ("deepseek", True), ("vllm", True)])
async def test_reasoning_goes_back_to_a_server_unless_it_rejects_its_own(name, sent):
    first = json_answer(chat.completion({"content": "hm", "reasoning_content": "let me see"}))
    with Provider(first, says()) as provider:
        model = at(provider, name, **{SERVERS[name].key_variable: KEY})
        agent = Agent(model)
        for _ in range(2):
            await agent.run("hi", "thread")
        await (await model._client.get()).close()
    assert ("reasoning_content" in provider.bodies[1]["messages"][1]) == sent


# ---- addresses


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("", "http://127.0.0.1:11434/v1"),
        ("127.0.0.1", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080/v1"),
        (":8080", "http://127.0.0.1:8080/v1"),
        ("box", "http://box:11434/v1"),
        ("box:80", "http://box:80/v1"),
        ("http://box", "http://box:80/v1"),
        ("https://box", "https://box:443/v1"),
        ("https://box:1/ollama/", "https://box:1/ollama/v1"),
        ("http://box:9/v1", "http://box:9/v1"),
        ("::1", "http://[::1]:11434/v1"),
        ("[::]:5", "http://[::1]:5/v1"),
    ],
)
def test_ollama_is_where_its_own_variable_says_by_its_own_rules(given, expected):
    assert server_address("ollama", {"OLLAMA_HOST": given}) == expected


def test_another_server_is_where_its_variable_says_as_it_is_written():
    assert server_address("groq", {}) == "https://api.groq.com/openai/v1"
    assert server_address("groq", {"GROQ_BASE_URL": " http://box/v1/ "}) == "http://box/v1"


@pytest.mark.parametrize("name", ["ollama", "vllm"])
@pytest.mark.parametrize(
    "wrong", ["http://", "ftp://secret", "http://box:secret", "http://[secret", "http://box:99999", "http://me:secret@"]
)
def test_what_is_no_address_is_refused_and_not_shown(name, wrong):
    variable = SERVERS[name].url_variable
    if (name, wrong) == ("ollama", "http://"):
        wrong = "://secret"
    with pytest.raises(ConfigError) as caught:
        ServedModel(name, "m", {variable: wrong})
    assert str(caught.value) == (
        f"{variable} holds no address; set it to one such as {SERVERS[name].base_url}, or unset it"
    )


# ---- the page


def test_the_page_has_each_server_with_its_address_and_its_variables():
    page = Path(minideep.models.__file__).with_name("README.md").read_text()
    table = page.split("### Servers\n\n")[1].split("\n\n")[0].splitlines()[2:]
    assert [[cell.strip() for cell in row.split("|")[1:-1]] for row in table] == [
        [
            f"`{name}:`",
            server.title,
            f"`{server.base_url}`, `{server.url_variable}`",
            f"`{server.key_variable}`{' if it needs one' if server.start else ''}",
            server.note,
        ]
        for name, server in SERVERS.items()
    ]
