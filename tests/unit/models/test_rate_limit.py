"""A limit on concurrent requests: who may ask, who waits, and what a rate limit does to all of them."""

import asyncio
import copy

import pytest
from harness.providers import Provider
from harness.wires import claude, connected, ls, reply

from minideep import Agent, ConfigError, Limits, Overloaded, RateLimited, Subagent, ToolCall, create_deep_agent
from minideep.events import Restarted, TextDelta
from minideep.models import FallbackModel, Profile, RateLimiter, ScriptedModel
from minideep.models.rate_limit import MAX_ATTEMPTS, _Queue
from minideep.models.scripted import as_reply
from minideep.ports import Request

SLOW = RateLimited("slow down")


class Counter:
    """A model that is busy until it is let go on, and knows who asks it."""

    name = "counter"

    def __init__(self, *errors):
        self.errors = list(errors)
        self.asked, self.now, self.most = [], 0, 0
        self.go_on = asyncio.Event()

    async def complete(self, request, emit):
        self.asked.append(request.system)
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.go_on.wait()
            if self.errors and (error := self.errors.pop(0)):
                raise error
            return as_reply(f"to {request.system}")
        finally:
            self.now -= 1


def ask(limiter, who):
    return asyncio.ensure_future(limiter.complete(Request(str(who), ()), None))


async def rest():
    """Let everybody go as far as they can."""
    for _ in range(20):
        await asyncio.sleep(0)


def limiter_of(model, max_concurrency=8, **more):
    return RateLimiter(model, max_concurrency, **({"initial_backoff": 0.001, "max_backoff": 0.004} | more))


# ---- so many at once, in their order


async def test_only_so_many_requests_are_under_way_and_all_are_answered_in_the_order_in_which_they_came():
    model = Counter()
    limiter = limiter_of(model, 3)
    asked = [ask(limiter, n) for n in range(10)]
    await rest()
    assert (model.asked, model.now) == (["0", "1", "2"], 3)
    model.go_on.set()
    replies = await asyncio.gather(*asked)
    assert [reply.message.text for reply in replies] == [f"to {n}" for n in range(10)]
    assert (model.asked, model.most) == ([str(n) for n in range(10)], 3)


async def test_who_is_cancelled_leaves_no_slot_behind():
    """While it asks, while it waits, and in the moment in which it is let in."""
    model = Counter()
    limiter = limiter_of(model, 1)
    asks, waits, comes, stays = (ask(limiter, who) for who in ("asks", "waits", "comes", "stays"))
    await rest()
    waits.cancel()
    asks.cancel()
    await asyncio.sleep(0)  # Now "comes" is let in, and does not know it yet.
    assert (asks.done(), model.asked, comes.cancel()) == (True, ["asks"], True)
    model.go_on.set()
    assert (await stays).message.text == "to stays"
    assert (model.asked, model.now) == (["asks", "stays"], 0)
    assert (await ask(limiter, "later")).message.text == "to later"


async def test_a_request_that_fails_otherwise_is_not_asked_again_and_leaves_its_slot():
    model = ScriptedModel([Overloaded("busy"), "done"])
    limiter = limiter_of(model, 1)
    with pytest.raises(Overloaded):
        await ask(limiter, "a")
    assert (await ask(limiter, "b")).message.text == "done"


# ---- a rate limit


async def test_a_rate_limit_makes_new_requests_wait_and_the_limited_one_is_asked_again_first():
    model = Counter(SLOW)
    limiter = limiter_of(model, 1, initial_backoff=0.02)
    model.go_on.set()
    first = ask(limiter, "first")
    await rest()
    second, third = ask(limiter, "second"), ask(limiter, "third")
    await rest()
    assert model.asked == ["first"]
    assert [task.done() for task in (first, second, third)] == [False] * 3
    await asyncio.gather(first, second, third)
    assert model.asked == ["first", "first", "second", "third"]


async def test_a_request_that_is_limited_each_time_fails_as_it_was_and_leaves_its_slot():
    model = ScriptedModel([*[RateLimited(f"slow down {n}") for n in range(MAX_ATTEMPTS)], "done"])
    limiter = limiter_of(model, 1)
    turn = await Agent(limiter).run("go")
    assert (turn.status, turn.reason, str(turn.error)) == ("failed", "RateLimited", f"slow down {MAX_ATTEMPTS - 1}")
    assert (await Agent(limiter).run("go")).text == "done"


