"""What middleware knows of a thread from earlier turns: it saves work, and never changes what a model is shown."""

import gc
from random import Random
from weakref import ref

import pytest
from harness.calls import calls_of
from msgspec import structs

from minideep import Agent, MemoryCheckpointer, Middleware, ToolCall, Usage, UserMessage, create_deep_agent
from minideep.backends import StateBackend
from minideep.errors import ModelError
from minideep.messages import AssistantMessage, Messages
from minideep.middleware import OffloadMiddleware, SummarizationMiddleware
from minideep.middleware.known import Known
from minideep.models import ScriptedModel
from minideep.ports import Reply
from minideep.testing import tool_context


async def test_a_late_turn_of_a_default_agent_calls_no_more_functions_than_an_early_one(store):
    agent, spent = create_deep_agent(ScriptedModel(lambda request: "So it is."), checkpointer=store), {}
    for number in range(1, 802):
        turn = agent.run(f"Is it so, for the time {number}?", "t")
        if number in (20, 200, 800):
            spent[number] = await calls_of(turn)
        else:
            await turn
    assert max(spent[200], spent[800]) <= 1.3 * spent[20], spent


def words(random, count):
    return " ".join(str(random.randrange(10**6)) for _ in range(count))


class Life:
    """A thread of many turns with large messages, files that come and go, failures and compactions."""

    def __init__(self, seed):
        self.random, self.model, self.said = Random(seed), ScriptedModel(self.answer), False
        self.store, self.files = MemoryCheckpointer(), []

    def agent(self):
        files = StateBackend()
        middleware = [
            OffloadMiddleware(files, message_tokens=900),
            SummarizationMiddleware(self.model, files, trigger=12_000, keep=3),
        ]
        return create_deep_agent(self.model, middleware=middleware, checkpointer=self.store)

    def answer(self, request):
        random, first = self.random, type(request.messages[-1]) is UserMessage
        if not request.tools:  # A summary.
            return "A summary of it."
        if random.random() < 0.1:
            return ModelError("broken")
        if first and random.random() < 0.5:
            return random.choice(self.calls())
        usage = Usage(sum(len(message.text) for message in request.messages) // 3, 5)
        return Reply(AssistantMessage("Done."), usage)

    def calls(self):
        place = f"/conversation_history/{self.random.randrange(3)}.md"
        return [
            ToolCall("delete", {"file_path": "/conversation_history"}),
            ToolCall("write_file", {"file_path": place, "content": words(self.random, 900)}),
            ToolCall("compact_conversation"),
            ToolCall("ls", {"path": "/"}),
        ]

    async def live(self, turns, agents):
        for _ in range(turns):
            size = self.random.choice([5, 5, 5, 100, 350, 600, 1500])
            await (agent := next(agents)).run(words(self.random, size), "t")
            self.files.append(sorted(agent.get_state("t").files))
        return [(request.system, list(request.messages)) for request in self.model.requests]


def always(thing):
    while True:
        yield thing


@pytest.mark.parametrize("seed", range(6))
async def test_an_agent_that_remembers_shows_its_model_what_a_new_one_would(seed):
    one, other = Life(seed), Life(seed)
    shown = await one.live(40, always(one.agent()))
    assert shown == await other.live(40, (other.agent() for _ in range(40)))
    assert one.files == other.files
    assert any("too large to be shown" in message.text for _, messages in shown for message in messages)


async def test_a_thread_that_another_agent_has_continued_is_looked_at_anew():
    store, model = MemoryCheckpointer(), ScriptedModel(lambda request: "Yes.")
    one, other = (create_deep_agent(model, checkpointer=store) for _ in range(2))
    for agent in (one, other, one, one, other, one):
        await agent.run("Is it so?", "t")
    assert [len(request.messages) for request in model.requests] == [1, 3, 5, 7, 9, 11]


class Louder(Middleware):
    """Shows what a person said in capitals, from a moment on."""

    loud = False

    async def before_model(self, ctx, request):
        if not self.loud:
            return request
        said = (structs.replace(message, content=message.text.upper()) for message in request.messages)
        return structs.replace(request, messages=Messages(list(said)))


async def test_a_hook_that_shows_old_messages_otherwise_is_heeded_in_the_next_turn():
    model, louder, files = ScriptedModel(lambda request: "yes"), Louder(), StateBackend()
    middleware = [
        louder,
        OffloadMiddleware(files, message_tokens=900),
        SummarizationMiddleware(model, files, trigger=9_000),
    ]
    agent = Agent(model, middleware=middleware)
    for said, louder.loud in [(words(Random(1), 900), False), ("a", False), ("b", True), ("c", False)]:
        await agent.run(said, "t")
    shown = [[message.text for message in request.messages][1:] for request in model.requests]
    assert shown == [[], ["yes", "a"], ["YES", "A", "YES", "B"], ["yes", "a", "yes", "b", "yes", "c"]]


class Found:
    """What a middleware may know."""


def test_what_is_known_goes_with_the_state_and_a_turn_gets_what_the_one_before_had():
    known, made = Known(lambda before: made.append(before) or Found()), []
    ctx = tool_context()
    first = known.of(ctx)
    assert known.of(ctx) is first
    ctx.scratch.clear()  # The next turn.
    second = known.of(ctx)
    assert made == [None, first]
    seen = ref(second)
    del ctx, first, second
    made.clear()
    gc.collect()
    assert seen() is None
