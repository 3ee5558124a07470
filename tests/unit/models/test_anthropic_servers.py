"""Servers that speak the Messages API: which of them take what another has sent, and threads that move between them."""

import json
from typing import Any

import anthropic
import pytest
from harness.providers import Provider, json_answer
from harness.wires import HELLO, claude, plain_ls as ls
from harness.wires.claude import KEY, answer, asking_at, at_address, connected, message, text

from minideep import Agent, MemoryCheckpointer
from minideep.messages import (
    AssistantMessage,
    Citation,
    Document,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from minideep.models.anthropic.blocks import provider_of
from minideep.plain_json import to_json
from minideep.ports import Request

HOME = "http://api.anthropic.com"
ELSEWHERE = "http://other.example:4000/anthropic"


@pytest.mark.parametrize(
    ("url", "provider"),
    [
        ("https://api.anthropic.com", "anthropic"),
        ("https://eu.api.anthropic.com:8443/", "anthropic"),
        ("https://notanthropic.com", "anthropic:notanthropic.com"),
        ("https://api.deepseek.com/anthropic", "anthropic:api.deepseek.com/anthropic"),
        ("https://api.z.ai:443/api/anthropic/", "anthropic:api.z.ai/api/anthropic"),
        ("http://[::1]:4000", "anthropic:[::1]:4000"),
        ("https://me:secret@gateway.example/", "anthropic:gateway.example"),
    ],
)
def test_each_server_but_anthropics_own_is_a_provider_of_its_own(url, provider):
    assert provider_of(connected(url)) == provider


class OwnClient(anthropic.AsyncAnthropic):
    pass


class OwnVertex(anthropic.AsyncAnthropicVertex):
    pass


AT: Any = {"base_url": "https://gateway.example"}
CLOUDS = [
    (anthropic.AsyncAnthropicBedrock, {"api_key": KEY, "aws_region": "eu-west-1"}),
    (anthropic.AsyncAnthropicBedrockMantle, {"api_key": KEY, "aws_region": "eu-west-1"}),
    (anthropic.AsyncAnthropicAWS, {"api_key": KEY, "aws_region": "eu-west-1", "workspace_id": "w"}),
    (anthropic.AsyncAnthropicFoundry, {"api_key": KEY}),
    (anthropic.AsyncAnthropicGoogleCloud, {"project": "p", "location": "eu", "workspace_id": "w", "skip_auth": True}),
    (anthropic.AsyncAnthropicVertex, {"access_token": KEY, "region": "eu", "project_id": "p"}),
    (OwnVertex, {"access_token": KEY, "region": "eu", "project_id": "p"}),
]


@pytest.mark.parametrize(("cloud", "settings"), CLOUDS, ids=lambda given: getattr(given, "__name__", ""))
def test_a_cloud_and_anthropic_are_one_provider_wherever_the_cloud_is_asked(cloud, settings):
    assert provider_of(cloud(**settings, **AT)) == "anthropic"


def test_a_client_derived_from_the_sdks_own_is_told_by_its_address():
    assert provider_of(OwnClient(api_key=KEY, **AT)) == "anthropic:gateway.example"


# ---- a thread moves

UNSIGNED = {"type": "thinking", "thinking": "mine"}
SIGNED = UNSIGNED | {"signature": "bWluZQ=="}
REDACTED = {"type": "redacted_thinking", "data": "bWluZQ=="}
SEARCHED = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
SOURCE = {"type": "web_search_result_location", "url": "https://u.example", "title": "T", "encrypted_index": "e",
          "cited_text": "so"}  # fmt: skip
CITED = text("they say so") | {"citations": [SOURCE]}
THERE = {"type": "thinking", "thinking": "yours", "signature": "eW91cnM="}


def called(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "ls", "input": {"path": "/x"}}


async def turn(client: anthropic.AsyncAnthropic, store: MemoryCheckpointer, said: str, **settings: Any) -> Any:
    """A turn of the one thread with what is *said*, or its last one resumed."""
    async with client:
        agent = Agent(claude.model(client, **settings), [ls], checkpointer=store)
        return await (agent.run(said, "t") if said else agent.resume("t"))


@pytest.mark.parametrize("at", [HOME, ELSEWHERE])
@pytest.mark.parametrize("thought", [UNSIGNED, SIGNED, REDACTED], ids=["unsigned", "signed", "redacted"])
async def test_what_only_one_server_understands_is_kept_while_the_thread_is_at_another(thought, at):
    store, done = MemoryCheckpointer(), answer(message(text("done")))
    looking = answer(message(thought, SEARCHED, FOUND, CITED, called("c1"), stop="tool_use"))
    again = answer(message(THERE, called("c2"), stop="tool_use"))
    with Provider(looking, done, done) as one, Provider(again, done) as two:
        clients = connected(one.url), at_address(at, two.url), connected(one.url)
        turns = [await turn(client, store, "look") for client in clients]
    assert [turn.text for turn in turns] == ["done"] * 3
    mine, yours = one.bodies[2]["messages"], two.bodies[1]["messages"]
    assert mine[1]["content"] == [thought, SEARCHED, FOUND, CITED, called("c1")]
    assert yours[1]["content"] == [text("they say so"), called("c1")]
    assert yours[5]["content"] == [THERE, called("c2")]
    # Anthropic's own goes to all, since blocks in older logs have its name.
    assert mine[5]["content"] == ([THERE] if at == HOME else []) + [called("c2")]


async def test_with_a_budget_a_turn_goes_on_where_another_server_has_thought():
    store, budget = MemoryCheckpointer(), {"type": "enabled", "budget_tokens": 1024}
    failure = claude.refusal(400, "invalid_request_error", "no")
    with (
        Provider(answer(message(SIGNED, called("c1"), stop="tool_use")), failure) as one,
        Provider(answer(message(THERE, text("done")))) as two,
    ):
        begun = await turn(connected(one.url), store, "look", thinking=budget)
        ended = await turn(at_address(HOME, two.url), store, "", thinking=budget)
    assert (begun.status, ended.text) == ("failed", "done")
    assert one.bodies[1]["thinking"] == budget
    assert "thinking" not in two.bodies[0]
    assert two.bodies[0]["messages"][1]["content"] == [called("c1")]


def test_blocks_in_older_logs_go_to_every_server():
    source = Citation("https://u.example", provider="anthropic", raw=to_json(SOURCE))
    blocks = [to_json(block) for block in (SIGNED, SEARCHED, FOUND)]
    older = (
        Thinking("mine", "anthropic", blocks[0]),
        *(ProviderBlock("anthropic", raw) for raw in blocks[1:]),
        Text("they say so", (source,)),
        ToolCall("ls", {"path": "/x"}, "c1"),
    )
    request = Request("", (*HELLO.messages, AssistantMessage(older), ToolMessage("a", "c1", "ls")))
    for at in (HOME, ELSEWHERE):
        body = asking_at(at)(answer(message(text("ok"))), request=request, listen=False, part=True).bodies[0]
        assert body["messages"][1]["content"] == [SIGNED, SEARCHED, FOUND, CITED, called("c1")]


# ---- uploads


async def test_an_uploaded_file_is_named_to_its_own_server_only():
    file = {"id": "file_1", "type": "file", "filename": "f", "mime_type": "text/plain", "size_bytes": 1,
            "created_at": "2026-11-22T00:00:00Z"}  # fmt: skip
    ok = answer(message(text("ok")))
    with Provider(json_answer(file), ok) as one, Provider(ok) as two:
        async with connected(one.url) as here, connected(two.url) as there:
            model = claude.model(here)
            block = await model.upload(Document(b"hi", "text/plain"))
            said = Request("", (UserMessage((Text("read"), block)),))
            for asked in (model, claude.model(there)):
                await asked.complete(said, None)
    assert block.provider == f"anthropic:{one.url.removeprefix('http://')}"
    assert ["file_1" in json.dumps(body) for body in (one.bodies[1], two.bodies[0])] == [True, False]
