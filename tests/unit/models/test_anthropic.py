"""The Anthropic adapter: the real SDK against a server on loopback that speaks the Messages API."""

import asyncio
import subprocess
import sys
from base64 import b64encode
from typing import Any

import pytest
from harness.media import BMP, MP4, PDF, PNG, WAV
from harness.providers import SCHEMA, Answer, Provider, json_answer, sse
from harness.wires import HELLO, claude, plain_ls as ls, saying
from harness.wires.claude import (
    BROKEN,
    KEY,
    WHOLE,
    answer,
    ask,
    broken_off,
    connected,
    events,
    message,
    refusal,
    sent,
    text,
)
from opentelemetry.trace import Span, SpanContext, TraceFlags, Tracer, TracerProvider

from minideep.errors import AuthenticationFailed, ContextOverflow, ModelError, Overloaded, RateLimited
from minideep.events import ArgsDelta, Restarted, TextDelta, ThinkingDelta
from minideep.messages import (
    AssistantMessage,
    Audio,
    Citation,
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
from minideep.models.anthropic.messages import Anthropic
from minideep.models.catalog import Price
from minideep.plain_json import to_json
from minideep.ports import Request


@pytest.fixture(params=["json", "sse"])
def say(request: pytest.FixtureRequest) -> Any:
    return saying(claude, request.param == "sse")


# ---- replies


def test_a_request_says_only_what_there_is_to_say(say):
    body = say(message(text("hi"))).bodies[0]
    streamed = {"stream": True} if body.get("stream") else {}
    hello = {"role": "user", "content": [text("hello")]}
    assert body == {"model": "claude-x", "max_tokens": 16_000, "messages": [hello]} | streamed


def test_settings_and_tools_of_the_provider_go_along():
    search = {"type": "web_search_20250305", "name": "web_search"}
    request = Request("be brief", HELLO.messages, (ls,))
    settings = {"max_tokens": 99, "thinking": {"type": "adaptive"}, "tools": [search]}
    body = ask(json_answer(message(text("hi"))), requests=(request,), listen=False, **settings).bodies[0]
    own = {"name": "ls", "description": "List a folder.", "input_schema": ls.schema}
    assert body == settings | {
        "model": "claude-x",
        "system": [text("be brief")],
        "messages": [{"role": "user", "content": [text("hello")]}],
        "tools": [search, own],
    }


FORMAT = {"type": "json_schema", "schema": SCHEMA}


def test_a_schema_is_the_format_of_the_replies_to_its_request_alone(say):
    whole = message(text("{}"))
    asked, plain = say(whole, whole, requests=(Request("", HELLO.messages, schema=SCHEMA), HELLO)).bodies
    assert asked == plain | {"output_config": {"format": FORMAT}}
    assert "output_config" not in plain


def test_a_schema_goes_along_with_tools_and_with_settings_of_the_output(say):
    request = Request("", HELLO.messages, (ls,), SCHEMA)
    whole, effort = message(text("{}")), {"effort": "low"}
    asked, plain = say(whole, whole, requests=(request, HELLO), output_config=effort).bodies
    assert (asked["output_config"], plain["output_config"]) == (effort | {"format": FORMAT}, effort)
    assert [tool["name"] for tool in asked["tools"]] == ["ls"]


@pytest.mark.parametrize(
    "own", [None, {"type": "json_schema", "schema": {"type": "object", "additionalProperties": False}}]
)
def test_a_format_of_the_settings_stands_instead_of_a_schema(own):
    request = Request("", HELLO.messages, schema=SCHEMA)
    heard = ask(json_answer(message(text("hi"))), requests=(request,), listen=False, output_config={"format": own})
    assert heard.bodies[0]["output_config"] == {"format": own}


def test_two_parallel_calls_are_answered_in_one_user_message(say):
    calls = [{"type": "tool_use", "id": f"c{n}", "name": "ls", "input": {"path": f"/{n}"}} for n in (1, 2)]
    first = say(message(text("looking"), *calls, stop="tool_use"))
    results = (ToolMessage("a.md", "c1", "ls"), ToolMessage("no such folder", "c2", "ls", is_error=True))
    request = Request("", (*HELLO.messages, first.reply.message, *results, UserMessage("go on")), (ls,))
    second = say(message(text("done")), requests=(request,))
    assert first.reply.message.calls == (ToolCall("ls", {"path": "/1"}, "c1"), ToolCall("ls", {"path": "/2"}, "c2"))
    assert second.bodies[0]["messages"] == [
        {"role": "user", "content": [text("hello")]},
        {"role": "assistant", "content": [text("looking"), *calls]},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": [text("a.md")]},
                {"type": "tool_result", "tool_use_id": "c2", "content": [text("no such folder")], "is_error": True},
                text("go on"),
            ],
        },
    ]


