"""JSON that is read back: events, turns and decisions; and the JSON Schema that describes it."""

import json
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints
from unicodedata import category

import msgspec
import pytest
from hypothesis import given, settings, strategies as st
from jsonschema import Draft202012Validator

from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    AuthenticationFailed,
    CheckpointError,
    ConfigError,
    Edit,
    FileEntry,
    Interrupt,
    RateLimited,
    Reject,
    Respond,
    Text,
    ToolCall,
    ToolMessage,
    Turn,
    UserMessage,
    decision_from_json,
    decisions_from_json,
    events,
)
from minideep.events import EVENTS, Decided, Noted, TextDelta, ToolReturned, with_path
from minideep.messages import AnyBlock, Content, clean
from minideep.models import ScriptedModel

# ---- anything that the annotations allow, in the form in which JSON brings it back

words = st.text(max_size=8)
numbers = st.floats(allow_nan=False, allow_infinity=False)
data = st.recursive(
    st.none() | st.booleans() | st.integers() | numbers | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=3,
)
calls = st.builds(ToolCall, words, st.dictionaries(words, data, max_size=2), words)
malformed = st.builds(lambda text: ToolCall("ls", json.dumps(text, ensure_ascii=False).encode(), "c"), words)
blocks = st.one_of(
    *[st.deferred(lambda block=block: anything(block)) for block in get_args(AnyBlock) if block is not ToolCall]
)
# Text is one block, unless it has citations or something stands beside it.
content = words | st.lists(blocks, min_size=1, max_size=3).map(tuple).filter(
    lambda said: any(type(block) is not Text or block.citations for block in said)
)


def reply(said, asked):
    if not asked:
        return AssistantMessage(said)
    return AssistantMessage((*(((Text(said),) if said else ()) if isinstance(said, str) else said), *asked))


PLAIN = {
    Any: data,
    NoneType: st.none(),
    str: words,
    bool: st.booleans(),
    int: st.integers(-(2**63), 2**63),
    float: numbers,
    bytes: st.binary(max_size=8),
    Content: content,
    ToolCall: calls | malformed,
    Edit: st.builds(Edit, st.dictionaries(words, data, max_size=2)),
    UserMessage: st.builds(UserMessage, content),
    AssistantMessage: st.builds(reply, content, st.lists(calls | malformed, max_size=2)),
    ToolMessage: st.builds(ToolMessage, content, words, words, st.booleans()),
}
FILE_CONTENT = st.none() | words | st.binary(max_size=8)


@cache
def anything(hint):
    origin, args = get_origin(hint), get_args(hint)
    if hint in PLAIN:
        return PLAIN[hint]
    if isinstance(hint, TypeVar):  # The output of a turn, which comes back as plain data.
        return data
    if origin is Annotated:
        return st.integers(0, 99) if args[0] is int else st.floats(0, 99)
    if origin in (Union, UnionType):
        return st.one_of(*map(anything, args))
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (list, tuple):
        return st.lists(anything(args[0]), max_size=2).map(origin)
    if origin is dict:
        return st.dictionaries(words, anything(args[1]), max_size=2)
    hints = get_type_hints(hint, include_extras=True)
    fields = {name: anything(hints[name]) for name in hint.__struct_fields__}
    return st.builds(hint, **fields | ({"content": FILE_CONTENT} if fields.keys() >= {"content", "sha256"} else {}))


any_event = st.builds(
    with_path,
    st.one_of(*map(anything, EVENTS)),
    st.lists(words, max_size=2).map(tuple),
    st.integers(0, 10**6),
    st.floats(0, 2e9),
    words,
)
about = ("path", "number", "at", "id")


def is_one_safe_line(text):
    return len(text.splitlines()) == 1 and not any(category(character) == "Cc" for character in text)


@given(any_event)
@settings(max_examples=150, deadline=None)
def test_every_event_comes_back_as_it_was(event):
    line = event.json()
    again = events.from_json(line)
    assert (type(again), again) == (type(event), event)
    assert [getattr(again, name) for name in about] == [getattr(event, name) for name in about]
    assert is_one_safe_line(line)


@given(anything(Turn))
@settings(max_examples=100, deadline=None)
def test_every_turn_comes_back_as_it_was(turn):
    again = Turn.from_json(turn.json().encode())
    assert (again, again.json()) == (turn, turn.json())
    assert is_one_safe_line(turn.json())


EVENT_SCHEMA, TURN_SCHEMA = Draft202012Validator(events.json_schema()), Draft202012Validator(Turn.json_schema())


