"""Workers that are killed again and again while they take the same inputs from a queue, each under its key.

Two workers at a time send every input of every thread in order, and a worker that is killed is replaced by one that
sends them all again: each input is delivered many times. In the end each thread must hold each input once and in
order, with the result that it must have; no call may run again once another one has followed it; and a call must have
had one idempotency key, which no other call had.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random

from harness.killing import Diary, Life, expect
from minideep import Agent, DiskCheckpointer, Limits, ToolCall, ToolContext, ToolMessage, tool
from minideep.models import ScriptedModel

THREADS = ("a", "b", "c")
INPUTS = 8
CALLS = 4


def inputs() -> Iterator[tuple[str, str]]:
    """Yield every input: its thread and its text, which is its key as well. Inputs of a thread come in order."""
    return ((thread, f"{thread}.{number}") for number in range(INPUTS) for thread in THREADS)


def agent(directory: str, diary: Diary) -> Agent:
    async def say(request):
        await asyncio.sleep(0.003)
        since = next(at for at, message in enumerate(reversed(request.messages)) if message.role == "user")
        done = sum(isinstance(message, ToolMessage) for message in request.messages[len(request.messages) - since :])
        text = request.messages[-1 - since].text
        return ToolCall("book", {"text": text, "part": done}) if done < CALLS else f"{text}: {done} booked"

    @tool
    async def book(text: str, part: int, ctx: ToolContext) -> str:
        """Book a part."""
        diary(f"{text} {part} {ctx.idempotency_key}")
        await asyncio.sleep(0.01)
        return "booked"

    # Two replies more than a turn needs: a budget that began anew in each process would never be reached.
    limits = Limits(steps=CALLS + 1 + 2)
    store = DiskCheckpointer(directory)
    return Agent(ScriptedModel(say), [book], checkpointer=store, durability="tool", limits=limits)


def work(directory: str, diary: Diary) -> None:
    """Send every input, and check what comes back."""
    worker = agent(directory, diary)

    async def main() -> None:
        for thread, text in inputs():
            turn = await worker.run(text, thread, key=text, wait=True)
            said = (turn.status, turn.text, turn.saved)
            expect(said == ("ended", f"{text}: {CALLS} booked", True), f"{text} came back as {said}")
            # A reply that was in flight at a kill is asked for again.
            expect(turn.costs.steps == CALLS + 1, f"{text} took {turn.costs.steps} steps")

    asyncio.run(main())


def campaign(kills: int, seed: int) -> None:
    """Kill *kills* workers, let two more come to the end, and examine what they leave.

    Raises:
        Violation: an input is lost, there twice or out of order, or a call was repeated that must not be.
    """
    random, told = Random(seed), list[str]()
    with tempfile.TemporaryDirectory() as directory:
        act = partial(work, directory)
        lives = [Life(act), Life(act)]
        for _ in range(kills):
            time.sleep(random.uniform(0.01, 0.12))
            dying = lives.pop(random.randrange(2))
            dying.kill()
            dying.end()
            told += dying.told
            lives.append(Life(act))
        for life in lives:
            expect(life.end(), "a worker that nobody killed was killed")
            told += life.told
        examine(directory)
    again = never_again(told, kills)
    print(f"seed {seed}: {kills} kills, {len(THREADS) * INPUTS} turns, {again} calls that were in flight ran again")


def examine(directory: str) -> None:
    """Check that each thread holds each input once and in order, answered."""
    with DiskCheckpointer(directory) as store:
        reader = Agent("offline:", checkpointer=store)
        for thread in THREADS:
            messages = reader.transcript(thread)
            said = [message.text for message in messages if message.role == "user"]
            expect(said == [f"{thread}.{number}" for number in range(INPUTS)], f"{thread} holds {said}")
            results = sum(isinstance(message, ToolMessage) for message in messages)
            expect(results == INPUTS * CALLS, f"{thread} holds {results} results")
        expect(not store.verify(), f"damaged: {store.verify()}")


def never_again(told: list[str], kills: int) -> int:
    """Check that only calls in flight were repeated, and that a key stood for one call; return how many were."""
    calls = [line.rsplit(" ", 1) for line in told]
    times = Counter(call for call, _ in calls)
    expect(len(times) == len(THREADS) * INPUTS * CALLS, f"{len(times)} calls ran")
    repeated = sum(count - 1 for count in times.values())
    # A worker has one thread at a time, and so one call in flight.
    expect(repeated <= kills, f"{repeated} calls ran again after {kills} kills")
    keys: dict[str, str] = {}
    for call, key in calls:
        expect(keys.setdefault(key, call) == call, f"{key} stood for {call} and for {keys[key]}")
    expect(len(keys) == len(times), f"{len(times)} calls had {len(keys)} idempotency keys")
    return repeated
