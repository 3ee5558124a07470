"""The Responses adapter: OpenAI's real SDK against a server on loopback that speaks the Responses API."""

import asyncio
import os
import subprocess
import sys
from base64 import b64encode
from typing import Any

import pytest
from harness.media import BMP, GIF, JPEG, MP4, PDF, PNG, WAV, WEBP
from harness.providers import SCHEMA, Answer, Provider, json_answer, sse
from harness.wires import HELLO, plain_ls as ls, responses, saying
from harness.wires.responses import (
    BROKEN,
    REFUSED,
    WHOLE,
    ask,
    broken_off,
    call,
    connected,
    events,
    failed,
    message,
    reasoning,
    refusal,
    response,
    sent,
)

from minideep.errors import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited
from minideep.events import ArgsDelta, Restarted, TextDelta, ThinkingDelta
from minideep.messages import (
    AssistantMessage,
    Audio,
    Document,
    Image,
    ProviderBlock,
    Text,
    Thinking,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
    Video,
)
from minideep.models.openai.responses import OpenAI
from minideep.plain_json import to_json
from minideep.ports import Reply, Request

SAID = {"role": "user", "content": [{"type": "input_text", "text": "hello"}]}
WITH_ID = {"type": "message", "role": "assistant", "id": "msg_1", "status": "completed"}
LS = {"type": "function", "name": "ls", "description": "List a folder.", "parameters": ls.schema, "strict": False}


def part(text: str, *annotations: Any) -> Any:
    return {"type": "output_text", "text": text, "annotations": list(annotations)}


def url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{b64encode(data).decode()}"


@pytest.fixture(params=["json", "sse"])
def say(request: pytest.FixtureRequest) -> Any:
    return saying(responses, request.param == "sse")


# ---- replies


def test_nothing_is_kept_at_the_provider_and_reasoning_comes_back_encrypted(say):
    body = say(response(message("hi"))).bodies[0]
    streamed = {"stream": True} if body.get("stream") else {}
    kept = {"store": False, "include": ["reasoning.encrypted_content"]}
    assert body == {"model": "gpt-x", "input": [SAID]} | kept | streamed


def test_settings_and_tools_of_the_provider_go_along():
    settings = {"store": True, "include": [], "reasoning": {"effort": "low"}, "tools": [{"type": "web_search"}]}
    request = Request("be brief", HELLO.messages, (ls,))
    whole = json_answer(response(message("hi")))
    body = ask(whole, request=request, listen=False, **settings, extra_body={"new": 1}).bodies[0]
    own = {"model": "gpt-x", "instructions": "be brief", "input": [SAID], "tools": [{"type": "web_search"}, LS]}
    assert body == settings | own | {"new": 1}


FORMAT = {"type": "json_schema", "name": "reply", "schema": SCHEMA, "strict": True}


def test_a_schema_is_the_format_of_the_text_of_a_reply(say):
    body = say(response(message("{}")), request=Request("", HELLO.messages, schema=SCHEMA)).bodies[0]
    assert body == say(response(message("hi"))).bodies[0] | {"text": {"format": FORMAT}}


def test_a_schema_goes_along_with_tools_and_with_settings_of_the_text(say):
    request = Request("", HELLO.messages, (ls,), SCHEMA)
    body = say(response(message("{}")), request=request, text={"verbosity": "low"}).bodies[0]
    assert (body["text"], body["tools"]) == ({"verbosity": "low", "format": FORMAT}, [LS])


def test_a_format_of_the_settings_stands_instead_of_a_schema(say):
    own = {"format": {"type": "text"}, "verbosity": "low"}
    request = Request("", HELLO.messages, schema=SCHEMA)
    assert say(response(message("hi")), request=request, text=own).bodies[0]["text"] == own


