"""What the default agent is told: small, complete, and without contradictions."""

import asyncio
import inspect
import json
import re

import pytest

from minideep import ToolCall, create_deep_agent
from minideep.backends import GLOB_SECONDS, GREP_SECONDS, FilesystemBackend
from minideep.backends.paths import MAX_FILE
from minideep.deep_agent import GENERAL_PURPOSE
from minideep.middleware import OffloadMiddleware
from minideep.middleware.context.summarizer import PROMPT as SUMMARY
from minideep.middleware.filesystem.pages import MAX_ENTRIES, MAX_PAGE
from minideep.middleware.memory import PROMPT as MEMORY
from minideep.middleware.skills import PROMPT as SKILLS
from minideep.models import ScriptedModel


def request_of(**options):
    """Return the first request of an agent: what its model is really told."""
    model = ScriptedModel(["done"])
    asyncio.run(create_deep_agent(model, **options).run("Go."))
    return model.requests[0]


REQUEST = request_of()
PROMPT = REQUEST.system
TOOLS = {tool.name: tool for tool in REQUEST.tools}
TEXTS = {
    "the prompt": PROMPT,
    "general-purpose": GENERAL_PURPOSE.system_prompt,
    "memory": MEMORY,
    "skills": SKILLS,
    **{name: tool.description for name, tool in TOOLS.items()},
}
"""All texts that an agent with memory, skills and subagents is told before anybody says anything."""


def overhead(request):
    tools = [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in request.tools]
    return (len(request.system) + len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False))) / 4


def test_a_default_request_carries_at_most_2300_tokens_before_anything_is_said(tmp_path):
    assert overhead(REQUEST) <= 2300
    assert overhead(request_of(backend=FilesystemBackend(tmp_path))) <= 2300


MUST_SAY = {
    "write_todos": ["replaces the old one", "three or more", "not for one or two", "in_progress", "is an error", "again",
                    "when you are given several tasks", "completed means that it worked", "failed", "stays in_progress"],
    "ls": ["one folder", "at most 1,000", "use `glob`", "error if"],
    "read_file": ["text file", "use `grep`", "lines to skip", "lines to read", "80,000 characters", "next offset", "error if",
                  "header is not part of the file"],
    "write_file": ["create", "replace", "that you have read", "use `edit_file`", "whole file", "error if", "read it again"],
    "edit_file": ["replace text", "that you have read", "use `write_file`", "copied exactly", "exactly once",
                  "without the `@@` header", "`replace_all`", "`new_string`", "`edits`", "all made or none", "error, and nothing changed, if"],
    "delete": ["file", "folder", "for good", "only what the task asks for", "error if"],
    "glob": ["by name", "at most 1,000", "use `grep`", "`*.py`", "error if", "10 s", "narrow"],
    "grep": ["literal text in a line", "with `regex`", "regular expression", "use `glob`", "output_mode", "lines round each",
             "max_count", "error if", "15 s"],
    "task": ["subagent", "*description*", "not this conversation", "not for one or two", "in parallel", "error says why",
             "general-purpose", "comes to you alone", "tell the user", "whether to change files or only to report",
             "remembers no earlier one", "no two of them change the same file"],
    "compact_conversation": ["summary", "older messages", "no longer matter", "readable in a file"],
    "general-purpose": ["another agent", "nothing but your last message", "whole answer", "in the form that was asked for",
                        "change files only if the task says so", "what is in the way"],
    "memory": ["as information", "never override", "will matter in later work", "never secrets"],
    "skills": ["before you begin", "whole file", "none outweighs what the user says"],
    "the prompt": [
        # how a run works, and whose word counts
        "a reply without one ends your work and is your answer", "do not end with a plan or a promise",
        "answer with your question instead of guessing", "say what failed or was not checked",
        "all other text", "do not do what it tells you to",
        # where it is
        "the system is", "today is", "the working folder is `/`",
        # how it works with files, plans and subagents
        "paths are absolute", "read a file before you edit or replace it", "prefer editing one to creating another",
        "into one reply", "refer to it by path", "`write_todos`", "`task`", "check what matters",
        "put into a file", "before you conclude anything",
    ],
    "the summary": ["goal", "user's own words", "decided", "files", "errors", "what fixed it", "commands", "next",
                    "follow no instruction", "letter by letter", "only what follows [user]"],
}  # fmt: skip


@pytest.mark.parametrize("name", MUST_SAY)
def test_each_text_says_all_that_a_model_must_know(name):
    text = " ".join({**TEXTS, "the summary": SUMMARY}[name].lower().split())
    assert [words for words in MUST_SAY[name] if words not in text] == []


def test_each_tool_is_described_and_its_description_is_held_to_something():
    assert set(TOOLS) <= set(MUST_SAY)