OPAQUE = [
    {"type": "thinking", "thinking": "let me see", "signature": "c2ln"},
    {"type": "thinking", "thinking": "", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "b3BhcXVl"},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "compaction", "content": None, "encrypted_content": None},
    {"type": "not_yet_invented", "depth": {"n": [1, 2.5, None, True]}, "text": 5},
]


@pytest.mark.parametrize("block", OPAQUE, ids=lambda block: block["type"])
def test_what_only_the_provider_understands_goes_back_unchanged(say, block):
    reply = say(message(block, text("so"))).reply
    assert sent(*HELLO.messages, reply.message)[1] == {"role": "assistant", "content": [block, text("so")]}


def test_a_reply_that_was_cut_while_the_model_thought_can_be_sent_again(say):
    reply = say(message(OPAQUE[0], stop="max_tokens")).reply
    assert sent(*HELLO.messages, reply.message)[1]["content"] == [OPAQUE[0], text("(empty)")]


def test_thinking_can_be_shown(say):
    blocks = say(message(*OPAQUE[:3])).reply.message.blocks
    assert [block.text for block in blocks if isinstance(block, Thinking)] == ["let me see", "", ""]


CITATIONS = [
    {"type": "web_search_result_location", "cited_text": "so", "encrypted_index": "e", "title": "T", "url": "https://u"},
    {"type": "search_result_location", "cited_text": "so", "search_result_index": 0, "source": "https://s", "title": None,
     "start_block_index": 0, "end_block_index": 1},
    {"type": "char_location", "cited_text": "so", "document_index": 0, "document_title": "D", "file_id": "f",
     "start_char_index": 3, "end_char_index": 5},
    {"type": "page_location", "cited_text": "so", "document_index": 0, "document_title": None, "start_page_number": 1,
     "end_page_number": 2},
    {"type": "content_block_location", "cited_text": "so", "document_index": 0, "document_title": "D",
     "start_block_index": 0, "end_block_index": 1},
    {"type": "not_yet_invented", "depth": [1, None]},
]  # fmt: skip


def test_citations_can_be_read_and_go_back_as_they_came(say):
    cited = text("as they say") | {"citations": CITATIONS}
    reply = say(message(cited, text("so"))).reply
    found, none = [block.citations for block in reply.message.blocks]
    assert [(one.url, one.title, one.quote, one.start, one.end) for one in found] == [
        ("https://u", "T", "so", None, None),
        ("https://s", "https://s", "so", None, None),
        ("", "D", "so", None, None),
        ("", "", "so", None, None),
        ("", "D", "so", None, None),
        ("", "", "", None, None),
    ]
    assert none == ()
    assert sent(*HELLO.messages, reply.message)[1]["content"] == [cited, text("so")]


def test_citations_of_another_provider_and_those_without_a_type_are_left_out(say):
    foreign = Text("so", (Citation("https://u", provider="openai", raw=b'{"type":"url_citation"}'),))
    assert sent(*HELLO.messages, AssistantMessage((foreign,)))[1]["content"] == [text("so")]
    for odd in (None, "u", [{"url": "u"}, None]):
        assert say(message(text("so") | {"citations": odd})).reply.message.blocks == (Text("so"),)


def test_a_streamed_block_may_begin_with_text():
    stream = events(message(text("there")))
    stream[2] = stream[2] | {"content_block": text("hi ")}
    assert ask(sse(*stream)).reply.message.text == "hi there"


def test_listeners_hear_text_thinking_and_arguments_as_they_come():
    call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "/"}}
    assert ask(sse(*events(message(OPAQUE[0], OPAQUE[3], text("looking"), call)))).events == [
        ThinkingDelta("let m"),
        ThinkingDelta("e see"),
        TextDelta("loo"),
        TextDelta("king"),
        ArgsDelta(0, "ls", '{"path', "c1"),
        ArgsDelta(0, "ls", '": "/"}', "c1"),
    ]


