"""A schedule of turns for a thread, and how its states are compared: compactions, files, subagents, questions, failures."""

import asyncio
import json
import time
from functools import partial

from harness.agents import ping, sub
from harness.stores import plain as plain_store
from minideep import (
    Interrupt,
    Middleware,
    ToolCall,
    ToolContext,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.checkpoint import open_store, rewriting
from minideep.checkpoint.replay import fill
from minideep.events import Compacted, Noted, TurnEscalated
from minideep.models import ScriptedModel
from minideep.ports import Retention
from minideep.runtime.sync import run_sync


@tool
async def ask_back(ctx: ToolContext) -> str:
    """Ask the person."""
    ctx.record(TurnEscalated(time.time(), "which?"))
    await asyncio.sleep(0)
    return "asked"


@tool
async def pay(ctx: ToolContext) -> str:
    """Pay."""
    ctx.record(Noted("ledger", "paid", ctx.call_id, "append"))
    return "paid"


@tool
async def fail() -> str:
    """Fail the turn."""
    return "never"


class Moods(Middleware):
    """Asks before `pay`, fails the turn at `fail`, and compacts when the text says so."""

    async def before_tool(self, ctx, call):
        if call.name == "fail":
            raise RuntimeError("broken")
        return Interrupt(call, "sure?") if call.name == "pay" and ctx.decision is None else call

    async def before_finish(self, ctx):
        if ctx.state.said.text in ("compact", "forgetful"):
            ctx.record(Compacted(UserMessage(f"so far {ctx.state.turn}"), len(ctx.state.messages) - 1))


def task(kind="helper"):
    return ToolCall("task", {"description": kind, "subagent_type": kind})


TURNS = {
    "plain": ["done"],
    "compact": [ToolCall("ping"), "compacted"],
    "files": [ToolCall("write_file", {"file_path": "/a", "content": "one " * 2000}),
              ToolCall("edit_file", {"file_path": "/a", "old_string": "one one", "new_string": "two", "replace_all": True}), "ok"],
    "large": [ToolCall("write_file", {"file_path": "/large", "content": "large " * 20_000}), "ok"],
    "todos": [ToolCall("write_todos", {"todos": [{"content": "a", "status": "completed"}]}), "ok"],
    "task": [[task(), ToolCall("ping", {"text": "x" * 300})], "ok"],
    "pay": [[ToolCall("pay"), ToolCall("ping")], "paid"],
    "payer": [[task("payer"), ToolCall("ping")], "paid"],
    "forgetful": [[task("forgetful"), ToolCall("ping")], "paid"],
    "ask": [[ToolCall("ask_back"), ToolCall("ping")]],
    "fail": [[ToolCall("fail")]],
}  # fmt: skip


def policy(request, turns):
    """The next reply of the turn that the last message of the person names."""
    said = max(n for n, message in enumerate(request.messages) if message.role == "user")
    name = request.messages[said].text
    if name.startswith("so far"):
        return "compacted"
    steps = turns.get(name, ["ok"])
    done = sum(message.role == "assistant" for message in request.messages[said:])
    return steps[done] if done < len(steps) else "ok"


def helper(request):
    return ToolCall("write_file", {"file_path": "/helped", "content": "h"}) if len(request.messages) == 1 else "helped"


def payer(request):
    return ToolCall("pay") if len(request.messages) == 1 else "paid"


def agent_on(store, tools=(ping, ask_back, pay, fail), turns=TURNS, **settings):
    """An agent that does what *turns* says for the name of a turn; *tools* may replace its own."""
    (paying,) = [one for one in tools if one.name == "pay"]
    payers = [sub(name, ScriptedModel(payer), tools=[paying], middleware=[Moods()]) for name in ("payer", "forgetful")]
    return create_deep_agent(
        ScriptedModel(partial(policy, turns=turns)), tools, subagents=[sub("helper", ScriptedModel(helper)), *payers], middleware=[Moods()],
        checkpointer=store, **settings,
    )  # fmt: skip


def whole(state, store):
    """A state with every content where it can be compared, and so its subagents."""
    for file in list(state.files):
        fill(open_store(store), state, file)
    for child in state.subagents.values():
        child.files = state.files
        whole(child, store)
    return json.loads(json.dumps(plain(state)))


def plain(state):
    files = {file: (str(entry.content), entry.sha256, entry.by) for file, entry in state.files.items()}
    rest = {name: str(getattr(state, name)) for name in state.__struct_fields__ if name not in ("files", "subagents")}
    return {**rest, "files": files, "subagents": {key: plain(child) for key, child in state.subagents.items()}}


def resumed(agent, thread, decisions):
    return run_sync(agent.resume(thread, decisions))


def number_in(key):
    """The number of the first event of a row."""
    return int(key.rpartition("/")[2].partition("-")[0])


def join_all(store, thread="t"):
    """Join whatever is there to join, base by base."""
    bases = {}
    for key in plain_store(store).keys("base/", "base0"):
        bases.setdefault(key.split("/")[2], []).append(number_in(key))
    groups = {}
    for key in plain_store(store).keys(f"log/{thread}/", f"log/{thread}0"):
        path, number = key.split("/")[2], number_in(key)
        groups.setdefault((path, sum(number > base for base in bases.get(path, ()))), []).append(key)
    return sum(merge(store, keys, thread) > 0 for keys in groups.values() if len(keys) > 1)


def merge(store, keys, thread="t"):
    """Merge the segments with these keys into one."""
    return rewriting.merge(open_store(store), thread, keys)


def cut(store, boundaries, thread="t"):
    """Keep only the last *boundaries* of a thread."""
    store.retention = Retention(boundaries=boundaries)
    rewriting.truncate(open_store(store), thread)
