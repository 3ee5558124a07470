"""The middleware for users, all of it in one agent: followed, run again, gone on with elsewhere; and at no cost unused."""

import json
import subprocess
import sys

import pytest
from harness.agents import answers, sub, task, texts
from harness.stores import copy_of

from minideep import Agent, MemoryCheckpointer, Tool, ToolCall, Usage, create_deep_agent
from minideep.events import TextDelta
from minideep.middleware import ClearToolResults, Rubric, ToolCallLimits, ToolResultCache, ToolRetry, ToolSelector
from minideep.middleware.context.clearing import CLEARED
from minideep.models import RedactPII, RetryModel, ScriptedModel
from minideep.models.scripted import as_reply
from minideep.ports import Reply
from minideep.testing import recorded

NAMED = ["look", "task", "write_todos", "read_file", "write_file"]


def looks(*about):
    return [ToolCall("look", {"about": what}) for what in about]


def script():
    """What the main agent says: it looks at much, delegates, and writes a reply that is too long at first."""
    return [looks("a", "b"), looks("b", "c"), task("helper"), looks("d", "e", "f"), "much too long", "short"]


class Company:
    """A deep agent with all of the middleware, its models, and what its tool was asked for."""

    def __init__(self, store, main=None, grades=(False, True)):
        self.seen = []
        lost = iter([True])

        async def look(about: str) -> str:
            """Look."""
            self.seen.append(about)
            if next(lost, False):
                raise ConnectionError("reset")
            return f"{about}: ada@example.com {'x' * 3_000}"

        listed = [[{"number": 1, "reason": "it is long", "met": met}] for met in grades]
        self.grader = ScriptedModel([self.reply(json.dumps({"criteria": one}), 50) for one in listed])
        self.small = ScriptedModel([self.reply(json.dumps({"tools": ["spare0"]}), 20) for _ in range(4)])
        self.child = ScriptedModel([self.reply(said, 10) for said in (looks("a", "g", "h", "i", "j"), "found")])
        self.main = ScriptedModel([self.reply(said, 10) for said in (script() if main is None else main)])
        spare = [Tool(look, name=f"spare{n}") for n in range(6)]
        middleware = [
            ClearToolResults(above=3_000, keep=1),
            ToolCallLimits({"look": 6}),
            ToolResultCache(["look"]),
            ToolRetry(["look"], initial_backoff=0.001, max_backoff=0.001),
            ToolSelector(self.small, keep=1, always=NAMED),
            Rubric(["It is short."], self.grader),
        ]
        self.agent = create_deep_agent(
            RedactPII(RetryModel(self.main)),
            [Tool(look), *spare],
            subagents=[sub("helper", RedactPII(self.child))],
            middleware=middleware,
            checkpointer=store,
            durability="step",
        )

    @staticmethod
    def reply(said, tokens):
        return Reply(as_reply(said).message, Usage(tokens, 1), cost=0.5)


async def test_all_of_them_work_together_and_what_is_heard_is_what_is_recorded(store):
    company = Company(store)
    stream = company.agent.stream("go", "t")
    heard = [event async for event in stream]
    turn = stream.turn
    assert (turn.status, turn.text) == ("ended", "short"), turn.error
    # The first one is tried again. The second `b` is in the cache, and the helper may look six times as well.
    assert sorted(company.seen) == sorted(["a", *"abcde", *"aghij"])
    assert [answer[:3] for answer in answers(turn)] == ["a: ", "b: ", "b: ", "c: ", "fou", "d: ", "e: ", "not"]
    assert "It is short.: it is long" in turn.messages[-2].text
    assert [len(request.tools) for request in company.main.requests] == [6] * 6
    assert CLEARED in repr(company.main.requests[-1].messages)
    assert "ada@" not in repr(company.main.requests + company.child.requests)
    assert "ada@" in repr(turn.messages)
    # 6 replies, 2 grades, 2 selections, and 2 replies of the helper.
    assert turn.usage.input == 6 * 10 + 2 * 50 + 2 * 20 + 2 * 10
    assert turn.costs.money == 12 * 0.5
    assert not [event for event in heard if isinstance(event, TextDelta) and "criteria" in event.text]


async def test_it_is_run_again_exactly_without_asking_anybody(store):
    company = Company(store)
    await company.agent.run("go", "t")
    again = Company(None, main=[])
    replay = await recorded(store, "t").run(again.agent)
    assert replay.differences == []
    assert not again.seen
    assert not again.grader.requests + again.small.requests + again.main.requests
    before, after = company.agent.get_state("t"), replay.agent.get_state(replay.turn.thread_id)
    assert (before.notes, before.usage, before.cost) == (after.notes, after.usage, after.cost)


async def test_a_process_that_is_killed_anywhere_is_gone_on_with_to_the_same_end():
    store, left = MemoryCheckpointer(), []
    company = Company(store)

    class Watched(ScriptedModel):
        async def complete(self, request, emit):
            left.append(copy_of(store))
            return await super().complete(request, emit)

    company = Company(store)
    watched = Watched([company.reply(said, 10) for said in script()])
    company.main.complete = watched.complete
    assert (await company.agent.run("go", "t")).status == "ended"
    whole = company.agent.get_state("t")
    for at, copy in enumerate(left):
        later = Company(copy, main=script()[at:], grades=(False, True) if at < 5 else (True,))
        turn = await later.agent.resume("t")
        assert (turn.status, turn.text) == ("ended", "short"), (at, turn.error)
        state = later.agent.get_state("t")
        assert state.notes["ToolCallLimits"] == whole.notes["ToolCallLimits"]
        assert state.notes["Rubric"]["grade"]["unmet"] == {}
        assert len(later.small.requests) <= 2
        # Ids of calls are made of the numbers of events, of which a resumed turn has one more.
        shown = [texts(request.messages) for request in later.main.requests]
        assert shown == [texts(request.messages) for request in watched.requests[at:]]


@pytest.mark.parametrize("make", ["Agent('offline:')", "create_deep_agent('offline:', skills=['s'])"])
def test_who_uses_none_of_it_loads_none_of_it(make):
    code = f"""
import minideep, sys
minideep.{make}.run_sync("hello")
unused = "clearing call_limits tool_retry result_cache tool_selector rubric redact_pii retry asking backoff".split()
print([name for name in unused if any(module.endswith("." + name) for module in sys.modules if "minideep" in module)])
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[]\n"


def test_a_bare_agent_has_none_of_their_hooks():
    spec = Agent("offline:").spec
    hooks = (spec.before_model, spec.wrap_model, spec.tool_hooks, spec.wrap_tool, spec.before_finish)
    assert not any(hooks)
