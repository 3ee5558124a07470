"""`tool_context`: a tool or a hook is called with a real state behind it, without a loop and without a model."""

import pytest

from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    ConfigError,
    IllegalEvent,
    Interrupt,
    Middleware,
    MinideepError,
    Todo,
    ToolCall,
    ToolContext,
    ToolMessage,
    UserMessage,
    tool,
)
from minideep.backends import StateBackend
from minideep.events import FileWritten, Noted, TextDelta, TodosWritten, TurnEnded
from minideep.middleware import FilesystemMiddleware, HumanInTheLoopMiddleware, TodoListMiddleware
from minideep.models import ScriptedModel
from minideep.testing import RecordingContext, tool_context
from minideep.workers import in_thread


@tool
def remember(what: str, ctx: ToolContext) -> str:
    """Remember something."""
    ctx.record(Noted("memory", "what", what))
    ctx.emit(TextDelta("noted"))
    return f"{ctx.thread_id}: {what}"


def test_a_tool_is_called_and_what_it_recorded_and_emitted_is_there():
    ctx = tool_context(thread_id="t")
    assert remember("tea", ctx) == "t: tea"
    assert ctx.recorded == [Noted("memory", "what", "tea")]
    assert ctx.emitted == [TextDelta("noted")]
    assert ctx.state.notes["memory"] == {"what": "tea"}
    assert isinstance(ctx, RecordingContext)
    assert isinstance(ctx, ToolContext)


def test_what_does_not_fit_is_refused_as_in_a_run():
    ctx = tool_context()
    for event in (TurnEnded(0.0), "no event", Noted("a", "b", object()), FileWritten("/f", 5, 1, "", 0.0)):
        with pytest.raises(IllegalEvent):
            ctx.record(event)
    with pytest.raises(IllegalEvent):
        ctx.emit("text")
    with pytest.raises(AttributeError):
        ctx.state.messages = []
    assert ctx.recorded == []


def test_the_state_is_made_of_what_is_given():
    ctx = tool_context(
        files={"/a.txt": "text", "/b.bin": b"\xff"},
        notes={"me": {"count": 3}},
        todos=[Todo("write")],
        messages=["one", AssistantMessage("1"), UserMessage("two"), AssistantMessage((ToolCall("ls", {}, "c"),)),
                  ToolMessage("files", "c", "ls")],
        context={"user": 7},
        path=("x", "y"),
    )  # fmt: skip
    assert [message.text for message in ctx.state.messages] == ["one", "1", "two", "", "files"]
    assert (ctx.state.turn, ctx.state.status) == (2, "running")
    assert (ctx.content_of("/a.txt"), ctx.content_of("/b.bin")) == ("text", b"\xff")
    assert ctx.recall("/a.txt", ctx.state.files["/a.txt"].sha256) == "text"
    assert (ctx.state.notes["me"]["count"], ctx.state.todos) == (3, (Todo("write"),))
    assert (ctx.context, ctx.path, ctx.call_id, ctx.recorded) == ({"user": 7}, ("x", "y"), "", [])
    assert [message.text for message in tool_context().state.messages] == ["go"]
    assert ctx.spent.tokens == 0


def test_the_call_and_the_decision_about_it_are_those_given():
    assert tool_context(call_id="c7").call_id == "c7"
    ctx = tool_context(call=ToolCall("pay", {"amount": 3}, "c"), decision=Approve(), path=("below",))
    assert (ctx.call_id, ctx.decision) == ("c", Approve())
    assert ctx.state.open["c"].phase == "decided"
    assert ctx.idempotency_key.startswith("test/below/c/")
    both = AssistantMessage((ToolCall("a", {}, "c1"), ToolCall("b", {}, "c2")))
    assert tool_context(messages=["go", both], call_id="c2").state.open["c2"].call.name == "b"


def test_the_event_of_a_file_names_its_call():
    ctx = tool_context(call_id="c")
    ctx.record(FileWritten("/f", "x", 1, "", 0.0))
    assert [event.call_id for event in ctx.recorded] == ["c"]


def test_what_cannot_be_is_refused():
    with pytest.raises(ConfigError, match="decision is about a call; give `call` or `call_id` as well"):
        tool_context(decision=Approve())
    with pytest.raises(ConfigError, match="files has the path 'a', which must begin with `/`"):
        tool_context(files={"a": "x"})
    with pytest.raises(IllegalEvent, match="ToolReturned needs a turn that is running"):
        tool_context(messages=[ToolMessage("x", "c", "ls")])
    with pytest.raises(ConfigError, match="tool_context: notes must be a mapping"):
        tool_context(notes=[])


async def test_a_plain_tool_may_record_from_another_thread():
    ctx = tool_context()
    await in_thread(remember, "tea", ctx)
    assert len(ctx.recorded) == 1


async def test_the_built_in_tools_work_with_it():
    ctx = tool_context(files={"/a.txt": "one\ntwo\n"}, call_id="c")
    tools = {each.name: each for each in (*FilesystemMiddleware(StateBackend()).tools, *TodoListMiddleware().tools)}
    assert "two" in await tools["read_file"](ctx, "/a.txt")
    await tools["write_file"](ctx, "/b.txt", "new")
    assert ctx.state.files["/b.txt"].content == "new"
    assert TodosWritten not in map(type, ctx.recorded)


async def test_a_hook_is_called():
    class Guard(Middleware):
        async def before_tool(self, ctx, call):
            return call if ctx.decision or call.name != "pay" else Interrupt(call, "a payment")

    call = ToolCall("pay", {}, "c")
    assert await Guard().before_tool(tool_context(call=call), call) == Interrupt(call, "a payment")
    assert await Guard().before_tool(tool_context(call=call, decision=Approve()), call) == call


# ---- agents below


@tool
async def delegate(question: str, ctx: ToolContext, agent: str = "helper") -> str:
    """Ask another agent."""
    return (await ctx.run(AGENTS[agent], question)).text


@tool
def note(ctx: ToolContext) -> str:
    """Write a file."""
    ctx.record(FileWritten("/note", "written below", 13, "", 0.0))
    return "noted"


def helper():
    return Agent(ScriptedModel([ToolCall("note"), "helped"]), [note], name="helper")


AGENTS = {}


async def test_an_agent_runs_below_the_call_for_real():
    AGENTS["helper"] = helper()
    ctx = tool_context(call_id="c", files={"/given": "x"})
    assert await delegate("help", ctx) == "helped"
    assert ctx.state.files["/note"].content == "written below"
    assert AGENTS["helper"].spec.model.requests[0].messages[0].text == "help"
    with pytest.raises(ConfigError, match="already runs a child under key None; give each its own `key`"):
        await delegate("help", ctx)


async def test_an_agent_below_uses_its_override():
    agent = AGENTS["helper"] = Agent("anthropic:claude-x", name="helper")
    with agent.override(model=ScriptedModel(["scripted"])):
        assert await delegate("help", tool_context(call_id="c")) == "scripted"


async def test_what_cannot_run_below_says_so_in_a_sentence():
    AGENTS["helper"] = helper()
    with pytest.raises(ConfigError, match="a hook cannot run a child: only a call can"):
        await delegate("help", tool_context())
    approvals = HumanInTheLoopMiddleware({"note": True})
    AGENTS["helper"] = Agent(ScriptedModel([ToolCall("note")]), [note], middleware=[approvals])
    with pytest.raises(
        MinideepError, match=r"the child waits for a person, before 'note'; .*test this tool in an agent"
    ):
        await delegate("help", tool_context(call_id="c"))
