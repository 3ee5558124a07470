"""The Chat Completions adapter: OpenAI's real SDK against a server on loopback that speaks it, well and badly."""

import asyncio
import json
import subprocess
import sys
from typing import Any, NamedTuple

import openai
import pytest
from harness.providers import SCHEMA, Answer, Provider, cut, json_answer, sse

from minideep.errors import AuthenticationFailed, ConfigError, ContextOverflow, ModelError, Overloaded, RateLimited
from minideep.events import ArgsDelta, Restarted, TextDelta, ThinkingDelta
from minideep.messages import (
    AssistantMessage,
    Document,
    Image,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    from_json,
    to_json,
)
from minideep.models.openai.chat import OpenAIChat
from minideep.ports import Reply, Request
from minideep.tools import tool

KEY = "sk-0123456789abcdef"
HELLO = Request("", (UserMessage("hello"),))
SAID = {"role": "user", "content": "hello"}


@tool
def ls(path: str) -> str:
    """List a folder."""
    return path


LS = {"type": "function", "function": {"name": "ls", "description": "List a folder.", "parameters": ls.schema}}

# ---- what the server says


def completion(message: dict[str, Any], finish: str | None = "stop", **fields: Any) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": None} | message, "finish_reason": finish}
    usage = {"prompt_tokens": 7, "completion_tokens": 3}
    return {"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice], "usage": usage} | fields


def text(said: str) -> dict[str, Any]:
    return completion({"content": said})


def call(call_id: str | None, arguments: Any, **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "ls", "arguments": arguments}} | fields


def chunks(whole: dict[str, Any]) -> list[Any]:
    """The chunks in which the API streams *whole*."""
    choice = whole["choices"][0]
    fields = {name: value for name, value in choice["message"].items() if value and name not in ("role", "tool_calls")}
    calls = choice["message"].get("tool_calls") or ()
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [part for name, value in fields.items() for part in parts(name, value)]
    deltas += [part for index, one in enumerate(calls) for part in call_parts(index, one)]
    return [
        *map(chunk, deltas),
        chunk({}, choice["finish_reason"]),
        {"choices": [], "usage": whole["usage"]},
        "[DONE]",
    ]


def chunk(delta: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish} | fields], "usage": None}


def parts(name: str, value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, str):
        return [{name: value}]
    middle = len(value) // 2
    return [{name: value[:middle]}, {name: value[middle:]}]


def call_parts(index: int, one: dict[str, Any]) -> list[dict[str, Any]]:
    written = one["function"]["arguments"]
    if not isinstance(written, str):
        return [{"tool_calls": [one | {"index": index}]}]
    begin = one | {"index": index, "function": one["function"] | {"arguments": ""}}
    rest = [{"index": index, "function": piece} for piece in parts("arguments", written)]
    return [{"tool_calls": [piece]} for piece in (begin, *rest)]


def refusal(status: int, code: Any, said: str, **headers: str) -> Answer:
    return json_answer({"error": {"type": "a_type", "code": code, "message": said}}, status, **headers)


# ---- how it is asked


class Heard(NamedTuple):
    reply: Reply
    bodies: list[Any]
    events: list[Any]


def ask(*answers: Answer, request: Request = HELLO, listen: bool = True, retries: int = 0, **settings: Any) -> Heard:
    told: list[Any] = []

    async def go() -> Heard:
        with Provider(*answers) as provider:
            async with openai.AsyncOpenAI(base_url=provider.url, api_key=KEY, max_retries=retries) as client:
                model = OpenAIChat("qwen-x", client=client, **settings)
                reply = await model.complete(request, told.append if listen else None)
        return Heard(reply, provider.bodies, told)

    try:
        return asyncio.run(go())
    except ModelError as error:
        error.told = told  # type: ignore[attr-defined]
        raise


def sent(*messages: Any, system: str = "") -> list[Any]:
    """The messages as the server receives them."""
    return ask(json_answer(text("ok")), request=Request(system, messages), listen=False).bodies[0]["messages"]


def streamed(*deltas: dict[str, Any]) -> Heard:
    return ask(sse(*map(chunk, deltas), chunk({}, "tool_calls"), "[DONE]"))


