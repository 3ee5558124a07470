"""Processes that run turns on the same threads while another one reads them.

A turn says a text of its own and is answered with a few KB, so that segments are merged meanwhile. A writer that does
not wait may get `ThreadBusy`; one that waits must get through. In the end each thread must hold exactly the turns that
were reported as saved, each once and whole; what is read meanwhile must only grow.
"""

import asyncio
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import count
from random import Random

from harness.killing import Diary, Life, asked, expect, filling
from harness.stores import plain
from minideep import (
    Agent,
    AssistantMessage,
    ConfigError,
    DiskCheckpointer,
    ThreadBusy,
    ThreadConflict,
    ToolCall,
    ToolMessage,
    UnknownThread,
    UserMessage,
    tool,
)
from minideep.checkpoint.layout import after, log_prefix
from minideep.checkpoint.merge_queue import MANY
from minideep.messages import Message
from minideep.models import ScriptedModel

PROCESSES = 4
SIZE = 12_000


def turn_of(text: str) -> list[Message]:
    """Return the messages of the whole turn that *text* begins."""
    call, result = ToolCall("look", {"name": text}, text), filling(text, SIZE)
    return [
        UserMessage(text),
        AssistantMessage((call,)),
        ToolMessage(result, text, "look"),
        AssistantMessage(f"saw {text}"),
    ]


def worker(directory: str) -> Agent:
    def say(request):
        text, replied = asked(request.messages)
        return f"saw {text}" if replied else ToolCall("look", {"name": text}, text)

    @tool
    async def look(name: str) -> str:
        return filling(name, SIZE)

    return Agent(ScriptedModel(say), [look], checkpointer=DiskCheckpointer(directory))


def write(directory: str, threads: Sequence[str], name: str, until: float, diary: Diary) -> None:
    """Run turns on every thread, side by side, and write the outcome of each to the diary."""
    agent, random = worker(directory), Random(name)

    async def hammer(thread: str) -> None:
        for number in count():
            text, wait, began = f"{thread}.{name}.{number}", random.random() < 0.1, time.monotonic()
            what = await outcome(thread, text, wait)
            diary(f"{what} {thread} {text} {time.monotonic() - began}")
            if time.time() > until:
                break

    async def outcome(thread: str, text: str, wait: bool) -> str:
        try:
            turn = await agent.run(text, thread, wait=wait)
        except (ThreadBusy, ThreadConflict) as exc:
            expect(not wait, f"a turn that waits was told {exc!r}")
            await asyncio.sleep(random.uniform(0, 0.01))
            return type(exc).__name__
        if isinstance(turn.error, ThreadConflict):
            return "ThreadConflict"
        expect((turn.status, turn.saved, turn.text) == ("ended", True, f"saw {text}"), f"{turn!r}: {turn.error!r}")
        return "waited" if wait else "saved"

    async def all_threads() -> None:
        await asyncio.gather(*(hammer(thread) for thread in threads))

    asyncio.run(all_threads())
    agent.checkpointer.close()


class Reader:
    """Reads some threads in every way there is, and checks that they are whole and only grow."""

    def __init__(self, agent: Agent, threads: Sequence[str]) -> None:
        self.agent, self.random = agent, Random(0)
        self.seen: dict[str, list[str]] = {thread: [] for thread in threads}

    def read(self, thread: str) -> None:
        known = self.seen[thread]
        way = self.random.choice((self.state, self.boundary, self.history, self.transcript))
        try:
            texts = way(thread)
        except UnknownThread:
            expect(not known, f"thread {thread!r} is gone")
            return
        shorter = min(len(known), len(texts))
        expect(texts[:shorter] == known[:shorter], f"thread {thread!r} was changed")
        expect(way == self.boundary or len(texts) >= len(known) - 1, f"thread {thread!r} has shrunk")
        self.seen[thread] = max(known, texts, key=len)

    def state(self, thread: str) -> list[str]:
        state = self.agent.get_state(thread)
        return whole(state.messages, state.status)

    def boundary(self, thread: str) -> list[str]:
        at = self.random.randint(1, max(1, len(self.seen[thread]) - 1))
        try:
            texts = whole(self.agent.get_state(thread, at=at).messages, "ended")
        except ConfigError:  # The first turn has not ended.
            return []
        expect(len(texts) == at, f"boundary {at} holds {len(texts)} turns")
        return texts

    def history(self, thread: str) -> list[str]:
        boundaries = self.agent.history(thread)
        expect([one.at for one in boundaries] == list(range(1, len(boundaries) + 1)), "boundaries are missing")
        return [one.said for one in boundaries]

    def transcript(self, thread: str) -> list[str]:
        said = self.agent.transcript(thread)
        return whole(said, "running" if said[-1].role == "user" else "ended")


