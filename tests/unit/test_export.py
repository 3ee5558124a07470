"""Messages and events as plain JSON: the form that other programs read."""

import json

import pytest

from minideep import AssistantMessage, Citation, Image, Text, Thinking, Todo, ToolCall, ToolMessage, UserMessage
from minideep.events import Decided, FileWritten, TodosWritten, ToolStarted, with_path
from minideep.export import event_json, message_json
from minideep.state import Edit


@pytest.mark.parametrize(
    ("message", "form"),
    [
        (UserMessage("hi"), {"type": "human", "content": "hi"}),
        (AssistantMessage("yes"), {"type": "ai", "content": "yes", "tool_calls": []}),
        (
            AssistantMessage((Text("let me "), Text("look"), ToolCall("ls", {"path": "/"}, "c1"))),
            {
                "type": "ai",
                "content": "let me look",
                "tool_calls": [{"id": "c1", "name": "ls", "args": {"path": "/"}}],
            },
        ),
        (
            ToolMessage("a.md", "c1", "ls"),
            {"type": "tool", "content": "a.md", "name": "ls", "tool_call_id": "c1", "is_error": False},
        ),
        (
            UserMessage((Text("see"), Image(b"\x89PNG"))),
            {
                "type": "human",
                "content": [
                    {"type": "text", "text": "see", "citations": []},
                    {"type": "image", "data": "iVBORw==", "media_type": "image/png"},
                ],
            },
        ),
        (
            AssistantMessage((Text("it is so", (Citation("https://e.example", "E", "so", 6, 8, "p", b"{}"),)),)),
            {
                "type": "ai",
                "content": [
                    {
                        "type": "text",
                        "text": "it is so",
                        "citations": [
                            {
                                "url": "https://e.example",
                                "title": "E",
                                "quote": "so",
                                "start": 6,
                                "end": 8,
                                "provider": "p",
                                "raw": "e30=",
                            }
                        ],
                    },
                ],
                "tool_calls": [],
            },
        ),
        (
            AssistantMessage((Thinking("hm", "anthropic", b"{}"), ToolCall("ls", b'"{oops"', "c1"))),
            {
                "type": "ai",
                "content": [{"type": "thinking", "text": "hm", "provider": "anthropic", "raw": "e30="}],
                "tool_calls": [{"id": "c1", "name": "ls", "args": "{oops"}],
            },
        ),
    ],
)
def test_a_message_says_who_spoke_and_what(message, form):
    assert message_json(message) == form
    json.dumps(form)


def test_an_event_is_an_object_with_its_name_its_run_and_its_fields():
    assert event_json(with_path(TodosWritten((Todo("a", "completed"),)), ("c1",), 7, 1.5, "7")) == {
        "event": "TodosWritten",
        "path": ["c1"],
        "number": 7,
        "id": "7",
        "at": 1.5,
        "todos": [{"content": "a", "status": "completed"}],
    }
    assert event_json(ToolStarted(ToolCall("ls", {}, "c1")))["call"] == {"id": "c1", "name": "ls", "args": {}}
    assert event_json(Decided("c1", Edit({"a": 1})))["decision"] == {"type": "edit", "args": {"a": 1}}
    assert event_json(FileWritten("/a", b"\xff", 1, "s", 1.0))["content"] == "/w=="