def test_two_parallel_calls_and_their_results_are_sent_back(say):
    first = say(response(message("looking"), call("c1", '{"path": "/1"}'), call("c2", '{"path":"/2"}')))
    results = (ToolMessage("a.md", "c1", "ls"), ToolMessage("no such folder", "c2", "ls", is_error=True))
    second = say(
        response(message("done")),
        request=Request("", (*HELLO.messages, first.reply.message, *results, UserMessage("go on")), (ls,)),
    )
    assert first.reply.message.calls == (ToolCall("ls", {"path": "/1"}, "c1"), ToolCall("ls", {"path": "/2"}, "c2"))
    assert second.bodies[0] == {
        "model": "gpt-x",
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "tools": [LS],
        "input": [
            SAID,
            {"role": "assistant", "content": "looking"},
            {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": '{"path":"/1"}'},
            {"type": "function_call", "call_id": "c2", "name": "ls", "arguments": '{"path":"/2"}'},
            {"type": "function_call_output", "call_id": "c1", "output": "a.md"},
            {"type": "function_call_output", "call_id": "c2", "output": "no such folder"},
            {"role": "user", "content": [{"type": "input_text", "text": "go on"}]},
        ],
    } | ({"stream": True} if second.events else {})


OPAQUE = [
    reasoning("first", "second"),
    {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": None}},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "c2hvcnQ=="},
    {"type": "not_yet_invented", "depth": {"n": [1, 2.5, None, True]}, "content": 5},
]


@pytest.mark.parametrize("item", OPAQUE, ids=lambda item: item["type"])
def test_what_only_the_provider_understands_goes_back_unchanged_and_in_its_place(say, item):
    again = item | {"id": "another"}
    reply = say(response(item, call("c1", "{}"), again, message("so"))).reply
    called = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}
    so = {"role": "assistant", "content": "so"}
    if item["type"] == "reasoning":
        called, so = called | {"id": "fc_c1"}, WITH_ID | {"content": [part("so")]}
    assert sent(*HELLO.messages, reply.message) == [SAID, item, called, again, so]


def test_reasoning_can_be_shown(say):
    blocks = say(response(*OPAQUE[:3])).reply.message.blocks
    assert [block.text for block in blocks if isinstance(block, Thinking)] == ["first\n\nsecond", "hm"]


def test_the_phase_of_a_message_and_the_namespace_of_a_call_go_back_with_them(say):
    whole = response(
        message("looking", phase="commentary"), call("c1", "{}", namespace="crm"), message("bare", phase=None)
    )
    reply = say(whole).reply
    called = {"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}", "namespace": "crm"}
    assert sent(reply.message) == [
        {"role": "assistant", "content": "looking", "phase": "commentary"},
        called,
        {"role": "assistant", "content": "bare"},
    ]
    assert reply.message.blocks[-2:] == (ToolCall("ls", {}, "c1"), Text("bare"))


def test_listeners_hear_text_reasoning_and_arguments_as_they_come():
    whole = response(reasoning("aabb", "cc"), message("looking"), call("c1", "{}"), call("c2", '{"a":1}'))
    assert ask(sse(*events(whole))).events == [
        ThinkingDelta("aa"),
        ThinkingDelta("bb"),
        ThinkingDelta("\n\n"),
        ThinkingDelta("c"),
        ThinkingDelta("c"),
        TextDelta("loo"),
        TextDelta("king"),
        ArgsDelta(0, "ls", "{", "c1"),
        ArgsDelta(0, "ls", "}", "c1"),
        ArgsDelta(1, "ls", '{"a', "c2"),
        ArgsDelta(1, "ls", '":1}', "c2"),
    ]


def test_a_refusal_is_said_and_stops_the_turn(say):
    assert say(response(REFUSED)).reply == Reply(AssistantMessage((Text("I cannot"),)), Usage(7, 3), "refused")


def test_arguments_that_are_no_json_leave_the_reply_whole(say):
    reply = say(response(call("c1", '{"path": "/'))).reply
    assert reply.message == AssistantMessage((ToolCall("ls", to_json('{"path": "/'), "c1"),))
    assert sent(reply.message) == [{"type": "function_call", "call_id": "c1", "name": "ls", "arguments": "{}"}]


def test_repeated_and_missing_call_ids_are_left_to_the_caller(say):
    unnamed = call("c", "{}")
    del unnamed["call_id"]
    calls = say(response(call("call_0", "{}"), call("call_0", "{}"), unnamed)).reply.message.calls
    assert [call.id for call in calls] == ["call_0", "call_0", ""]


def test_usage_tells_cached_and_reasoning_tokens(say):
    usage = {
        "input_tokens": 120,
        "input_tokens_details": {"cached_tokens": 100, "cache_write_tokens": 15},
        "output_tokens": 30,
        "output_tokens_details": {"reasoning_tokens": 20},
    }
    assert say(response(message("hi"), usage=usage)).reply.usage == Usage(120, 30, 100, 15, 20)


@pytest.mark.parametrize("usage", [None, {"input_tokens": None, "input_tokens_details": None}])
def test_usage_may_be_missing_and_is_then_unknown(say, usage):
    assert say(response(message("hi"), usage=usage)).reply.usage == Usage(unknown=1)


@pytest.mark.parametrize(
    ("status", "reason", "stop"),
    [
        ("completed", None, "done"),
        ("incomplete", "max_output_tokens", "truncated"),
        ("incomplete", "content_filter", "refused"),
        ("incomplete", "not_yet_invented", "truncated"),
    ],
)
def test_stop_reasons(say, status, reason, stop):
    details = {"reason": reason} if reason else None
    assert say(response(message("hi"), status=status, incomplete_details=details)).reply.stop == stop


def test_items_may_come_before_a_last_event_without_them():
    whole = response(message("hi"))
    stream = [*events(whole)[:-1], {"type": "response.completed", "response": whole | {"output": []}}]
    assert ask(sse(*stream)).reply.message.text == "hi"


def test_a_server_that_does_not_stream_is_understood():
    assert ask(json_answer(response(message("hi")))).reply.message.text == "hi"


def test_lone_surrogates_do_not_wedge_the_thread(say):
    reply = say(response(message("x\ud800y"), reasoning("\ud800"), call("c1", '{"path":"\ud800"}'))).reply
    assert reply.message.text == "x\\ud800y"
    assert sent(reply.message)[1]["summary"][0]["text"] == "?"


# ---- requests


def test_images_and_documents_are_shown_by_people_and_by_tools():
    seen = (Text("see"), Image(PNG), Document(PDF, name="report.pdf"), Document(b"a,b", "text/csv"))
    shown = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": url("image/png", PNG), "detail": "auto"},
        {"type": "input_file", "filename": "report.pdf", "file_data": url("application/pdf", PDF)},
        {"type": "input_file", "filename": "document.csv", "file_data": url("text/csv", b"a,b")},
    ]
    assert sent(UserMessage(seen), ToolMessage(seen, "c1", "look")) == [
        {"role": "user", "content": shown},
        {"type": "function_call_output", "call_id": "c1", "output": shown},
    ]