@pytest.fixture(params=["json", "sse"])
def say(request: pytest.FixtureRequest) -> Any:
    """A function that has the server say a whole completion, as JSON or streamed, and asks for it."""

    def say(whole: dict[str, Any], **how: Any) -> Heard:
        if request.param == "json":
            return ask(json_answer(whole), listen=False, **how)
        return ask(sse(*chunks(whole)), **how)

    return say


# ---- replies


def test_text_is_answered(say):
    assert say(text("hi there")).reply == Reply(AssistantMessage((Text("hi there"),)), Usage(7, 3))


def test_a_request_says_only_what_there_is_to_say():
    assert ask(json_answer(text("hi")), listen=False).bodies == [{"model": "qwen-x", "messages": [SAID]}]


def test_a_stream_is_asked_for_with_its_usage():
    streaming = {"stream": True, "stream_options": {"include_usage": True}}
    assert ask(sse(*chunks(text("hi")))).bodies == [{"model": "qwen-x", "messages": [SAID]} | streaming]


def test_settings_go_along():
    settings = {"temperature": 0, "max_completion_tokens": 9, "tools": [{"type": "search"}]}
    request = Request("be brief", HELLO.messages, (ls,))
    body = ask(json_answer(text("hi")), request=request, listen=False, **settings, extra_body={"new": 1}).bodies[0]
    messages = [{"role": "system", "content": "be brief"}, SAID]
    assert body == settings | {"model": "qwen-x", "messages": messages, "tools": [{"type": "search"}, LS], "new": 1}


def test_a_schema_is_the_format_of_the_response(say):
    body = say(text("{}"), request=Request("", HELLO.messages, schema=SCHEMA), temperature=0).bodies[0]
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}}
    assert body == say(text("hi"), temperature=0).bodies[0] | {"response_format": form}


@pytest.mark.parametrize("settings", [{"response_format": {"type": "text"}}, {"tools": [{"type": "search"}]}])
def test_settings_stand_instead_of_a_schema(say, settings):
    body = say(text("hi"), request=Request("", HELLO.messages, schema=SCHEMA), **settings).bodies[0]
    assert body == say(text("hi"), **settings).bodies[0]


def test_a_schema_does_not_keep_a_model_from_its_tools(say):
    asked = say(completion({"tool_calls": [call("c1", "{}")]}), request=Request("", HELLO.messages, (ls,), SCHEMA))
    plain = say(text("hi"), request=Request("", HELLO.messages, (ls,)))
    assert (asked.bodies, asked.reply.message.calls) == (plain.bodies, (ToolCall("ls", {}, "c1"),))


