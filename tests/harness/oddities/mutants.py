"""Answers in which one field holds something else, or is missing: every field, and every kind of value.

The answers have a bit of everything that the adapters look into.
"""

import copy
from collections.abc import Iterator
from typing import Any

from harness.wires import chat, claude, responses

VALUES = (None, "x", 1.5, [None], {"a": 1})
ARGS = '{"path": "a"}'

RICH: dict[str, dict[str, Any]] = {
    "anthropic": claude.message(
        {"type": "thinking", "thinking": "let me look", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "c2Vj"},
        claude.text("hi there")
        | {
            "citations": [
                {"type": "char_location", "cited_text": "a", "document_index": 0, "document_title": "b",
                 "start_char_index": 0, "end_char_index": 1},
                {"type": "web_search_result_location", "url": "u", "title": "t", "cited_text": "a", "encrypted_index": "e"},
            ]
        },
        {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "a"}, "caller": {"type": "direct"}},
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "q"}},
        {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [{"type": "web_search_result", "url": "u"}]},
        stop="tool_use",
        cache_creation={"ephemeral_1h_input_tokens": 3},
        iterations=[{"type": "compaction", "input_tokens": 1, "output_tokens": 1}],
        service_tier="standard",
    )
    | {"container": {"id": "container_1", "expires_at": "2026-01-01T00:00:00Z"}},
    "openai": responses.response(
        responses.reasoning("let me look"),
        responses.message("")
        | {
            "content": [
                {
                    "type": "output_text",
                    "text": "hi there",
                    "annotations": [
                        {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 1},
                        {"type": "file_citation", "file_id": "f", "filename": "n", "index": 0},
                    ],
                },
                {"type": "refusal", "refusal": "I cannot"},
            ]
        },
        responses.call("call_1", ARGS),
        {"type": "custom_tool_call", "id": "ctc_1", "call_id": "call_2", "name": "ls", "input": "a"},
        {"type": "shell_call", "id": "sh_1", "call_id": "call_3", "action": {"commands": ["ls"], "timeout_ms": 1}},
        {"type": "apply_patch_call", "id": "apc_1", "call_id": "call_4", "operation": {"type": "update_file", "path": "a", "diff": "d"}},
        {"type": "computer_call", "id": "cu_1", "call_id": "call_5", "action": {"type": "click"}, "pending_safety_checks": [{"id": "s"}]},
        usage={
            "input_tokens": 7,
            "output_tokens": 3,
            "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens_details": {"ttl_12h_tokens": 1}},
            "output_tokens_details": {"reasoning_tokens": 1},
        },
        incomplete_details={"reason": "max_output_tokens"},
        service_tier="default",
    ),
    "openai-chat": chat.completion(
        {
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "let me"}], "closed": True},
                {"type": "text", "text": "hi there"},
            ],
            "reasoning_content": "let me look",
            "reasoning": "let me look",
            "reasoning_details": [{"type": "reasoning.text", "text": "let me look", "signature": "c2ln", "index": 0}],
            "tool_calls": [chat.call("call_1", ARGS, extra_content={"google": {"thought_signature": "c2ln"}})],
            "function_call": {"name": "ls", "arguments": ARGS},
            "annotations": [{"type": "url_citation", "url_citation": {"url": "u", "title": "t", "start_index": 0, "end_index": 1}}],
            "images": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}],
            "audio": {"id": "audio_1", "data": "aGk=", "transcript": "hi", "expires_at": 1},
            "extra_content": {"google": {"thought_signature": "c2ln"}},
        },
        "tool_calls",
        usage={
            "prompt_tokens": 7,
            "completion_tokens": 3,
            "prompt_tokens_details": {"cached_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 1},
            "cost": 0.1,
        },
        service_tier="default",
    ),
}  # fmt: skip
EVENTS: dict[str, list[Any]] = {
    "anthropic": claude.events(RICH["anthropic"]),
    "openai": responses.events(RICH["openai"]),
    "openai-chat": [event for event in chat.events(RICH["openai-chat"]) if isinstance(event, dict)],
}


def places(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield where the fields and items of *value* are, however deep."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield (*place, name)
        yield from places(item, (*place, name))


def mutants(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield *value* with each of its fields missing or holding something else, and what was done."""
    for place in places(value):
        for other in (..., *VALUES):
            mutant = copy.deepcopy(value)
            inner = mutant
            for name in place[:-1]:
                inner = inner[name]
            if other is ...:
                del inner[place[-1]]
            else:
                inner[place[-1]] = copy.deepcopy(other)
            yield f"{'.'.join(map(str, place))} = {'nothing' if other is ... else repr(other)}", mutant
