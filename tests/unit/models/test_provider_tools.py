"""Tools that providers run: what the real SDKs send for them, and who refuses them."""

import json
from typing import Any

import pytest
from harness.agents import results
from harness.providers import Provider, json_answer
from harness.wires import HELLO, claude, plain_ls as ls, responses

from minideep import Agent, ConfigError, Subagent, Tool, ToolCall, create_deep_agent, tool
from minideep.middleware import PermissionsMiddleware
from minideep.models import (
    Anthropic,
    BatchModel,
    CodeExecution,
    FallbackModel,
    FileSearch,
    OpenAI,
    OpenAIChat,
    RateLimiter,
    ScriptedModel,
    WebSearch,
)
from minideep.permissions import Allow, Ask, Deny, read_only
from minideep.ports import Reply, Request

TO_CLAUDE = [
    (WebSearch(), {"type": "web_search_20250305", "name": "web_search"}),
    (
        WebSearch(allowed_domains=["python.org"], max_uses=3),
        {"type": "web_search_20250305", "name": "web_search", "allowed_domains": ["python.org"], "max_uses": 3},
    ),
    (
        WebSearch(blocked_domains=["x.com"]),
        {"type": "web_search_20250305", "name": "web_search", "blocked_domains": ["x.com"]},
    ),
    (CodeExecution(), {"type": "code_execution_20250825", "name": "code_execution"}),
]
TO_OPENAI = [
    (WebSearch(), {"type": "web_search"}),
    (WebSearch(allowed_domains=["python.org"]), {"type": "web_search", "filters": {"allowed_domains": ["python.org"]}}),
    (CodeExecution(), {"type": "code_interpreter", "container": {"type": "auto"}}),
    (FileSearch(["vs_1"]), {"type": "file_search", "vector_store_ids": ["vs_1"]}),
    (
        FileSearch(["vs_1"], max_results=5),
        {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 5},
    ),
]


def declared_to(wire: Any, answer: Any, *tools: Tool, **settings: Any) -> Any:
    request = Request("", HELLO.messages, tools)
    return wire.ask(json_answer(answer), requests=(request,), listen=False, **settings).bodies[0]["tools"]


@pytest.mark.parametrize(("given", "sent"), TO_CLAUDE)
def test_a_tool_of_the_provider_is_declared_to_anthropic_beside_the_agent_s_own(given: Tool, sent: Any):
    own = {"name": "ls", "description": "List a folder.", "input_schema": ls.schema}
    assert declared_to(claude, claude.message(claude.text("hi")), given, ls) == [sent, own]


@pytest.mark.parametrize(("given", "sent"), TO_OPENAI)
def test_a_tool_of_the_provider_is_declared_to_openai_beside_the_agent_s_own(given: Tool, sent: Any):
    first, own = declared_to(responses, responses.response(responses.message("hi")), given, ls)
    assert first == sent
    assert own["name"] == "ls"


def test_what_is_declared_is_what_the_types_of_the_sdks_know():
    from anthropic.types import (
        code_execution_tool_20250825_param as code,
        web_search_tool_20250305_param as claude_search,
    )
    from openai.types.responses import file_search_tool_param, tool_param, web_search_tool_param

    known = {
        "web_search_20250305": claude_search.WebSearchTool20250305Param,
        "code_execution_20250825": code.CodeExecutionTool20250825Param,
        "web_search": web_search_tool_param.WebSearchToolParam,
        "code_interpreter": tool_param.CodeInterpreter,
        "file_search": file_search_tool_param.FileSearchToolParam,
    }
    for _, sent in (*TO_CLAUDE, *TO_OPENAI):
        kind = known[sent["type"]]
        assert f"'{sent['type']}'" in str(kind.__annotations__["type"])
        assert kind.__required_keys__ <= sent.keys() <= kind.__annotations__.keys()


def test_settings_and_the_agent_s_tools_may_each_declare_some():
    code = {"type": "code_execution_20260521", "name": "code_execution"}
    first, second = declared_to(claude, claude.message(claude.text("hi")), WebSearch(), tools=[code])
    assert (first, second["name"]) == (code, "web_search")


@pytest.mark.parametrize(
    ("model", "given", "words"),
    [
        (Anthropic("claude-x"), FileSearch(["vs_1"]), r"Anthropic\('claude-x'\) has no tool 'FileSearch'"),
        (OpenAI("gpt-x"), WebSearch(max_uses=1), r"nothing for `WebSearch\(max_uses=...\)`; .*max_tool_calls"),
        (OpenAI("gpt-x"), WebSearch(blocked_domains=["x.com"]), "name the allowed_domains"),
        (OpenAIChat("gpt-x"), WebSearch(), "Chat Completions runs no tools; use `OpenAI`"),
        ("offline:", WebSearch(), "runs no tools itself, such as 'WebSearch'"),
    ],
)
def test_a_provider_without_the_tool_or_its_option_is_refused_when_the_agent_is_built(model, given, words):
    with pytest.raises(ConfigError, match=words):
        Agent(model, [given])


