"""Arguments as models write them: read in the one way that fits before anybody sees the call, else refused."""

import json
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NotRequired, TypedDict

import msgspec
import pydantic
import pytest

from minideep import (
    Agent,
    Approve,
    Edit,
    Interrupt,
    Middleware,
    ToolCall,
    ToolContext,
    ToolError,
    create_deep_agent,
    tool,
)
from minideep.events import ToolStarted
from minideep.models import ScriptedModel
from minideep.parameters import Alias


@tool
async def find(
    path: Annotated[str, Alias("file", "filename")],
    limit: int = 10,
    words: list[str] = [],  # noqa: B006
    mode: Literal["names", "full text"] = "names",
    dry_run: bool = False,
) -> str:
    """Find words."""
    return f"{path} {limit} {words} {mode} {dry_run}"


@tool
async def note(about: Annotated[str, Alias("prompt", "text", joined=True)], place: str = "") -> str:
    """Take a note."""
    return about


def written(text):
    """A call whose arguments are text, as adapters keep what is not a JSON object."""
    return ToolCall("find", json.dumps(text).encode())


def taken(call, by=find):
    return by.normalized(call).args


CALLS = [
    ({"path": "/a", "limit": "5"}, {"path": "/a", "limit": 5}),
    ({"path": "/a", "limit": 5.0}, {"path": "/a", "limit": 5}),
    ({"path": "/a", "limit": None}, {"path": "/a"}),
    ({"path": "/a", "limit": ""}, {"path": "/a"}),
    ({"path": "/a", "words": '["x", "y"]'}, {"path": "/a", "words": ["x", "y"]}),
    ({"path": "/a", "words": "['x', 'y']"}, {"path": "/a", "words": ["x", "y"]}),
    ({"path": "/a", "words": "x"}, {"path": "/a", "words": ["x"]}),
    ({"path": "/a", "dry_run": "true"}, {"path": "/a", "dry_run": True}),
    ({"path": "/a", "mode": "Full_Text"}, {"path": "/a", "mode": "full text"}),
    ({"path": "/a", "reason": None, "note": ""}, {"path": "/a"}),
    ({"path": "/a", "dryRun": True}, {"path": "/a", "dry_run": True}),
    ({"filename": "/a"}, {"path": "/a"}),
    ({"fileName": "/a", "limit": "3"}, {"path": "/a", "limit": 3}),
    ({"path": "/a", "file": "/a"}, {"path": "/a"}),
    ({"arguments": {"file": "/a", "limit": "1"}}, {"path": "/a", "limit": 1}),
    ({"input": '{"path": "/a"}'}, {"path": "/a"}),
    ({"path": 7}, {"path": "7"}),
]
TEXTS = [
    '"{\\"path\\": \\"/a\\"}"',
    '```json\n{"path": "/a"}\n```',
    '{"path": "/a",}',
    '{"path": "/a" // the file\n}',
    "{'path': '/a', 'dry_run': False}",
    '{}{"path": "/a"}',
    '{"path": "/a"}{"path": "/a"}',
    '[{"path": "/a"}]',
    ' {"path":\n"/a"} \n',
]


@pytest.mark.parametrize(("args", "meant"), CALLS)
def test_what_has_one_reading_is_taken(args, meant):
    call = ToolCall("find", args, "c1")
    read = find.normalized(call)
    assert (read.name, read.args, read.id) == ("find", meant, "c1")
    find.bind(find.normalized(call), None)


@pytest.mark.parametrize("text", TEXTS)
def test_text_that_is_an_object_in_another_form_is_taken(text):
    assert taken(written(text))["path"] == "/a"


def test_a_line_break_in_a_text_need_not_be_escaped():
    assert taken(written('{"path": "/a\n/b", "limit": "1"}')) == {"path": "/a\n/b", "limit": 1}


def test_a_call_that_fits_is_returned_itself():
    for args in ({"path": ""}, {"path": "10"}, {"path": "[1]", "words": ["1"]}, {"path": "null", "limit": 2}):
        call = ToolCall("find", args)
        assert find.normalized(call) is call


class OfMsgspec(msgspec.Struct):
    name: str
    dry_run: bool = False


class OfPydantic(pydantic.BaseModel):
    name: str
    dry_run: bool = False


@dataclass
class OfDataclasses:
    name: str
    dry_run: bool = False


class OfTyping(TypedDict):
    name: str
    dry_run: NotRequired[bool]


def deploying(kind):
    async def deploy(steps: list[kind], first: kind | None = None) -> str:
        """Deploy."""
        return "deployed"

    return tool(deploy)


