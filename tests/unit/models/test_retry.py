"""A model that is asked again: after which failures, how often, and what ends the waiting."""

import asyncio

import pytest
from harness.agents import cancelled

from minideep import (
    Agent,
    AuthenticationFailed,
    ConfigError,
    ContextOverflow,
    Limits,
    ModelError,
    Overloaded,
    RateLimited,
    create_deep_agent,
)
from minideep.events import Restarted, TextDelta
from minideep.models import RetryModel, ScriptedModel
from minideep.models.scripted import as_reply

SOON = {"initial_backoff": 0.001, "max_backoff": 0.001}


class Failing(ScriptedModel):
    """Sets an event at each failure."""

    def __init__(self, *outcomes):
        super().__init__(outcomes)
        self.failed = asyncio.Event()

    async def complete(self, request, emit):
        self.failed.set()
        return await super().complete(request, emit)


def lost():
    error = ModelError("the connection broke")
    error.transient = True
    return error


async def test_a_failure_that_may_pass_is_asked_again_and_leaves_nothing_behind(store):
    model = ScriptedModel([RateLimited("slow down"), Overloaded("busy"), lost(), ConnectionResetError(), "done"])
    agent = Agent(RetryModel(model, **SOON), checkpointer=store)
    turn = await agent.run("go", "t")
    assert (turn.text, turn.costs.steps, len(model.requests)) == ("done", 1, 5)
    assert [message.role for message in agent.transcript("t")] == ["user", "assistant"]


@pytest.mark.parametrize("error", [AuthenticationFailed("wrong key"), ContextOverflow("too long"), ValueError("a bug")])
async def test_another_failure_fails_at_once(error):
    model = ScriptedModel([error, "never asked"])
    assert (await Agent(RetryModel(model, **SOON)).run("go")).status == "failed"
    assert len(model.requests) == 1


async def test_after_the_last_retry_the_turn_fails_with_its_error():
    model = ScriptedModel([Overloaded(f"busy {n}") for n in range(9)])
    turn = await Agent(RetryModel(model, 2, **SOON)).run("go")
    assert (str(turn.error), turn.error.transient, len(model.requests)) == ("busy 2", True, 3)


async def test_a_wait_that_is_too_long_is_not_waited_for():
    error = RateLimited("slow down")
    error.retry_after = 3_600.0
    model = ScriptedModel([error, "never asked"])
    assert (await Agent(RetryModel(model, max_backoff=60.0)).run("go")).error.retry_after == 3_600.0
    assert len(model.requests) == 1


async def test_listeners_are_told_that_an_interrupted_reply_begins_again():
    async def answer(request, emit):
        emit(TextDelta("do" if model.asked == 1 else "done"))
        if model.asked == 1:
            raise lost()
        return as_reply("done")

    class Streaming:
        name = "streaming"
        asked = 0

        async def complete(self, request, emit):
            self.asked += 1
            return await answer(request, emit)

    model = Streaming()
    heard = [event async for event in Agent(RetryModel(model, **SOON)).stream("go")]
    kinds = [
        event.text if isinstance(event, TextDelta) else "restarted"
        for event in heard
        if isinstance(event, TextDelta | Restarted)
    ]
    assert kinds == ["do", "restarted", "done"]


async def test_a_cancel_ends_the_wait(store):
    model = Failing(Overloaded("busy"), "never asked")
    agent = Agent(RetryModel(model, initial_backoff=3_600, max_backoff=3_600), checkpointer=store)
    await cancelled(agent, model.failed)
    assert agent.get_state("t").status == "cancelled"
    assert len(model.requests) == 1


async def test_a_budget_of_seconds_ends_the_wait():
    model = ScriptedModel([Overloaded("busy"), "never asked"])
    agent = Agent(RetryModel(model, initial_backoff=3_600, max_backoff=3_600), limits=Limits(seconds=0.05))
    turn = await agent.run("go")
    assert (turn.status, turn.reason) == ("exhausted", "seconds")


async def test_subagents_and_the_summarizer_ask_it_too():
    model = RetryModel(ScriptedModel([Overloaded("busy"), "done"], window=1_000), **SOON)
    agent = create_deep_agent(model)
    assert (await agent.run("go")).text == "done"
    assert all(asked is model for asked in agent.spec.other_models)
    assert model.window == 1_000


@pytest.mark.parametrize("wrong", [{"model": 5}, {"retries": 0}, {"initial_backoff": 0}, {"max_backoff": -1}])
def test_wrong_arguments_are_refused(wrong):
    with pytest.raises(ConfigError):
        RetryModel(**{"model": "offline:", **wrong})
