"""A worker that may be killed at any moment, and what must be true of the thread that it leaves.

The worker drives one thread through a plan. The plan fixes every reply, with parallel calls and subagents, so each thread
can be compared with one that was never disturbed. The worker writes a line to its diary, a pipe to the process that kills
it, before and after everything it does.
"""

import asyncio
import faulthandler
import os
import signal
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random

from msgspec import Struct, field

from harness.middleware import AskFirst
from minideep import (
    Agent,
    Approve,
    AssistantMessage,
    DiskCheckpointer,
    MemoryCheckpointer,
    State,
    Subagent,
    ToolCall,
    ToolMessage,
    Turn,
    UnknownThread,
    UserMessage,
    create_deep_agent,
    tool,
)
from minideep.checkpoint import open_store
from minideep.checkpoint.boundaries import runs_at
from minideep.checkpoint.layout import JUMP
from minideep.checkpoint.log import Log
from minideep.checkpoint.replay import read_consistently, segments
from minideep.models import ScriptedModel
from minideep.ports import Store
from minideep.runtime.calls import CUT_SHORT

THREAD = "t"
Path = tuple[str, ...]
Diary = Callable[[str], None]
Plan = dict[str, list[list[ToolCall] | str]]
"""The replies of the model, by the input of the run and the number of the reply."""


class Violation(Exception):
    """A promise that the stored thread breaks."""


def expect(true: object, what: str) -> None:
    if not true:
        raise Violation(what)


# ---- plans


