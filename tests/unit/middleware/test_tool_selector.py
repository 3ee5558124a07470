"""Selection of tools: what is shown, how often it is asked for, what it costs, and what happens when it fails."""

import json

import pytest
from harness.agents import answers, sub, task

from minideep import (
    Agent,
    ConfigError,
    Limits,
    ModelError,
    ResponseFormat,
    Tool,
    ToolCall,
    Usage,
    create_deep_agent,
)
from minideep.events import Restarted, TextDelta
from minideep.middleware import ToolSelector
from minideep.models import ScriptedModel
from minideep.models.scripted import as_reply
from minideep.ports import Reply


def numbered(count):
    async def act() -> str:
        """Act."""
        return "done"

    return [Tool(act, name=f"tool{n}", description=f"Does thing {n}.") for n in range(count)]


def choosing(*names):
    return json.dumps({"tools": [*names]})


def shown(request):
    return [tool.name for tool in request.tools]


async def test_the_model_is_shown_what_the_small_one_picks_and_what_is_always_shown():
    small = ScriptedModel([choosing("tool7", "tool3", "nothing", "tool7", "tool4")])
    model = ScriptedModel([ToolCall("tool3"), ToolCall("tool0"), "ok"])
    selector = ToolSelector(small, keep=2, always=["tool9"])
    turn = await Agent(model, numbered(10), middleware=[selector]).run("Do thing 3.")
    assert [shown(request) for request in model.requests] == [["tool3", "tool7", "tool9"]] * 3
    assert answers(turn)[0] == "done"
    assert "'tool0' cannot be used at this point" in answers(turn)[1]
    (asked,) = small.requests  # Once a turn.
    about = json.loads(asked.messages[0].text)
    assert about["conversation"] == ["[user] Do thing 3."]
    assert about["tools"][3] == {"name": "tool3", "description": "Does thing 3."}
    assert "tool9" not in asked.messages[0].text


async def test_each_turn_selects_anew():
    small = ScriptedModel([choosing("tool1"), choosing("tool2")])
    model = ScriptedModel(["ok", "ok"])
    agent = Agent(model, numbered(5), middleware=[ToolSelector(small, keep=1)])
    await agent.run("one", "t")
    await agent.run("two", "t")
    assert [shown(request) for request in model.requests] == [["tool1"], ["tool2"]]
    assert json.loads(small.requests[1].messages[0].text)["conversation"] == [
        "[user] one",
        "[assistant] ok",
        "[user] two",
    ]


async def test_with_few_tools_nobody_is_asked():
    small, model = ScriptedModel([]), ScriptedModel(["ok"])
    await Agent(model, numbered(3), middleware=[ToolSelector(small, keep=2, always=["tool0"])]).run("go")
    assert not small.requests
    assert len(model.requests[0].tools) == 3


@pytest.mark.parametrize("reply", [ModelError("busy"), RuntimeError("a bug"), "tool1, I think", '{"tools": ["ls"]}'])
async def test_if_the_selection_fails_all_are_shown_in_this_turn(reply, caplog):
    small, model = ScriptedModel([reply]), ScriptedModel([ToolCall("tool1"), "ok"])
    turn = await Agent(model, numbered(5), middleware=[ToolSelector(small, keep=1)]).run("go")
    assert turn.status == "ended"
    assert [len(request.tools) for request in model.requests] == [5, 5]
    assert len(small.requests) == 1
    assert "no tools were selected" in caplog.text


async def test_its_tokens_and_cost_are_the_agents_and_its_reply_is_not_streamed():
    small = ScriptedModel([Reply(as_reply(choosing("tool1")).message, Usage(100, 10), cost=0.25)])
    model = ScriptedModel([Reply(as_reply("ok").message, Usage(7, 3), cost=1.0, model="big")])
    stream = Agent(model, numbered(5), middleware=[ToolSelector(small, keep=1)]).stream("go")
    heard = [event async for event in stream]
    assert (stream.turn.usage, stream.turn.costs.money) == (Usage(107, 13), 1.25)
    assert not [event for event in heard if isinstance(event, Restarted)]
    assert "".join(event.text for event in heard if isinstance(event, TextDelta)) in ("", "ok")


async def test_a_budget_that_the_selection_has_spent_stops_the_turn():
    small = ScriptedModel([Reply(as_reply(choosing("tool1")).message, Usage(100, 10))])
    model = ScriptedModel(["never asked"])
    agent = Agent(model, numbered(5), middleware=[ToolSelector(small, keep=1)], limits=Limits(tokens=50))
    turn = await agent.run("go")
    assert (turn.reason, model.requests) == ("tokens", [])


def test_a_budget_of_money_needs_a_price_of_the_small_model():
    class Unpriced:
        name = "unpriced"

        async def complete(self, request, emit): ...

    with pytest.raises(ConfigError, match="'unpriced' has no price"):
        Agent("offline:", [], middleware=[ToolSelector(Unpriced())], limits=Limits(cost=1.0))


async def test_another_process_shows_what_was_selected(store):
    small = ScriptedModel([choosing("tool1")])
    selector = [ToolSelector(small, keep=1)]
    first = ScriptedModel([ToolCall("tool1"), RuntimeError("down")])
    agent = Agent(first, numbered(5), middleware=selector, checkpointer=store, durability="step")
    assert (await agent.run("go", "t")).status == "failed"
    later, asked = ScriptedModel(["ok"]), ScriptedModel([choosing("tool1")])
    other = Agent(later, numbered(5), middleware=[ToolSelector(asked, keep=1)], checkpointer=store)
    assert (await other.resume("t")).status == "ended"
    assert shown(later.requests[0]) == ["tool1"]


async def test_a_run_below_selects_for_its_own_task():
    small = ScriptedModel([choosing("tool1"), choosing("tool2")])
    child, main = ScriptedModel(["done"]), ScriptedModel([task("one", description="Do thing 2."), "ok"])
    kept = ["task", "write_todos", "ls", "read_file", "write_file", "edit_file", "delete", "glob", "grep"]
    selector = ToolSelector(small, keep=1, always=[*kept, "compact_conversation"])
    agent = create_deep_agent(main, numbered(5), subagents=[sub("one", child)], middleware=[selector])
    assert (await agent.run("go")).status == "ended"
    assert {"tool1"} == {name for name in shown(main.requests[0]) if name.startswith("tool")}
    assert {"tool2"} == {name for name in shown(child.requests[0]) if name.startswith("tool")}
    assert "Do thing 2." in small.requests[1].messages[0].text


async def test_the_tool_of_a_typed_answer_is_always_shown():
    small = ScriptedModel([choosing()])
    model = ScriptedModel([ToolCall("final_answer", {"answer": [1]})])
    agent = Agent(
        model, numbered(5), middleware=[ToolSelector(small, keep=1)], response_format=ResponseFormat(list[int])
    )
    turn = await agent.run("go")
    assert (turn.output, shown(model.requests[0])) == ([1], ["final_answer"])


async def test_a_provider_with_structured_output_is_held_to_the_form_of_the_reply():
    small = ScriptedModel([choosing("tool1")], structured_output=True)
    await Agent(ScriptedModel(["ok"]), numbered(5), middleware=[ToolSelector(small, keep=1)]).run("go")
    assert small.requests[0].schema["required"] == ["tools"]


@pytest.mark.parametrize("wrong", [{"model": 5}, {"keep": 0}, {"always": "tool1"}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ConfigError):
        ToolSelector(**{"model": "offline:", **wrong})
