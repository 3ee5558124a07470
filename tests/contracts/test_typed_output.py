"""Typed results over the three APIs: the real SDKs, a server on loopback, and the oracle that reads every body."""

import pytest
from harness.agents import ping
from harness.providers import SCHEMA
from harness.wires import FORMATS
from harness.wires.replying import Replying
from msgspec import Struct

from minideep import Agent, AssistantMessage, Reply, ToolCall
from minideep.middleware import FINAL_ANSWER
from minideep.models import Anthropic, FallbackModel, OpenAI, OpenAIChat
from minideep.strict_schema import strict


class Finding(Struct):
    line: int
    issue: str = "unknown"


class Report(Struct):
    title: str
    findings: list[Finding]
    score: int = 5


GOOD = '{"title": "t", "findings": [{"line": 3, "issue": null}], "score": null}'
WANTED = Report("t", [Finding(3)])
CALL = ToolCall("ping", {"text": "found"}, "c1")
ANSWER = ToolCall(FINAL_ANSWER, {"title": "t", "findings": [{"line": 3}]}, "c2")


def says(**replies):
    """What a server says for the last text that it is sent."""
    said = {
        name: reply if isinstance(reply, Reply) else Reply(AssistantMessage(reply)) for name, reply in replies.items()
    }
    return lambda last: next(reply for name, reply in said.items() if name == "otherwise" or name in last)


async def run(provider, model, *, listen, tools=(), **options):
    """The turn of an agent, and what its server was asked."""
    agent = Agent(model, tools, response_format=Report, **options)
    try:
        if listen:
            async with agent.stream("go", "t") as stream:
                async for _ in stream:
                    pass
            return stream.turn
        return await agent.run("go", "t")
    finally:
        await provider.close_clients()


def schema_in(kind, body):
    if kind == "anthropic":
        return body.get("output_config", {}).get("format", {}).get("schema")
    if kind == "openai":
        return body.get("text", {}).get("format", {}).get("schema")
    return body.get("response_format", {}).get("json_schema", {}).get("schema")


def names_in(kind, body):
    tools = body.get("tools", ())
    return [tool["function"]["name"] if kind == "openai-chat" else tool["name"] for tool in tools]


@pytest.mark.parametrize("listen", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("tools", [(), (ping,)], ids=["alone", "tools"])
@pytest.mark.parametrize("kind", FORMATS)
async def test_a_provider_is_held_to_the_schema_with_tools_and_without(kind, tools, listen):
    replies = says(found=GOOD, otherwise=(CALL,) if tools else GOOD)
    with Replying(kind, replies) as provider:
        model = provider.model()
        assert model.structured_output is True
        turn = await run(provider, model, listen=listen, tools=tools)
    assert (turn.status, turn.output) == ("ended", WANTED)
    for body in provider.bodies:
        assert schema_in(kind, body)["required"] == ["title", "findings", "score"]
        assert names_in(kind, body) == [tool.name for tool in tools]


@pytest.mark.parametrize("listen", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", FORMATS)
async def test_a_reply_that_is_refused_is_asked_for_again_in_the_same_conversation(kind, listen):
    with Replying(kind, says(refused=GOOD, otherwise='{"title": "t"}')) as provider:
        turn = await run(provider, provider.model(), listen=listen)
    assert (turn.output, len(provider.bodies)) == (WANTED, 2)
    first, second = (body.get("messages") or body["input"] for body in provider.bodies)
    assert second[: len(first)] == first


@pytest.mark.parametrize("listen", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("kind", FORMATS)
async def test_a_model_without_the_mode_gives_its_answer_by_the_tool(kind, listen):
    wrong = (ToolCall(FINAL_ANSWER, {"title": "t"}, "c1"),)
    with Replying(kind, says(findings=(ANSWER,), otherwise=wrong)) as provider:
        model = provider.model()
        model.structured_output = False
        turn = await run(provider, model, listen=listen, tools=[ping])
    assert (turn.output, len(provider.bodies)) == (WANTED, 2)
    for body in provider.bodies:
        assert schema_in(kind, body) is None
        assert names_in(kind, body) == [FINAL_ANSWER, "ping"]


@pytest.mark.parametrize("kind", FORMATS)
async def test_a_thread_goes_on_with_a_model_that_is_asked_in_the_other_way(kind):
    with Replying(kind, says(again=GOOD, otherwise=(ANSWER,))) as provider:
        model = provider.model()
        model.structured_output = False
        agent = Agent(model, response_format=Report)
        assert (await agent.run("go", "t")).output == WANTED
        model.structured_output = True
        assert (await agent.run("again", "t")).output == WANTED
        await provider.close_clients()
    assert schema_in(kind, provider.bodies[1])


async def test_a_fallback_gives_one_form_to_both_of_its_models():
    with (
        Replying("anthropic", lambda last: None) as first,
        Replying("openai-chat", says(otherwise=(ANSWER,))) as second,
    ):
        near, spare = first.model(timeout=0.2), second.model()
        spare.structured_output = False
        turn = await run(second, FallbackModel([near, spare]), listen=False)
        await first.close_clients()
    assert turn.output == WANTED
    assert names_in("anthropic", first.bodies[0]) == names_in("openai-chat", second.bodies[0]) == [FINAL_ANSWER]


def test_every_provider_is_known_to_have_the_mode_or_not():
    assert Anthropic("claude-x").structured_output is True
    assert OpenAI("gpt-x", base_url="https://api.openai.com/v1").structured_output is True
    assert OpenAIChat("gpt-x").structured_output is True
    for other in (
        Anthropic("claude-x", base_url="https://example.com"),
        Anthropic("claude-x", output_config={"format": None}),
        OpenAI("gpt-x", base_url="https://openai.com.example.com/v1"),
        OpenAI("gpt-x", text={"format": {"type": "text"}}),
        OpenAIChat("qwen", base_url="http://localhost:8000/v1"),
        OpenAIChat("gpt-x", response_format={"type": "text"}),
    ):
        assert other.structured_output is False
    assert Anthropic("claude-x", output_config={"effort": "low"}).structured_output is True


def test_the_schema_of_the_harness_is_strict():
    assert strict(SCHEMA)["required"] == SCHEMA["required"]