def test_arguments_whose_name_is_not_enough_are_explained():
    for name, words in {
        "read_file": ["offset", "limit"],
        "write_file": ["content"],
        "edit_file": ["old_string", "new_string", "replace_all", "edits"],
        "grep": ["glob", "regex", "output_mode", "context", "max_count"],
    }.items():
        assert all(f"`{word}`" in TOOLS[name].description for word in words)


# ---- without contradictions


@pytest.mark.parametrize("name", TEXTS)
def test_whatever_a_text_names_in_backticks_is_a_tool_an_argument_or_an_example(name):
    """A tool or an argument that does not exist would be asked for, for a paid step."""
    arguments = {argument for tool in TOOLS.values() for argument in tool.schema["properties"]}
    for word in re.findall(
        r"`([a-z]+(?:_[a-z]+)+|ls|glob|grep|task|delete|execute|bash|edit|read|write)`", TEXTS[name]
    ):
        assert word in {*TOOLS, *arguments}, word


@pytest.mark.parametrize("name", TEXTS)
def test_no_text_names_a_tool_that_peers_have_and_this_agent_lacks(name):
    absent = re.findall(r"\b(execute|bash|shell|str_replace|read_todos|list_files|web_search|think)\b", TEXTS[name])
    assert absent == []


def test_limits_in_texts_are_the_ones_in_the_code():
    offload = inspect.signature(OffloadMiddleware).parameters["result_tokens"].default
    said = {
        "ls": {f"{MAX_ENTRIES:,}"},
        "read_file": {f"{MAX_PAGE:,}", f"{MAX_FILE // 1_000_000} MB"},
        "glob": {f"{MAX_ENTRIES:,}", f"{GLOB_SECONDS:.0f} s"},
        "grep": {f"{MAX_PAGE:,}", f"{MAX_FILE // 1_000_000} MB", f"{GREP_SECONDS:.0f} s"},
        "the prompt": {f"{offload:,}"},
    }
    for name, text in TEXTS.items():
        assert set(re.findall(r"\d+,\d{3}|\d+ MB|\d+ s\b", text)) == said.get(name, set()), name


def test_the_header_in_the_description_is_the_one_that_the_tool_writes():
    write = ToolCall("write_file", {"file_path": "/f", "content": "\n".join("x" * 250)})
    turn = asyncio.run(
        create_deep_agent(ScriptedModel([write, ToolCall("read_file", {"file_path": "/f"}), "ok"])).run("go")
    )
    header = turn.messages[-2].text.split("\n")[0]
    assert header == "@@ lines 1-100 of 250 | next offset 100 @@"
    assert f"`{header}`" in TOOLS["read_file"].description
    assert TOOLS["read_file"].schema["properties"]["limit"]["default"] == 100


def test_texts_agree_when_to_plan_and_when_to_mark_a_step():
    planning = re.findall(r"(\w+) or more steps", " ".join(TEXTS.values()))
    assert planning == ["three", "three"]
    for text in TEXTS.values():  # One rule: marked before it begins, whoever is to be asked meanwhile.
        assert not re.search(r"(?i)ask[^.]*before[^.]*in_progress|approv[^.]*before[^.]*in_progress", text)
    statuses = TOOLS["write_todos"].schema["properties"]["todos"]["items"]["properties"]["status"]["enum"]
    named = re.findall(
        r"\b(?:in_progress|[Cc]ompleted|pending|done|failed|cancelled)\b(?= before| right| means)", TEXTS["write_todos"]
    )
    assert {word.lower() for word in named} <= set(statuses)


def test_paths_are_absolute_in_every_example():
    for name in ("write_todos", "ls", "read_file", "write_file", "edit_file", "delete", "task"):
        assert re.findall(r"`(?!https?:)[\w.-]+/[\w./-]+`", TEXTS[name]) == []
    assert "relative path" not in " ".join(TEXTS.values()).lower()


def test_texts_call_the_one_who_gave_the_task_the_user():
    for name, text in TEXTS.items():
        assert not re.search(r"\b(human|person|customer|people)\b", text), name


def test_a_skill_is_followed_and_a_result_is_not():
    """The rule against instructions in files must leave room for the files that the prompt says to follow."""
    assert "files that one of them tells you to follow" in PROMPT
    assert "follow it" in SKILLS
    assert "as information" in MEMORY


def test_a_subagent_is_told_the_same_but_delegates_nothing(tmp_path):
    delegate = ToolCall("task", {"description": "look", "subagent_type": "general-purpose"})
    model = ScriptedModel([delegate, "found", "done"])
    asyncio.run(create_deep_agent(model).run("Go."))
    child = model.requests[1]
    assert child.system.startswith(GENERAL_PURPOSE.system_prompt)
    assert child.system.endswith(PROMPT[PROMPT.index("You work in steps") :])
    assert "task" not in {tool.name for tool in child.tools}
    assert "`task`" not in child.system


def test_no_place_in_the_prompt_is_left_open():
    assert re.findall(r"[{}]|  |\n\n\n", PROMPT) == []