@pytest.mark.parametrize("kind", EVENTS)
def test_every_kind_of_event_fits_the_schema(kind):
    @given(anything(kind))
    @settings(max_examples=5, deadline=None, database=None)
    def fits(event):
        shown = json.loads(event.json())
        EVENT_SCHEMA.validate(shown)
        for name in shown:
            assert not EVENT_SCHEMA.is_valid({key: value for key, value in shown.items() if key != name})

    fits()


@given(anything(Turn))
@settings(max_examples=200, deadline=None)
def test_hundreds_of_turns_fit_the_schema(turn):
    TURN_SCHEMA.validate(json.loads(turn.json()))


def test_the_schemas_are_schemas_and_say_what_a_field_is():
    for schema in (events.json_schema(), Turn.json_schema()):
        Draft202012Validator.check_schema(schema)
        assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    defined = events.json_schema()["$defs"]
    assert {branch["$ref"] for branch in events.json_schema()["oneOf"]} == {
        f"#/$defs/{kind.__name__}" for kind in EVENTS
    }
    assert defined["TextDelta"]["properties"]["event"] == {"const": "TextDelta"}
    assert defined["Limits"]["properties"]["steps"]["anyOf"][0] == {"type": "integer", "minimum": 0}
    assert defined["Interrupt"]["properties"]["path"]["description"] == "The run that owns the call."
    assert not TURN_SCHEMA.is_valid({**json.loads(Turn(thread_id="t", status="ended").json()), "status": "over"})


def test_what_json_does_not_say_is_lost_and_only_that():
    message = AssistantMessage((Text("let me "), ToolCall("ls", b'{ "path": "/" }', "c1"), Text("look")))
    turn = Turn(thread_id="t", status="ended", messages=(message, UserMessage((Text("hi"),))))
    again = Turn.from_json(turn.json())
    assert again.messages == (
        AssistantMessage((Text("let me look"), ToolCall("ls", {"path": "/"}, "c1"))),
        UserMessage("hi"),
    )
    assert again.json() == turn.json()


async def test_the_events_and_the_turn_of_a_thread_come_back(store):
    agent = Agent(ScriptedModel(["Emma.", RateLimited("slow down")]), checkpointer=store)
    for _ in range(2):
        async with agent.stream("Which book?", "t") as stream:
            async for event in stream:
                assert events.from_json(event.json()) == event
        assert Turn.from_json(stream.turn.json()) == stream.turn
    again = Turn.from_json(stream.turn.json())
    assert (type(again.error), str(again.error), again.error.transient) == (RateLimited, "slow down", True)
    with pytest.raises(RateLimited, match="slow down"):
        again.raise_for_status()


# ---- other versions, and mistakes


def test_fields_of_a_newer_version_are_ignored_and_those_of_an_older_one_may_lack():
    shown = json.loads(Decided("c1", Approve()).json()) | {"mood": "sunny"}
    shown["decision"]["mood"] = "sunny"
    assert events.from_json(shown) == Decided("c1", Approve())
    assert events.from_json('{"event":"ToolReturned","call_id":"c1","content":"x"}') == ToolReturned("c1", "x")


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("{", "the event: expected JSON"),
        ("[" * 100_000, "the event: expected JSON"),
        ("[]", r"the event: expected an object, found \[\]"),
        ("{}", "the event: expected the name of an event in 'event', found None"),
        ('{"event":"TurnLost"}', "the event: expected the name of an event in 'event', found 'TurnLost'"),
        ('{"event":"TextDelta"}', "TextDelta.text is missing"),
        ('{"event":"TextDelta","text":5}', "TextDelta.text: expected text, found 5"),
        ('{"event":"TextDelta","text":"x","path":["a",1]}', r"TextDelta.path\[1\]: expected text, found 1"),
        ('{"event":"Rewound","to":true}', "Rewound.to: expected a whole number, found True"),
        ('{"event":"TurnEnded","at":"now"}', "TurnEnded.at: expected a number, found 'now'"),
        (
            '{"event":"TurnEnded","at":1,"reason":"x"}',
            'reason: expected "done" or "truncated" or "refused", found \'x\'',
        ),
        ('{"event":"UserSaid","at":1,"message":{"type":"ai"}}', "UserSaid.message: expected an object with"),
        (
            '{"event":"UserSaid","at":1,"message":{"type":"human","content":[{"type":"image","data":"*"}]}}',
            r"UserSaid.message.content\[0\].data: expected base64, found '\*'",
        ),
        (
            '{"event":"UserSaid","at":1,"message":{"type":"human","content":"x"},"limits":{"steps":-1}}',
            "UserSaid.limits.steps: expected a whole number of at least 0 or null, found -1",
        ),
        (
            '{"event":"FileWritten","file":"/a","content":"*","size":1,"sha256":"s","at":1,"encoding":"base64"}',
            "FileWritten: the content is not base64",
        ),
        (
            '{"event":"ToolStarted","call":{"id":"c","name":"n","args":' + '{"a":' * 150 + "1" + "}" * 150 + "}}",
            "ToolStarted.call: arguments nest deeper than 100 levels",
        ),
    ],
)
def test_what_is_not_an_event_is_refused_with_its_place(raw, problem):
    with pytest.raises(ConfigError, match=problem):
        events.from_json(raw)


