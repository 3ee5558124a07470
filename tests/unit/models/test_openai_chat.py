"""The Chat Completions adapter: OpenAI's real SDK against a server on loopback that speaks it, well and badly."""

import subprocess
import sys
from base64 import b64encode
from typing import Any

import openai
import pytest
from harness.media import PDF, PNG
from harness.providers import SCHEMA, Provider, json_answer, sse
from harness.wires import HELLO, chat, plain_ls as ls, saying
from harness.wires.chat import (
    BROKEN,
    SPOKEN,
    WHOLE,
    ask,
    call,
    chunk,
    completion,
    events,
    refusal,
    resent,
    said,
    sent,
    streamed,
)
from harness.wires.responses import KEY

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
)
from minideep.models.openai.chat import OpenAIChat
from minideep.plain_json import from_json, to_json
from minideep.ports import Reply, Request

SAID = {"role": "user", "content": "hello"}
LS = {"type": "function", "function": {"name": "ls", "description": "List a folder.", "parameters": ls.schema}}


@pytest.fixture(params=["json", "sse"])
def stream(request: pytest.FixtureRequest) -> bool:
    return request.param == "sse"


@pytest.fixture
def say(stream: bool) -> Any:
    return saying(chat, stream)


# ---- replies


def test_a_request_says_only_what_there_is_to_say():
    assert ask(json_answer(said("hi")), listen=False).bodies == [{"model": "local-x", "messages": [SAID]}]


def test_a_stream_is_asked_for_with_its_usage():
    streaming = {"stream": True, "stream_options": {"include_usage": True}}
    assert ask(sse(*events(said("hi")))).bodies == [{"model": "local-x", "messages": [SAID]} | streaming]


def test_settings_go_along():
    settings = {"temperature": 0, "max_completion_tokens": 9, "tools": [{"type": "search"}]}
    request = Request("be brief", HELLO.messages, (ls,))
    body = ask(json_answer(said("hi")), request=request, listen=False, **settings, extra_body={"new": 1}).bodies[0]
    messages = [{"role": "system", "content": "be brief"}, SAID]
    assert body == settings | {"model": "local-x", "messages": messages, "tools": [{"type": "search"}, LS], "new": 1}


def test_a_schema_is_the_format_of_the_response(say):
    body = say(said("{}"), request=Request("", HELLO.messages, schema=SCHEMA), temperature=0).bodies[0]
    form = {"type": "json_schema", "json_schema": {"name": "reply", "schema": SCHEMA, "strict": True}}
    assert body == say(said("hi"), temperature=0).bodies[0] | {"response_format": form}


@pytest.mark.parametrize("settings", [{"response_format": {"type": "text"}}, {"tools": [{"type": "search"}]}])
def test_settings_stand_instead_of_a_schema(say, settings):
    body = say(said("hi"), request=Request("", HELLO.messages, schema=SCHEMA), **settings).bodies[0]
    assert body == say(said("hi"), **settings).bodies[0]


def test_a_schema_does_not_keep_a_model_from_its_tools(say):
    asked = say(completion({"tool_calls": [call("c1", "{}")]}), request=Request("", HELLO.messages, (ls,), SCHEMA))
    plain = say(said("hi"), request=Request("", HELLO.messages, (ls,)))
    assert (asked.bodies, asked.reply.message.calls) == (plain.bodies, (ToolCall("ls", {}, "c1"),))