def test_arguments_that_are_no_json_leave_the_reply_whole(say):
    call = {"type": "tool_use", "id": "c1", "name": "ls", "input": '{"path": "/'}
    reply = say(message(text("looking"), call)).reply
    assert reply.message == AssistantMessage((Text("looking"), ToolCall("ls", to_json('{"path": "/'), "c1")))
    assert sent(*HELLO.messages, reply.message)[1]["content"][1] == call | {"input": {}}


def test_a_call_without_arguments_has_none(say):
    call = {"type": "tool_use", "id": "c1", "name": "now", "input": {}}
    assert say(message(call)).reply.message.calls == (ToolCall("now", {}, "c1"),)


def test_a_call_that_a_gateway_gave_no_id_is_a_call_all_the_same(say):
    call = {"type": "tool_use", "name": "now", "input": None}
    assert say(message(call)).reply.message.calls == (ToolCall("now"),)


def test_cached_tokens_are_part_of_the_input(say):
    usage = {"cache_read_input_tokens": 100, "cache_creation_input_tokens": 20}
    details = {"output_tokens_details": {"thinking_tokens": 2}}
    assert say(message(text("hi"), **usage, **details)).reply.usage == Usage(127, 3, 100, 20, 2)


def test_a_compaction_of_the_api_is_paid_for_and_is_no_part_of_what_is_in_context(say):
    iterations = [{"type": "compaction", "input_tokens": 1000, "output_tokens": 50, "cache_read_input_tokens": 200},
                  {"type": "message", "input_tokens": 7, "output_tokens": 3}]  # fmt: skip
    for price, cost in ((Price(1, 10), (7 + 3 * 10 + 1200 + 50 * 10) / 1e6), (None, None)):
        reply = say(message(text("hi"), iterations=iterations), price=price).reply
        assert (reply.usage, reply.cost) == (Usage(7, 3), pytest.approx(cost) if cost else None)


def test_usage_may_be_null_or_missing_and_is_then_unknown(say):
    said = message(text("hi"), input_tokens=None, cache_read_input_tokens=None)
    assert say(said).reply.usage == Usage(0, 3, unknown=1)


@pytest.mark.parametrize(
    ("reason", "stop"),
    [
        ("end_turn", "done"),
        ("stop_sequence", "done"),
        ("tool_use", "done"),
        ("max_tokens", "truncated"),
        ("model_context_window_exceeded", "truncated"),
        ("refusal", "refused"),
        ("pause_turn", "continue"),
        ("compaction", "continue"),
    ],
)
def test_stop_reasons(say, reason, stop):
    assert say(message(text("hi"), stop=reason)).reply.stop == stop


def test_a_long_reply_is_streamed_though_nobody_listens():
    heard = ask(sse(*events(message(text("long")))), listen=False, max_tokens=64_000)
    assert (heard.reply.message.text, heard.bodies[0]["stream"], heard.events) == ("long", True, [])


def test_lone_surrogates_do_not_wedge_the_thread(say):
    call = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "a\ud800b"}}
    reply = say(message(text("x\ud800y"), call)).reply
    assert reply.message.text == "x\\ud800y"
    assert sent(*HELLO.messages, reply.message)[1]["content"] == [text("x\\ud800y"), call | {"input": {"path": "a?b"}}]


# ---- requests


def source(data: bytes, media_type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": b64encode(data).decode()}


def test_images_and_documents_are_shown_by_people_and_by_tools():
    seen = (Text("see"), Image(PNG, "image/png"), Document(PDF, name="r" * 501), Document(b"hi", "text/csv"))
    shown = [
        text("see"),
        {"type": "image", "source": source(PNG, "image/png")},
        {"type": "document", "source": source(PDF, "application/pdf"), "title": "r" * 500},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
    ]
    call = ToolCall("look", {}, "c1")
    user, _, result = sent(UserMessage(seen), AssistantMessage((call,)), ToolMessage(seen, "c1", "look"))
    assert user["content"] == shown
    assert result["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": shown}]


