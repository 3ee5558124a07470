"""The oracle of `harness.oracle`: each of its rules finds a body that breaks it, and lets a whole conversation pass."""

import asyncio
import base64
import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from harness.oracle import APIS, chat, claude, faults, responses
from harness.providers import SCHEMA, Provider, json_answer
from harness.wires import chat as chat_wire

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8)).decode()
JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(8)).decode()
WEBP = base64.b64encode(b"RIFF\x00\x00\x00\x00WEBPVP8 ").decode()
PDF = base64.b64encode(b"%PDF-1.7").decode()
OBJECT = {"type": "object", "properties": {"path": {"type": "string"}}}
FIVE, HOUR = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}


# ---- the Messages API


def text(said: str, **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said} | fields


def image(media_type: str = "image/png", data: str = PNG) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def linked(source: dict[str, Any]) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "url"} | source}


def result(call_id: str, *content: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": list(content)} | fields


THINKING = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}
CITED = {"type": "web_search_result_location", "cited_text": "a", "encrypted_index": "i", "title": None, "url": "u"}
CODE = {"type": "code_execution_20260120", "tool_id": "srvtoolu_2"}
RUN = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "code_execution", "input": {"code": "ls()"}}


def called(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "ls", "input": {"path": "/"}} | fields


CLAUDE = {
    "model": "claude-x",
    "max_tokens": 2000,
    "thinking": {"type": "enabled", "budget_tokens": 1024},
    "tools": [
        {"name": "ls", "description": "List.", "input_schema": OBJECT, "cache_control": HOUR},
        {"type": "web_search_20250305", "name": "web_search"},
    ],
    "tool_choice": {"type": "auto"},
    "system": [text("Be brief.", cache_control=HOUR)],
    "messages": [
        {"role": "user", "content": [text("look"), image(), image("image/webp", WEBP)]},
        {"role": "assistant", "content": [THINKING, SEARCH, FOUND, text("so", citations=[CITED]), called("c1")]},
        {"role": "user", "content": [result("c1", text("a.md"), image(), cache_control=FIVE), text("go on")]},
        {"role": "assistant", "content": [THINKING, text("ends in a blank ")]},
        {"role": "user", "content": "and?"},
        {"role": "assistant", "content": [THINKING, called("c2"), called("c3")]},
        {"role": "user", "content": [result("c3", text("no"), is_error=True), result("c2", cache_control=FIVE)]},
    ],
}


def blocks(body: dict[str, Any], at: int) -> list[Any]:
    return body["messages"][at]["content"]


def put(place: str, value: Any) -> Any:
    """A change that puts *value* at *place*, such as `messages.1.content.0.id`; ... removes what is there."""

    def change(body: dict[str, Any]) -> None:
        *path, last = [int(part) if part.lstrip("-").isdigit() else part for part in place.split(".")]
        inner: Any = body
        for part in path:
            inner = inner[part]
        if value is ...:
            del inner[last]
        elif isinstance(inner, list) and last == len(inner):
            inner.append(value)
        else:
            inner[last] = value

    return change


def each(*changes: Any) -> Any:
    def change(body: dict[str, Any]) -> None:
        for one in changes:
            one(body)

    return change


PAUSED = put("messages.7", {"role": "assistant", "content": [THINKING, SEARCH | {"id": "srvtoolu_3"}]})
BY_CODE = each(
    put("messages.5.content.1.caller", CODE),
    put("messages.5.content.1.name", "ls"),
    put("messages.5.content.3", RUN),
)

CLOSED = {"type": "object", "additionalProperties": False}
NOT_HELD = [
    {"type": "object", "properties": {}},
    {**CLOSED, "properties": {"a": {"type": "integer", "minimum": 1}}},
    {**CLOSED, "properties": {f"p{number}": {"type": ["string", "null"]} for number in range(17)}},
    {"$ref": "#/$defs/A", "$defs": {"A": {**CLOSED, "properties": {"a": {"$ref": "#/$defs/A"}}}}},
]
"""Schemas to which Claude cannot be held."""


def held(schema):
    return put("output_config", {"format": {"type": "json_schema", "schema": schema}})