@pytest.mark.parametrize("kind", [OfMsgspec, OfPydantic, OfDataclasses, OfTyping])
def test_a_field_of_an_object_is_not_dropped_for_its_spelling(kind):
    deploy = deploying(kind)
    meant = {"steps": [{"name": "a", "dry_run": True}], "first": {"name": "b", "dry_run": False}}
    said = {"steps": [{"name": "a", "dryRun": True}], "first": {"name": "b", "dry-run": "false", "note": None}}
    assert taken(ToolCall("deploy", said), deploy) == meant
    call = ToolCall("deploy", meant)
    assert deploy.normalized(call) is call


@pytest.mark.parametrize("kind", [OfMsgspec, OfPydantic, OfDataclasses, OfTyping])
def test_a_field_that_an_object_does_not_have_is_refused(kind):
    deploy = deploying(kind)
    for said, why in [
        ({"steps": [{"name": "a", "dry_rn": True}]}, "steps takes no 'dry_rn'; did you mean 'dry_run'?"),
        ({"steps": [{"name": "a", "test": True}]}, "steps takes no 'test'; it has "),
        ({"steps": [], "first": {"name": "a", "test": True}}, "first takes no 'test'; it has "),
        ({"steps": [{"name": "a", "dry_run": False, "dryRun": True}]}, "steps takes no 'dryRun'"),
        ({"steps": {"steps": [{"name": "a"}]}}, "steps must be [{"),
    ]:
        call = ToolCall("deploy", said)
        assert deploy.normalized(call) is call
        with pytest.raises(ToolError) as caught:
            deploy.bind(call, None)
        assert str(caught.value).startswith(f"deploy: {why}")


def test_an_object_that_takes_other_fields_keeps_them():
    class Open(pydantic.BaseModel, extra="allow"):
        name: str

    call = ToolCall("deploy", {"steps": [{"name": "a", "Name": "b", "test": True}]})
    assert deploying(Open).normalized(call) is call
    assert deploying(Open).bind(call, None)["steps"][0].test is True


def test_a_class_that_knows_more_names_than_its_schema_says_is_given_them():
    class Known(pydantic.BaseModel):
        name: str = pydantic.Field(validation_alias=pydantic.AliasChoices("name", "title"))
        dry_run: bool = False

        @pydantic.model_validator(mode="before")
        @classmethod
        def of_old(cls, data: Any) -> Any:
            return {**data, "dry_run": data["test"]} if "test" in data else data

    deploy = deploying(Known)
    call = ToolCall("deploy", {"steps": [{"title": "a", "test": True}]})
    assert deploy.normalized(call) is call
    assert deploy.bind(call, None)["steps"] == [Known(name="a", dry_run=True)]
    with pytest.raises(ToolError, match="steps takes no 'titel'; it has name, dry_run"):
        deploy.bind(ToolCall("deploy", {"steps": [{"name": "a", "titel": "b"}]}), None)


def test_what_only_python_reads_as_json_is_kept_as_it_is():
    @tool
    async def f(x: float, y: str = "") -> str:
        """F."""
        return str(x)

    for raw in (b'{"x": NaN}', b'{ "x": 1.0, "y": "\\ud800" }'):
        call = ToolCall("f", raw)
        assert f.normalized(call) is call
    assert f.bind(ToolCall("f", b'{"x": Infinity}'), None) == {"x": float("inf"), "y": ""}


REFUSED = [
    ({}, "'path' is missing"),
    ({"path": "/a", "dry_rn": True}, "it takes no 'dry_rn'; did you mean 'dry_run'?"),
    ({"path": "/a", "force": True}, "it takes no 'force'"),
    ({"path": "/a", "file": "/b"}, "'path' is given twice, as 'file' too"),
    ({"path": "/a", "limit": "ten"}, "limit must be integer, not 'ten'"),
    ({"path": "/a", "words": "x, y"}, "words must be [string], not 'x, y'"),
    ({"path": ["/a"]}, "path must be string, not ['/a']"),
    ({"path": None}, "path must be string, not None"),
    ({"path": "/a", "mode": "some"}, 'mode must be "full text" | "names", not \'some\''),
    ({"path": "/a", "dry_run": "yes"}, "dry_run must be boolean, not 'yes'"),
    (
        {"limit": "ten", "dry_rn": 1, "path": {}},
        "it takes no 'dry_rn'; did you mean 'dry_run'?; path must be string, not {}; limit must be integer, not 'ten'",
    ),
]


@pytest.mark.parametrize(("args", "why"), REFUSED)
def test_what_has_no_reading_or_several_is_refused_with_all_that_is_wrong(args, why):
    call = ToolCall("find", args)
    assert find.normalized(call) is call
    with pytest.raises(ToolError) as refused:
        find.bind(call, None)
    told = "; ".join(
        sorted(str(refused.value).removeprefix("find: ").partition("; it takes path (string)")[0].split("; "))
    )
    assert told == "; ".join(sorted(why.split("; ")))


