"""Tools behind the Messages API: those that the settings declare, and those that run at the provider."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Any

import pytest
from harness.providers import Answer, Provider
from harness.wires import HELLO, claude, plain_ls as ls, saying
from harness.wires.claude import answer, ask, connected, message, sent, text

from minideep import Agent, tool
from minideep.errors import ConfigError
from minideep.messages import AssistantMessage, Message, ProviderBlock, Thinking, ToolCall, ToolMessage, UserMessage
from minideep.models.anthropic.messages import Anthropic
from minideep.models.fallback import FallbackModel
from minideep.plain_json import to_json
from minideep.ports import Request


@pytest.fixture(params=["json", "sse"])
def say(request: pytest.FixtureRequest) -> Any:
    return saying(claude, request.param == "sse")


def run(*answers: Answer, inputs: tuple[str, ...] = ("hello",), own: Any = (), **settings: Any) -> Any:
    """The turns of one thread of an agent with *own* tools, and the bodies of its requests."""

    async def go() -> Any:
        with Provider(*answers) as provider:
            async with connected(provider.url) as client:
                agent = Agent(Anthropic("claude-x", client=client, **settings), own)
                return [await agent.run(said, thread_id="t") for said in inputs], provider.bodies

    return asyncio.run(go())


# ---- declared by the settings


BASH = {"type": "bash_20250124", "name": "bash"}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}


@tool
def bash(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool(name="web_search")
def own_search(query: str) -> str:
    """Search."""
    return query


def test_a_tool_of_the_agent_answers_what_the_provider_declares():
    call = {"type": "tool_use", "id": "c1", "name": "bash", "input": {"command": "ls"}}
    whole = message(call, stop="tool_use"), message(text("done"))
    turns, (first, second) = run(*map(answer, whole), own=[bash, ls], tools=[BASH, SEARCH])
    assert turns[0].text == "done"
    assert [declared.get("input_schema") for declared in first["tools"]] == [None, None, ls.schema]
    assert first["tools"][:2] == second["tools"][:2] == [BASH, SEARCH]
    assert second["messages"][2]["content"][0]["content"] == [text("ran ls")]


def test_what_the_provider_says_of_a_tool_of_ones_own_stands_for_it():
    declared = {"name": "ls", "input_schema": {"type": "object"}, "defer_loading": True}
    request = Request("", HELLO.messages, (ls,))
    whole = answer(message(text("hi")))
    assert ask(whole, requests=(request,), listen=False, tools=[declared]).bodies[0]["tools"] == [declared]


def test_a_declaration_is_left_out_of_a_request_without_its_tool():
    whole = answer(message(text("hi")))
    assert "tools" not in ask(whole, listen=False, tools=[BASH]).bodies[0]


def test_a_declared_tool_that_nobody_answers_is_refused_when_the_agent_is_made():
    said = r"^Anthropic\('x'\) declares 'bash' in its settings, whose calls a tool of the agent must answer; give the"
    for model in (Anthropic("x", tools=[BASH]), FallbackModel([Anthropic("x", tools=[BASH])])):
        with pytest.raises(ConfigError, match=said):
            Agent(model, [ls])
        Agent(model, [ls, bash])


def test_two_tools_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two of the tools in its settings are named 'web_search'; leave one out"):
        Anthropic("x", tools=[SEARCH, SEARCH | {"max_uses": 1}])
    model = Anthropic("x", tools=[SEARCH])
    said = "two tools are named 'web_search': the provider's, in the settings of"
    with pytest.raises(ConfigError, match=said):
        Agent(model, [own_search])
    with pytest.raises(ConfigError, match=said):
        ask(requests=(Request("", HELLO.messages, (own_search,)),), listen=False, tools=[SEARCH])


def test_a_toolset_is_refused():
    with pytest.raises(ConfigError, match="the calls of a 'computer_toolset_20260801' name its members"):
        Anthropic("x", tools=[{"type": "computer_toolset_20260801"}])
    Anthropic("x", tools=[{"type": "mcp_toolset", "mcp_server_name": "a"}, {"type": "mcp_toolset"}])


# ---- the container, and calls that code has made


def expiring(seconds: float) -> str:
    return datetime.fromtimestamp(time.time() + seconds, UTC).isoformat().replace("+00:00", "Z")


LIVING = {"id": "container_1", "expires_at": expiring(86_400)}
EXPIRED = {"id": "container_0", "expires_at": expiring(-1)}
CODE = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "code_execution", "input": {"code": "ls()"}}
RAN = {"type": "code_execution_tool_result", "tool_use_id": "srvtoolu_1",
       "content": {"type": "code_execution_result", "stdout": "a", "stderr": "", "return_code": 0, "content": []}}  # fmt: skip
CALLER = {"type": "code_execution_20260120", "tool_id": "srvtoolu_1"}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "/"}, "caller": CALLER}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [text("a")]}
ANSWERED = ToolMessage("a", "toolu_1", "ls")


def waiting(say: Any, container: Any, *blocks: dict[str, Any]) -> AssistantMessage:
    """A reply in which code waits for the result of a call."""
    whole = message(text("looking"), CODE, *blocks, CALL, stop="tool_use") | {"container": container}
    return say(whole).reply.message


def body(*messages: Message, **settings: Any) -> dict[str, Any]:
    request = Request("", (*HELLO.messages, *messages))
    return ask(answer(claude.said("ok")), request=request, listen=False, **settings).bodies[0]


def test_the_container_and_the_caller_come_back(say):
    asked = body(waiting(say, LIVING), ANSWERED)
    assert asked["container"] == "container_1"
    assert asked["messages"][1:] == [
        {"role": "assistant", "content": [text("looking"), CODE, CALL]},
        {"role": "user", "content": [RESULT]},
    ]


def ran(say: Any, container: Any, number: int = 1) -> AssistantMessage:
    """A reply in which code has run."""
    call = CODE | {"id": f"srvtoolu_{number}"}
    return say(message(call, RAN | {"tool_use_id": call["id"]}) | {"container": container}).reply.message


def test_the_latest_container_is_sent_unless_it_has_expired(say):
    later = LIVING | {"id": "container_2", "expires_at": "in a while"}
    go_on = UserMessage("go on")
    assert body(ran(say, LIVING), go_on, ran(say, later, 2), go_on)["container"] == "container_2"
    assert body(ran(say, LIVING), go_on, AssistantMessage("so"), go_on)["container"] == "container_1"
    assert "container" not in body(ran(say, LIVING), go_on, ran(say, EXPIRED, 2), go_on)
    for none in (None, {}, {"id": None}, "container_1"):
        assert "container" not in body(ran(say, none), go_on)


def test_a_container_of_the_settings_keeps_what_it_says(say):
    skills = {"skills": [{"type": "anthropic", "skill_id": "pdf"}]}
    reply = ran(say, LIVING)
    for given, asked in (
        (skills, skills | {"id": "container_1"}),
        (skills | {"id": "mine"}, skills | {"id": "mine"}),
        ("mine", "mine"),
    ):
        assert body(reply, UserMessage("go on"), container=given)["container"] == asked
    assert body(container=skills)["container"] == skills
    given_up = body(waiting(say, EXPIRED), ANSWERED, container=skills)
    assert (given_up["container"], given_up["messages"][1]["content"]) == (skills, [text("looking"), ALONE])


def test_a_turn_in_which_code_calls_a_tool_goes_on():
    first = message(CODE, CALL, stop="tool_use") | {"container": LIVING}
    last = message(RAN, text("done")) | {"container": LIVING}
    after = claude.said("bye")
    turns, bodies = run(*map(answer, (first, last, after)), inputs=("go", "bye"), own=[ls])
    assert [turn.text for turn in turns] == ["done", "bye"]
    assert [one.get("container") for one in bodies] == [None, "container_1", "container_1"]
    code, results, end, bye = bodies[2]["messages"][1:]
    assert [code["content"], end["content"]] == [[CODE, CALL], [RAN, text("done")]]
    assert [block["type"] for block in results["content"]] == ["tool_result"]
    assert bye["content"] == [text("bye")]


ALONE = {name: value for name, value in CALL.items() if name != "caller"}


@pytest.mark.parametrize(
    ("container", "said"),
    [(EXPIRED, ()), (None, ()), (LIVING, (UserMessage("wait"),)), (LIVING, (AssistantMessage("so"), UserMessage("b")))],
    ids=["its container has expired", "it has no container", "somebody speaks", "the turn was given up"],
)
def test_code_that_cannot_go_on_is_left_out_and_its_calls_are_the_models_own(say, container, said):
    search = {"type": "server_tool_use", "id": "srvtoolu_2", "name": "web_search", "input": {}, "caller": CALLER}
    found = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_2", "content": [], "caller": CALLER}
    assistant, results, *_ = body(waiting(say, container, search, found), ANSWERED, *said)["messages"][1:]
    assert assistant["content"] == [text("looking"), ALONE]
    assert results["content"][0] == RESULT


def test_other_fields_of_a_call_come_back_and_a_call_of_the_model_itself_says_nothing_of_it(say):
    later = ALONE | {"not_yet_invented": [1]}
    plain = ALONE | {"id": "toolu_2", "caller": {"type": "direct"}}
    reply = say(message(later, plain, stop="tool_use")).reply.message
    assert reply.blocks == (
        ProviderBlock("anthropic", b'{"not_yet_invented":[1]}'),
        ToolCall("ls", {"path": "/"}, "toolu_1"),
        ToolCall("ls", {"path": "/"}, "toolu_2"),
    )
    assert sent(*HELLO.messages, reply, ANSWERED, ToolMessage("b", "toolu_2", "ls"))[1]["content"] == [
        later,
        ALONE | {"id": "toolu_2"},
    ]


# ---- calls of the provider's tools that have no result


SEARCHING = {"type": "server_tool_use", "id": "srvtoolu_3", "name": "web_search", "input": {"query": "x"}}
FOUND = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_3", "content": []}
ASKED_MCP = {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "find", "server_name": "s", "input": {}}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


def test_a_call_that_was_cut_is_left_out_of_all_later_requests():
    cut = message(text("looking"), SEARCHING | {"input": '{"query": "we'}, stop="max_tokens")
    whole = claude.said("done")
    turns, bodies = run(
        answer(cut, stream=True), answer(whole), answer(whole), inputs=("a", "b", "c"), max_tokens=50_000
    )
    assert turns[0].reason == "truncated"
    assert bodies[1]["messages"][1]["content"] == bodies[2]["messages"][1]["content"] == [text("looking")]


@pytest.mark.parametrize(
    ("blocks", "kept"),
    [
        ([SEARCHING], None),
        ([ASKED_MCP], None),
        ([THOUGHT, SEARCHING], [THOUGHT, text("(empty)")]),
        ([SEARCHING, FOUND, text("so"), SEARCHING | {"id": "srvtoolu_4"}], [SEARCHING, FOUND, text("so")]),
        ([FOUND, text("so")], [text("so")]),
    ],
)
def test_a_call_without_a_result_is_left_out_and_so_is_a_result_without_a_call(say, blocks, kept):
    reply = say(message(*blocks, stop="max_tokens")).reply.message
    said = sent(*HELLO.messages, reply, UserMessage("go on"))
    assert [one["content"] for one in said if one["role"] == "assistant"] == ([kept] if kept else [])


def test_a_call_whose_result_comes_when_a_paused_turn_goes_on_stays():
    first = message(text("looking "), SEARCHING, stop="pause_turn")
    last = message(FOUND, text("done"))
    turns, bodies = run(*map(answer, (first, last, claude.said("bye"))), inputs=("go", "bye"))
    assert turns[0].text.endswith("done")
    assert bodies[1]["messages"][-1] == {"role": "assistant", "content": [text("looking "), SEARCHING]}
    assert bodies[2]["messages"][1]["content"] == [text("looking "), SEARCHING, FOUND, text("done")]


def test_a_call_beside_one_of_the_agents_stays_while_that_is_answered(say):
    reply = say(message(SEARCHING, ALONE, stop="tool_use")).reply.message
    found = say(message(FOUND, text("done"))).reply.message
    assert body(reply, ANSWERED)["messages"][1]["content"] == [SEARCHING, ALONE]
    assert body(reply, ANSWERED, UserMessage("wait"))["messages"][1]["content"] == [ALONE]
    whole = body(reply, ANSWERED, found, UserMessage("b"))["messages"]
    assert [whole[1]["content"], whole[3]["content"]] == [[SEARCHING, ALONE], [FOUND, text("done")]]


def test_the_input_of_a_call_that_is_still_under_way_is_an_object(say):
    reply = say(message(SEARCHING | {"input": '{"query": "we'}, stop="pause_turn")).reply.message
    assert body(reply)["messages"][1]["content"] == [SEARCHING | {"input": {}}]


def test_the_blocks_of_the_log_are_not_changed(say):
    reply = say(message(THOUGHT, SEARCHING, stop="max_tokens")).reply.message
    before = to_json([str(block) for block in reply.blocks])
    body(reply, UserMessage("go on"))
    assert to_json([str(block) for block in reply.blocks]) == before
    assert [type(block) for block in reply.blocks] == [Thinking, ProviderBlock]