def test_two_parallel_calls_and_their_results_are_sent_back(say):
    calls = [call("c1", '{"path":"/1"}'), call("c2", '{"path":"/2"}')]
    first = say(completion({"content": "looking", "tool_calls": calls}, "tool_calls"))
    results = (ToolMessage("a.md", "c1", "ls"), ToolMessage("no such folder", "c2", "ls", is_error=True))
    request = Request("be brief", (*HELLO.messages, first.reply.message, *results, UserMessage("go on")), (ls,))
    second = say(text("done"), request=request)
    assert first.reply.message.calls == (ToolCall("ls", {"path": "/1"}, "c1"), ToolCall("ls", {"path": "/2"}, "c2"))
    assert second.bodies[0] == {
        "model": "qwen-x",
        "tools": [LS],
        "messages": [
            {"role": "system", "content": "be brief"},
            SAID,
            {"role": "assistant", "content": "looking", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": "a.md"},
            {"role": "tool", "tool_call_id": "c2", "content": "no such folder"},
            {"role": "user", "content": "go on"},
        ],
    } | ({"stream": True, "stream_options": {"include_usage": True}} if second.events else {})


DETAIL = {"type": "reasoning.text", "text": "let me see", "signature": "c2ln", "index": 0, "format": "x"}


@pytest.mark.parametrize(
    "fields",
    [
        {"reasoning_content": "let me see"},
        {"reasoning": "let me see"},
        {"reasoning": "let me see", "reasoning_details": [DETAIL, {"type": "reasoning.encrypted", "data": "b3Bh"}]},
        {"reasoning_details": [DETAIL]},
    ],
    ids=lambda fields: "+".join(fields),
)
def test_reasoning_goes_back_unchanged(say, fields):
    reply = say(completion({"content": "so"} | fields)).reply
    assert [block.text for block in reply.message.blocks] == ["let me see", "so"]
    assert sent(*HELLO.messages, reply.message) == [SAID, {"role": "assistant", "content": "so", **fields}]


def test_reasoning_that_is_streamed_in_pieces_goes_back_as_one():
    pieces = [{"type": "reasoning.text", "text": said, "index": 0, "signature": None} for said in ("let ", "me see")]
    closing = [{"type": "reasoning.text", "signature": signature, "index": 0} for signature in ("c2ln", None)]
    others = [{"type": "reasoning.text", "text": "b", "index": 1}, {"type": "reasoning.summary", "summary": "c"}]
    others.append({"type": "reasoning.text", "text": "d"})
    sealed = [{"type": "reasoning.encrypted", "data": data, "index": 1} for data in ("b3Bh", "cXVl")]
    heard = streamed(*({"reasoning_details": [detail]} for detail in (*pieces, *closing, *others, *sealed)))
    whole = {"type": "reasoning.text", "text": "let me see", "index": 0, "signature": "c2ln"}
    (thinking,) = heard.reply.message.blocks
    assert from_json(thinking.raw) == {"reasoning_details": [whole, *others, *sealed]}
    assert heard.events == [ThinkingDelta(said) for said in ("let ", "me see", "b", "c", "d")]


def test_what_a_server_adds_to_a_call_goes_back_with_it(say):
    signed = call("c1", "{}", extra_content={"google": {"thought_signature": "c2ln"}})
    reply = say(completion({"tool_calls": [signed, call("c2", "{}")]})).reply
    assert sent(reply.message)[0]["tool_calls"] == [signed, call("c2", "{}")]


def test_listeners_hear_text_reasoning_and_arguments_as_they_come():
    calls = [call("c1", "{}"), call("c2", '{"a":1}')]
    assert ask(sse(*chunks(completion({"reasoning": "hmhm", "content": "looking", "tool_calls": calls})))).events == [
        TextDelta("loo"),
        TextDelta("king"),
        ThinkingDelta("hm"),
        ThinkingDelta("hm"),
        ArgsDelta(0, "ls", "{"),
        ArgsDelta(0, "ls", "}"),
        ArgsDelta(1, "ls", '{"a'),
        ArgsDelta(1, "ls", '":1}'),
    ]


def test_a_refusal_is_said_and_stops_the_turn(say):
    reply = say(completion({"refusal": "I cannot"})).reply
    assert reply == Reply(AssistantMessage((Text("I cannot"),)), Usage(7, 3), "refused")


def test_content_in_parts_is_read(say):
    said = [{"type": "thinking", "thinking": []}, {"type": "text", "text": "so"}]
    assert say(completion({"content": said})).reply.message.text == "so"


def test_arguments_that_are_no_json_leave_the_reply_whole(say):
    reply = say(completion({"tool_calls": [call("c1", '{"path": "/')]})).reply
    assert reply.message == AssistantMessage((ToolCall("ls", to_json('{"path": "/'), "c1"),))
    assert sent(reply.message) == [{"role": "assistant", "content": None, "tool_calls": [call("c1", "{}")]}]


@pytest.mark.parametrize(
    ("written", "read"), [({"path": "/"}, {"path": "/"}), (None, {}), ("", {}), ({}, {}), ('{"a":[1]}', {"a": [1]})]
)
def test_arguments_may_be_text_an_object_or_nothing(say, written, read):
    calls = say(completion({"tool_calls": [call("c1", written)]})).reply.message.calls
    assert calls == (ToolCall("ls", read, "c1"),)


def test_repeated_and_missing_call_ids_are_left_to_the_caller(say):
    unnamed = call("", '{"n":3}')
    calls = [call("call_0", '{"n":1}'), call("call_0", '{"n":2}'), unnamed, call(None, '{"n":4}')]
    read = say(completion({"tool_calls": calls})).reply.message.calls
    assert read == tuple(ToolCall("ls", {"n": n}, name) for n, name in enumerate(("call_0", "call_0", "", ""), 1))


def test_a_call_without_a_function_does_not_crash(say):
    calls = say(completion({"tool_calls": [{"id": "c1", "function": {"arguments": 5}}]})).reply.message.calls
    assert calls == (ToolCall("", to_json("5"), "c1"),)


def pieces(*calls: dict[str, Any]) -> tuple[ToolCall, ...]:
    """What is read from a stream whose every chunk holds one of *calls*."""
    return streamed(*({"tool_calls": [piece]} for piece in calls)).reply.message.calls


def rest(written: str, **fields: Any) -> dict[str, Any]:
    return {"function": {"arguments": written}} | fields


TWO = (ToolCall("ls", {"n": 1}, "a"), ToolCall("ls", {"n": 2}, "b"))


@pytest.mark.parametrize(
    "stream",
    [
        (call("a", '{"n":1}'), call("b", '{"n":2}')),
        (call("a", '{"n"'), rest(":1}"), call("b", '{"n"'), rest(":2}")),
        (call("a", '{"n":1}', index=0), call("b", '{"n":2}', index=0)),
        (call("a", '{"n"', index=0), rest(":1}", index=0), call("b", '{"n"', index=0), rest(":2}", index=0)),
        (call("a", '{"n"', index=0), call("b", '{"n"', index=1), rest(":1}", index=0), rest(":2}", index=1)),
        (call("a", '{"n"', index=0), rest(":1}"), call("b", '{"n":2}', index=1)),
        (call("a", '{"n"', index=0), call("a", ":1}", index=0), call("b", '{"n":2}', index=1)),
        (call("a", '{"n"', index=0), call("", ":1}", index=0), call("b", '{"n":2}', index=1)),
    ],
    ids=[
        "no index",
        "no index, in pieces",
        "one index",
        "one index, in pieces",
        "mixed",
        "index once",
        "name again",
        "no id again",
    ],
)
def test_calls_are_told_apart_whatever_a_server_leaves_out(stream):
    assert pieces(*stream) == TWO


def test_the_same_id_twice_without_an_index_is_two_calls():
    both = pieces(call("call_0", '{"n":1}'), call("call_0", '{"n":2}'))
    assert both == tuple(ToolCall("ls", {"n": n}, "call_0") for n in (1, 2))


def test_usage_tells_cached_and_reasoning_tokens_and_the_price(say):
    usage = {
        "prompt_tokens": 120,
        "prompt_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 15},
        "completion_tokens": 30,
        "completion_tokens_details": {"reasoning_tokens": 20, "audio_tokens": None},
        "cost": 0.25,
    }
    reply = say(text("hi") | {"usage": usage}).reply
    assert (reply.usage, reply.cost) == (Usage(120, 30, 100, 15, 20), 0.25)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "prompt_tokens_details": None, "cost": "free"}])
