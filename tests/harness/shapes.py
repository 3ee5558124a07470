"""Shapes in which models plausibly write arguments, todo lists and JSON, and what each of them means."""

import dataclasses
import json
from typing import Any, Literal, NamedTuple

import msgspec

from minideep import Agent, Subagent, ToolCall, create_deep_agent, tool
from minideep.models import ScriptedModel


class Shape(NamedTuple):
    """One shape; *meant* is None if it must not be taken, and *why* says why not."""

    name: str
    given: Any
    meant: Any
    why: str = ""


@dataclasses.dataclass
class Place:
    street: str
    number: int = 1


class Report(msgspec.Struct):
    title: str
    points: list[str] = []


@tool
async def order(
    item: str,
    count: int = 1,
    tags: list[str] = [],  # noqa: B006
    express: bool = False,
    size: Literal["small", "large"] = "small",
    note: str | None = None,
    place: Place | None = None,
) -> str:
    """Order an item."""
    return json.dumps([item, count, tags, express, size, note, place and [place.street, place.number]])


def ordered(item="pen", count=1, tags=(), express=False, size="small", note=None, place=None):
    return json.dumps([item, count, list(tags), express, size, note, place])


def text_call(text, name="order"):
    """A call whose arguments are text, as adapters keep what is not a JSON object."""
    return ToolCall(name, json.dumps(text).encode(), "c")


def call(args, name="order"):
    return ToolCall(name, args, "c")


PEN = {"item": "pen"}
CUT = "a part is not the whole"
MANY = "it may mean several values"
ARGUMENTS = [
    Shape("a number as text", call({**PEN, "count": "10"}), ordered(count=10)),
    Shape("a whole number as 10.0", call({**PEN, "count": 10.0}), ordered(count=10)),
    Shape("a number as a word", call({**PEN, "count": "ten"}), None, "words are no numbers in every language"),
    Shape("a number with thousands", call({**PEN, "count": "1,000"}), None, "1,000 and 1.000 differ between countries"),
    Shape("half a number for a whole one", call({**PEN, "count": 1.5}), None, "rounding is a guess"),
    Shape("null for an optional number", call({**PEN, "count": None}), ordered()),
    Shape("empty text for an optional number", call({**PEN, "count": ""}), ordered()),
    Shape("'null' for an optional text", call({**PEN, "note": None}), ordered()),
    Shape("a list as JSON text", call({**PEN, "tags": '["a", "b"]'}), ordered(tags="ab")),
    Shape("a list as Python text", call({**PEN, "tags": "['a', 'b']"}), ordered(tags="ab")),
    Shape("one value for a list", call({**PEN, "tags": "a"}), ordered(tags="a")),
    Shape("a list with commas", call({**PEN, "tags": "a, b"}), None, MANY),
    Shape("true as text", call({**PEN, "express": "true"}), ordered(express=True)),
    Shape("True as text", call({**PEN, "express": "True"}), ordered(express=True)),
    Shape("yes for true", call({**PEN, "express": "yes"}), None, "only true and false are booleans"),
    Shape("a choice in capitals", call({**PEN, "size": "LARGE"}), ordered(size="large")),
    Shape("a choice that is none", call({**PEN, "size": "medium"}), None, "none of the choices is meant"),
    Shape("an object as JSON text", call({**PEN, "place": '{"street": "Main"}'}), ordered(place=["Main", 1])),
    Shape("an object in a list of one", call({**PEN, "place": [{"street": "Main"}]}), ordered(place=["Main", 1])),
    Shape("a number inside of an object as text", call({**PEN, "place": {"street": "Main", "number": "3"}}), ordered(place=["Main", 3])),
    Shape("a number for a text", call({"item": 7}), ordered("7")),
    Shape("a name in camel case", call({"Item": "pen"}), ordered()),
    Shape("unknown names that say nothing", call({**PEN, "reason": "", "meta": None, "extra": {}}), ordered()),
    Shape("an unknown name with a value", call({**PEN, "dry_run": True}), None, "a dropped dry_run is a deed"),
    Shape("arguments in arguments", call({"arguments": PEN}), ordered()),
    Shape("arguments as JSON text in input", call({"input": '{"item": "pen"}'}), ordered()),
    Shape("arguments as JSON text twice", text_call('"{\\"item\\": \\"pen\\"}"'), ordered()),
    Shape("arguments in a fence", text_call('```json\n{"item": "pen"}\n```'), ordered()),
    Shape("arguments with a trailing comma", text_call('{"item": "pen",}'), ordered()),
    Shape("arguments with a comment", text_call('{"item": "pen" // one\n}'), ordered()),
    Shape("arguments as a Python dict", text_call("{'item': 'pen', 'express': True}"), ordered(express=True)),
    Shape("a line break inside of a text", text_call('{"item": "a\nb"}'), ordered("a\nb")),
    Shape("empty braces before the arguments", text_call('{}{"item": "pen"}'), ordered()),
    Shape("two different objects", text_call('{"item": "pen"}{"item": "cup"}'), None, MANY),
    Shape("arguments that break off", text_call('{"item": "pen", "tags": ["a"'), None, CUT),
    Shape("read_file with path", call({"path": "/a"}, "read_file"), "@@ lines 1-1 of 1 @@"),
    Shape("read_file with filePath and a limit as text", call({"filePath": "/a", "limit": "5"}, "read_file"), "@@ lines 1-1 of 1 @@"),
    Shape("read_file with start_line", call({"file_path": "/a", "start_line": 1}, "read_file"), None, "lines count from 0 or from 1"),
    Shape("write_file with path and file_text", call({"path": "/b", "file_text": "x"}, "write_file"), "created '/b'"),
    Shape("edit_file with old_str and new_str", call({"path": "/a", "old_str": "one", "new_str": "two"}, "edit_file"), "replaced 1"),
    Shape("edit_file with oldText and newText", call({"path": "/a", "oldText": "one", "newText": "two"}, "edit_file"), "replaced 1"),
    Shape("grep with query and include", call({"query": "one", "include": "*"}, "grep"), "/a"),
    Shape("task with prompt and agent", call({"prompt": "Judge.", "agent": "Critic"}, "task"), "judged"),
    Shape("task with a label and a prompt", call({"description": "A look", "prompt": "Judge.", "subagent_type": "critic"}, "task"), "judged"),
    Shape("task for an agent that is none", call({"description": "Judge.", "subagent_type": "judge"}, "task"), None, "nobody of that name"),
]  # fmt: skip