@pytest.mark.parametrize(
    "text",
    [
        '{"path": "/a", "limit": ',
        '{"path": "/a", "words": ["x", {"path": "/b", "limit": 1}, {"pa',
        '{"path": "/a", "dry_run": tr',
        '{"path": "/a"',
        '{"path": "/a',
    ],
)
def test_arguments_that_break_off_are_refused_and_no_part_of_them_is_taken_for_the_whole(text):
    call = written(text)
    assert find.normalized(call) is call
    with pytest.raises(
        ToolError, match=f"find: the arguments break off after {len(text)} characters: .*; write less in"
    ):
        find.bind(call, None)


@pytest.mark.parametrize("text", ["ls /", "<function=find>", '{"path" "/a"}', "[]", '{"path": "/a"} {"path": "/b"}'])
def test_text_that_is_no_object_is_refused_and_quoted(text):
    with pytest.raises(ToolError, match="find: the arguments are not a JSON object: "):
        find.bind(find.normalized(written(text)), None)


def test_no_arguments_at_all_may_be_written_as_null():
    @tool
    async def now() -> str:
        """Tell the time."""
        return "noon"

    assert now.normalized(ToolCall("now", b'"null"')).raw == b"{}"
    assert now.normalized(ToolCall("now", {"input": None})).raw == b"{}"


def test_texts_under_several_names_of_one_parameter_are_joined_if_it_says_so():
    assert taken(ToolCall("note", {"about": "A label", "prompt": "All of it."}), note) == {
        "about": "A label\n\nAll of it."
    }
    assert taken(ToolCall("note", {"prompt": "All of it.", "about": ""}), note) == {"about": "All of it."}
    assert "prompt" not in note.schema["properties"]


def test_nothing_is_decoded_where_a_text_is_wanted_and_nothing_that_json_holds_is_lost():
    args = {"path": '{"path": "/b"}', "limit": "2", "words": ["\ud800", "[1]"]}
    assert taken(ToolCall("find", args)) == {**args, "limit": 2}


def test_a_class_that_refuses_or_breaks_on_its_values_is_the_calls_error():
    class Row(msgspec.Struct):
        at: int

        def __post_init__(self):
            raise KeyError(self.at)

    class Even(pydantic.BaseModel):
        at: int

        @pydantic.field_validator("at")
        @classmethod
        def is_even(cls, at: int) -> int:
            if at % 2:
                raise ValueError("odd")
            return at

    async def put(row: Row | None = None) -> str:
        """Put."""
        return "put"

    async def add(row: Even) -> str:
        """Add."""
        return str(row.at)

    for function, args, told in (
        (put, {"row": {"at": 1}}, "put failed: KeyError: 1"),
        (add, {"row": {"at": 1}}, "add: at: Value error, odd - at `$.row`"),
        (add, {"row": '{"at": "2"}'}, "2"),
    ):
        turn = Agent(ScriptedModel([ToolCall(function.__name__, args), "ok"]), [function]).run_sync("go")
        assert turn.messages[-2].text.startswith(told)


class Watch(Middleware):
    """Notes what each hook and the person see, and asks first."""

    def __init__(self):
        self.seen: list[Any] = []

    async def before_tool(self, ctx: ToolContext, call: ToolCall):
        self.seen.append(call.args)
        return call if ctx.decision else Interrupt(call, "please")

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result):
        self.seen.append(call.args)
        return result

    async def wrap_tool(self, ctx: ToolContext, call: ToolCall, run):
        self.seen.append(call.args)
        return await run(call)


class AskAgain(Middleware):
    async def wrap_model(self, ctx, request, ask):
        return await ask(request)


@pytest.mark.parametrize("extra", [(), (AskAgain(),)], ids=["asked directly", "asked through a hook"])
async def test_hooks_the_person_the_log_and_the_tool_see_one_call(extra):
    watch, meant = Watch(), {"path": "/a", "limit": 3}
    script = [ToolCall("find", {"file": "/a", "limit": "3"}, "c1"), "ok"]
    agent = Agent(ScriptedModel(script), [find], middleware=[watch, *extra])
    turn = await agent.run("go", "t")
    assert [wait.call.args for wait in turn.interrupts] == [meant]
    assert agent.get_state("t").open["c1"].call.args == meant
    turn = await agent.resume("t", {"c1": Approve()})
    assert turn.messages[0].text == "/a 3 [] names False"
    assert watch.seen == [meant] * 4
    assert [call.args for message in agent.get_state("t").messages for call in getattr(message, "calls", ())] == [meant]


