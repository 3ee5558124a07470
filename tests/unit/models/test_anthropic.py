"""The Anthropic adapter: the real SDK against a server on loopback that speaks the Messages API."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest
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

from minideep import Agent, tool
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
    to_json,
)
from minideep.models.anthropic.messages import Anthropic
from minideep.models.catalog import Price
from minideep.models.fallback import FallbackModel
from minideep.ports import Request


@pytest.fixture(params=["json", "sse"])
def say(request: pytest.FixtureRequest) -> Any:
    return saying(claude, request.param == "sse")


def run(*answers: Answer, inputs: tuple[str, ...] = ("hello",), own: Any = (), **settings: Any) -> Any:
    """The turns of one thread of an agent with *own* tools, and the bodies of its requests."""

    async def go() -> Any:
        with Provider(*answers) as provider:
            async with connected(provider.url) as client:
                agent = Agent(Anthropic("claude-x", client=client, **settings), own)
                return [await agent.run(said, thread_id="t") for said in inputs], provider.bodies

    return asyncio.run(go())


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


BASH = {"type": "bash_20250124", "name": "bash"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@tool
def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool(name="web_search")
def own_search(query: str) -> str:
    """Search."""
    return query


def test_a_tool_of_the_agent_answers_what_the_provider_declares():
    call = {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}
    whole = message(call, stop="tool_use"), message(text("done"))
    turns, (first, second) = run(*map(answer, whole), own=[bash, ls], tools=[BASH, SEARCH])
    assert turns[0].text == "done"
    assert [declared.get("input_schema") for declared in first["tools"]] == [None, None, ls.schema]
    assert first["tools"][:2] == second["tools"][:2] == [BASH, SEARCH]
    assert second["messages"][2]["content"][0]["content"] == [text("ran ls")]


def test_what_the_provider_says_of_a_tool_of_ones_own_stands_for_it():
    declared = {"name": "ls", "input_schema": {"type": "object"}, "defer_loading": True}
    request = Request("", HELLO.messages, (ls,))
    whole = answer(message(text("hi")))
    assert ask(whole, requests=(request,), listen=False, tools=[declared]).bodies[0]["tools"] == [declared]


def test_a_declaration_is_left_out_of_a_request_without_its_tool():
    whole = answer(message(text("hi")))
    assert "tools" not in ask(whole, listen=False, tools=[BASH]).bodies[0]


def test_a_declared_tool_that_nobody_answers_is_refused_when_the_agent_is_made():
    said = r"^Anthropic\('x'\) declares 'bash' in its settings, whose calls a tool of the agent must answer; give the"
    for model in (Anthropic("x", tools=[BASH]), FallbackModel([Anthropic("x", tools=[BASH])])):
        with pytest.raises(ConfigError, match=said):
            Agent(model, [ls])
        Agent(model, [ls, bash])


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two of the tools in its settings are named 'web_search'; leave one out"):
        Anthropic("x", tools=[SEARCH, SEARCH | {"max_uses": 1}])
    model = Anthropic("x", tools=[SEARCH])
    said = "two tools are named 'web_search': the provider's, in the settings of"
    with pytest.raises(ConfigError, match=said):
        Agent(model, [own_search])
    with pytest.raises(ConfigError, match=said):
        ask(requests=(Request("", HELLO.messages, (own_search,)),), listen=False, tools=[SEARCH])


def test_a_toolset_is_refused():
    with pytest.raises(ConfigError, match="the calls of a 'computer_toolset_20260801' name its members"):
        Anthropic("x", tools=[{"type": "computer_toolset_20260801"}])
    Anthropic("x", tools=[{"type": "mcp_toolset", "mcp_server_name": "a"}, {"type": "mcp_toolset"}])


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


@pytest.mark.parametrize("own", [None, {"type": "json_schema", "schema": {"type": "object"}}])
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
    {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "s1", "content": [{"url": "u", "encrypted_content": "e"}]},
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


def test_citations_do_not_disturb_a_streamed_text():
    cited = {"type": "content_block_delta", "index": 0, "delta": {"type": "citations_delta", "citation": {"url": "u"}}}
    stream = events(message(text("as they say")))
    assert ask(sse(*stream[:4], cited, *stream[4:])).reply.message.text == "as they say"


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


def source(data: str, media_type: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": media_type, "data": data}


def test_images_and_documents_are_shown_by_people_and_by_tools():
    seen = (Text("see"), Image(b"png", "image/png"), Document(b"pdf", name="report.pdf"), Document(b"hi", "text/csv"))
    shown = [
        text("see"),
        {"type": "image", "source": source("cG5n", "image/png")},
        {"type": "document", "source": source("cGRm", "application/pdf"), "title": "report.pdf"},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "hi"}},
    ]
    call = ToolCall("look", {}, "c1")
    user, _, result = sent(UserMessage(seen), AssistantMessage((call,)), ToolMessage(seen, "c1", "look"))
    assert user["content"] == shown
    assert result["content"] == [{"type": "tool_result", "tool_use_id": "c1", "content": shown}]


RAW = b'{"type":"reasoning","id":"r1"}'


def test_blocks_of_another_provider_are_left_out():
    foreign = (Thinking("hm", "openai", RAW), Text("so"), ProviderBlock("openai", RAW), Image(b"png"))
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