BROKEN: dict[str, list[tuple[Any, Any]]] = {
    "/v1/messages": [
        (claude.shape, put("max_tokens", ...)),
        (claude.shape, put("messages", [])),
        (claude.shape, put("messages.0.role", "tool")),
        (claude.shape, put("messages.0.content", [{"text": "no type"}])),
        (claude.a_user_speaks_first_and_roles_alternate, put("messages.0", ...)),
        (claude.a_user_speaks_first_and_roles_alternate, put("messages.7", {"role": "user", "content": "and?"})),
        (claude.nothing_is_empty, put("messages.4.content", "")),
        (claude.nothing_is_empty, put("messages.4.content", [])),
        (claude.nothing_is_empty, put("messages.4.content", [text(" \n")])),
        (claude.nothing_is_empty, put("messages.2.content.0.content.0.text", "")),
        (claude.nothing_is_empty, put("system", " ")),
        (claude.thinking_is_not_last, put("messages.3.content", [THINKING])),
        (claude.thinking_is_not_last, put("messages.3.content.2", {"type": "redacted_thinking", "data": "b3A="})),
        (claude.thinking_is_signed, put("messages.1.content.0", {"type": "thinking", "thinking": "hm"})),
        (claude.thinking_is_signed, put("messages.1.content.0", {"type": "redacted_thinking"})),
        (claude.thinking_begins_a_pending_turn, put("messages.5.content.0", ...)),
        (
            claude.the_last_text_has_no_blanks_at_its_end,
            put("messages.7", {"role": "assistant", "content": [text("so ")]}),
        ),
        (claude.the_last_text_has_no_blanks_at_its_end, put("messages.7", {"role": "assistant", "content": "so\n"})),
        (claude.a_user_speaks_last, put("messages.7", {"role": "assistant", "content": "so"})),
        (claude.calls_are_answered_at_once, put("messages.6.content.0", ...)),
        (claude.calls_are_answered_at_once, put("messages.7", {"role": "assistant", "content": [called("c4")]})),
        (claude.results_have_a_call, put("messages.5.content.1", ...)),
        (claude.results_have_a_call, put("messages.4.content", [result("c1")])),
        (claude.no_call_has_two_results, put("messages.6.content.2", result("c2"))),
        (claude.results_come_first, put("messages.6.content", [text("so"), result("c2"), result("c3")])),
        (
            claude.results_of_a_program_stand_alone,
            each(BY_CODE, put("container", "c"), put("messages.6.content.2", text("and?"))),
        ),
        (claude.errors_are_text, put("messages.6.content.0.content", [image()])),
        (claude.ids_are_unique, put("messages.5.content.1.id", "c1")),
        (claude.ids_fit, put("messages.5.content.1.id", "call 1|x")),
        (claude.ids_fit, put("messages.5.content.1.id", "")),
        (claude.ids_fit, put("messages.6.content.0.tool_use_id", None)),
        (claude.ids_fit, put("messages.1.content.1.id", "s1")),
        (claude.names_fit, put("messages.5.content.1.name", "weather<|channel|>json")),
        (claude.names_fit, put("messages.5.content.1.name", "")),
        (claude.names_fit, put("messages.5.content.1.name", "a" * 129)),
        (claude.names_fit, put("tools.0.name", "fs.ls")),
        (claude.inputs_are_objects, put("messages.5.content.1.input", "{}")),
        (claude.inputs_are_objects, put("messages.1.content.1.input", '{"query": "x')),
        (claude.breakpoints_are_few, put("messages.4.content", [text("and?", cache_control=FIVE)])),
        (claude.breakpoints_are_few, put("cache_control", FIVE)),
        (claude.breakpoints_are_allowed, put("messages.3.content.0", THINKING | {"cache_control": FIVE})),
        (claude.breakpoints_are_allowed, put("messages.4.content", [text("", cache_control=FIVE)])),
        (claude.long_breakpoints_come_first, put("tools.0.cache_control", FIVE | {"ttl": "5m"})),
        (claude.long_breakpoints_come_first, put("messages.6.content.1.cache_control", HOUR)),
        (claude.media_are_what_they_say, put("messages.0.content.1", image("image/jpeg"))),
        (claude.media_are_what_they_say, put("messages.2.content.0.content.1", image("image/png", JPEG))),
        (claude.media_are_what_they_say, put("messages.0.content.1", image("image/bmp", "Qk0="))),
        (claude.media_are_what_they_say, put("messages.0.content.1", image(data="no base64"))),
        (claude.media_are_what_they_say, put("messages.0.content.1", linked({"url": "see.png"}))),
        (claude.media_are_what_they_say, put("messages.0.content.1", linked({"url": "https://x", "media_type": "a"}))),
        (
            claude.media_are_what_they_say,
            put("messages.0.content.1", image("text/csv", PDF) | {"type": "document"}),
        ),
        (claude.pending_code_has_its_container, BY_CODE),
        (claude.pending_code_has_its_container, put("messages.5.content.3", RUN)),
        (claude.server_results_have_a_call, put("messages.1.content.1", ...)),
        (claude.server_results_have_a_call, put("messages.1.content", [FOUND, SEARCH, text("so"), called("c1")])),
        (claude.server_calls_have_a_result, put("messages.1.content.2", ...)),
        (claude.citations_are_whole, put("messages.1.content.3.citations.0.url", ...)),
        (claude.citations_are_whole, put("messages.1.content.3.citations.0.type", "url_citation")),
        (claude.tools_fit, put("tools.1.name", "ls")),
        (claude.tools_fit, put("tools.0.input_schema", {})),
        (claude.tools_fit, put("tools.0.input_schema", ...)),
        (claude.tools_fit, put("tools.0.input_schema.anyOf", [{"required": ["path"]}])),
        (claude.tools_fit, put("tools.0.input_schema.properties.path.type", "text")),
        *[(claude.the_format_can_be_held, held(form)) for form in NOT_HELD],
        (claude.the_choice_exists, put("tools", [])),
        (claude.the_choice_exists, put("tool_choice", {"type": "tool", "name": "rm"})),
        (claude.the_choice_exists, put("tool_choice", {"type": "any"})),
        (claude.the_budget_fits, put("max_tokens", 1024)),
    ],
}