def todos(given, **more):
    return ToolCall("write_todos", {"todos": given, **more}, "c")


def item(content="look", status="pending", **more):
    return {"content": content, "status": status, **more}


LOOK, DONE = [("look", "pending")], [("look", "completed")]
TODOS = [
    Shape("activeForm beside content", todos([item(activeForm="Looking")]), LOOK),
    Shape("id and priority", todos([item(id="1", priority="high")]), LOOK),
    Shape("plain texts", todos(["look", "write"]), [*LOOK, ("write", "pending")]),
    Shape("the list as JSON text", todos(json.dumps([item()])), LOOK),
    Shape("the list in an object once more", todos({"todos": [item()]}), LOOK),
    Shape("one item without a list", todos(item()), LOOK),
    Shape("items as JSON texts", todos([json.dumps(item())]), LOOK),
    Shape("done for completed", todos([item(status="done")]), DONE),
    Shape("'in progress' with a space", todos([item(status="in progress")]), [("look", "in_progress")]),
    Shape("status null", todos([item(status=None)]), LOOK),
    Shape("title for content", todos([{"title": "look", "status": "pending"}]), LOOK),
    Shape("the same item twice", todos([item(), item()]), LOOK),
    Shape("status failed", todos([item(status="failed")]), None, "a failed step is not completed"),
    Shape("status cancelled", todos([item(status="cancelled")]), None, "it is no step any more: leave it out"),
    Shape("a field that says something", todos([item(owner="me")]), None, "nobody would see it"),
]
REWORDED = [
    Shape("a completed item with its outcome", todos([item("Run the tests (12 passed)", "completed")]), [("Run the tests", "completed")]),
    Shape("a completed item in other words", todos([item("Ship it", "completed")]), None, "the person's view would change"),
    Shape("a completed item that is gone", todos([item()]), None, "the person's view would change"),
]  # fmt: skip
"""After a list with `Run the tests` as its completed item."""

REPORT = '{"title": "T", "points": ["a"]}'
READ = Report("T", ["a"])
PROSE = [
    Shape("JSON alone", REPORT, READ),
    Shape("JSON in a fence", f"```json\n{REPORT}\n```", READ),
    Shape("JSON in prose", f"Here it is: {REPORT} Anything else?", READ),
    Shape("JSON after thoughts with braces", f"<think>perhaps {{x}}?</think>\n{REPORT}", READ),
    Shape("JSON after a note with braces", f"I used {{placeholders}}.\n{REPORT}", READ),
    Shape("JSON before a note with braces", f"{REPORT}\nFill in {{name}} yourself.", READ),
    Shape("a draft and the answer in two fences", f'```json\n{{"title": "D"}}\n```\nBetter:\n```json\n{REPORT}\n```', READ),
    Shape("a fence that is not closed", f"```json\n{REPORT}", READ),
    Shape("JSON with comments and commas", '{"title": "T", // the title\n "points": ["a",],}', READ),
    Shape("one value for a list inside of it", '{"title": "T", "points": "a"}', READ),
    Shape("JSON as JSON text", json.dumps(REPORT), READ),
    Shape("JSON in a list of one", f"[{REPORT}]", READ),
    Shape("two answers without fences", f'{{"title": "D"}} or rather {REPORT}', READ),
    Shape("JSON that breaks off", REPORT[:-3], None, CUT),
    Shape("no JSON", "The title is T.", None, "there is none"),
]  # fmt: skip


async def answer(*calls):
    """What a default agent's tool answers the last of *calls*, and whether it is an error; and the todos then."""
    first = ToolCall("write_file", {"file_path": "/a", "content": "one\n"}, "w")
    critic = Subagent(name="critic", description="Judges.", model=ScriptedModel(["judged"]))
    agent: Agent = create_deep_agent(ScriptedModel([first, *calls, "ok"]), [order], subagents=[critic])
    turn = await agent.run("go", "t")
    message = turn.messages[-2]
    return message.text, message.is_error, [(todo.content, todo.status) for todo in agent.get_state("t").todos]