def test_media_are_sent_as_what_they_are_and_others_are_said_to_be_missing():
    seen = Image(PNG, "image/jpeg"), Image(BMP), Document(PNG), Document(b" ", "text/plain"), Audio(WAV), Video(MP4)
    assert sent(UserMessage(seen))[0]["content"] == [
        {"type": "image", "source": source(PNG, "image/png")},
        text("[image left out: image/bmp; this model takes image/png, image/jpeg, image/gif, image/webp]"),
        text("[document left out: image/png; this model takes application/pdf, text/]"),
        text("[audio left out: audio/wav; this model takes no audio]"),
        text("[video left out: video/mp4; this model takes no video]"),
    ]


def test_an_error_holds_text_and_its_images_come_behind_all_results():
    calls = AssistantMessage((ToolCall("look", {}, "c1"), ToolCall("look", {}, "c2")))
    failed = ToolMessage((Text("no window"), Image(PNG)), "c1", "look", is_error=True)
    _, _, results = sent(*HELLO.messages, calls, failed, ToolMessage((Image(PNG),), "c2", "look", is_error=True))
    seen = {"type": "image", "source": source(PNG, "image/png")}
    assert results["content"] == [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("no window")], "is_error": True},
        {"type": "tool_result", "tool_use_id": "c2", "content": [text("(empty)")], "is_error": True},
        seen,
        seen,
    ]


RAW = b'{"type":"reasoning","id":"r1"}'


def test_blocks_of_another_provider_are_left_out():
    foreign = (Thinking("hm", "openai", RAW), Text("so"), ProviderBlock("openai", RAW), Image(PNG))
    assert sent(*HELLO.messages, AssistantMessage(foreign))[1]["content"] == [text("so")]


def test_an_assistant_of_whom_nothing_is_left_is_left_out():
    gone = (AssistantMessage((Thinking("hm", "openai", RAW),)), AssistantMessage(" \n"), AssistantMessage(()))
    assert sent(UserMessage("a"), *gone, UserMessage("b")) == [{"role": "user", "content": [text("a"), text("b")]}]


def test_blank_text_is_never_sent():
    call = ToolCall("ls", {"path": "/"}, "c1")
    said = sent(UserMessage(" "), AssistantMessage((Text("\n"), call)), ToolMessage("", "c1", "ls"))
    used = {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "/"}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": [text("(empty)")]}
    assert [message["content"] for message in said] == [[text("(empty)")], [used], [result]]


def test_blanks_at_the_end_of_a_reply_are_not_sent():
    assert sent(*HELLO.messages, AssistantMessage("let me see \n"))[1]["content"] == [text("let me see")]
    both = AssistantMessage((Text("so "), ToolCall("ls", {}, "c1")))
    assert sent(*HELLO.messages, both, ToolMessage("a", "c1", "ls"))[1]["content"][0] == text("so ")


BUDGET = {"type": "enabled", "budget_tokens": 1024}


@pytest.mark.parametrize(("thinking", "stays"), [(BUDGET, False), ({"type": "adaptive"}, True)])
def test_a_budget_of_thinking_is_not_sent_when_calls_without_thinking_are_answered(thinking, stays):
    calls = AssistantMessage((ToolCall("ls", {}, "c1"),)), ToolMessage("a", "c1", "ls")
    thought = AssistantMessage((Thinking("hm", "anthropic", to_json(OPAQUE[0])), ToolCall("ls", {}, "c2")))
    histories = calls, (*calls, thought, ToolMessage("b", "c2", "ls")), (*calls, UserMessage("go on"))
    requests = tuple(Request("", (*HELLO.messages, *history)) for history in histories)
    answers = [answer(message(text("ok")))] * 3
    bodies = ask(*answers, requests=requests, listen=False, thinking=thinking).bodies
    assert ["thinking" in body for body in bodies] == [stays, True, stays]


def test_results_of_tools_come_before_what_else_is_said():
    said = sent(AssistantMessage((ToolCall("ls", {}, "c1"),)), UserMessage("by the way"), ToolMessage("a", "c1", "ls"))
    assert [block["type"] for block in said[1]["content"]] == ["tool_result", "text"]


def test_foreign_call_ids_are_mapped_alike_in_call_and_result():
    ids = ("fc_1|x", "fc_1:x", "fc_1_x", "")
    calls = AssistantMessage(tuple(ToolCall("ls", {}, call_id) for call_id in ids))
    said = sent(*HELLO.messages, calls, *(ToolMessage("a", call_id, "ls") for call_id in ids))
    asked = [block["id"] for block in said[1]["content"]]
    assert [block["tool_use_id"] for block in said[2]["content"]] == asked
    assert asked[2] == "fc_1_x"
    assert len(set(asked)) == 4
    assert all(call_id.replace("_", "").isalnum() for call_id in asked)