PASSING: dict[str, list[Any]] = {
    "/v1/messages": [
        put("messages.4.content", [text("and?")]),
        PAUSED,
        each(BY_CODE, put("container", "container_1")),
        each(put("messages.5.content.0", ...), put("thinking", {"type": "adaptive"})),
        put("messages.6.content.0.content", "no"),
        put("messages.1.content.3.citations", []),
        put("messages.0.content.1", {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}}),
        put("messages.0.content.1", image("application/pdf", PDF) | {"type": "document"}),
        put("messages.1.content.2", FOUND | {"content": {"type": "web_search_tool_result_error"}}),
    ],
}


# ---- the Responses API


def data_url(media_type: str = "image/png", data: str = PNG) -> str:
    return f"data:{media_type};base64,{data}"


def asked(call_id: str, **fields: Any) -> dict[str, Any]:
    said = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": "ls", "arguments": "{}"}
    return said | fields


def output(call_id: str, said: Any = "a.md", kind: str = "function_call_output") -> dict[str, Any]:
    return {"type": kind, "call_id": call_id, "output": said}


REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ZQ=="}
ANSWER = {"type": "output_text", "text": "so", "annotations": []}
PICTURE = {"type": "input_image", "image_url": data_url(), "detail": "auto"}
FUNCTION = {"type": "function", "name": "ls", "description": "List.", "parameters": OBJECT, "strict": False}

RESPONSES = {
    "model": "gpt-x",
    "store": False,
    "instructions": "Be brief.",
    "tools": [{"type": "web_search"}, FUNCTION, {"type": "custom", "name": "patch"}],
    "tool_choice": {"type": "function", "name": "ls"},
    "text": {"format": {"type": "json_schema", "name": "reply", "strict": True, "schema": SCHEMA}},
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "look"}, PICTURE]},
        REASONING,
        asked("c1"),
        asked("c2"),
        output("c2", [{"type": "input_text", "text": "see"}, PICTURE]),
        output("c1"),
        REASONING | {"id": "rs_2"},
        REASONING | {"id": "rs_3"},
        {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [ANSWER]},
        {"role": "assistant", "content": "more"},
        {"role": "user", "content": "and?"},
        {"type": "custom_tool_call", "call_id": "c3", "name": "patch", "input": "*"},
        output("c3", "done", "custom_tool_call_output"),
    ],
}