def test_usage_may_be_missing_and_is_then_unknown(say, usage):
    reply = say(text("hi") | {"usage": usage}).reply
    assert (reply.usage, reply.cost) == (Usage(unknown=1), None)


def test_usage_may_come_before_the_last_chunk():
    usage = {"usage": {"prompt_tokens": 7, "completion_tokens": 3}}
    assert ask(sse(chunk({"content": "hi"}) | usage, chunk({}, "stop"), "[DONE]")).reply.usage == Usage(7, 3)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("stop", "done"),
        ("tool_calls", "done"),
        ("not_yet_invented", "done"),
        ("length", "truncated"),
        ("content_filter", "refused"),
    ],
)
def test_stop_reasons(say, reason, stop):
    assert say(completion({"content": "hi"}, reason)).reply.stop == stop


def test_a_stream_that_only_says_that_it_is_done_is_done():
    heard = ask(sse(chunk({"content": "hi"}), "[DONE]"))
    assert (heard.reply.message.text, heard.reply.stop, len(heard.bodies)) == ("hi", "done", 1)


def test_a_stream_that_only_says_why_it_stopped_is_done():
    heard = ask(sse(chunk({"content": "hi"}), chunk({}, "length")))
    assert (heard.reply.message.text, heard.reply.stop, len(heard.bodies)) == ("hi", "truncated", 1)


def test_a_server_that_does_not_stream_is_understood():
    assert ask(json_answer(text("hi"))).reply.message.text == "hi"


# ---- requests


def test_images_and_documents_are_shown_by_people():
    seen = (Text("see"), Image(b"png"), Document(b"pdf", name="report.pdf"))
    file = {"filename": "report.pdf", "file_data": "data:application/pdf;base64,cGRm"}
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}},
        {"type": "file", "file": file},
    ]
    assert sent(UserMessage(seen)) == [{"role": "user", "content": parts}]