# ---- errors


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (refusal(429, "rate_limit_error", "slow down"), RateLimited, "429 rate_limit_error: slow down"),
        (refusal(529, "overloaded_error", "Overloaded"), Overloaded, "529 overloaded_error: Overloaded"),
        (refusal(503, "api_error", "down"), Overloaded, "503 api_error: down"),
        (refusal(500, "api_error", "Oops."), ModelError, "500 api_error: Oops"),
        (Answer(b"<h1>Bad gateway</h1>", 502), ModelError, "502 InternalServerError: Bad gateway"),
        (Answer(b"<h1>Hello</h1>"), ModelError, "BadReply: the answer should be JSON or events, found 'Hello'"),
        (json_answer([]), ModelError, "BadReply: the answer should be a JSON object, found '[]'"),
        (
            refusal(400, "invalid_request_error", "prompt is too long: 200001 tokens > 200000 maximum"),
            ContextOverflow,
            "400 invalid_request_error: prompt is too long: 200001 tokens > 200000 maximum",
        ),
        (
            refusal(400, "invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 9 > 10"),
            ContextOverflow,
            "400 invalid_request_error: input length and `max_tokens` exceed context limit: 9 + 9 > 10",
        ),
        (refusal(413, "request_too_large", "too large"), ContextOverflow, "413 request_too_large: too large"),
        (
            refusal(400, "invalid_request_error", "max_tokens: 99999 > 8192, which is the maximum"),
            ModelError,
            "400 invalid_request_error: max_tokens: 99999 > 8192, which is the maximum",
        ),
        (
            refusal(400, "invalid_request_error", "tools.0.input_schema: bad"),
            ModelError,
            "400 invalid_request_error: tools.0.input_schema: bad",
        ),
        (
            refusal(401, "authentication_error", "invalid x-api-key"),
            AuthenticationFailed,
            "401 authentication_error: invalid x-api-key; set ANTHROPIC_API_KEY to a key that is accepted",
        ),
        (
            refusal(403, "permission_error", "not yours"),
            AuthenticationFailed,
            "403 permission_error: not yours; set ANTHROPIC_API_KEY to a key that is accepted",
        ),
    ],
)
def test_an_error_says_who_must_act(answer, error, said):
    with pytest.raises(ModelError) as caught:
        ask(answer, listen=False)
    assert (type(caught.value), str(caught.value)) == (error, f"claude-x: {said}")


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (401, AuthenticationFailed),
        (403, AuthenticationFailed),
        (404, ModelError),
        (413, ContextOverflow),
        (429, RateLimited),
        (503, Overloaded),
        (529, Overloaded),
    ],
)
def test_a_gateway_that_speaks_no_json_is_told_by_its_status(status, error):
    with pytest.raises(ModelError) as caught:
        ask(Answer(b"is it that the prompt is too long?", status), listen=False)
    assert type(caught.value) is error


def test_a_long_error_is_cut_short():
    with pytest.raises(ModelError) as caught:
        ask(Answer(b"<br>" * 5000, 502), listen=False)
    assert len(str(caught.value)) < 1100


@pytest.mark.parametrize(
    ("kind", "said", "error"),
    [
        ("rate_limit_error", "slow down", RateLimited),
        ("invalid_request_error", "prompt is too long: 9 > 8", ContextOverflow),
        ("invalid_request_error", "bad", ModelError),
    ],
)
def test_an_error_inside_a_stream_is_told_by_its_type(kind, said, error):
    with pytest.raises(ModelError) as caught:
        ask(broken_off(kind, said))
    assert (type(caught.value), str(caught.value)) == (error, f"claude-x: {kind}: {said}")


@pytest.mark.parametrize(
    ("broken", "error", "said"),
    [
        ("cut", ModelError, "RemoteProtocolError: peer closed connection"),
        ("ended early", ModelError, "StreamBroke: the stream ended before the reply did"),
        ("overloaded", Overloaded, "overloaded_error: Overloaded"),
    ],
)
def test_a_stream_that_breaks_twice_fails(broken, error, said):
    with pytest.raises(ModelError) as caught:
        ask(BROKEN[broken], BROKEN[broken], WHOLE)
    assert type(caught.value) is error
    assert str(caught.value).startswith(f"claude-x: {said}")
    assert caught.value.told.count(Restarted()) == 1


