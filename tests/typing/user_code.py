"""Code as a user writes it. Both type checkers read it, and nobody runs it: `test_types.py`."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypedDict, assert_type

from msgspec import Struct

from minideep import (
    Agent,
    Approval,
    Approve,
    AssistantMessage,
    Edit,
    FileEntry,
    Handle,
    Interrupt,
    MediaLink,
    Middleware,
    MinideepError,
    ModelError,
    Reject,
    Replay,
    Reply,
    Request,
    Respond,
    ResponseFormat,
    Subagent,
    Text,
    Tool,
    ToolCall,
    ToolContext,
    ToolMessage,
    ToolResult,
    Turn,
    UserMessage,
    create_deep_agent,
    decision_from_json,
    decisions_from_json,
    events,
    load_media,
    tool,
)
from minideep.evals import Assertion, Golden, Report, Score, Trajectory, calls_in_order, evaluate, judge
from minideep.mcp import MCPClient
from minideep.middleware import PermissionsMiddleware
from minideep.models import CodeExecution, WebSearch
from minideep.permissions import Allow, Ask, Deny, read_only
from minideep.state import Status
from minideep.testing import recorded


def narrowed_by_role(turn: Turn) -> None:
    for message in turn.messages:
        if message.role == "assistant":
            assert_type(message, AssistantMessage)
            assert_type(message.calls, tuple[ToolCall, ...])
        elif message.role == "tool":
            assert_type(message, ToolMessage)
            assert_type(message.is_error, bool)
        else:
            assert_type(message, UserMessage)


def narrowed_by_class(turn: Turn) -> None:
    for block in turn.messages[-1].blocks:
        match block:
            case Text(text=text):
                assert_type(text, str)
            case ToolCall():
                assert_type(block.args, dict[str, Any])
            case _:
                pass


def a_turn(turn: Turn) -> None:
    assert_type(turn.error, MinideepError | None)
    if isinstance(turn.error, ModelError):
        assert_type(turn.error.retry_after, float | None)
    assert_type(turn.interrupts, tuple[Interrupt, ...])
    assert_type(turn.interrupts[0].call_id, str)
    assert_type(turn.artifacts, dict[str, FileEntry])
    assert_type(turn.costs.money, float | None)
    assert_type(turn.raise_for_status(), Turn)
    assert_type(Turn.from_json(turn.json()), Turn)
    assert_type(turn.status, Status)


async def a_stream(agent: Agent) -> str:
    said = ""
    async with agent.stream("go", "t") as stream:
        async for event in stream:
            assert_type(event.path, tuple[str, ...])
            assert_type(event.json(), str)
            match event:
                case events.TextDelta(text=text):
                    said += text
                case events.ToolStarted(call=call):
                    assert_type(call, ToolCall)
                case events.ModelReplied(message=message):
                    assert_type(message, AssistantMessage)
                case events.TurnEnded():
                    assert_type(event.reason == "done", bool)
                case _:
                    pass
    assert_type(stream.turn, Turn)
    return said


async def verbs(agent: Agent) -> None:
    assert_type(await agent.run("go", "t"), Turn)
    assert_type(agent.run_sync("go"), Turn)
    assert_type(await agent.run([UserMessage("hi"), AssistantMessage("hello"), UserMessage("go on")], "t"), Turn)
    assert_type(await agent.run([{"role": "user", "content": "hi"}, {"role": "user", "content": "go on"}]), Turn)
    assert_type(await agent.run([*agent.transcript("t"), UserMessage("go on")]), Turn)
    assert_type(await agent.replay("t", at=1, model="openai:gpt-5", others="run"), Replay)
    replay = await recorded("t.jsonl").run(agent)
    assert_type(replay.turn, Turn)
    assert_type(replay.turns[0].recorded.answer, str)
    assert_type(await agent.run([Text("look"), load_media("a.png"), MediaLink("https://example.com/a.png")]), Turn)
    files: dict[str, str] = {"/notes.md": "text"}
    assert_type(agent.run_sync("go", files=files), Turn)
    assert_type(agent.run_sync("go", files={"/notes.md": "text", "a.png": b"..."}), Turn)
    handle = await agent.start("go", "t", files=files)
    assert_type(handle, Handle)
    assert_type(await handle, Turn)
    decision = decision_from_json("{}")
    assert_type(decision, Approve | Edit | Reject | Respond)
    assert_type(await agent.resume("t", {"p1": decision}), Turn)
    assert_type(await agent.resume("t", decisions_from_json("{}")), Turn)
    async for event in agent.follow("t"):
        assert_type(event, events.StreamEvent)


class Hooks(Middleware):
    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        return request

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Any) -> Reply:
        reply: Reply = await ask(request)
        return reply

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | ToolResult | Interrupt:
        return Interrupt(call, "sure?") if call.name == "pay" else call

    async def wrap_tool(
        self, ctx: ToolContext, call: ToolCall, run: Callable[[ToolCall], Awaitable[ToolResult]]
    ) -> ToolResult:
        result = await run(call)
        assert_type(result, ToolResult)
        return result

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        return ToolResult(result.text.upper(), result.is_error)

    async def before_finish(self, ctx: ToolContext) -> UserMessage | None:
        return None

    async def add_files(self, ctx: ToolContext, files: Mapping[str, str | bytes]) -> None:
        assert_type(files["/a"], str | bytes)


@tool
def pay(amount: int) -> str:
    """Pay an invoice."""
    return f"paid {amount}"


@tool(timeout=60)
async def settle(ctx: ToolContext) -> str:
    """Settle what is due."""
    return ctx.thread_id


def an_agent() -> Agent:
    tools: list[Tool] = [pay, settle]
    assert_type(pay(7), str)
    assert_type(create_deep_agent("offline:", tools, middleware=[Hooks()], interrupt_on={"pay": True}), Agent)
    return Agent("offline:", [pay, settle], middleware=[Hooks()])


def a_guarded_agent() -> Agent:
    def is_large(ctx: ToolContext, call: ToolCall) -> bool:
        return bool(call.args["amount"] > 100)

    approval = Approval(
        when=is_large, describe=lambda ctx, call: f"{call.name} in {ctx.thread_id}?", decisions=["approve"]
    )
    rules = [Allow("write", "/src/**"), Ask("write", when=is_large), *read_only()]
    reader = Subagent(name="reader", description="reads", permissions=rules, inherit_permissions=False)
    deep = create_deep_agent(
        "offline:", [pay], subagents=[reader], permissions=rules, interrupt_on={"pay": approval, "ls": True}
    )
    Agent("offline:", middleware=[PermissionsMiddleware([Deny("read", "/secret")])])
    return assert_type(deep, Agent)


class Finding(Struct):
    title: str


@dataclass
class Point:
    x: float


class Row(TypedDict):
    name: str


class Mood(Enum):
    GOOD = "good"


async def typed_results(ctx: ToolContext) -> None:
    agent = Agent("offline:", [pay], response_format=Finding)
    assert_type(agent, Agent[Finding])
    turn = await agent.run("go")
    assert_type(turn, Turn[Finding])
    assert_type(turn.output, Finding | None)
    assert_type(agent.run_sync("go").raise_for_status().output, Finding | None)
    assert_type((await agent.resume("t")).output, Finding | None)
    assert_type((await (await agent.start("go"))).output, Finding | None)
    async with agent.stream("go") as stream:
        pass
    assert_type(stream.turn.output, Finding | None)
    shown(turn)
    kept(agent)


def kinds_of_results() -> None:
    assert_type(Agent("offline:", response_format=Point).run_sync("go").output, Point | None)
    assert_type(Agent("offline:", response_format=Row).run_sync("go").output, Row | None)
    assert_type(Agent("offline:", response_format=Mood).run_sync("go").output, Mood | None)
    assert_type(Agent("offline:", response_format=list[Finding]).run_sync("go").output, list[Finding] | None)
    assert_type(ResponseFormat(Finding, retries=1), ResponseFormat[Finding])
    assert_type(Agent("offline:", response_format=ResponseFormat(Finding, retries=1)), Agent[Finding])
    assert_type(Agent("offline:", response_format={"type": "object"}), Agent[Any])
    assert_type(create_deep_agent("offline:", response_format=Finding), Agent[Finding])
    assert_type(create_deep_agent("offline:", response_format=Finding).run_sync("go").output, Finding | None)
    assert_type(Agent("offline:"), Agent[Any])


def shown(turn: Turn) -> str:
    """Takes a turn of any agent."""
    return turn.text


def kept(agent: Agent) -> Agent:
    """Takes any agent."""
    return agent


async def evaluated(agent: Agent, goldens: list[Golden]) -> None:
    def is_short(trajectory: Trajectory) -> str | None:
        return None if len(trajectory.turn.text) < 500 else "it is too long"

    async def style(trajectory: Trajectory) -> Score:
        return Score(0.5, trajectory.calls[0].name)

    def fresh(golden: Golden) -> Agent:
        return Agent("offline:", name=golden.name)

    checks: list[Assertion] = [
        is_short,
        style,
        lambda trajectory: 0.5,
        calls_in_order("ls"),
        judge("offline:", "Is it polite?"),
    ]
    report = assert_type(await evaluate(agent, goldens, checks, repeat=2), Report)
    await evaluate(fresh, goldens, [lambda trajectory: trajectory.turn.status == "ended"])
    assert_type(report.compare(Report.from_json(report.json())).goldens[0].steps.change, float | None)


async def tools_of_others() -> None:
    with MCPClient("uvx some-server", only=["search"], env={"TOKEN": "x"}) as plain:
        assert_type(plain, MCPClient)
        create_deep_agent("offline:", [*plain.tools, WebSearch(max_uses=3), CodeExecution()])
    async with MCPClient("https://example.com/mcp", headers={"Authorization": "x"}, timeout=None) as other:
        assert_type(other.instructions, str)
        Agent("offline:", other.tools)
