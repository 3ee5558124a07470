"""Agents that do what a plan says: notes run, payments wait for a person, and work goes to subagents.

One scripted model serves every agent. Its input is a plan as JSON: a list of rounds, each a list of calls.
"""

import json

from minideep import (
    Agent,
    Subagent,
    ToolCall,
    create_deep_agent,
    tool,
)
from minideep.models import ScriptedModel


def note(number):
    return ["note", {"n": number}, f"n{number}"]


def pay(number):
    return ["pay", {"n": number}, f"p{number}"]


def work(id, *rounds):
    """A call that hands *rounds* to a subagent."""
    return ["task", {"description": json.dumps(rounds), "subagent_type": "worker"}, id]


def plan(*rounds):
    return json.dumps(rounds)


def say(request):
    """Make the calls of the next round of the plan; after the last round return the results of all calls."""
    messages = list(request.messages)
    began = max(place for place, message in enumerate(messages) if message.role == "user")
    rounds, said = json.loads(messages[began].text), messages[began + 1 :]
    done = sum(message.role == "assistant" for message in said)
    if done < len(rounds):
        return [ToolCall(*call) for call in rounds[done]]
    return " ".join(f"[{message.text}]" for message in said if message.role == "tool") or "nothing"


class Office:
    """Agents that note and pay, on one store: one agent for all turns, or, if *anew*, another for each."""

    def __init__(self, store, anew=False, **more):
        self.store, self.anew = store, anew
        self.more = {
            "interrupt_on": {"pay": True},
            "subagents": [worker(subagents=[worker(subagents=[worker()])])],
            **more,
        }
        self.did = []
        self._agent = None

    @property
    def agent(self):
        if self.anew or self._agent is None:
            tools = [tool(self.note), tool(self.pay)]
            self._agent = create_deep_agent(ScriptedModel(say), tools, checkpointer=self.store, **self.more)
        return self._agent

    async def note(self, n: int) -> str:
        """Note a number."""
        self.did.append(f"note {n}")
        return f"noted {n}"

    async def pay(self, n: int) -> str:
        """Pay."""
        self.did.append(f"pay {n}")
        return f"paid {n}"

    async def run(self, *rounds):
        return await self.agent.run(plan(*rounds), "t")

    async def resume(self, decisions=None):
        return await self.agent.resume("t", decisions)

    def state(self):
        """Return the state of the thread as a new agent reads it."""
        return Agent(ScriptedModel([]), checkpointer=self.store).get_state("t", subagents=True)


def worker(**more):
    return Subagent(name="worker", description="works", **more)


def full(wait):
    return "/".join((*wait.path, wait.call_id))


def waiting(turn):
    return [full(wait) for wait in turn.interrupts]


def calls_of(rounds):
    """Every call of a plan, those of its subagents included."""
    for call in (call for step in rounds for call in step):
        yield call
        if call[0] == "task":
            yield from calls_of(json.loads(call[1]["description"]))


def edited(text, n):
    """Return the result of a call whose arguments a person changed."""
    return f'{text}\n[A person changed this call; its arguments were {{"n":{n}}}]'