def answered(kind: str, call: dict[str, Any] = {}, **fields: Any) -> Any:  # noqa: B006
    """A change that adds a call of this kind, and what answers it."""
    asking = {"type": kind, "call_id": "c8"} | call
    return each(put("input.13", asking), put("input.14", {"type": f"{kind}_output", "call_id": "c8"} | fields))


SCREEN = {"type": "computer_screenshot", "image_url": data_url()}
EXIT = {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}
CHECKED = {"pending_safety_checks": [{"id": "cu_sc_1", "code": "malicious_instructions"}]}
LOCAL = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c8", "action": {}, "status": "completed"}

BROKEN["/responses"] = [
    (responses.shape, put("model", ...)),
    (responses.shape, put("input", [])),
    (responses.shape, put("input.0", {"content": "hi"})),
    (responses.shape, put("input.0.content", None)),
    (responses.calls_are_answered, put("input.5", ...)),
    (responses.calls_are_answered, put("input.5.type", "custom_tool_call_output")),
    (responses.calls_are_answered, put("input.13", LOCAL)),
    (responses.calls_are_answered, put("input.13", {"type": "apply_patch_call", "call_id": "c8"})),
    (responses.calls_are_answered, put("input.13", {"type": "computer_call", "call_id": "c8"})),
    (responses.calls_are_answered, put("input.13", {"type": "shell_call", "call_id": "c8"})),
    (responses.outputs_have_a_call, put("input.2", ...)),
    (responses.outputs_have_a_call, put("input.1", output("c9"))),
    (responses.outputs_are_of_their_form, put("input.5.output", None)),
    (responses.outputs_are_of_their_form, put("input.5.output", [])),
    (responses.outputs_are_of_their_form, answered("shell_call", output="a.md")),
    (responses.outputs_are_of_their_form, answered("shell_call", output=[{"stdout": "a", "stderr": ""}])),
    (responses.outputs_are_of_their_form, answered("apply_patch_call", output="done")),
    (responses.outputs_are_of_their_form, answered("computer_call", output="clicked")),
    (responses.outputs_are_of_their_form, answered("computer_call", output=SCREEN | {"image_url": "a.png"})),
    (responses.outputs_are_of_their_form, answered("local_shell_call", output=[])),
    (responses.checks_are_acknowledged, answered("computer_call", CHECKED, output=SCREEN)),
    (responses.no_call_stands_twice, put("input.3.call_id", "c1")),
    (responses.no_call_stands_twice, put("input.13", output("c1"))),
    (responses.call_ids_fit, each(put("input.2.call_id", "c" * 65), put("input.5.call_id", "c" * 65))),
    (responses.call_ids_fit, each(put("input.2.call_id", ""), put("input.5.call_id", ""))),
    (responses.items_stand_once, put("input.6.id", "rs_1")),
    (responses.reasoning_is_followed, put("input.13", REASONING | {"id": "rs_9"})),
    (responses.reasoning_is_followed, put("input.9", REASONING | {"id": "rs_9"})),
    (responses.reasoning_is_followed, each(put("store", True), put("input.2.id", ...))),
    (responses.reasoning_is_followed, each(put("store", ...), put("input.8.id", ...))),
    (responses.reasoning_is_whole, put("input.1.summary", ...)),
    (responses.names_fit, put("input.2.name", "browser.tabs.open")),
    (responses.names_fit, put("input.2.name", "a" * 65)),
    (responses.names_fit, put("tools.1.name", "")),
    (responses.parts_are_of_the_role, put("input.8.content.0.type", "input_text")),
    (responses.parts_are_of_the_role, put("input.0.content.0.type", "output_text")),
    (responses.messages_have_parts, put("input.0.content", [])),
    (responses.texts_are_whole, put("input.8.content.0.annotations", None)),
    (responses.texts_are_whole, put("input.0.content.0.text", None)),
    (responses.media_are_what_they_say, put("input.0.content.1.image_url", data_url("image/jpeg"))),
    (responses.media_are_what_they_say, put("input.4.output.1.image_url", data_url(data=JPEG))),
    (responses.media_are_what_they_say, put("input.0.content.1.image_url", "see.png")),
    (responses.media_are_what_they_say, put("input.0.content.1.image_url", "data:image/png,abc")),
    (responses.media_are_what_they_say, put("input.0.content.2", {"type": "input_file", "file_data": PDF})),
    (responses.media_are_what_they_say, put("input.0.content.2", {"type": "input_file", "file_url": "a.pdf"})),
    (responses.arguments_are_json, put("input.2.arguments", '{"path": /')),
    (responses.arguments_are_json, put("input.2.arguments", {})),
    (responses.tools_fit, put("tools.3", FUNCTION)),
    (responses.tools_fit, put("tools.1.parameters", None)),
    (responses.tools_fit, put("tools.1.strict", True)),
    (responses.tools_fit, put("text.format.schema", {"type": "object", "properties": {}})),
    (responses.the_choice_exists, put("tools", ...)),
    (responses.the_choice_exists, put("tool_choice.name", "rm")),
]
PASSING["/responses"] = [
    put("input", "hello"),
    each(put("store", True), put("input.8.id", "msg_1")),
    put("input.2.id", ...),
    each(put("input", [output("c0")]), put("previous_response_id", "resp_0")),
    each(put("input.13", LOCAL), put("input.14", {"type": "local_shell_call_output", "id": "c8", "output": "{}"})),
    put(
        "input.0.content.2", {"type": "input_file", "filename": "a.pdf", "file_data": data_url("application/pdf", PDF)}
    ),
    put("input.0.content.2", {"type": "input_file", "file_id": "file_1"}),
    answered("shell_call", output=[EXIT, EXIT | {"outcome": {"type": "timeout"}}]),
    answered("apply_patch_call", status="failed"),
    answered("computer_call", CHECKED, output=SCREEN, acknowledged_safety_checks=[{"id": "cu_sc_1"}]),
    put("input.8.content", [{"type": "refusal", "refusal": "no"}]),
    put("input.13", {"type": "tool_search_call", "execution": "server", "call_id": None, "arguments": {}}),
]