def filling(name: str, size: int) -> str:
    """Return a text of *size* characters that differs from that of any other name."""
    return Random(name).randbytes(size // 2).hex()


def work(name: str, size: tuple[int, int] = (20_000, 60_000)) -> ToolCall:
    return ToolCall("work", {"name": name, "size": Random(name).randrange(*size)}, name)


def pay(name: str) -> ToolCall:
    return ToolCall("pay", {"name": name}, name)


def task(name: str, kind: str = "helper") -> ToolCall:
    return ToolCall("task", {"description": f"job {name}", "subagent_type": kind}, name)


def write(name: str, size: int) -> ToolCall:
    return ToolCall("write_file", {"file_path": f"/{name}", "content": filling(name, size)}, name)


def turns(count: int) -> Plan:
    """A plan of turns of a few hundred KB with parallel calls, subagents, and files small and large."""
    plan: Plan = {}
    for turn in range(1, count + 1):
        n = str(turn)
        deeper = [[task(f"{n}d.t", "inner"), work(f"{n}d.u")]] if turn % 2 else []
        plan[f"turn {n}"] = [
            [work(f"{n}a")],
            [work(f"{n}b"), task(f"{n}d"), work(f"{n}c")],
            [write(f"{n}f", 1000 if turn % 2 else 220_000), work(f"{n}e")],
            f"turn {n} is done",
        ]
        plan[f"job {n}d"] = [[work(f"{n}d.a"), work(f"{n}d.b")], *deeper, [work(f"{n}d.c")], f"job {n}d is done"]
        plan[f"job {n}d.t"] = [[work(f"{n}d.t.a")], f"job {n}d.t is done"]
    return plan


def payments(count: int) -> Plan:
    """A plan of turns in which calls on every level wait for a person."""
    plan: Plan = {}
    for turn in range(1, count + 1):
        n = str(turn)
        plan[f"turn {n}"] = [
            [work(f"{n}a"), pay(f"{n}.pay")],
            [task(f"{n}d"), pay(f"{n}.pay too"), task(f"{n}e")],
            f"turn {n} is done",
        ]
        plan[f"job {n}d"] = [[pay(f"{n}d.pay"), work(f"{n}d.a"), pay(f"{n}d.pay too")], f"job {n}d is done"]
        plan[f"job {n}e"] = [[task(f"{n}e.t", "inner")], f"job {n}e is done"]
        plan[f"job {n}e.t"] = [[work(f"{n}e.t.a"), pay(f"{n}e.t.pay")], f"job {n}e.t is done"]
    return plan


def pauses() -> Plan:
    """A plan of a short thread with parallel pauses on two levels, and a run with enough segments for a merge."""
    small = (20, 60)
    steps = [[work(f"d.{step}", small)] for step in "bcd"]
    return {
        "turn 1": [[task("d"), pay("pay"), task("e")], "turn 1 is done"],
        "job d": [[pay("d.pay"), work("d.a", small)], *steps, "job d is done"],
        "job e": [[task("e.t", "inner")], "job e is done"],
        "job e.t": [[pay("e.t.pay")], "job e.t is done"],
        "turn 2": [[work("2a", small)], "turn 2 is done"],
    }


# ---- the worker


def asked(messages: Sequence[object]) -> tuple[str, int]:
    """Return the last input in *messages* and the number of replies to it."""
    last = max(place for place, message in enumerate(messages) if isinstance(message, UserMessage))
    return messages[last].text, sum(isinstance(message, AssistantMessage) for message in messages[last:])


def worker(plan: Plan, store: Store, diary: Diary, durability: str, pause: Callable[[], float]) -> Agent:
    async def did(what: str, name: str) -> None:
        diary(f"{what}+ {name}")
        await asyncio.sleep(pause())
        diary(f"{what}- {name}")

    async def say(request):
        text, count = asked(request.messages)
        await did("model", f"{text}#{count}")
        return plan[text][count]

    @tool
    async def work(name: str, size: int) -> str:
        await did("tool", name)
        return filling(name, size)

    @tool
    async def pay(name: str) -> str:
        await did("tool", name)
        return f"paid {name}"

    inner = Subagent(name="inner", description="digs deeper", middleware=[AskFirst("pay")])
    helper = Subagent(name="helper", description="helps", middleware=[AskFirst("pay")], subagents=[inner])
    return create_deep_agent(
        ScriptedModel(say),
        [work, pay],
        subagents=[helper, inner],
        middleware=[AskFirst("pay")],
        checkpointer=store,
        durability=durability,
    )


class Watched(DiskCheckpointer):
    """A store that writes every append to the diary, as a save or as a merge (`join`)."""

    def __init__(self, directory: str, diary: Diary) -> None:
        super().__init__(directory)
        self.diary = diary

    async def append(self, thread, expected, head, rows, deletes=(), **how):
        kind = "join" if head == expected else "save"
        self.diary(f"{kind}+")
        try:
            await super().append(thread, expected, head, rows, deletes, **how)
        finally:
            self.diary(f"{kind}-")


class Fatal(DiskCheckpointer):
    """A store that kills its process at the point *last*: counted around appends if *appends*, else before statements."""

    def __init__(self, directory: str, last: int, appends: bool, diary: Diary) -> None:
        super().__init__(directory)
        self._left, self._diary, self._appends = last, diary, appends

    def point(self, *_: object) -> None:
        self._diary("point")
        self._left -= 1
        if not self._left:
            os.kill(os.getpid(), signal.SIGKILL)

    async def append(self, *args, **how):
        if self._appends:
            self.point()
        else:
            self.plain._writer.run(lambda con: con.set_trace_callback(self.point), 60.0)
        await super().append(*args, **how)
        if self._appends:
            self.point()


async def live(agent: Agent, plan: Plan, diary: Diary, random: Random) -> None:
    """Resume the thread wherever it stands, and run it to the end of the plan."""
    while (turn := await step(agent, plan, diary, random)) is not None:
        expect(turn.saved and turn.status in ("ended", "paused"), f"a turn came back {turn.status}: {turn.error!r}")
        expect(turn.status == "paused" or turn.text.endswith("is done"), f"a turn came back with {turn.text!r}")


async def step(agent: Agent, plan: Plan, diary: Diary, random: Random) -> Turn | None:
    try:
        state = agent.get_state(THREAD, subagents=True)
    except UnknownThread:
        return await agent.run("turn 1", THREAD)
    if state.status == "paused":
        some = random.sample(state.interrupts, random.randint(1, len(state.interrupts)))
        for wait in some:
            diary(f"decide {wait.call_id}")
        return await agent.resume(THREAD, {wait.call_id: Approve() for wait in some})
    if state.status == "running":
        cut_short = {
            call_id for _, run in tree(state) for call_id, call in run.open.items() if call.started and not call.result
        }
        turn = await agent.resume(THREAD)
        saying_so = {wait.call_id for wait in turn.interrupts if wait.reason == CUT_SHORT}
        expect(saying_so >= cut_short, f"{cut_short} were cut short, and only {saying_so} say so")
        return turn
    expect(state.status == "ended", f"the thread is {state.status}")
    following = f"turn {sum(isinstance(message, UserMessage) for message in state.messages) + 1}"
    return await agent.run(following, THREAD) if following in plan else None


def tree(state: State, path: Path = ()) -> Iterator[tuple[Path, State]]:
    yield path, state
    for key, child in state.subagents.items():
        yield from tree(child, (*path, key))


def undisturbed(plan: Plan) -> dict[Path, list[object]]:
    """Return the messages of each run of a thread that is never disturbed."""
    agent = worker(plan, MemoryCheckpointer(), lambda _: None, "turn", lambda: 0)
    asyncio.run(live(agent, plan, lambda _: None, Random(0)))
    state = agent.get_state(THREAD, subagents=True)
    return {path: list(run.messages) for path, run in tree(state)}


# ---- promises


class Left(Struct):
    """The part of a thread that is stored."""

    results: set[str] = field(default_factory=set)
    """Calls whose result is stored."""
    replies: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    """Approved calls that have begun."""
    done: bool = False
    """True at the end of the plan."""


def examine(directory: str, plan: Plan, whole: dict[Path, list[object]], only_boundaries: bool) -> Left:
    """Read everything that can be read of the thread, and compare it with the *whole*.

    Raises:
        Violation: a promise is broken.
    """
    with DiskCheckpointer(directory) as store:
        agent = Agent(ScriptedModel([]), checkpointer=store)
        if not agent.threads():
            return Left()
        read_consistently(open_store(store), THREAD, without_holes)
        state = agent.get_state(THREAD, subagents=True)
        left = consistent(state, whole)
        for path, run in tree(state):
            said = agent.transcript(THREAD, path or None)
            expect(said == run.messages, f"the transcript of {path} is not what its state says")
        if only_boundaries:
            at_a_boundary(state)
        boundaries = agent.history(THREAD)
        expect(
            [one.at for one in boundaries] == list(range(1, len(boundaries) + 1)),
            "boundaries are missing, or twice there",
        )
        for one in boundaries:
            before = agent.get_state(THREAD, at=one.at, subagents=True)
            expect(before.status == one.status in ("ended", "paused"), f"boundary {one.at} is {before.status}")
            consistent(before, whole)
        expect(len(agent.export(THREAD)) == sum(len(run.messages) for _, run in tree(state)), "the export is short")
        left.done = state.status == "ended" and whole == {path: run.messages for path, run in tree(state)}
        last = state.status == "ended" and len(state.messages) == len(whole[()])
        expect(left.done or not last, "the thread is at its end, and not whole")
        return left


def without_holes(log: Log) -> bool:
    """Check that the runs together hold every event of the thread exactly once."""
    paths = [(), *runs_at(log, log.head.number)]
    numbers = sorted(number for path in paths for _, entries in segments(log, path) for number, *_ in entries)
    for before, number in pairwise((0, *numbers, log.head.number + 1)):
        # Whoever goes on with a turn that was cut short begins far above it.
        expect(
            number in (before + 1, (before // JUMP + 1) * JUMP + 1), f"events are missing, or twice there: {numbers}"
        )
    return True


def consistent(state: State, whole: dict[Path, list[object]]) -> Left:
    """Check that each run begins as planned, and that no run and no result is stored without the other."""
    left, runs = Left(), dict(tree(state))
    for path, run in runs.items():
        expect(path in whole, f"run {path} was never asked for")
        for said, must in zip(run.messages, [*whole[path], "nothing"], strict=False):
            expect(said == must, f"run {path} said {said!r:.200}, and not {must!r:.200}")
        told = {message.call_id: message.content for message in whole[path] if isinstance(message, ToolMessage)}
        answered = {call_id for call_id, call in run.open.items() if call.result is not None}
        for call_id in answered:
            expect(run.open[call_id].result.content == told[call_id], f"call {call_id} has another result")
        answered |= {message.call_id for message in run.messages if isinstance(message, ToolMessage)}
        left.results |= answered
        left.started |= {call_id for call_id, call in run.open.items() if call.started and not call.result}
        left.replies |= set(replies(run))
        children = {key for key in told if (*path, key) in whole}
        for key in children & answered:
            child = runs.get((*path, key))
            expect(child and child.status == "ended", f"{(*path, key)} was answered, and its run is not there, or open")
            expect(child.messages == whole[*path, key], f"run {(*path, key)} ended too early")
        for key in run.subagents:
            expect(key in answered | run.open.keys(), f"run {(*path, key)} is there without its call")
    return left


def replies(run: State) -> Iterator[str]:
    text, count = "", 0
    for message in run.messages:
        if isinstance(message, UserMessage):
            text, count = message.text, 0
        elif isinstance(message, AssistantMessage):
            yield f"{text}#{count}"
            count += 1


def at_a_boundary(state: State) -> None:
    accepted = state.status == "running" and isinstance(state.messages[-1], UserMessage)
    expect(accepted or state.status == "ended", f"the thread ends in the middle of a turn: {state.messages[-1]!r:.100}")
    for path, run in tree(state):
        expect(not path or run.status == "ended", f"run {path} is {run.status}, though its parent is at a boundary")


def never_again(lives: Sequence[list[str]], stored: Sequence[Left]) -> None:
    """Check that no life repeats what an earlier one stored, and that no payment runs without a new decision."""
    for life, before in zip(lives, stored, strict=False):
        again = begun(life, "tool") & before.results
        expect(not again, f"calls {again} ran again, though their results were stored")
        again = begun(life, "model") & before.replies
        expect(not again, f"replies {again} were asked for again, though they were stored")
    for life, after in zip(lives, stored[1:], strict=True):
        paid = {name for name in begun(life, "tool") if "pay" in name}
        expect(paid <= after.results | after.started, f"of {paid}, which began, some are not said to have begun")
    decided: Counter[str] = Counter()
    for line in (line for life in lives for line in life):
        what, _, name = line.partition(" ")
        if what == "decide":
            decided[name] += 1
        elif what == "tool+" and "pay" in name:
            expect(decided.pop(name, 0), f"call {name} ran without a new decision")


def begun(life: Sequence[str], what: str) -> set[str]:
    return {name for kind, _, name in (line.partition(" ") for line in life) if kind == f"{what}+"}


def lost(life: Sequence[str], left: Left) -> tuple[set[str], set[str]]:
    """Return the calls and the replies that a life began and did not store: they have to be repeated."""
    return begun(life, "tool") - left.results, begun(life, "model") - left.replies


def place(life: Sequence[str]) -> str:
    """Return what was going on when the life ended."""
    open_now: Counter[str] = Counter()
    for line in life:
        kind = line.split()[0]
        open_now[kind[:-1]] += {"+": 1, "-": -1}.get(kind[-1], 0)
    return next((kind for kind in ("join", "save", "tool", "model") if open_now[kind] > 0), "else")


# ---- processes


class Life:
    """A forked process that may be killed; `told` is what has been read of its diary."""

    def __init__(self, act: Callable[[Diary], None]) -> None:
        ear, pen = os.pipe()
        self.told: list[str] = []
        self.pid = os.fork()
        if self.pid == 0:
            os.close(ear)
            os._exit(_lived(act, pen))
        os.close(pen)
        self._diary = os.fdopen(ear)

    def listen(self) -> str:
        """Wait for the next line and return it; the empty text once the process has ended."""
        line = self._diary.readline().strip()
        if line:
            self.told.append(line)
        return line

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def end(self) -> bool:
        """Read the diary to its end and wait for the process. Return True unless it was killed.

        Raises:
            Violation: the process failed.
        """
        while self.listen():
            pass
        self._diary.close()
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        expect(status in (0, -signal.SIGKILL), f"the worker ended with {status}; what it says is above")
        return status == 0


def _lived(act: Callable[[Diary], None], pen: int) -> int:
    faulthandler.dump_traceback_later(60, exit=True)
    try:
        act(lambda line: os.write(pen, line.encode() + b"\n"))
    except BaseException:
        traceback.print_exc()
        return 1
    return 0