def test_images_of_tools_follow_when_all_results_are_told():
    picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,cG5n"}}
    calls = AssistantMessage((ToolCall("look", {}, "c1"), ToolCall("look", {}, "c2")))
    results = (ToolMessage((Image(b"png"),), "c1", "look"), ToolMessage((Text("b"), Image(b"png")), "c2", "look"))
    shown = [
        {"type": "text", "text": "look (c1) shows:"},
        picture,
        {"type": "text", "text": "look (c2) shows:"},
        picture,
    ]
    told = [
        {"role": "tool", "tool_call_id": "c1", "content": "(shown below)"},
        {"role": "tool", "tool_call_id": "c2", "content": "b"},
        {"role": "user", "content": shown},
    ]
    assert sent(calls, *results)[1:] == told
    assert sent(calls, *results, AssistantMessage("x"))[1:] == [*told, {"role": "assistant", "content": "x"}]


def test_blocks_of_other_providers_are_left_out():
    raw = b'{"a":1}'
    foreign = (Thinking("hm", "openai", raw), Text("so"), ProviderBlock("anthropic", raw), ToolCall("ls", {}, "c1"))
    said = sent(*HELLO.messages, AssistantMessage(foreign), AssistantMessage(foreign[:1]), AssistantMessage(""))
    assert said == [SAID, {"role": "assistant", "content": "so", "tool_calls": [call("c1", "{}")]}]


def test_long_call_ids_are_mapped_alike_in_call_and_result():
    ids = ("functions.ls:0", "x" * 65, "x" * 66)
    calls = AssistantMessage(tuple(ToolCall("ls", {}, call_id) for call_id in ids))
    said = sent(calls, *(ToolMessage("a", call_id, "ls") for call_id in ids))
    asked = [call["id"] for call in said[0]["tool_calls"]]
    assert [message["tool_call_id"] for message in said[1:]] == asked
    assert (asked[0], len(set(asked)), max(map(len, asked)) <= 64) == (ids[0], 3, True)


SCRIPT = """
import asyncio, sys
from minideep.messages import UserMessage
from minideep.models.openai.chat import OpenAIChat
from minideep.ports import Request
model = OpenAIChat("qwen-x", base_url=sys.argv[1])
assert "openai" not in sys.modules
asyncio.run(model.preload())
assert "openai" in sys.modules
print(asyncio.run(model.complete(Request("", (UserMessage("hello"),)), None)).message.text)
"""


def test_a_base_url_is_where_the_model_is_asked_and_the_sdk_is_imported_when_it_is_warmed():
    with Provider(json_answer(text("hi"))) as provider:
        command = [sys.executable, "-c", SCRIPT, f"{provider.url}/v1"]
        ran = subprocess.run(command, capture_output=True, text=True, env={"OPENAI_API_KEY": KEY}, check=False)
    assert (ran.stdout, ran.stderr, provider.paths) == ("hi\n", "", ["/v1/chat/completions"])


def test_a_base_url_beside_a_client_is_refused():
    client = openai.AsyncOpenAI(api_key=KEY)
    with pytest.raises(ConfigError, match="takes a base_url or a client, not both"):
        OpenAIChat("qwen-x", base_url="http://127.0.0.1", client=client)


# ---- errors


REMEDY = "set OPENAI_API_KEY to a key that is accepted"


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (refusal(429, "rate_limit_exceeded", "slow"), RateLimited, "429 rate_limit_exceeded: slow"),
        (refusal(429, 429, "slow"), RateLimited, "429 a_type: slow"),
        (refusal(503, None, "busy"), Overloaded, "503 a_type: busy"),
        (refusal(400, "context_length_exceeded", "big"), ContextOverflow, "400 context_length_exceeded: big"),
        (refusal(400, 400, "maximum context length is 9"), ContextOverflow, "400 a_type: maximum context length is 9"),
        (refusal(400, 400, "max_tokens must be at least 1"), ModelError, "400 a_type: max_tokens must be at least 1"),
        (refusal(401, None, f"no such key {KEY}"), AuthenticationFailed, f"401 a_type: no such key ***; {REMEDY}"),
        (refusal(200, 429, "slow"), RateLimited, "rate_limit_exceeded: slow"),
        (refusal(200, 503, "busy"), Overloaded, "server_is_overloaded: busy"),
        (refusal(200, 400, "prompt is too long"), ContextOverflow, "a_type: prompt is too long"),
        (json_answer({"error": "out of memory"}), ModelError, "BadReply: out of memory"),
        (
            json_answer({"error": None, "choices": [{"error": {"code": 502, "message": "upstream"}}]}),
            ModelError,
            "server_error: upstream",
        ),
        (
            json_answer({"choices": [], "id": "x"}),
            ModelError,
            'BadReply: the answer should hold a choice, found {"choices":[],"id":"x"}',
        ),
        (json_answer({}), ModelError, "BadReply: the answer should hold a choice, found {}"),
    ],
)
def test_an_error_says_who_must_act(answer, error, said):
    with pytest.raises(ModelError) as caught:
        ask(answer, listen=False)
    assert (type(caught.value), str(caught.value)) == (error, f"qwen-x: {said}")


