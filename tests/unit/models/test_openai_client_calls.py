"""Calls of the Responses API that a tool of the agent answers, in an item of their own type."""

import asyncio
from base64 import b64encode
from typing import Any

import pytest
from harness.media import JPEG, PNG
from harness.providers import Provider, json_answer
from harness.wires import HELLO, responses, saying
from harness.wires.responses import OWN, ask, call, message, reasoning, response, said

from minideep import Agent, MemoryCheckpointer, tool
from minideep.errors import ConfigError, ModelError
from minideep.events import ArgsDelta
from minideep.messages import AssistantMessage, Image, ProviderBlock, Text, ToolCall, ToolMessage
from minideep.models.openai.client_calls import BLANK
from minideep.plain_json import to_json
from minideep.ports import Request

CHECK = {"id": "check_1", "code": "malicious", "message": "are you sure?"}
PATCH = {"type": "update_file", "path": "a.py", "diff": "@@\n-a\n+b\n"}
CLICK = {"type": "click", "button": "left", "x": 1, "y": 2}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c1", "name": "sql", "input": "select 1"}
SHELL = {"type": "shell_call", "id": "sh_1", "call_id": "c1", "status": "completed", "environment": {"type": "local"},
         "action": {"commands": ["ls", "pwd"], "timeout_ms": None, "max_output_length": 99}}  # fmt: skip
LOCAL = {"type": "local_shell_call", "id": "lsh_1", "call_id": "c1", "status": "completed",
         "action": {"type": "exec", "command": ["ls"], "env": {}}}  # fmt: skip
APPLY = {"type": "apply_patch_call", "id": "apc_1", "call_id": "c1", "status": "completed", "operation": PATCH}
COMPUTER = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "status": "completed", "actions": [CLICK],
            "pending_safety_checks": []}  # fmt: skip
PREVIEW = {"type": "computer_call", "id": "cu_1", "call_id": "c1", "status": "completed", "action": CLICK,
           "pending_safety_checks": [CHECK]}  # fmt: skip
CALLS = {
    "custom": (CUSTOM, ToolCall("sql", {"input": "select 1"}, "c1")),
    "shell": (SHELL, ToolCall("shell", {"commands": ["ls", "pwd"], "max_output_length": 99}, "c1")),
    "local shell": (LOCAL, ToolCall("local_shell", {"command": ["ls"], "env": {}}, "c1")),
    "patch": (APPLY, ToolCall("apply_patch", PATCH, "c1")),
    "computer": (COMPUTER, ToolCall("computer", {"actions": [CLICK]}, "c1")),
    "computer, in preview": (
        PREVIEW,
        ToolCall("computer", {"actions": [CLICK], "pending_safety_checks": [CHECK]}, "c1"),
    ),
}


@pytest.fixture(params=["json", "sse"])
def say(request: pytest.FixtureRequest) -> Any:
    return saying(responses, request.param == "sse")


def back(*messages: Any, **settings: Any) -> list[Any]:
    request = Request("", (*HELLO.messages, *messages))
    return ask(json_answer(said("ok")), request=request, listen=False, **settings).bodies[0]["input"][1:]


def kept(item: Any, made: ToolCall) -> AssistantMessage:
    return AssistantMessage((ProviderBlock(OWN, to_json(item)), made))


def shot(data: bytes, kind: str) -> Any:
    return {"type": "computer_screenshot", "image_url": f"data:{kind};base64,{b64encode(data).decode()}"}


# ---- calls


@pytest.mark.parametrize(("item", "made"), CALLS.values(), ids=CALLS)
def test_a_call_is_one_of_the_agents_tool_and_goes_back_as_it_was(say, item, made):
    reply = say(response(item)).reply
    assert reply.message == kept(item, made)
    assert back(reply.message, ToolMessage("ok", "c1", made.name))[0] == item


@pytest.mark.parametrize(("item", "made"), CALLS.values(), ids=CALLS)
def test_a_call_that_the_runtime_named_anew_goes_back_under_its_new_name(item, made):
    renamed = kept(item, ToolCall(made.name, made.raw, "c1-2"))
    items = back(renamed, ToolMessage("ok", "c1-2", made.name))
    assert [one["call_id"] for one in items[:2]] == ["c1-2", "c1-2"]
    assert items[1]["type"] == f"{item['type']}_output"


@pytest.mark.parametrize(("item", "made"), CALLS.values(), ids=CALLS)
def test_a_call_that_nobody_answered_is_not_sent_again(item, made):
    """Older logs hold it without a call of ours; the API would miss its answer for ever."""
    alone = AssistantMessage((ProviderBlock("openai", to_json(item)), Text("so")))
    assert back(alone) == [{"role": "assistant", "content": "so"}]