# ---- Chat Completions


def chat_call(call_id: str, **fields: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "ls", "arguments": "{}"}} | fields


def custom_call(name: str, written: Any = "select 1") -> dict[str, Any]:
    return {"id": "c1", "type": "custom", "custom": {"name": name, "input": written}}


SHOWN = {"type": "image_url", "image_url": {"url": data_url()}}
CHAT = {
    "model": "local-x",
    "stream": True,
    "stream_options": {"include_usage": True},
    "tools": [{"type": "function", "function": {"name": "ls", "description": "List.", "parameters": OBJECT}}],
    "tool_choice": {"type": "function", "function": {"name": "ls"}},
    "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": SCHEMA}},
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "look"}, SHOWN]},
        {"role": "assistant", "content": None, "tool_calls": [chat_call("c1"), chat_call("c2")]},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "tool", "tool_call_id": "c1", "content": "a.md"},
        {"role": "assistant", "content": "so", "reasoning_content": "hm"},
        {"role": "user", "content": "and?"},
    ],
}

BROKEN["/chat/completions"] = [
    (chat.shape, put("messages", [])),
    (chat.shape, put("messages.0.role", "robot")),
    (chat.shape, put("messages.2.tool_calls.0", {"id": "c1"})),
    (chat.calls_are_answered_at_once, put("messages.4", ...)),
    (chat.calls_are_answered_at_once, put("messages.3", {"role": "user", "content": "wait"})),
    (chat.results_have_a_call, put("messages.2.tool_calls.1", ...)),
    (chat.results_have_a_call, put("messages.6", {"role": "tool", "tool_call_id": "c1", "content": ""})),
    (chat.no_call_stands_twice, put("messages.2.tool_calls.2", chat_call("c1"))),
    (chat.no_call_stands_twice, put("messages.5", {"role": "tool", "tool_call_id": "c1", "content": ""})),
    (chat.call_ids_fit, put("messages.2.tool_calls.0.id", "c" * 65)),
    (chat.call_ids_fit, put("messages.2.tool_calls.0.id", None)),
    (chat.names_fit, put("messages.2.tool_calls.0.function.name", "")),
    (chat.names_fit, put("tools.0.function.name", "fs.ls")),
    (chat.arguments_are_an_object, put("messages.2.tool_calls.0.function.arguments", "[1]")),
    (chat.arguments_are_an_object, put("messages.2.tool_calls.0.function.arguments", {})),
    (chat.arguments_are_an_object, put("messages.2.tool_calls.0.function.arguments", "{")),
    (chat.names_fit, put("messages.2.tool_calls.0", custom_call("run sql"))),
    (chat.arguments_are_an_object, put("messages.2.tool_calls.0", custom_call("run_sql", {}))),
    (chat.content_is_there, put("messages.5.content", None)),
    (chat.content_is_there, put("messages.1.content", [])),
    (chat.content_is_there, put("messages.4.content", None)),
    (chat.content_is_there, put("messages.5.tool_calls", [])),
    (chat.parts_are_of_the_role, put("messages.4.content", [SHOWN])),
    (chat.parts_are_of_the_role, put("messages.1.content.0", {"type": "input_text", "text": "look"})),
    (chat.parts_are_of_the_role, put("messages.1.content.0.text", None)),
    (chat.media_are_what_they_say, put("messages.1.content.1.image_url.url", data_url("image/gif"))),
    (chat.media_are_what_they_say, put("messages.1.content.1", {"type": "file", "file": {"file_data": "x"}})),
    (chat.tools_fit, put("tools", [])),
    (chat.tools_fit, lambda body: body["tools"].append(body["tools"][0])),
    (chat.tools_fit, put("tools.0.function.parameters", {"type": "string"})),
    (chat.tools_fit, put("response_format.json_schema.schema", OBJECT)),
    (chat.the_choice_exists, put("tools", ...)),
    (chat.the_choice_exists, put("tool_choice.function.name", "rm")),
    (chat.the_choice_exists, put("stream", ...)),
    (chat.the_choice_exists, each(put("tools", ...), put("tool_choice", ...), put("parallel_tool_calls", False))),
    (chat.fields_are_known, put("messages.5.reasoning", "hm")),
    (chat.fields_are_known, put("messages.2.tool_calls.0.extra_content", {})),
    (chat.fields_are_known, put("messages.5.content", [{"type": "thinking", "thinking": []}])),
    (chat.fields_are_known, put("messages.5.content", [{"type": "reference", "reference_ids": [1]}])),
]
PASSING["/chat/completions"] = [
    put("messages.2.tool_calls.0", custom_call("run_sql")),
    put("messages.5", {"role": "assistant", "audio": {"id": "audio_1"}}),
    put("messages.2.content", ""),
    put("messages.2.tool_calls.0.id", "c1"),
    put("messages.1.content.1.image_url.url", "https://x/y.png"),
    put("tools.0.function.parameters", ...),
    put("messages.5.refusal", "no"),
]