@pytest.mark.parametrize(("data", "kind"), [(JPEG, "image/jpeg"), (GIF, "image/gif"), (WEBP, "image/webp")])
def test_an_image_is_sent_with_the_type_that_its_bytes_have(data, kind):
    (said,) = sent(UserMessage((Image(data, "image/png"),)))
    assert said["content"] == [{"type": "input_image", "image_url": url(kind, data), "detail": "auto"}]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (Image(BMP, "image/png"), "[image left out: image/bmp; this model takes image/png, image/jpeg,"),
        (Image(b"png"), "[image left out: not image/png; "),
        (Document(b"\0", "application/zip"), "[document left out: application/zip; this model takes application/pdf, "),
        (Audio(WAV), "[audio left out: audio/wav; this model takes no audio]"),
        (Video(MP4), "[video left out: video/mp4; this model takes no video]"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_the_api_does_not_take_is_a_text_that_says_so(block, said):
    user, result = sent(UserMessage((block,)), ToolMessage((block,), "c1", "look"))
    assert user["content"] == result["output"]
    (told,) = user["content"]
    assert told["type"] == "input_text"
    assert told["text"].startswith(said)


def test_blocks_of_other_providers_are_left_out():
    raw = b'{"type":"thinking"}'
    foreign = (Thinking("hm", "anthropic", raw), Text("so"), ProviderBlock("openai-chat", raw), Text(""))
    said = sent(*HELLO.messages, AssistantMessage(foreign), AssistantMessage(foreign[:1]), AssistantMessage(""))
    assert said == [SAID, {"role": "assistant", "content": "so"}]


def test_long_call_ids_are_mapped_alike_in_call_and_result():
    ids = ("x" * 64, "x" * 65, "\ud800" * 65, "functions.ls:0", "")
    calls = AssistantMessage(tuple(ToolCall("ls", {}, call_id) for call_id in ids))
    said = sent(calls, *(ToolMessage("a", call_id, "ls") for call_id in ids))
    asked = [item["call_id"] for item in said[:5]]
    assert [item["call_id"] for item in said[5:]] == asked
    assert (asked[0], asked[3]) == (ids[0], ids[3])
    assert len(set(asked)) == 5
    assert all(0 < len(call_id) <= 64 for call_id in asked)


def test_a_schema_is_of_its_request_alone():
    async def go():
        with Provider(*[json_answer(response(message("x")))] * 2) as provider:
            async with connected(provider.url) as client:
                model = OpenAI("gpt-x", client=client, text={"verbosity": "low"})
                for schema in (SCHEMA, None):
                    await model.complete(Request("", HELLO.messages, schema=schema), None)
        return [body["text"] for body in provider.bodies]

    assert asyncio.run(go()) == [{"verbosity": "low", "format": FORMAT}, {"verbosity": "low"}]


# ---- errors


REMEDY = "set OPENAI_API_KEY to a key that is accepted"


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (refusal(429, "rate_limit_exceeded", "slow"), RateLimited, "429 rate_limit_exceeded: slow"),
        (refusal(429, "insufficient_quota", "pay"), RateLimited, "429 insufficient_quota: pay"),
        (refusal(503, None, "busy"), Overloaded, "503 a_type: busy"),
        (refusal(529, None, "busy"), Overloaded, "529 a_type: busy"),
        (refusal(500, "slow_down", "busy"), Overloaded, "500 slow_down: busy"),
        (refusal(500, "server_error", "Oops."), ModelError, "500 server_error: Oops"),
        (refusal(400, "context_length_exceeded", "big"), ContextOverflow, "400 context_length_exceeded: big"),
        (refusal(400, "unknown_parameter", "no"), ModelError, "400 unknown_parameter: no"),
        (refusal(404, "model_not_found", "gone"), ModelError, "404 model_not_found: gone"),
        (refusal(401, "invalid_api_key", "no"), AuthenticationFailed, f"401 invalid_api_key: no; {REMEDY}"),
        (refusal(403, None, "no"), AuthenticationFailed, f"403 a_type: no; {REMEDY}"),
        (Answer(b"<h1>Hi</h1>"), ModelError, "BadReply: the answer should be JSON or events, found 'Hi'"),
        (json_answer([]), ModelError, "BadReply: the answer should be a JSON object, found '[]'"),
        (json_answer(failed("server_error", "Oops.")["response"]), ModelError, "server_error: Oops"),
        (json_answer({"error": "no"}), ModelError, "BadReply: no"),
        (
            json_answer(response(status="queued")),
            ModelError,
            "BadReply: a response should end completed or incomplete, found 'queued'",
        ),
    ],
)
def test_an_error_says_who_must_act(answer, error, said):
    with pytest.raises(ModelError) as caught:
        ask(answer, listen=False)
    assert (type(caught.value), str(caught.value)) == (error, f"gpt-x: {said}")