def test_an_event_is_not_a_turn():
    with pytest.raises(ConfigError, match="the turn: expected Turn in 'event', found 'TextDelta'"):
        Turn.from_json(TextDelta("x").json())


# ---- decisions


@pytest.mark.parametrize(
    ("raw", "decision"),
    [
        ('{"type":"approve"}', Approve()),
        (b'{"type":"edit","args":{"path":"/b"}}', Edit({"path": "/b"})),
        ({"type": "reject"}, Reject()),
        ({"type": "reject", "reason": "too dear"}, Reject("too dear")),
        ({"type": "reject", "message": "too dear"}, Reject("too dear")),
        ('{"type":"respond","text":"42"}', Respond("42")),
    ],
)
def test_a_decision_comes_from_json(raw, decision):
    assert decision_from_json(raw) == decision
    whole = {"p1": raw if isinstance(raw, dict) else json.loads(raw)}
    assert decisions_from_json(json.dumps(whole)) == {"p1": decision}


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        ("yes", "raw: expected JSON"),
        ("true", "raw: expected an object, found True"),
        ("{}", 'raw.type: expected "approve", "edit", "reject" or "respond", found None'),
        ({"type": ["approve"]}, "raw.type: expected"),
        ({"type": "approve", "args": {"amount": 7}}, "raw: 'approve' takes no other field, found 'args'"),
        ({"type": "edit"}, "raw.args is missing"),
        ({"type": "edit", "args": "{}"}, "raw.args: expected an object, found '{}'"),
        ({"type": "edit", "edited_action": {"name": "rm", "args": {}}}, "takes 'args', found 'edited_action'"),
        ({"type": "reject", "reason": "a", "message": "b"}, "expected 'reason' or 'message', found both"),
        ({"type": "respond", "text": None}, "raw.text: expected text, found None"),
    ],
)
def test_a_decision_that_may_mean_something_else_is_refused(raw, problem):
    with pytest.raises(ConfigError, match=problem):
        decision_from_json(raw)


def test_a_wrong_decision_among_several_is_named_by_its_call():
    with pytest.raises(ConfigError, match=r"raw\['p2'\]: expected an object, found True"):
        decisions_from_json('{"p1": {"type": "approve"}, "p2": true}')
    with pytest.raises(ConfigError, match=r"raw\['p1'\]: expected an object, found"):
        decisions_from_json({"p1": '{"type": "approve"}'})


# ---- the compact form


@given(any_event)
@settings(max_examples=100, deadline=None)
def test_msgspec_writes_events_in_the_compact_form_of_the_log(event):
    if isinstance(event, Noted) or isinstance(getattr(event, "content", None), bytes):
        return  # Of a value of any type, msgspec cannot know what it was.
    for format in (msgspec.json, msgspec.msgpack):
        assert format.decode(format.encode(event), type=type(event)) == event


@pytest.mark.parametrize("error", [None, AuthenticationFailed("no key"), CheckpointError("the disk is gone")])
def test_msgspec_writes_any_turn_and_reads_it_again(error):
    call = ToolCall("pay", {"amount": 7}, "p1")
    turn = Turn(
        thread_id="t",
        status="paused",
        interrupts=(Interrupt(call, "sure?", ("c1",)),),
        artifacts={"/a": FileEntry("text", 4, "s", 1.0)},
        messages=(UserMessage("go"), AssistantMessage((call,))),
    )
    turn.error = error
    for format in (msgspec.json, msgspec.msgpack):
        again = format.decode(format.encode(turn), type=Turn)
        assert again == turn
        assert (type(again.error), str(again.error)) == (type(error), str(error))


def test_an_error_keeps_its_cause_in_the_process_that_raised_it():
    turn, error = Turn(thread_id="t", status="failed"), CheckpointError(clean("no space \ud800"))
    turn.error = error
    assert turn.error is error
    turn.error = None
    assert (turn.error, turn.fault) == (None, None)
