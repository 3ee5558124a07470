"""The model and the tools of simulated agents: they do what the seed says, and watch what is done to them.

They are made once; the process that runs them is found by its context variable.
"""

import asyncio
import re
from functools import cache

from harness.middleware import AskFirst
from harness.simulation.loop import PROCESS
from minideep import Agent, Subagent, ToolContext, create_deep_agent, tool
from minideep.errors import ModelError, Overloaded, ToolError
from minideep.events import Noted, TextDelta
from minideep.messages import AssistantMessage, Text, ToolCall, ToolMessage, Usage, UserMessage
from minideep.ports import Reply

DONE = re.compile(r"(?:worked|paid|relayed) (\d+)")


class Model:
    """A model that asks for whatever the seed says."""

    name, states_cost = "simulated", True

    async def complete(self, request, emit):
        process = PROCESS.get()
        life, random = process.life, process.life.random
        _check_messages(life, request.messages)
        n = life.number()
        life.trace("asks", n, len(request.messages))
        await _take(process, random)
        if random.random() < life.chances.model_error:
            raise random.choice([Overloaded("busy"), ModelError("no")])
        if emit is not None:
            for piece in (f"said {n}", " and", " more"):
                emit(TextDelta(piece))
                await asyncio.sleep(random.expovariate(500))
        calls = _calls(life, random, request)
        usage = Usage(random.randrange(1, 1000), random.randrange(1, 100))
        content = (Text(f"said {n}"), *calls) if calls else f"said {n}"
        life.trace("says", n, [(call.name, call.id) for call in calls])
        return Reply(AssistantMessage(content), usage, cost=0.001)


def _check_messages(life, messages) -> None:
    """Every call has one answer, in order, and it is its own."""
    open_calls = []
    for message in messages:
        if isinstance(message, ToolMessage):
            call = open_calls.pop(0) if open_calls else None
            life.expect(call is not None and call.id == message.call_id, f"answer {message!r} to {call!r}")
            if call is not None and (done := DONE.fullmatch(message.text)) and call.name != "task":
                n = int(done[1])
                life.promises.relied_upon(n, done[0])
                life.expect(call.args.get("n") == n or life.edited.get(n) == call.args.get("n"), f"{call!r} got {n}")
        elif isinstance(message, AssistantMessage):
            life.expect(not open_calls, f"{open_calls} were not answered")
            open_calls = [] if isinstance(message.content, str) else list(message.calls)
        else:
            life.expect(not open_calls, f"{open_calls} were not answered before {message!r}")


def _calls(life, random, request):
    messages = list(request.messages)
    began = max((at for at, one in enumerate(messages) if isinstance(one, UserMessage)), default=0)
    rounds = sum(isinstance(one, AssistantMessage) for one in messages[began:])
    if life.calls_left <= 0 or rounds >= 3 or random.random() < 0.25 + 0.2 * rounds:
        return ()
    more = ("pay", "pay", "relay", "relay", "task") if life.mood == "asking" else ()
    names = [one for one in (*more, "work", "work", "pay", "note", "relay", "task", "nothing") if _has(request, one)]
    calls = []
    for _ in range(random.choice([1, 1, 2, 3])):
        life.calls_left -= 1
        name, n = random.choice(names), life.number()
        args = {"n": n}
        if name == "task":
            args = {"description": f"job {n}", "subagent_type": "helper"}
        calls.append(ToolCall(name, args, random.choice([f"c{n}", f"c{n}", "call_0", ""])))
    return tuple(calls)


def _has(request, name) -> bool:
    return name == "nothing" or any(one.name == name for one in request.tools)


async def _take(process, random) -> None:
    """Spend the time that work takes: little, or for ever."""
    chance = random.random()
    if chance < process.life.chances.hang:
        await asyncio.sleep(20.0)
    elif chance < 0.8:
        await asyncio.sleep(random.expovariate(100))
    else:
        await asyncio.sleep(random.expovariate(1))


async def _work(ctx: ToolContext, n: int, word: str) -> str:
    process = PROCESS.get()
    life, random = process.life, process.life.random
    life.promises.begins(process, ctx, n, word)
    life.trace("begins", word, n, ctx.path)
    life.done[n] = (ctx.thread_id, ctx.path, ctx.call_id)
    if random.random() < life.chances.dies_in_tool:
        life.calm = False
        process.fuse = random.randrange(0, 20)
    try:
        await _take(process, random)
    except asyncio.CancelledError:
        life.trace("is cancelled", word, n)
        if random.random() < life.chances.stubborn:
            await asyncio.sleep(random.expovariate(2))  # It does not leave at once.
            return f"{word} {n}"
        raise
    chance = random.random()
    if chance < life.chances.tool_error:
        raise random.choice([ToolError(f"cannot {n}"), ValueError(n), asyncio.CancelledError(), SystemExit(1)])
    life.trace("ends", word, n)
    return f"{word} {n}"


@tool
async def work(ctx: ToolContext, n: int) -> str:
    """Do some work."""
    return await _work(ctx, n, "worked")


@tool(timeout=10)
async def note(ctx: ToolContext, n: int) -> str:
    """Note something, in a task of its own."""
    text = await _work(ctx, n, "worked")
    ctx.record(Noted("sim", "notes", n, rule="append"))
    return text


@tool
async def pay(ctx: ToolContext, n: int) -> str:
    """Pay something, once a person allows it."""
    return await _work(ctx, n, "paid")


@tool
async def relay(ctx: ToolContext, n: int) -> str:
    """Have two others work, one after the other or side by side."""
    life = PROCESS.get().life
    life.promises.begins(PROCESS.get(), ctx, n, "relayed")
    if life.random.random() < life.chances.tool_error / 2:
        raise ToolError(f"cannot relay {n}")
    if n % 2:
        await ctx.run(relayed(), f"first of {n}", key="a")
        await ctx.run(relayed(), f"second of {n}", key="b")
    else:
        both = ctx.run(relayed(), f"first of {n}", key="a"), ctx.run(relayed(), f"second of {n}", key="b")
        await asyncio.gather(*both)
    return f"relayed {n}"


@cache
def relayed() -> Agent:
    return Agent(Model(), [work, pay], middleware=[AskFirst("pay")], name="relayed")


@cache
def spec(deep: bool):
    """The agent of a life: with everything that a deep agent has, or a bare one."""
    tools = [work, note, pay, relay]
    if not deep:
        return Agent(Model(), tools, middleware=[AskFirst("pay")]).spec
    inner = Subagent(name="helper", description="digs deeper")
    helper = Subagent(name="helper", description="helps", subagents=[inner])
    return create_deep_agent(Model(), tools, subagents=[helper], interrupt_on={"pay": True}).spec