def test_two_calls_at_once_are_each_answered_in_their_type(say):
    reply = say(response(reasoning("hm"), SHELL, CUSTOM | {"call_id": "c2"}, call("c3", "{}"))).reply
    results = [ToolMessage(name, f"c{number}", name) for number, name in ((2, "sql"), (3, "ls"), (1, "shell"))]
    assert [(item["type"], item.get("call_id")) for item in back(reply.message, *results)] == [
        ("reasoning", None),
        ("shell_call", "c1"),
        ("custom_tool_call", "c2"),
        ("function_call", "c3"),
        ("custom_tool_call_output", "c2"),
        ("function_call_output", "c3"),
        ("shell_call_output", "c1"),
    ]


def test_what_the_provider_ran_itself_is_no_call(say):
    """A shell in a container of the provider's: it answers its calls in the same reply."""
    there = {"environment": {"type": "container_reference", "container_id": "cntr_1"}}
    said = [{"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]
    ran = {"type": "shell_call_output", "id": "sho_1", "call_id": "c1", "output": said}
    queried = {"type": "custom_tool_call_output", "id": "cto_1", "call_id": "c2", "output": "1"}
    for items in ([SHELL | there, ran], [SHELL, CUSTOM | {"call_id": "c2"}, ran, queried]):
        reply = say(response(*items)).reply
        assert reply.message.calls == ()
        assert back(reply.message) == items


def test_a_call_of_the_providers_own_that_was_cut_is_not_sent_again(say):
    there = SHELL | {"call_id": "c9", "environment": {"type": "container_reference", "container_id": "cntr_1"}}
    reply = say(response(there, call("c1", "{}"), status="incomplete")).reply
    assert [made.name for made in reply.message.calls] == ["ls"]
    assert [item["type"] for item in back(reply.message, ToolMessage("a", "c1", "ls"))] == [
        "function_call", "function_call_output"
    ]  # fmt: skip


def test_listeners_count_these_calls_too():
    made = call("c2", "{}", id="fc_2")
    heard = ask(responses.answer(response(SHELL, made), stream=True))
    assert [event.index for event in heard.events if isinstance(event, ArgsDelta)] == [1, 1]
    assert heard.reply.message.calls[1].id == "c2"


# ---- answers

ANSWERS = {
    "custom": (CUSTOM, False, {"output": "text"}),
    "shell": (SHELL, False, {
        "output": [{"stdout": "text", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}], "max_output_length": 99,
    }),
    "shell that failed": (SHELL, True, {
        "output": [{"stdout": "", "stderr": "text", "outcome": {"type": "exit", "exit_code": 1}}], "max_output_length": 99,
    }),
    "local shell": (LOCAL, False, {"output": "text"}),
    "patch": (APPLY, False, {"status": "completed", "output": "text"}),
    "patch that failed": (APPLY, True, {"status": "failed", "output": "text"}),
}  # fmt: skip


@pytest.mark.parametrize(("item", "failed", "expected"), ANSWERS.values(), ids=ANSWERS)
def test_a_result_answers_in_the_words_of_its_type(item, failed, expected):
    made = next(made for one, made in CALLS.values() if one is item)
    said = back(kept(item, made), ToolMessage("text", "c1", made.name, failed))
    assert said[1:] == [{"type": f"{item['type']}_output", "call_id": "c1"} | expected]


def test_a_custom_tool_may_show_images():
    shown = back(kept(CUSTOM, CALLS["custom"][1]), ToolMessage((Text("see"), Image(PNG)), "c1", "sql"))[1]
    assert [part["type"] for part in shown["output"]] == ["input_text", "input_image"]


def test_what_an_answer_cannot_hold_stands_behind_it():
    items = back(kept(SHELL, CALLS["shell"][1]), ToolMessage((Text("see"), Image(PNG)), "c1", "shell"))
    assert items[1]["output"][0]["stdout"] == "see"
    assert [part["type"] for part in items[2]["content"]] == ["input_image"]


def test_a_computer_answers_with_a_screenshot():
    result = ToolMessage((Image(b"no image"), Image(JPEG), Text("clicked")), "c1", "computer")
    _call, output, behind = back(kept(COMPUTER, CALLS["computer"][1]), result)
    assert output == {"type": "computer_call_output", "call_id": "c1", "output": shot(JPEG, "image/jpeg")}
    assert [part["text"][:11] for part in behind["content"]] == ["[image left", "clicked"]


def test_a_computer_that_failed_is_answered_all_the_same_and_the_reason_is_told():
    result = ToolMessage("no display", "c1", "computer", is_error=True)
    _call, output, behind = back(kept(PREVIEW, CALLS["computer, in preview"][1]), result)
    assert output["output"] == {"type": "computer_screenshot", "image_url": BLANK}
    assert output["acknowledged_safety_checks"] == [CHECK]
    assert behind == {"role": "user", "content": [{"type": "input_text", "text": "no display"}]}


def test_a_caller_is_named_again_in_the_answer():
    caller = {"type": "program", "caller_id": "p1"}
    items = back(kept(CUSTOM | {"caller": caller}, CALLS["custom"][1]), ToolMessage("1", "c1", "sql"))
    assert items[1]["caller"] == caller


# ---- agents


@tool
def sql(input: str) -> str:
    """Ask the database."""
    return f"ran {input}"


@tool
def shell(commands: list[str], timeout_ms: int | None = None, max_output_length: int | None = None) -> str:
    """Run commands."""
    return "ran " + "; ".join(commands)


DECLARED = {"type": "custom", "name": "sql", "description": "SQL", "format": {"type": "text"}}
HOSTED = {"type": "shell", "environment": {"type": "container_auto"}}


def run(
    *answers: Any, tools: Any = (), declared: Any = (), resumed_without: bool = False
) -> tuple[list[Any], list[Any]]:
    """Run a turn and one after it, by an agent of its own; return the turns and the bodies."""

    async def go() -> tuple[list[Any], list[Any]]:
        store = MemoryCheckpointer()
        with Provider(*map(json_answer, answers)) as provider:
            async with responses.connected(provider.url) as client:
                model = responses.model(client, tools=list(declared))
                first = await Agent(model, tools, checkpointer=store).run("go", "thread")
                other = responses.model(client) if resumed_without else responses.model(client, tools=list(declared))
                second = await Agent(other, () if resumed_without else tools, checkpointer=store).run("on", "thread")
        return [first, second], provider.bodies

    return asyncio.run(go())


def test_a_tool_of_the_agent_answers_and_only_the_providers_declaration_is_sent():
    turns, bodies = run(response(CUSTOM), said("done"), said("on"), tools=[sql], declared=[DECLARED])
    assert [turn.text for turn in turns] == ["done", "on"]
    assert [body["tools"] for body in bodies] == [[DECLARED]] * 3
    answered = {"type": "custom_tool_call_output", "call_id": "c1", "output": "ran select 1"}
    assert bodies[1]["input"][1:] == [CUSTOM, answered]
    assert bodies[2]["input"][:3] == bodies[1]["input"]


def test_an_answer_keeps_its_type_where_the_tool_is_gone():
    declared = [{"type": "shell"}]
    turns, bodies = run(
        response(SHELL), said("done"), said("on"), tools=[shell], declared=declared, resumed_without=True
    )
    assert [turn.text for turn in turns] == ["done", "on"]
    assert "tools" not in bodies[2]
    assert [item["type"] for item in bodies[2]["input"][1:3]] == ["shell_call", "shell_call_output"]


def test_a_declaration_that_no_tool_of_the_agent_answers_is_refused():
    for declared, name in (
        (DECLARED, "sql"),
        ({"type": "shell"}, "shell"),
        ({"type": "shell", "environment": {"type": "local"}}, "shell"),
        ({"type": "local_shell"}, "local_shell"),
        ({"type": "apply_patch"}, "apply_patch"),
        ({"type": "computer"}, "computer"),
        ({"type": "computer_use_preview", "environment": "browser"}, "computer"),
    ):
        with pytest.raises(ConfigError, match=f"declares '{name}' in its settings, whose calls a tool of the agent"):
            Agent(responses.model(None, tools=[declared]))
    Agent(responses.model(None, tools=[HOSTED, {"type": "web_search"}]))


def test_a_shell_that_the_provider_runs_stands_beside_a_tool_of_the_agent():
    _, bodies = run(said("a"), said("b"), tools=[sql], declared=[HOSTED])
    assert [tool["type"] for tool in bodies[0]["tools"]] == ["shell", "function"]


def test_two_declarations_of_one_name_are_refused():
    with pytest.raises(ConfigError, match="two of the tools in its settings are named 'sql'"):
        responses.model(None, tools=[DECLARED, DECLARED])


def test_a_call_with_open_checks_of_safety_runs_only_in_a_tool_that_takes_them():
    @tool
    def computer(actions: list[dict[str, Any]]) -> str:
        """Act."""
        raise AssertionError("it must not run")

    turns, bodies = run(response(PREVIEW), said("done"), said("on"), tools=[computer], declared=[{"type": "computer"}])
    assert turns[0].text == "done"
    assert "pending_safety_checks" in bodies[1]["input"][3]["content"][0]["text"]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (
            {"type": "mcp_approval_request", "id": "a1", "name": "rm", "server_label": "disk", "arguments": "{}"},
            '\'rm\' of the MCP server \'disk\' .* set `"require_approval": "never"`',
        ),
        ({"type": "tool_search_call", "id": "t1", "call_id": "c1", "execution": "client", "arguments": {}},
         "declare `tool_search` without `execution`"),
    ],
    ids=lambda value: value["type"] if isinstance(value, dict) else "",
)  # fmt: skip
def test_what_nobody_can_answer_fails_the_turn_with_what_to_set(say, item, reason):
    with pytest.raises(ModelError, match=reason):
        say(response(message("so"), item))