async def test_a_persons_edit_is_read_as_a_models_call_is():
    watch = Watch()
    agent = Agent(ScriptedModel([ToolCall("find", {"path": "/a"}, "c1"), "ok"]), [find], middleware=[watch])
    await agent.run("go", "t")
    turn = await agent.resume("t", {"c1": Edit({"file": "/b", "limit": "4"})})
    assert turn.messages[0].text.startswith("/b 4 [] names False")
    assert watch.seen[1:] == [{"path": "/b", "limit": 4}] * 3


async def test_followers_see_the_call_that_runs():
    agent = Agent(ScriptedModel([ToolCall("find", {"filename": "/a"}), "ok"]), [find])
    stream = agent.stream("go")
    started = [event.call.args async for event in stream if isinstance(event, ToolStarted)]
    assert started == [{"path": "/a"}]


def test_arguments_that_are_not_json_are_kept_as_the_text_that_they_are():
    for name in ("find", "unknown"):
        agent = Agent(ScriptedModel([ToolCall(name, b'{"path": '), "ok"]), [find])
        agent.run_sync("go", name)
        assert agent.get_state(name).messages[1].calls[0].malformed == '{"path": '


# Names that models use for these tools elsewhere; each was seen in a public issue of an agent, or is another tool's own.
OTHER_NAMES = [
    ("read_file", {"path": "/a"}, {"file_path": "/a"}),
    ("read_file", {"filePath": "/a", "limit": "20"}, {"file_path": "/a", "limit": 20}),
    ("read_file", {"absolute_path": "/a"}, {"file_path": "/a"}),
    ("read_file", {"target_file": "/a"}, {"file_path": "/a"}),
    ("write_file", {"path": "/a", "file_content": "x"}, {"file_path": "/a", "content": "x"}),
    ("write_file", {"filename": "/a", "text": ""}, {"file_path": "/a", "content": ""}),
    ("write_file", {"path": "/a", "contents": "[1]"}, {"file_path": "/a", "content": "[1]"}),
    (
        "edit_file",
        {"path": "/a", "old_str": "x", "new_str": ""},
        {"file_path": "/a", "old_string": "x", "new_string": ""},
    ),
    (
        "edit_file",
        {"path": "/a", "oldText": "x", "newText": "y"},
        {"file_path": "/a", "old_string": "x", "new_string": "y"},
    ),
    ("ls", {"directory": "/a"}, {"path": "/a"}),
    ("ls", {"path": None}, {}),
    ("glob", {"glob_pattern": "*.py", "target_directory": "/a"}, {"pattern": "*.py", "path": "/a"}),
    ("grep", {"query": "x", "include": "*.py", "head_limit": "5"}, {"pattern": "x", "glob": "*.py", "max_count": 5}),
    ("grep", {"pattern": "x", "glob": None, "path": ""}, {"pattern": "x", "path": ""}),
    (
        "grep",
        {"pattern": "x", "output_mode": "Files with matches"},
        {"pattern": "x", "output_mode": "files_with_matches"},
    ),
    ("delete", {"path": "/a"}, {"file_path": "/a"}),
    (
        "task",
        {"agent": "General-Purpose", "prompt": "Look."},
        {"description": "Look.", "subagent_type": "general-purpose"},
    ),
    (
        "task",
        {"description": "A look", "prompt": "Look.", "subagent_type": "general-purpose"},
        {"description": "A look\n\nLook.", "subagent_type": "general-purpose"},
    ),
]


@pytest.mark.parametrize(("name", "args", "meant"), OTHER_NAMES)
def test_the_tools_of_an_agent_take_the_names_that_models_know_from_elsewhere(name, args, meant):
    tools = create_deep_agent(ScriptedModel([])).spec.tools
    assert taken(ToolCall(name, args), tools[name]) == meant
    assert meant.keys() <= tools[name].schema["properties"].keys()


async def test_two_changes_of_one_file_clash_whatever_names_and_edits_they_have():
    calls = [
        ToolCall("write_file", {"path": "/a", "text": "one"}, "c1"),
        ToolCall("write_file", {"filePath": "/a", "content": "two"}, "c2"),
    ]
    agent = create_deep_agent(ScriptedModel([calls, "ok", calls, "ok"]), interrupt_on={"write_file": True})
    await agent.run("go", "t")
    edit = Edit({"filename": "/b", "content": "one"})
    turn = await agent.resume("t", {"c1": edit, "c2": Edit({"path": "/b", "text": "2"})})
    first, second = [message.text for message in turn.messages[-3:-1]]
    assert first.startswith("created '/b'")
    assert second.startswith("'/b' was not changed: this reply already has write_file of '/b'")
