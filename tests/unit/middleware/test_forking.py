"""Forks: subagents that are their parent once more."""

import pytest
from harness.agents import answers, pay, task, texts

from minideep import Limits, Middleware, Subagent, ToolCall, ToolResult, create_deep_agent
from minideep.models import ScriptedModel


class Both:
    """The one model of an agent and its forks."""

    def __init__(self, *replies, **more):
        self.requests, self._replies = [], iter(replies)
        self.model = ScriptedModel(self._reply)
        self.fork = Subagent(name="self", description="the same agent again", fork=True, **more)

    def _reply(self, request):
        self.requests.append(request)
        return next(self._replies)

    def of(self, tools=(), subagents=(), **more):
        return create_deep_agent(self.model, tools, subagents=[self.fork, *subagents], **more)


async def test_the_request_of_a_fork_begins_with_that_of_its_parent():
    both = Both(ToolCall("ls"), [task("self", "f1", "Look closer."), ToolCall("ls", {}, "l2")], "nothing", "ok")
    agent = both.of()
    turn = await agent.run("go", "t")
    assert answers(turn)[1] == "nothing"
    parent, fork = both.requests[1], both.requests[2]
    assert (fork.system, fork.cache.key) == (parent.system, parent.cache.key)
    assert [(item.name, item.description, item.schema) for item in fork.tools] == [
        (item.name, item.description, item.schema) for item in parent.tools
    ]
    assert list(fork.messages[: len(parent.messages)]) == list(parent.messages)
    (said,) = fork.messages[len(parent.messages) :]
    assert said.text.endswith("\n\nLook closer.")
    assert said.text.startswith("[You are now a fork of the agent above")
    (run,) = agent.runs("t")
    assert (run.agent, run.status, run.path) == ("self", "ended", ("f1",))


async def test_a_fork_cannot_delegate_and_is_told_so():
    both = Both(task("self", "f1"), task("self", "f2"), "did it alone", "ok")
    turn = await both.of().run("go", "t")
    assert answers(turn) == ["did it alone"]
    assert both.requests[2].messages[-1].text == "a fork cannot delegate; do this work yourself with your other tools"


async def test_a_fork_has_the_limits_that_it_is_given_and_the_guards_of_its_parent():
    class Closed(Middleware):
        async def before_tool(self, ctx, call):
            return ToolResult("closed", is_error=True) if call.name == "pay" else call

    both = Both(task("self", "f1"), ToolCall("pay"), "ok", limits=Limits(steps=1))
    turn = await both.of([pay], middleware=[Closed()]).run("go", "t")
    assert "stopped at its limit of steps" in answers(turn)[0]
    both = Both(task("self", "f1"), ToolCall("pay"), "fine", "ok")
    turn = await both.of([pay], middleware=[Closed()]).run("go", "t")
    assert (answers(turn), both.requests[2].messages[-1].text) == (["fine"], "closed")


async def test_a_killed_fork_goes_on_with_the_messages_that_it_began_with(store):
    both = Both(ToolCall("ls"), task("self", "f1"), ValueError("cut"), "now", "ok")

    def fails(request):
        reply = next(both._replies)
        both.requests.append(request)
        if isinstance(reply, Exception):
            raise KeyboardInterrupt
        return reply

    agent = create_deep_agent(ScriptedModel(fails), subagents=[both.fork], checkpointer=store, durability="tool")
    with pytest.raises(KeyboardInterrupt):
        await agent.run("go", "t")
    turn = await create_deep_agent(ScriptedModel(fails), subagents=[both.fork], checkpointer=store).resume("t")
    assert answers(turn)[-1] == "now"
    assert texts(both.requests[3].messages) == texts(both.requests[2].messages)


async def test_a_persistent_fork_goes_on_too():
    again = ToolCall("task", {"description": "two", "subagent_type": "self", "id": "f1"})
    both = Both(task("self", "f1", "one"), "first", again, "second", "ok", persistent=True)
    turn = await both.of().run("go", "t")
    assert answers(turn) == ["first\n\n[id: f1]", "second\n\n[id: f1]"]
    assert [text.endswith(("go", "one", "first", "two")) for text in texts(both.requests[3].messages)] == [True] * 4