def test_two_parallel_calls_and_their_results_are_sent_back(say):
    calls = [call("c1", '{"path":"/1"}'), call("c2", '{"path":"/2"}')]
    first = say(completion({"content": "looking", "tool_calls": calls}, "tool_calls"))
    results = (ToolMessage("a.md", "c1", "ls"), ToolMessage("no such folder", "c2", "ls", is_error=True))
    request = Request("be brief", (*HELLO.messages, first.reply.message, *results, UserMessage("go on")), (ls,))
    second = say(said("done"), request=request)
    assert first.reply.message.calls == (ToolCall("ls", {"path": "/1"}, "c1"), ToolCall("ls", {"path": "/2"}, "c2"))
    assert second.bodies[0] == {
        "model": "local-x",
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
def test_reasoning_goes_back_unchanged(say, stream, fields):
    whole = completion({"content": "so"} | fields)
    assert [block.text for block in say(whole).reply.message.blocks] == ["let me see", "so"]
    assert resent(chat.answer(whole, stream)) == {"role": "assistant", "content": "so", **fields}


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


def test_what_a_server_adds_to_a_call_goes_back_with_it(stream):
    signed = call("c1", "{}", extra_content={"google": {"thought_signature": "c2ln"}})
    whole = completion({"tool_calls": [signed, call("c2", "{}")]})
    assert resent(chat.answer(whole, stream))["tool_calls"] == [signed, call("c2", "{}")]


def test_listeners_hear_text_reasoning_and_arguments_as_they_come():
    calls = [call("c1", "{}"), call("c2", '{"a":1}')]
    assert ask(sse(*events(completion({"reasoning": "hmhm", "content": "looking", "tool_calls": calls})))).events == [
        TextDelta("loo"),
        TextDelta("king"),
        ThinkingDelta("hm"),
        ThinkingDelta("hm"),
        ArgsDelta(0, "ls", "{", "c1"),
        ArgsDelta(0, "ls", "}", "c1"),
        ArgsDelta(1, "ls", '{"a', "c2"),
        ArgsDelta(1, "ls", '":1}', "c2"),
    ]


def test_a_refusal_is_said_and_stops_the_turn(say):
    reply = say(completion({"refusal": "I cannot"})).reply
    assert reply == Reply(AssistantMessage((Text("I cannot"),)), Usage(7, 3), "refused")


def test_content_in_parts_is_read(say):
    said = [{"type": "text", "text": "s"}, {"type": "text", "text": "o"}]
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


def named(call_id: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "function": {"name": name}} | fields


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
        (call("a", '{"n"'), call("a", ":1}"), call("a", ""), call("b", ""), call("b", '{"n"'), call("b", ":2}")),
        (call("a", "", index=0), call("a", '{"n":1}', index=0), call("a", "", index=0), call("b", '{"n":2}', index=1)),
        (named("a", "l"), named("", "s"), rest('{"n":1}'), named("b", "ls"), named("b", "ls"), rest('{"n":2}')),
        (named("", "l", index=0), named("a", "ls", index=0), rest('{"n":1}', index=0), call("b", '{"n":2}', index=1)),
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
        "no index, name and id again",
        "name and id again",
        "no index, name in pieces",
        "a name that grows, and an id that comes late",
    ],
)
def test_calls_are_told_apart_whatever_a_server_leaves_out(stream):
    assert pieces(*stream) == TWO


def test_two_tools_at_one_index_without_ids_are_two_calls():
    both = call("", '{"n":1}', index=0), call("", "", index=0) | {"function": {"name": "cat", "arguments": "{}"}}
    assert pieces(*both) == (ToolCall("ls", {"n": 1}, ""), ToolCall("cat", {}, ""))


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
    reply = say(said("hi") | {"usage": usage}).reply
    assert (reply.usage, reply.cost) == (Usage(120, 30, 100, 15, 20), 0.25)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None, "prompt_tokens_details": None, "cost": "free"}])
def test_usage_may_be_missing_and_is_then_unknown(say, usage):
    reply = say(said("hi") | {"usage": usage}).reply
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
        ("model_length", "truncated"),
        ("max_tokens", "truncated"),
        ("MAX_TOKENS", "truncated"),
        ("model_context_window_exceeded", "truncated"),
        ("content_filter", "refused"),
        ("content_filter: RECITATION", "refused"),
        ("SAFETY", "refused"),
        ("RECITATION", "refused"),
        ("PROHIBITED_CONTENT", "refused"),
        ("IMAGE_SAFETY", "refused"),
        ("sensitive", "refused"),
        ("", "done"),
        (None, "done"),
    ],
)
def test_stop_reasons(say, reason, stop):
    assert say(completion({"content": "hi"}, reason)).reply.stop == stop


@pytest.mark.parametrize(
    "reason", ["error", "network_error", "insufficient_system_resource", "MALFORMED_FUNCTION_CALL"]
)
def test_a_reply_that_the_server_could_not_end_is_an_error(say, reason):
    whole = completion({"content": "hi"}, reason)
    with pytest.raises(ModelError, match=f"server_error: the server ended the reply with '{reason}'"):
        say(whole, whole)