@pytest.mark.parametrize("listen", [True, False])
def test_the_sdk_waits_and_tries_again(listen):
    answer = sse(*chunks(text("hi"))) if listen else json_answer(text("hi"))
    heard = ask(refusal(429, None, "wait", retry_after="0.01"), answer, listen=listen, retries=1)
    assert (heard.reply.message.text, Restarted() in heard.events) == ("hi", False)


WHOLE = sse(*chunks(text("hi there")))
SPOKEN = chunks(text("hi there"))[:-3]
BROKEN = {
    "cut": cut(sse(*SPOKEN, {}, {})),
    "ended early": sse(*SPOKEN),
    "server error": sse(*SPOKEN, {"error": {"type": "server_error", "message": "Oops."}}),
    "numbered error": sse(*SPOKEN, {"error": {"code": 502, "message": "Oops."}, "choices": []}),
    "error of the choice": sse(*SPOKEN, chunk({}, "error", error={"code": 502, "message": "Oops."})),
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_a_stream_that_breaks_in_the_middle_is_retried_once_as_a_whole(broken):
    heard = ask(broken, WHOLE)
    told = [TextDelta("hi t"), TextDelta("here")]
    assert heard.reply.message.text == "hi there"
    assert heard.events == [*told, Restarted(), *told]
    assert heard.bodies[0] == heard.bodies[1]


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("cut", "APIConnectionError: Connection error: peer closed connection"),
        ("ended early", "StreamBroke: the stream ended before the reply did"),
        ("server error", "server_error: Oops"),
        ("error of the choice", "server_error: Oops"),
    ],
)
def test_a_stream_that_breaks_twice_fails(broken, said):
    with pytest.raises(ModelError) as caught:
        ask(BROKEN[broken], BROKEN[broken], WHOLE)
    assert str(caught.value).startswith(f"qwen-x: {said}")
    assert caught.value.told.count(Restarted()) == 1


def test_a_connection_lost_after_the_reply_was_whole_is_no_loss():
    heard = ask(sse(*chunks(text("hi there"))[:-2], cut=True))
    assert (heard.reply.message.text, len(heard.bodies)) == ("hi there", 1)


@pytest.mark.parametrize(
    ("code", "error"), [(429, RateLimited), ("context_length_exceeded", ContextOverflow), ("no", ModelError)]
)
def test_an_error_inside_a_stream_is_told_by_its_code(code, error):
    with pytest.raises(ModelError, match="said") as caught:
        ask(sse(*SPOKEN, {"error": {"code": code, "message": "said"}}))
    assert type(caught.value) is error


def test_a_stream_without_any_choice_holds_no_reply():
    with pytest.raises(ModelError, match="the answer should hold a choice, found"):
        ask(sse({"choices": [], "usage": None}, "[DONE]"))


def test_a_request_is_the_same_bytes_up_to_what_is_new():
    messages = (UserMessage("a"), AssistantMessage("b"), UserMessage("c"), AssistantMessage("d"))

    async def go():
        with Provider(*[json_answer(text("x"))] * 2) as provider:
            async with openai.AsyncOpenAI(base_url=provider.url, api_key=KEY) as client:
                model = OpenAIChat("qwen-x", client=client)
                for shown in (messages[:3], messages):
                    await model.complete(Request("s", shown, (ls,)), None)
        return provider.bodies

    first, second = asyncio.run(go())
    assert json.dumps(second | {"messages": second["messages"][:4]}) == json.dumps(first)