def read(directory: str, threads: Sequence[str], until: float, diary: Diary) -> None:
    agent = worker(directory)
    reader = Reader(agent, threads)
    while time.time() < until:
        reader.read(reader.random.choice(threads))
        diary("read")
    agent.checkpointer.close()


def whole(messages: Sequence[Message], status: str) -> list[str]:
    """Return the texts of a thread's turns.

    Raises:
        Violation: one of them is not whole, and is not the last.
    """
    texts = [message.text for message in messages if isinstance(message, UserMessage)]
    said = [message for text in texts for message in turn_of(text)]
    torn = said != list(messages) if status == "ended" else said[:-3] != list(messages)
    expect(status in ("ended", "running") and not torn, f"a thread that is {status} is torn after {texts[-2:]}")
    return texts


def reported(lives: Sequence[Life]) -> list[tuple[str, str, str, float]]:
    """Return what the writers reported: the outcome, the thread, the text, and the seconds that it took."""
    # Side by side: a process whose pipe is full stands still, and with it the threads that it holds.
    with ThreadPoolExecutor(len(lives)) as pool:
        expect(all(pool.map(Life.end, lives)), "a process was killed")
    lines = (line.split(" ") for life in lives for line in life.told)
    return [(what, thread, text, float(seconds)) for what, thread, text, seconds in lines]


def hammer(threads: Sequence[str], seconds: float) -> str:
    """Run the writers and the reader on *threads*; return a line of counts."""
    with tempfile.TemporaryDirectory() as directory:
        until = time.time() + seconds
        reader = Life(partial(read, directory, threads, until))
        writers = [Life(partial(write, directory, threads, str(name), until)) for name in range(PROCESSES)]
        outcomes = reported(writers)
        expect(reader.end(), "the reader was killed")
        with DiskCheckpointer(directory) as store:
            segments = [
                len(plain(store).keys(log_prefix(thread, ()), after(log_prefix(thread, ())))) for thread in threads
            ]
            for thread in threads:
                texts = whole(Agent("offline:", checkpointer=store).get_state(thread).messages, "ended")
                saved = Counter(
                    text for what, name, text, _ in outcomes if name == thread and what in ("saved", "waited")
                )
                expect(Counter(texts) == saved, f"thread {thread!r} holds other turns than those that were saved")
    tally = Counter(outcome[0] for outcome in outcomes)
    longest = max((seconds for what, _, _, seconds in outcomes if what == "waited"), default=0)
    turns = tally["saved"] + tally["waited"]
    expect(sum(segments) <= turns, "the input of a turn was left in a segment of its own")
    if turns > 2 * MANY * len(threads):  # A slow machine may not come to it.
        expect(sum(segments) < turns, "nothing was merged")
    columns = ("saved", "waited", "ThreadBusy", "ThreadConflict")
    counted = "".join(f"{tally[what]:16}" for what in columns)
    return f"{len(threads):7}{counted}{longest:14.2f} s{2 * turns:10}{sum(segments):10}{len(reader.told):8}"


def campaign(seconds: float) -> None:
    """Hammer one thread for half of *seconds*, then four for the other half. Prints a line of counts for each.

    Raises:
        Violation: a turn is lost, torn, or there twice.
    """
    names = ("saved at once", "after a wait", "ThreadBusy", "ThreadConflict", "longest wait")
    print(f"threads{''.join(f'{name:>16}' for name in names)}   appends  segments   reads")
    for threads in (["a"], ["a", "b", "c", "d"]):
        print(hammer(threads, seconds / 2), flush=True)
