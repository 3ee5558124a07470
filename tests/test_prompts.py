"""Prompts and tool descriptions of the default agent: small, complete, and without contradictions."""

import json

import pytest

from minideep import create_deep_agent
from minideep.models import ScriptedModel

AGENT = create_deep_agent(ScriptedModel([]))
TOOLS = AGENT.spec.tools


def overhead(agent):
    tools = [{"name": t.name, "description": t.description, "input_schema": t.schema} for t in agent.spec.tool_list]
    return len(agent.spec.system) + len(json.dumps(tools, separators=(",", ":"), ensure_ascii=False))


def test_the_default_request_overhead_is_at_most_1600_tokens():
    assert overhead(AGENT) / 4 <= 1600


MUST_SAY = {
    "write_todos": ["replaces the old one", "three or more", "not for one or two", "in_progress", "is an error", "again"],
    "ls": ["one folder", "at most 1,000", "use `glob`", "error if"],
    "read_file": ["text file", "use `grep`", "lines to skip", "lines to read", "80,000 characters", "next offset", "error if"],
    "write_file": ["create", "replace", "use `edit_file`", "error if", "read it again"],
    "edit_file": ["replace text", "use `write_file`", "exactly once", "`replace_all`", "error if"],
    "delete": ["file", "folder", "for good", "error if"],
    "glob": ["by name", "at most 1,000", "use `grep`", "`*.py`", "error if", "10 s", "narrow"],
    "grep": ["literal", "no regular expressions", "use `glob`", "output_mode", "max_count", "error if", "15 s"],
    "task": ["subagent", "*description*", "not this conversation", "not for one or two", "in parallel", "error says why",
             "general-purpose"],
    "compact_conversation": ["summary", "older messages", "no longer matter", "readable in a file"],
}  # fmt: skip


@pytest.mark.parametrize("name", TOOLS)
def test_a_description_of_a_tool_says_all_that_a_model_must_know(name):
    description = TOOLS[name].description.lower()
    missing = [words for words in MUST_SAY[name] if words not in description]
    assert missing == []


def test_arguments_whose_name_is_not_enough_are_explained():
    for name, words in {"read_file": ["offset", "limit"], "grep": ["glob", "output_mode", "max_count"]}.items():
        assert all(f"`{word}`" in TOOLS[name].description for word in words)


def test_the_prompt_asks_for_batches_for_files_and_for_delegation():
    prompt = AGENT.spec.system
    assert "one reply" in prompt
    assert "write_todos" in prompt
    assert "`task`" in prompt
    assert "refer to it by path" in prompt


def test_no_missing_tool_is_mentioned():
    for text in (AGENT.spec.system, *(t.description for t in AGENT.spec.tool_list)):
        assert "execute" not in text
        assert "compact" not in text