WHOLE = {"/v1/messages": CLAUDE, "/responses": RESPONSES, "/chat/completions": CHAT}
SAID = {"reasoning_content"}


def changed(path: str, change: Any) -> list[str]:
    body = deepcopy(WHOLE[path])
    change(body)
    return faults(json.dumps(body).encode(), path, SAID)


@pytest.mark.parametrize(("path", "rule", "change"), [(path, *row) for path in BROKEN for row in BROKEN[path]])
def test_a_body_that_breaks_a_rule_is_found(path, rule, change):
    assert [fault for fault in changed(path, change) if fault.startswith(f"{rule.__name__}: ")]


@pytest.mark.parametrize("path", WHOLE)
def test_every_rule_has_a_body_that_breaks_it(path):
    api = APIS[path.removeprefix("/v1")]
    assert {rule for rule, _ in BROKEN[path]} == {api.shape, *api.OF_EACH_PART, *api.OF_THE_WHOLE}
    assert {rule for rule, _ in BROKEN[path]} == rules_of(api)


def rules_of(api):
    """The functions that a module itself defines and that yield faults."""
    own = [value for value in vars(api).values() if getattr(value, "__module__", "") == api.__name__]
    return {value for value in own if value.__annotations__.get("return") == Iterator[str]}


@pytest.mark.parametrize("path", WHOLE)
def test_a_part_of_a_conversation_need_not_be_whole(path):
    api = APIS[path.removeprefix("/v1")]
    for rule, change in BROKEN[path]:
        body = deepcopy(WHOLE[path])
        change(body)
        found = {fault.partition(":")[0] for fault in faults(json.dumps(body).encode(), path, SAID, part=True)}
        assert found <= {rule.__name__ for rule in (api.shape, *api.OF_EACH_PART)}
        assert rule in api.OF_THE_WHOLE or rule.__name__ in found