def test_of_several_answers_the_first_is_read(stream):
    other = {"index": 1, "message": {"content": "no"}, "finish_reason": "length"}
    whole = said("hi")
    first = json_answer(whole | {"choices": [*whole["choices"], other]})
    if stream:
        second = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
        first = sse(chunk({"content": "h"}), second, chunk({"content": "i"}), chunk({}, "stop"), second, "[DONE]")
    reply = ask(first, listen=stream, n=2).reply
    assert (reply.message.text, reply.stop) == ("hi", "done")


def test_a_stream_that_only_says_that_it_is_done_is_done():
    heard = ask(sse(chunk({"content": "hi"}), "[DONE]"))
    assert (heard.reply.message.text, heard.reply.stop, len(heard.bodies)) == ("hi", "done", 1)


def test_a_stream_that_only_says_why_it_stopped_is_done():
    heard = ask(sse(chunk({"content": "hi"}), chunk({}, "length")))
    assert (heard.reply.message.text, heard.reply.stop, len(heard.bodies)) == ("hi", "truncated", 1)


def test_a_server_that_does_not_stream_is_understood():
    assert ask(json_answer(said("hi"))).reply.message.text == "hi"


# ---- requests


def test_images_and_documents_are_shown_by_people():
    seen = (Text("see"), Image(PNG), Document(PDF, name="report.pdf"))
    file = {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{b64encode(PDF).decode()}"}
    parts = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}},
        {"type": "file", "file": file},
    ]
    assert sent(UserMessage(seen)) == [{"role": "user", "content": parts}]


def test_images_of_tools_follow_when_all_results_are_told():
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{b64encode(PNG).decode()}"}}
    calls = AssistantMessage((ToolCall("look", {}, "c1"), ToolCall("look", {}, "c2")))
    results = (ToolMessage((Image(PNG),), "c1", "look"), ToolMessage((Text("b"), Image(PNG)), "c2", "look"))
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
model = OpenAIChat("local-x", base_url=sys.argv[1])
assert "openai" not in sys.modules
asyncio.run(model.preload())
assert "openai" in sys.modules
print(asyncio.run(model.complete(Request("", (UserMessage("hello"),)), None)).message.text)
"""


def test_a_base_url_is_where_the_model_is_asked_and_the_sdk_is_imported_when_it_is_warmed():
    with Provider(json_answer(said("hi"))) as provider:
        command = [sys.executable, "-c", SCRIPT, f"{provider.url}/v1"]
        ran = subprocess.run(command, capture_output=True, text=True, env={"OPENAI_API_KEY": KEY}, check=False)
    assert (ran.stdout, provider.paths) == ("hi\n", ["/v1/chat/completions"])
    assert ran.stderr.startswith("model 'local-x': its window is unknown; ")
    assert ran.stderr.count("\n") == 1


def test_a_base_url_beside_a_client_is_refused():
    client = openai.AsyncOpenAI(api_key=KEY)
    with pytest.raises(ConfigError, match="takes a base_url or a client, not both"):
        OpenAIChat("local-x", base_url="http://127.0.0.1", client=client)


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
        (refusal(200, 429, "slow"), RateLimited, "429 a_type: slow"),
        (refusal(200, 503, "busy"), Overloaded, "503 a_type: busy"),
        (refusal(200, 400, "prompt is too long"), ContextOverflow, "400 a_type: prompt is too long"),
        (json_answer({"error": "out of memory"}), ModelError, "BadReply: out of memory"),
        (
            json_answer({"error": None, "choices": [{"error": {"code": 502, "message": "upstream"}}]}),
            ModelError,
            "502 BadReply: upstream",
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
    assert (type(caught.value), str(caught.value)) == (error, f"local-x: {said}")


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("cut", "RemoteProtocolError: peer closed connection"),
        ("ended early", "StreamBroke: the stream ended before the reply did"),
        ("server error", "server_error: Oops"),
        ("error of the choice", "502 BadReply: Oops"),
    ],
)
def test_a_stream_that_breaks_twice_fails(broken, said):
    with pytest.raises(ModelError) as caught:
        ask(BROKEN[broken], BROKEN[broken], WHOLE)
    assert str(caught.value).startswith(f"local-x: {said}")
    assert caught.value.told.count(Restarted()) == 1


def test_a_connection_lost_after_the_reply_was_whole_is_no_loss():
    heard = ask(sse(*events(said("hi there"))[:-2], cut=True))
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