async def test_a_burst_that_is_limited_as_a_whole_is_answered_as_a_whole():
    model = Counter(*[SLOW] * 6)
    limiter = limiter_of(model, 6)
    asked = [ask(limiter, n) for n in range(6)]
    await rest()
    model.go_on.set()
    await asyncio.gather(*asked)
    assert len(model.asked) == 12


class Clock:
    """An event loop whose time is ours."""

    def __init__(self):
        self.at, self.later, self.waits = 100.0, None, []

    def time(self):
        return self.at

    def call_at(self, moment, act):
        self.waits.append(moment - self.at)
        self.later = moment, act
        return self

    def cancel(self):
        self.later = None

    def create_future(self):
        return asyncio.get_running_loop().create_future()

    def wait(self):
        self.at, act = self.later
        act()


async def test_waits_grow_as_long_as_one_limit_follows_soon_on_the_other():
    clock = Clock()
    queue = _Queue(clock, 1, 1.0, 5.0)
    for quiet in (0, 0.9, 0, 3, 0, 5.1, 1.1):
        clock.at += quiet
        asked = clock.at
        await queue.enter(queue.ticket())
        clock.at += 10  # The SDK's own retries.
        queue.back_off(asked, 0.0)
        queue.back_off(asked, 0.0)  # Of the same burst.
        queue.leave()
        clock.wait()
    most = [1, 2, 4, 5, 5, 1, 1]
    assert len(clock.waits) == len(most)
    assert all(most / 2 <= seconds <= most for seconds, most in zip(clock.waits, most, strict=True))


async def test_a_wait_is_as_long_as_the_longest_that_is_asked_for_in_a_burst():
    clock = Clock()
    queue = _Queue(clock, 4, 1.0, 60.0)
    for _ in range(4):
        await queue.enter(queue.ticket())
    for asked in (20.0, 5.0, 59.0, 3600.0):
        clock.at += 1
        queue.back_off(100.0, asked)
        queue.leave()
    assert clock.waits == [20.0, 59.0]  # The last one fails, and holds up nobody.
    waiting = asyncio.ensure_future(queue.enter(queue.ticket()))
    await rest()
    assert not waiting.done()
    clock.wait()
    await waiting
    assert clock.at == 162.0


async def test_a_request_whose_provider_asks_to_wait_too_long_fails_at_once_and_says_so():
    limit = claude.refusal(429, "rate_limit_error", "slow down", retry_after="3600")
    with Provider(limit, reply("anthropic", text="done")) as provider:
        async with connected("anthropic", provider.url) as model:
            limiter = RateLimiter(model, initial_backoff=0.001)
            turn = await Agent(limiter).run("go")
            assert (await Agent(limiter).run("go")).text == "done"
    assert (turn.status, turn.error.retry_after, turn.error.transient) == ("failed", 3600.0, True)
    assert str(turn.error) == "claude-x: 429 rate_limit_error: slow down; it asks to wait 3,600 s"


async def test_a_wait_that_the_provider_asks_for_ends_with_the_seconds_of_the_run():
    limited = RateLimited("slow down")
    limited.retry_after = 50.0
    model = ScriptedModel([limited, "not asked"])
    turn = await asyncio.wait_for(Agent(RateLimiter(model), limits=Limits(seconds=0.05)).run("go"), 10)
    assert (turn.status, turn.reason, len(model.requests)) == ("exhausted", "seconds", 1)


async def test_the_next_model_answers_where_a_provider_asks_to_wait_too_long():
    limited = RateLimited("slow down")
    limited.retry_after = 3600.0
    model = ScriptedModel([limited, "not asked"])
    assert (await Agent(FallbackModel([RateLimiter(model), ScriptedModel(["spare"])])).run("go")).text == "spare"
    assert len(model.requests) == 1


# ---- what it is as a model


def test_one_limiter_serves_one_event_loop_after_the_other():
    limiter = limiter_of(ScriptedModel([SLOW, "one", SLOW, "two", SLOW, "three", SLOW, "four"]), 1)
    agent = Agent(limiter)

    async def left_while_waiting():
        waiting = [ask(limiter, n) for n in range(3)]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()

    said = [asyncio.run(agent.run("go")).text, agent.run_sync("go").text, asyncio.run(agent.run("go")).text]
    asyncio.run(left_while_waiting())
    assert (said, asyncio.run(agent.run("go")).text, len(limiter._queues._values)) == (
        ["one", "two", "three"],
        "four",
        2,
    )


