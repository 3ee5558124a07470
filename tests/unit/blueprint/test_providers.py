"""A blueprint on real SDKs against servers on loopback: one key is enough, and the provider's JSON mode is used."""

import anthropic
import openai
import pytest
from harness.blueprints import end, plan, research
from harness.providers import Provider, json_answer

from minideep.blueprint import Blueprint
from minideep.models import Anthropic, OpenAI, OpenAIChat

REPLIES = (plan(research()), "Paris. [1]", end("It is {{facts.md}}"))


def message(text):
    """A whole reply of the Messages API."""
    usage = {"input_tokens": 10, "output_tokens": 5}
    content = [{"type": "text", "text": text}]
    return json_answer({"id": "m", "type": "message", "role": "assistant", "model": "claude-x", "content": content,
                        "stop_reason": "end_turn", "stop_sequence": None, "usage": usage})  # fmt: skip


def response(text):
    """A whole reply of the Responses API."""
    output = {"type": "message", "id": "o", "role": "assistant", "status": "completed",
              "content": [{"type": "output_text", "text": text, "annotations": []}]}  # fmt: skip
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15}
    return json_answer({"id": "r", "object": "response", "status": "completed", "output": [output], "usage": usage})


def completion(text):
    """A whole reply of Chat Completions."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return json_answer({"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage})


PROVIDERS = {
    "anthropic": (
        message,
        anthropic.AsyncAnthropic,
        lambda client: Anthropic("claude-x", client=client),
        lambda body: body.get("output_config", {}).get("format"),
    ),
    "openai": (
        response,
        openai.AsyncOpenAI,
        lambda client: OpenAI("gpt-x", client=client),
        lambda body: body.get("text", {}).get("format"),
    ),
    "openai-chat": (
        completion,
        openai.AsyncOpenAI,
        lambda client: OpenAIChat("gpt-x", client=client),
        lambda body: body.get("response_format"),
    ),
}


async def run(name, replies):
    said, client, model, mode = PROVIDERS[name]
    with Provider(*map(said, replies)) as provider:
        async with client(base_url=provider.url, api_key="k", max_retries=0) as opened:
            turn = await Blueprint(model(opened)).run("What is the capital of France?")
    return provider, turn, mode


@pytest.mark.parametrize("name", PROVIDERS)
async def test_planner_and_reflection_ask_for_json_in_the_providers_own_mode_and_roles_do_not(name):
    provider, turn, mode = await run(name, REPLIES)
    assert (turn.status, turn.text) == ("ended", "It is Paris. [1]"), turn.error
    assert [mode(body) is not None for body in provider.bodies] == [True, False, True]
    assert "subtasks" in str(mode(provider.bodies[0]))
    assert "final_answer" in str(mode(provider.bodies[2]))
    assert turn.usage.total == 45


@pytest.mark.parametrize("name", PROVIDERS)
async def test_null_stands_for_a_missing_field_in_a_providers_json_mode(name):
    decision = '{"decision": "end", "reason": null, "final_answer": "done", "question": null}'
    _, turn, _ = await run(name, (*REPLIES[:2], decision))
    assert (turn.status, turn.text) == ("ended", "done"), turn.error
