"""Calls that Groq's server could not parse go to the model as errors: a few times, and not for ever."""

import asyncio

import pytest
from harness.providers import Provider, json_answer, sse
from harness.wires import HELLO, chat, ls, plain_ls
from harness.wires.chat import chunk, said

from minideep import Agent, ModelError
from minideep.events import Restarted, TextDelta
from minideep.plain_json import to_json
from minideep.ports import Request


def error(written, code="tool_use_failed"):
    message = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
    return {"error": {"message": message, "type": "invalid_request_error", "code": code, "failed_generation": written}}


def called(written):
    request = Request("", HELLO.messages, (plain_ls,))
    (call,) = chat.ask(json_answer(error(written), 400), request=request, listen=False).reply.message.blocks
    return call.name, call.raw


@pytest.mark.parametrize(
    "written",
    [
        '<function=ls{"path": "a"}</function>',
        'ls{"path": "a"}</function>',
        '{"name": "ls", "arguments": {"path": ',
        '```\n{"tool_calls": [{"function": "ls"}]}\n```',
    ],
)
def test_what_the_model_wrote_is_a_malformed_call_of_the_tool_it_names(written):
    assert called(written) == ("ls", to_json(written))


def test_what_names_no_tool_is_a_call_of_no_tool():
    assert called("I would rather talk.") == ("", to_json("I would rather talk."))


@pytest.mark.parametrize(
    "written", ['{"name": "ls", "arguments": {"path": "a"}}', '[{"name": "ls", "parameters": {"path": "a"}}]']
)
def test_a_call_that_is_whole_is_a_call(written):
    assert called(written) == ("ls", b'{"path":"a"}')


@pytest.mark.parametrize(("written", "code"), [("ls", "other"), (None, "tool_use_failed"), ({}, "tool_use_failed")])
def test_any_other_error_is_an_error(written, code):
    with pytest.raises(ModelError, match="Failed to call a function"):
        chat.ask(json_answer(error(written, code), 400), listen=False)


def run(*answers, stream=False):
    """The turn, what its listeners heard, and the bodies of its requests."""

    async def go():
        with Provider(*answers) as server:
            async with chat.connected(server.url) as client:
                async with Agent(chat.model(client), [ls]).stream("go") as stream:
                    heard = [event async for event in stream]
                return stream.turn, heard, server.bodies

    return asyncio.run(go())


FAILED = json_answer(error('<function=ls{"path": "a"'), 400)


def test_the_same_turn_goes_on_and_the_model_is_told():
    turn, _, bodies = run(FAILED, chat.answer(said("ok"), True))
    assert turn.text == "ok"
    _, asked, told = bodies[1]["messages"]
    assert asked["tool_calls"][0]["function"] == {"name": "ls", "arguments": "{}"}
    assert told["content"].startswith("ls: the arguments are not a JSON object: '<function=ls")


def test_a_model_that_fails_each_time_fails_the_turn():
    turn, _, bodies = run(*[FAILED] * 9)
    assert (turn.status, len(bodies)) == ("failed", 4)
    assert "tool_use_failed" in str(turn.error)


def test_failures_are_counted_in_a_row():
    done = chat.answer(chat.completion({"tool_calls": [chat.call("c1", '{"path":"a"}')]}), True)
    turn, _, bodies = run(*[*[FAILED] * 3, done] * 2, chat.answer(said("ok"), True))
    assert (turn.text, len(bodies)) == ("ok", 9)


def test_what_a_stream_said_before_is_withdrawn():
    turn, heard, _ = run(sse(chunk({"content": "let me"}), error("ls{")), chat.answer(said("ok"), True))
    assert turn.text == "ok"
    at = heard.index(Restarted())
    texts = ["".join(event.text for event in part if isinstance(event, TextDelta)) for part in (heard[:at], heard[at:])]
    assert texts == ["let me", "ok"]