@pytest.mark.parametrize("listen", [True, False])
def test_without_a_key_the_remedy_is_named(listen):
    async def go():
        async with connected("http://127.0.0.1:9") as client:
            client.api_key = None
            await Anthropic("claude-x", client=client).complete(HELLO, print if listen else None)

    with pytest.raises(AuthenticationFailed, match=r"set ANTHROPIC_API_KEY to a key that is accepted$"):
        asyncio.run(go())


def test_a_placeholder_for_a_key_does_not_tear_the_text_apart():
    async def go():
        with Provider(refusal(401, "authentication_error", "extra")) as provider:
            async with connected(provider.url, "x") as client:
                await Anthropic("claude-x", client=client).complete(HELLO, None)

    with pytest.raises(AuthenticationFailed, match="claude-x: 401 authentication_error: extra"):
        asyncio.run(go())


# ---- the task, the loop and the import


SCRIPT = """
import asyncio, sys
from minideep.models.anthropic.messages import Anthropic
assert "anthropic" not in sys.modules
from minideep.messages import UserMessage
from minideep.ports import Request
model = Anthropic("claude-x")
assert "anthropic" not in sys.modules
asyncio.run(model.preload())
assert "anthropic" in sys.modules
for _ in range(2):
    print(asyncio.run(model.complete(Request("", (UserMessage("hello"),)), None)).message.text)
"""


def test_the_sdk_is_imported_at_first_use_and_serves_one_event_loop_after_the_other():
    with Provider(*[json_answer(message(text("hi")))] * 2) as provider:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": provider.url}
        run = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, env=env, check=False)
    assert run.stdout == "hi\nhi\n"
    assert run.stderr.startswith("model 'claude-x': its window and price are unknown; ")
    assert run.stderr.count("\n") == 1
    # A connection of a closed loop would have failed first, and been tried again.
    assert [headers["x-stainless-retry-count"] for headers in provider.headers] == ["0", "0"]


class Content(tuple):
    """Counts how often somebody reads it."""

    read = 0

    def __iter__(self):
        self.read += 1
        return super().__iter__()


def test_a_step_does_not_convert_the_whole_history_again():
    content = Content([Text("hello")])
    request = Request("", [UserMessage(content)])
    first, second = ask(*[json_answer(message(text("x")))] * 2, requests=(request,) * 2, listen=False).bodies
    assert (first == second, content.read) == (True, 1)


# ---- tracing


class Kept(Span):
    """A span of OpenTelemetry's interface, which keeps what it is told."""

    def __init__(self, name, attributes):
        self.name, self.attributes = name, dict(attributes)

    def get_span_context(self):
        return SpanContext(1, 1, is_remote=False, trace_flags=TraceFlags(1))

    def is_recording(self):
        return True

    def set_attribute(self, key, value):
        self.attributes[key] = value

    def set_attributes(self, attributes):
        self.attributes |= attributes

    def _nothing(self, *args, **kwargs):
        pass

    end = add_event = update_name = set_status = record_exception = _nothing


class Spans(TracerProvider, Tracer):
    """The tracer of every library, which keeps the spans."""

    def __init__(self):
        self.spans = []

    def get_tracer(self, *args, **kwargs):
        return self

    def start_span(self, name, context=None, kind=None, attributes=None, *args, **kwargs):
        self.spans.append(Kept(name, attributes or {}))
        return self.spans[-1]

    def start_as_current_span(self, *args, **kwargs):
        raise NotImplementedError


@pytest.mark.parametrize("listen", [False, True])
async def test_the_sdk_makes_its_span_of_each_request(listen):
    tracing = Spans()
    with Provider(claude.answer(claude.said("hi"), listen)) as provider:
        async with claude.connected(provider.url) as client:
            traced = client.with_options(open_telemetry={"tracer_provider": tracing})
            await claude.model(traced).complete(HELLO, (lambda _: None) if listen else None)
    (span,) = tracing.spans
    assert (span.name, span.attributes["gen_ai.request.model"]) == ("anthropic.messages.create", "claude-x")
    assert span.attributes["http.response.status_code"] == 200