@pytest.mark.parametrize("path", WHOLE)
def test_a_whole_conversation_has_no_fault(path):
    assert changed(path, lambda body: None) == []


@pytest.mark.parametrize(("path", "change"), [(path, change) for path in PASSING for change in PASSING[path]])
def test_what_is_only_unusual_has_no_fault(path, change):
    assert changed(path, change) == []


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b'{"n": NaN}', "json: NaN is not JSON"),
        (b'{"n": [-Infinity]}', "json: -Infinity is not JSON"),
        (rb'{"n": "a\ud800b"}', "json: a lone surrogate"),
        (b'{"model": "x", "model": "y"}', "json: a name stands twice in one object"),
        (b'{"n": ', "json: Expecting value"),
        (b'{"n": "\xff"}', "json: 'utf-8' codec can't decode"),
    ],
)
def test_what_only_python_reads_is_no_json(raw, said):
    assert [fault for fault in faults(raw, "/v1/messages") if fault.startswith(said)]


def test_a_body_for_another_path_is_not_judged():
    assert faults(b"{}", "/v1/files") == []
    assert faults(b"{}", "/v1/messages?beta=true")


@pytest.mark.parametrize(
    ("path", "whole", "others"),
    [
        ("/v1/messages/count_tokens", CLAUDE, {"max_tokens"}),
        ("/responses/input_tokens", RESPONSES, {"store"}),
    ],
)
def test_only_what_is_counted_is_sent_to_be_counted(path, whole, others):
    counted = {name: value for name, value in whole.items() if name not in others}
    assert faults(json.dumps(counted).encode(), path) == []
    assert faults(json.dumps(whole).encode(), path) == [f"fields: {name} is not counted" for name in others]
    assert faults(json.dumps(counted | {"tools": counted["tools"] * 2}).encode(), path)


# ---- the provider that asks it


ANSWER_SO = json_answer(chat_wire.said("so"))


def send(provider: Provider, *conversations: dict[str, Any]) -> None:
    """Send conversations whose last message has these fields."""

    async def go() -> None:
        with provider:
            async with chat_wire.connected(provider.url) as client:
                for fields in conversations:
                    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "so"} | fields]
                    await client.chat.completions.create(model="x", messages=messages)

    asyncio.run(go())


def test_a_provider_fails_the_test_that_sends_it_a_fault():
    with pytest.raises(AssertionError, match=r"from request 2 on, fields_are_known: messages\[1\]: \['reasoning'\]"):
        send(Provider(ANSWER_SO, ANSWER_SO), {}, {"reasoning": "hm"})


def test_a_lenient_provider_only_keeps_the_faults():
    send(provider := Provider(ANSWER_SO, lenient=True), {"reasoning": "hm"})
    assert list(provider.faults.values()) == [1]


def test_a_field_that_the_provider_itself_has_sent_may_come_back():
    first = json_answer(chat_wire.completion({"content": "so", "reasoning": "hm"}))
    send(Provider(first, ANSWER_SO), {}, {"reasoning": "hm"})