OVERFLOWS = [
    "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens",
    "You passed 1015 input tokens and requested 10 output tokens. However, the model's context length is only 1024",
    "The input (4096 tokens) is longer than the model's context length (2048 tokens).",
    "The number of tokens to keep from the initial prompt is greater than the context length",
    "the request exceeds the available context size. try increasing the context size",
    "Your input exceeds the context window of this model. Please adjust your input and try again.",
    "Requested tokens (2285) exceed context window of 2048",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "prompt is too long: 200251 tokens > 200000 maximum",
    "The input token count (1200000) exceeds the maximum number of tokens allowed (1048575).",
]
NO_OVERFLOWS = [
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
    "'max_tokens' or 'max_completion_tokens' is too large: 9. This model's maximum context length is 8 tokens",
    "Invalid schema for function 'ls': in context=('properties', 'length'), 'type' is missing",
    "Invalid 'input[3].call_id': string too long. Expected a string with maximum length 64",
]


@pytest.mark.parametrize(
    ("said", "error"),
    [*((said, ContextOverflow) for said in OVERFLOWS), *((said, ModelError) for said in NO_OVERFLOWS)],
)
def test_an_overflow_is_told_from_its_words_and_from_nothing_else(said, error):
    with pytest.raises(ModelError) as caught:
        ask(refusal(400, None, said), listen=False)
    assert type(caught.value) is error


