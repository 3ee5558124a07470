"""Built-in tools that an agent does without: they are gone, and no text names them."""

import re
from itertools import combinations

import pytest
from harness.agents import answers, ping, sub, task

from minideep import ConfigError, Middleware, Subagent, ToolCall, create_deep_agent, tool
from minideep.backends import LocalShellBackend
from minideep.middleware import OffloadMiddleware, TodoListMiddleware
from minideep.middleware.leaving_out import BUILT_IN, FILES, PHRASES
from minideep.models import ScriptedModel

CHANGING = ("write_file", "edit_file", "delete")
TOOLS = [name for name in BUILT_IN if name not in ("general-purpose", "execute")]


def without(*names, **more):
    return create_deep_agent(ScriptedModel([]), [ping], memory=["/AGENTS.md"], without=names, **more).spec


def words(spec):
    return "\n".join([spec.system, *(f"{tool.name}: {tool.description}" for tool in spec.tool_list)])


def test_whatever_is_built_in_can_be_left_out():
    assert {*without().tools} - {"ping"} == {*TOOLS}


def kits():
    """One to three tools, and all files; `read_file` goes with the others only."""
    some = [name for name in TOOLS if name != "read_file"]
    return [*(kit for size in (1, 2, 3) for kit in combinations(some, size)), FILES, (*FILES, "write_todos", "task")]


def test_a_tool_that_is_left_out_is_gone_and_no_text_names_it():
    for kit in kits():
        spec = without(*kit)
        assert [name for name in TOOLS if name in spec.tools] == [name for name in TOOLS if name not in kit]
        said = words(spec)
        # `glob`: is also an argument of grep.
        assert [name for name in kit if re.search(rf"`{name}`(?!:)", said)] == [], kit
        assert re.findall(r"\(\)|  | [,;.]|\.\.(?!\.)|^[,;.]", said.replace("...", "")) == [], kit


def test_the_phrases_that_name_no_tool_are_those_of_the_texts():
    said = words(without())
    assert [phrase for phrase in PHRASES if phrase not in said] == []


def test_nothing_else_of_the_texts_changes():
    assert without().system.endswith(without("write_todos").system)


def test_an_argument_of_the_name_of_a_tool_that_is_left_out_stays_described():
    described = without("glob").tools["grep"].description
    assert "`glob`: only such files" in described
    assert "For names use `glob`" not in described


def test_a_read_only_kit_says_nothing_of_changing_files():
    said = words(without(*CHANGING))
    assert not re.search(r"before you edit|then change it|make only the files", said)
    assert "Find with `glob` and `grep`" in said


async def test_a_call_of_a_tool_that_is_left_out_is_refused():
    model = ScriptedModel([ToolCall("write_file", {"file_path": "/a", "content": "b"}), "ok"])
    turn = await create_deep_agent(model, without=CHANGING).run("go")
    assert answers(turn)[0].startswith("no tool named 'write_file'; there is ")


def test_what_the_main_agent_does_without_its_subagents_do_without_unless_they_say_otherwise():
    def has(subagent, name):
        agent = create_deep_agent(ScriptedModel([]), subagents=[subagent], without=CHANGING)
        (pair,) = [
            pair for part in agent._middleware for pair in getattr(part, "_agents", {}).items() if pair[0] == name
        ]
        return {*CHANGING} & pair[1][1].spec.tools.keys()

    assert has(sub("other", ScriptedModel([])), "general-purpose") == set()
    assert has(sub("other", ScriptedModel([])), "other") == set()
    assert has(sub("writer", ScriptedModel([]), without=()), "writer") == {*CHANGING}
    assert has(sub("editor", ScriptedModel([]), without=["delete"]), "editor") == {"write_file", "edit_file"}


def test_without_general_purpose_only_the_users_subagents_are_there():
    assert "task" not in without("general-purpose").tools
    spec = without("general-purpose", subagents=[sub("other", ScriptedModel([]))])
    assert spec.tools["task"].schema["properties"]["subagent_type"]["enum"] == ["other"]


@pytest.mark.parametrize("names", [(), FILES])
async def test_without_files_no_result_is_put_into_one_and_no_summary_names_one(names):
    agent = create_deep_agent(ScriptedModel(lambda request: "word " * 900, window=6_000), without=names)
    for _ in range(6):
        await agent.run("go on", "t")
    first = agent.get_state("t").messages[0].text
    assert first.startswith("[")
    assert ("in full in" in first) == (names == ())
    assert any(isinstance(part, OffloadMiddleware) for part in agent._middleware) == (names == ())


@tool
async def grep(pattern: str) -> str:
    """Search elsewhere."""
    return "found elsewhere"


async def test_a_tool_of_the_users_may_take_the_name_of_one_that_is_left_out():
    model = ScriptedModel([ToolCall("grep", {"pattern": "x"}), "ok"])
    turn = await create_deep_agent(model, [grep], without=["grep"]).run("go")
    assert answers(turn) == ["found elsewhere"]


@pytest.mark.parametrize(
    ("names", "more", "told"),
    [
        (["write_todo"], {}, "without names 'write_todo', which is not built in; did you mean 'write_todos'?"),
        (["ping"], {}, "without names 'ping', which is not built in"),
        (["read_file"], {}, "without names 'read_file' but leaves ls, write_file, edit_file, delete, glob, grep"),
        (["task"], {"subagents": [sub("other", ScriptedModel([]))]}, "has subagents and is without 'task'"),
        (FILES, {"skills": ["/skills"]}, "has skills and is without 'read_file'"),
    ],
)
def test_what_cannot_be_left_out_is_refused_with_what_was_meant(names, more, told):
    with pytest.raises(ConfigError, match=told.replace("?", r"\?")):
        create_deep_agent(ScriptedModel([]), [ping], without=names, **more)


async def test_an_agent_without_task_may_have_background_tasks():
    worker = Subagent(name="worker", description="works", background=True)
    agent = create_deep_agent(ScriptedModel([task("worker"), "ok"]), subagents=[worker], without=["task"])
    assert "start_task" in agent.spec.tools
    assert answers(await agent.run("go"))[0].startswith("no tool named 'task'")


def test_a_shell_can_be_left_out_of_a_backend_that_has_one(tmp_path):
    usual, less = without(backend=LocalShellBackend(tmp_path)), without("execute", backend=LocalShellBackend(tmp_path))
    assert ("execute" in usual.tools, "execute" in less.tools) == (True, False)
    assert "`execute`" not in words(less)


def test_a_middleware_of_the_users_keeps_its_tools_and_its_words():
    class Theirs(TodoListMiddleware):
        prompt = "Write with `write_todos`."

    class Early(Middleware):
        prompt, before_compaction = "See `write_todos` first.", True

    mine, early = Theirs(), Early()
    agent = create_deep_agent(ScriptedModel([]), middleware=[mine, early], without=["write_todos"])
    assert "write_todos" in agent.spec.tools
    assert mine.prompt in agent.spec.system
    assert early.prompt in agent.spec.system