def test_models_around_models_pass_the_tool_on_and_check_each_of_theirs():
    both = FallbackModel([Anthropic("claude-x"), OpenAI("gpt-x")])
    Agent(RateLimiter(both), [WebSearch()])
    Agent(BatchModel(Anthropic("claude-x")), [WebSearch()])
    with pytest.raises(ConfigError, match=r"Anthropic.* has no tool 'FileSearch'"):
        Agent(RateLimiter(both), [FileSearch(["vs_1"])])
    with pytest.raises(ConfigError, match="'offline' runs no tools itself"):
        Agent(FallbackModel([Anthropic("claude-x"), "offline:"]), [WebSearch()])


def test_a_subagent_with_another_model_is_checked_for_itself():
    helper = Subagent(name="finder", description="finds", model="openai-chat:gpt-x", tools=[WebSearch()])
    with pytest.raises(ConfigError, match="Chat Completions runs no tools"):
        create_deep_agent(Anthropic("claude-x"), [WebSearch()], subagents=[helper])


def test_a_model_of_one_s_own_is_refused_unless_it_accepts_the_tool():
    class Plain:
        name = "plain"

        async def complete(self, request: Request, emit: Any) -> Reply:
            raise NotImplementedError

    class Searching(Plain):
        def check_tools(self, tools: Any) -> None:
            assert [tool.name for tool in tools if tool.is_hosted] == ["web_search"]

    with pytest.raises(ConfigError, match="'plain' runs no tools itself"):
        Agent(Plain(), [WebSearch()])
    Agent(Searching(), [WebSearch(), ls])


def test_two_tools_of_one_name_are_refused_whoever_runs_them():
    @tool
    def web_search() -> str:
        """Search."""
        return ""

    search = {"type": "web_search_20260318", "name": "web_search"}
    with pytest.raises(ConfigError, match="two tools are named 'web_search'"):
        Agent(Anthropic("claude-x"), [WebSearch(), web_search])
    with pytest.raises(ConfigError, match="two tools are named 'web_search': the provider's, in the settings"):
        Agent(Anthropic("claude-x", tools=[search]), [WebSearch()])


def test_a_script_takes_every_tool_and_a_call_that_comes_here_after_all_is_refused():
    model = ScriptedModel([ToolCall("web_search", {"query": "Austen"}), "done"])
    turn = Agent(model, [WebSearch(), CodeExecution(), FileSearch(["vs_1"])]).run_sync("Go.")
    (refused,) = results(turn)
    assert refused.is_error
    assert refused.text == "web_search runs at the provider and cannot be called like a function; use another tool"


def test_a_search_takes_one_kind_of_domains_and_files_are_searched_somewhere():
    with pytest.raises(ConfigError, match="allowed_domains or blocked_domains, not both"):
        WebSearch(allowed_domains=["a.org"], blocked_domains=["b.org"])
    with pytest.raises(ConfigError, match="vector_store_ids is empty"):
        FileSearch([])


async def test_what_a_search_of_the_provider_found_goes_back_to_it():
    call = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "Austen"}}
    page = {"type": "web_search_result", "url": "https://a.org", "title": "A", "encrypted_content": "x"}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [page]}
    first = claude.message(call, found, claude.text("It is Emma."))
    with Provider(json_answer(first), json_answer(claude.message(claude.text("done")))) as provider:
        async with claude.connected(provider.url) as client:
            agent = Agent(Anthropic("claude-x", client=client), [WebSearch()])
            await agent.run("Which book?", "t")
            await agent.run("Thanks.", "t")
            assert provider.bodies[1]["messages"][1]["content"][:2] == [call, found]
            assert json.dumps(provider.bodies[0]["tools"]) == json.dumps(provider.bodies[1]["tools"])


@pytest.mark.parametrize("rule", [Deny("web_search"), Ask("web_search"), Deny("*"), Ask("*")])
def test_a_rule_about_a_tool_that_no_guard_sees_is_refused(rule):
    with pytest.raises(ConfigError, match="PermissionsMiddleware decides about 'web_search', which the provider"):
        create_deep_agent(ScriptedModel([]), [WebSearch()], permissions=[rule])
    with pytest.raises(ConfigError, match="decides about 'web_search'"):
        Agent(ScriptedModel([]), [WebSearch()], middleware=[PermissionsMiddleware([rule])])
    finder = Subagent(name="finder", description="finds", tools=[WebSearch()])
    with pytest.raises(ConfigError, match="decides about 'web_search'"):
        create_deep_agent(ScriptedModel([]), subagents=[finder], permissions=[rule])


def test_an_approval_of_a_tool_that_the_provider_runs_is_refused():
    with pytest.raises(ConfigError, match="HumanInTheLoopMiddleware decides about 'web_search'"):
        create_deep_agent(ScriptedModel([]), [WebSearch()], interrupt_on={"web_search": True})


def test_rules_about_files_and_commands_leave_the_provider_s_tools_alone():
    create_deep_agent(ScriptedModel([]), [WebSearch()], permissions=[*read_only(), Allow("*")])