def test_an_error_of_another_status_is_no_overflow_whatever_it_says():
    with pytest.raises(RateLimited):
        ask(refusal(429, None, "the maximum context length per minute"), listen=False)


@pytest.mark.parametrize(
    ("broken", "error", "said"),
    [
        ("cut", ModelError, "RemoteProtocolError: peer closed connection"),
        ("no json", ModelError, "StreamBroke: an event should be JSON, found"),
        ("ended early", ModelError, "StreamBroke: the stream ended before the reply did"),
        ("flat error", ModelError, "server_error: Oops"),
        ("numbered error", Overloaded, "503 BadReply: Oops"),
        ("failed", ModelError, "server_error: Oops"),
    ],
)
def test_a_stream_that_breaks_twice_fails(broken, error, said):
    with pytest.raises(ModelError) as caught:
        ask(BROKEN[broken], BROKEN[broken], WHOLE)
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"gpt-x: {said}")
    assert caught.value.told.count(Restarted()) == 1


def test_a_connection_lost_after_the_last_event_is_no_loss():
    heard = ask(sse(*events(response(message("hi there"))), cut=True))
    assert (heard.reply.message.text, len(heard.bodies)) == ("hi there", 1)


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("rate_limit_exceeded", RateLimited),
        ("context_length_exceeded", ContextOverflow),
        ("invalid_prompt", ModelError),
    ],
)
@pytest.mark.parametrize("shape", ["error", "failed"])
def test_an_error_inside_a_stream_is_told_by_its_code(code, error, shape):
    last = failed(code, "no") if shape == "failed" else {"type": "error", "code": code, "message": "no"}
    with pytest.raises(ModelError) as caught:
        ask(broken_off(last))
    assert (type(caught.value), str(caught.value)) == (error, f"gpt-x: {code}: no")


def test_an_error_instead_of_a_stream_is_told_by_its_code():
    with pytest.raises(RateLimited, match="429 BadReply: slow"):
        ask(json_answer({"error": {"code": 429, "message": "slow"}}))


# ---- the task, the loop and the import


SCRIPT = """
import asyncio, sys
from minideep.models.openai import chat, responses
from minideep.errors import AuthenticationFailed
from minideep.messages import UserMessage
from minideep.ports import Request
models = responses.OpenAI("gpt-x"), chat.OpenAIChat("gpt-x")
assert "openai" not in sys.modules
for model in models:
    try:
        asyncio.run(model.complete(Request("", (UserMessage("hello"),)), None))
    except AuthenticationFailed as error:
        print(error)
assert "openai" in sys.modules
"""


def test_the_sdk_is_imported_when_it_is_first_used_and_without_a_key_the_remedy_is_named():
    bare = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=bare, check=True)
    lines = ran.stdout.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("gpt-x: OpenAIError: Missing credentials") for line in lines)
    assert all(line.endswith(REMEDY) for line in lines)