def test_it_is_otherwise_the_model_itself():
    model = ScriptedModel(["hi"])
    limiter = RateLimiter(model)
    model.window, model.free, model.profile = 7, True, Profile("Be brief.")
    assert (limiter.name, limiter.window, limiter.free, limiter.states_cost) == ("scripted", 7, True, True)
    assert (limiter.profile, limiter.model) == (model.profile, model)
    assert copy.copy(limiter).model is model
    assert RateLimiter("openai:gpt-x").name == "gpt-x"


async def test_it_preloads_its_model_if_that_can_be_preloaded():
    class Cold(ScriptedModel):
        preloaded = False

        async def preload(self):
            self.preloaded = True

    cold = Cold([])
    await Agent(RateLimiter(cold)).preload()
    await Agent(RateLimiter(ScriptedModel([]))).preload()
    assert cold.preloaded


def test_what_its_model_does_not_state_is_unknown():
    class Bare:
        name = "bare"

        async def complete(self, request, emit):
            raise NotImplementedError

    limiter = RateLimiter(Bare())
    assert (limiter.window, limiter.states_cost, limiter.free, limiter.profile) == (None, False, False, None)


@pytest.mark.parametrize("max_concurrency", [0, -1, 1.5, True, None])
def test_how_many_may_ask_at_once_is_a_whole_number(max_concurrency):
    with pytest.raises(ConfigError, match="max_concurrency must be a whole number above 0"):
        RateLimiter("offline:", max_concurrency)


async def test_agents_and_subagents_share_it_and_who_waits_for_a_subagent_holds_no_slot():
    calls = [ToolCall("task", {"description": f"d{n}", "subagent_type": "reader"}) for n in range(4)]
    model = Parallel(calls)
    reader = Subagent(name="reader", description="reads", system_prompt="read")
    turn = await create_deep_agent(limiter_of(model, 2), subagents=[reader]).run("go")
    assert (turn.text, model.most, model.asked) == ("done", 2, 6)


class Parallel:
    """The parent delegates four times at once; each child's request takes a while."""

    name = "parallel"

    def __init__(self, calls):
        self.calls, self.asked, self.now, self.most = calls, 0, 0, 0

    async def complete(self, request, emit):
        self.asked += 1
        self.now += 1
        self.most = max(self.most, self.now)
        await rest()
        self.now -= 1
        if len(request.messages) > 1:
            return as_reply("done")
        return as_reply(self.calls if request.messages[0].text == "go" else "read")


async def test_behind_it_stands_a_fallback_and_before_it_too():
    spare = ScriptedModel(["spare"] * 2)
    limited = [RateLimited("slow")] * (MAX_ATTEMPTS + 1)
    before = FallbackModel([limiter_of(ScriptedModel(limited[:MAX_ATTEMPTS])), spare])
    behind = limiter_of(FallbackModel([ScriptedModel(limited[:1]), spare]))
    assert [(await Agent(model).run("go")).text for model in (before, behind)] == ["spare", "spare"]


# ---- over the real SDK


async def test_a_provider_that_limits_a_burst_is_asked_again_and_every_agent_ends():
    limits = [claude.refusal(429, "rate_limit_error", "slow down")] * 3
    with Provider(*limits, *[reply("anthropic", text="done")] * 4) as provider:
        async with connected("anthropic", provider.url) as model:
            limiter = limiter_of(model, 4)
            turns = await asyncio.gather(*(Agent(limiter).run("go") for _ in range(4)))
    assert ([turn.text for turn in turns], len(provider.bodies)) == (["done"] * 4, 7)


async def test_what_was_told_of_a_reply_that_a_limit_cut_off_is_taken_back():
    cut_off = claude.broken_off("rate_limit_error", "slow down")
    with Provider(cut_off, reply("anthropic", ("a", {"path": "/"}), stream=True), cut_off,
                  reply("anthropic", text="whole", stream=True)) as provider:  # fmt: skip
        async with connected("anthropic", provider.url) as model:
            stream = Agent(limiter_of(model), [ls]).stream("go")
            events = [event async for event in stream]
    kinds = [type(event) for event in events]
    after = events[len(kinds) - kinds[::-1].index(Restarted) :]
    assert kinds.count(Restarted) == 2
    assert "".join(event.text for event in after if isinstance(event, TextDelta)) == "whole"
    assert (stream.turn.text, len(provider.bodies)) == ("whole", 4)
