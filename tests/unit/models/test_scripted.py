"""Models that ask no provider: what a script or a policy can say, and what a listener hears of it."""

import pytest

from minideep import (
    AssistantMessage,
    ConfigError,
    ModelError,
    RateLimited,
    Reply,
    Text,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)
from minideep.events import TextDelta
from minideep.models import Policy, ScriptedModel
from minideep.ports import Request

HELLO = Request("", (UserMessage("hello"),))
CALL = ToolCall("ls", {"path": "/"})


async def said(say, emit=None):
    return await ScriptedModel([say]).complete(HELLO, emit)


@pytest.mark.parametrize(
    ("say", "content"),
    [
        ("hi", "hi"),
        (CALL, (CALL,)),
        (["see", CALL], (Text("see"), CALL)),
        (AssistantMessage("hi"), "hi"),
    ],
)
async def test_a_reply_is_text_calls_or_a_message_and_takes_and_costs_nothing(say, content):
    assert await said(say) == Reply(AssistantMessage(content), Usage(), "done", 0.0)


async def test_a_whole_reply_keeps_its_usage_and_costs_nothing_unless_it_says_so():
    reply = Reply(AssistantMessage("hi"), Usage(7, 3))
    assert (await said(reply)).cost == 0.0
    assert await said(Reply(reply.message, reply.usage, cost=0.5)) == Reply(reply.message, reply.usage, "done", 0.5)


async def test_an_exception_is_raised():
    with pytest.raises(RateLimited, match="slow down"):
        await said(RateLimited("slow down"))


async def test_what_no_model_can_say_is_refused():
    with pytest.raises(ConfigError, match="a model cannot say 7; say text, a `ToolCall`, a list of those, or an exc"):
        await ScriptedModel(lambda request: 7).complete(HELLO, None)


async def test_a_script_that_ends_says_how_long_it_was():
    model = ScriptedModel(["one"])
    await model.complete(HELLO, None)
    with pytest.raises(ModelError) as failed:
        await model.complete(HELLO, None)
    assert str(failed.value) == (
        "scripted: the script has 1 reply and was asked for one more, after the message 'hello'; add a reply, or give "
        "a function of the request"
    )
    assert model.requests == [HELLO, HELLO]
    below = Request("You help.", (UserMessage("go"), ToolMessage("x" * 500, "c", "ls")))
    with pytest.raises(
        ModelError, match=r"has 2 replies .*, after the result of 'ls' 'x{199}, under .* 'You help\.'; add"
    ):
        await model.complete(below, None)


async def test_a_function_of_the_request_may_be_plain_or_not():
    async def later(request):
        return request.messages[-1].text + "!"

    for function in (later, lambda request: request.messages[-1].text + "!"):
        assert (await ScriptedModel(function).complete(HELLO, None)).message.text == "hello!"


async def test_listeners_hear_the_text_and_nothing_of_a_reply_without_one():
    heard = []
    await said("hi", heard.append)
    await said(CALL, heard.append)
    await Policy(lambda request: "so").complete(HELLO, heard.append)
    assert heard == [TextDelta("hi"), TextDelta("so")]
