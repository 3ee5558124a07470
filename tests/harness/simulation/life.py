"""One life of a few threads, from a seed: what callers do, what breaks, and what must be true at the end."""

import asyncio
from random import Random

from harness.simulation import deeds
from harness.simulation.callers import Call, Watcher, _plain
from harness.simulation.ledger import Ledger
from harness.simulation.loop import WORLD, Hang, Loop
from harness.simulation.process import Process
from harness.simulation.promises import Promises
from harness.simulation.server import Faults, Server
from minideep import Agent, Approve, Retention
from minideep.checkpoint import open_store
from minideep.checkpoint.verify import verify
from minideep.errors import CheckpointError, MinideepError
from minideep.events import TurnCancelled

DEEDS = (
    ["run"] * 6 + ["stream"] * 3 + ["start"] * 5 + ["resume"] * 7 + ["cancel"] * 2 + ["say"] * 2 + ["status", "look"]
    + ["watch"] * 3 + ["fork", "save", "delete"] + ["crash"] * 3 + ["revoke", "close", "give up", "give up"]
)  # fmt: skip
MOODS = {
    "": [],
    "flaky": ["give up"] * 6 + ["run"] * 8 + ["save"] * 3 + ["crash", "watch", "watch", "resume"],
    "rivals": ["revoke"] * 6 + ["run"] * 4,
    "impatient": ["cancel"] * 6 + ["give up"] * 4 + ["close"] * 4,
    "deadly": ["crash"] * 6 + ["watch"] * 4 + ["resume"] * 4,
    "asking": ["resume"] * 10,
}
"""What happens more often in some lives: rare things must meet each other now and then."""
LONGEST = 5_000.0
"""Virtual seconds that a life may last."""


class Chances:
    """How often the actors misbehave."""

    def __init__(self, random: Random, mood: str) -> None:
        calm = random.random() < 0.3
        self.stubborn = 0.7 if mood == "impatient" else 0.2
        """How often a tool does not end when it is cancelled."""
        self.dies_in_tool = 0.2 if mood == "deadly" else 0.0
        self.model_error = 0.0 if calm else random.choice([0.0, 0.05, 0.2])
        self.tool_error = 0.0 if calm else random.choice([0.0, 0.3 if mood == "deadly" else 0.1])
        self.hang = 0.0 if calm else random.choice([0.0, 0.0, 0.05, 0.2 if mood == "impatient" else 0.0])

    def none(self) -> None:
        self.model_error = self.tool_error = self.hang = self.dies_in_tool = 0.0


class Life:
    """Everything that one seed decides."""

    def __init__(self, seed: int, trace: list | None = None, server: type[Server] = Server) -> None:
        self.seed, self.random = seed, (random := Random(seed))
        self.loop, self.ledger = Loop(Random(random.random())), Ledger()
        self.expect, self.promises = self.ledger.expect, Promises(self, self.ledger)
        self.mood = random.choice(["", "", "", *MOODS])
        self.deep, self.grace = random.random() < 0.4, random.choice([0.0, 0.1, 5.0])
        self.durability = random.choice(["turn", "turn", "step", "tool"])
        self.immediate, self.has_exchange = random.random() < 0.5, random.random() < 0.5
        self.cuts = random.random() < 0.15
        self.chances, self.calls_left = Chances(random, self.mood), random.randrange(2, 10)
        share = random.choice([0.1, 0.3]) if self.mood == "flaky" else random.choice([0.0, 0.0, 0.0, 0.05, 0.2])
        self.unreliable = share > 0
        slow = 0.1 if self.mood == "impatient" else random.choice([0.0, 0.0, 0.02])
        faults = Faults(share, share / 3, slow)
        retention = Retention(boundaries=1) if self.cuts else Retention()
        self.server = server(self.loop, Random(random.random()), retention, self.ledger, faults)
        self.processes: list[Process] = []
        self.tasks: list[tuple[Process, asyncio.Task]] = []
        self.given_up: set[asyncio.Task] = set()
        self.watchers: list[Watcher] = []
        self.keys: dict[str, list[tuple[str, str]]] = {}
        self.answers: dict[tuple[str, int, str], str] = {}
        self.done: dict[int, tuple[str, tuple[str, ...], str]] = {}
        """The call that did each piece of work."""
        self.edited: dict[int, int] = {}
        self.said: list[tuple[Process, str, str, bool, int]] = []
        self.healing = self.closed = False
        self.calm = True
        """True until a process dies or loses a thread."""
        self._trace, self._numbers = trace, 0
        self.reader = Agent("offline:", checkpointer=self.server.reader())

    def number(self) -> int:
        self._numbers += 1
        return self._numbers

    def trace(self, *what) -> None:
        if self._trace is not None:
            self._trace.append((round(self.loop.time() - 1000, 6), *what))

    def input(self, thread: str) -> tuple[str, str | None]:
        """Return an input and its key: a new one, or one that was sent before."""
        known = self.keys.setdefault(thread, [])
        if known and self.random.random() < (0.6 if self.mood == "flaky" else 0.3):
            return self.random.choice(known)
        text = f"input {self.number()}"
        if self.random.random() < 0.5:
            return text, None
        known.append((text, f"key {self.number()}"))
        return known[-1]

    # ---- the story

    def live(self) -> list[str]:
        """Live, and return the promises that were broken."""
        try:
            self.loop.run(self._story(), LONGEST)
        except Hang as exc:
            self.expect(False, f"a hang: {exc}; {self._hanging()}")
        except Exception as exc:
            self.expect(False, f"the thread cannot be brought to its end: {exc!r}")
        for problem in self.loop.problems:
            self.expect(False, f"asyncio complains: {problem.get('message')} {problem.get('exception')!r}")
        for process in self.processes:
            process.dead = True
        self.loop.bury()
        return self.ledger.violations

    def _hanging(self) -> str:
        return str(
            [task.get_coro().__qualname__ for process, task in self.tasks if not task.done() and not process.dead]
        )

    async def _story(self) -> None:
        random = self.random
        self.threads = ["t", "t", "u"] if random.random() < 0.2 else ["t"]
        count = 2 if self.mood == "rivals" or random.random() < 0.4 else 1
        self.processes = [Process(self, f"p{number}") for number in range(count)]
        self.alive = list(self.processes)
        for _ in range(random.randrange(3, 9)):
            self._replace_the_dead()
            process, thread = random.choice(self.alive), random.choice(self.threads)
            self._begin(random.choice(DEEDS + MOODS[self.mood]), process, thread)
            if random.random() < 0.5:
                await self._done(random.uniform(0.1, 10))
            else:
                await asyncio.sleep(random.expovariate(random.choice([2, 20, 200])))
        await self._heal()
        await self._finish()

    def _begin(self, deed: str, process: Process, thread: str) -> None:
        random = self.random
        if deed == "crash":
            self.calm = False
            process.fuse = random.randrange(0, 120)
        elif deed == "revoke":
            if self.server.revoke(thread, random.choice([0.0, 0.02, random.uniform(0, 10)])):
                self.calm = False
                self.trace("revoked", thread)
        elif deed == "give up":
            if self.tasks:
                self._give_up(random.choice(self.tasks))
        elif deed == "watch":
            self.follow(process, thread, 0)
        else:
            self._do(process, getattr(deeds, deed)(self, process, thread))

    def _give_up(self, chosen: tuple[Process, asyncio.Task]) -> None:
        """Have a caller cancel its own task."""
        process, task = chosen
        if not process.dead and not task.done():
            self.given_up.add(task)
            self.trace("gives up", task.get_coro().__qualname__)
            process.context.copy().run(task.cancel)

    def _do(self, process: Process, coro) -> None:
        self.tasks.append((process, process.spawn(coro)))

    def follow(self, process: Process, thread: str, after: int) -> None:
        """Have somebody follow a thread: one who was there before, or a new one."""
        if self.healing:
            return
        free = [one for one in self.watchers if one.thread == thread and not one.busy and not one.off]
        if free and self.random.random() < 0.6:
            watcher = self.random.choice(free)
        else:
            self.watchers.append(watcher := Watcher(self, thread, after))
        self._do(process, self._watched(process, watcher, wait := self.random.random() < 0.2))
        if wait:  # Those polls cost most of a life.
            self.loop.call_later(self.random.expovariate(1), self._give_up, self.tasks[-1], context=WORLD.copy())

    async def _watched(self, process: Process, watcher: Watcher, wait: bool) -> None:
        watcher.busy = process
        try:
            await deeds.watch(self, process, watcher, wait)
        finally:
            watcher.busy = None

    def _replace_the_dead(self) -> None:
        for place, process in enumerate(self.alive):
            if process.dead:
                self.alive[place] = Process(self, f"p{len(self.processes)}")
                self.processes.append(self.alive[place])
                for watcher in self.watchers:
                    if watcher.busy is process:
                        watcher.busy = None

    async def _done(self, timeout: float) -> None:
        tasks = [task for process, task in self.tasks[-3:] if not process.dead]
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)

    # ---- the end

    async def _heal(self) -> None:
        """Nothing breaks any more, and nobody asks for anything new; those who wait get what they wait for."""
        self.trace("heals")
        self.healing = True
        self.server.faults.append = self.server.faults.read = self.server.faults.slow = 0.0
        self.chances.none()
        self.calls_left = 0
        for process in self.alive:
            process.fuse = None
        for process, task in self.tasks:
            if task.get_coro().__qualname__ == "Life._watched":
                self._give_up((process, task))
        while left := [task for process, task in self.tasks if not process.dead and not task.done()]:
            await asyncio.wait(left, timeout=10.0)
        await asyncio.sleep(30.0)  # What was started goes on without its callers.
        for process in self.alive:
            await self._saved(process)
        for process in self.alive:
            process.die()

    async def _saved(self, process: Process) -> None:
        """What could not be saved is saved now, unless somebody else went on with the thread."""
        for thread in list(process.unsaved):
            task = process.spawn(deeds.save(self, process, thread))
            await asyncio.wait([task], timeout=1000.0)

    async def _finish(self) -> None:
        """A new process brings every thread to its end, and reads it in every way."""
        self.ledger.refused.clear()
        process = Process(self, "last")
        self.processes.append(process)
        for thread in list(self.ledger.threads):
            task = process.spawn(self._to_the_end(process, thread))
            await asyncio.wait([task], timeout=1000.0)
            self.expect(task.done(), f"{thread}: it cannot be brought to its end")
            if task.done():
                task.result()
            self._said(thread)
        for watcher in self.watchers:
            if watcher.thread in self.ledger.threads and not watcher.off:
                watcher.last_time = True
                task = process.spawn(deeds.watch(self, process, watcher))
                await asyncio.wait([task])
                watcher.finally_complete()
        if self.random.random() < 0.2:  # It costs as much as the rest of the life.
            for damage in verify(open_store(self.server.reader())):
                self.expect(False, f"verify finds {damage}")

    async def _to_the_end(self, process: Process, thread: str) -> None:
        agent, turn = process.agent, None
        for _ in range(12):
            turn = await agent.resume(thread, wait=True)
            while turn.status == "paused":
                self.expect(turn.interrupts, f"{thread} is paused, and nothing waits")
                named = {"/".join((*one.path, one.call_id)): Approve() for one in turn.interrupts}
                with Call(self, process, thread, "resume") as call:
                    turn = await agent.resume(thread, named)
                if call.error is not None:
                    return
            if turn.status == "ended":
                break
        self.expect(turn is not None and turn.status == "ended", f"{thread} stays {turn}")
        with Call(self, process, thread, "run", text=f"last words to {thread}") as call:
            turn = await agent.run(f"last words to {thread}", thread)
            call.returned(turn)
            self.expect(turn.status == "ended" and turn.saved, f"{thread}: the last turn is {turn.status}")
        state = agent.get_state(thread, subagents=True)
        self._over(thread, state, ())

    def _over(self, thread: str, state, path) -> None:
        for key, child in state.subagents.items():
            self.expect(
                child.status not in ("running", "ready", "paused"), f"{thread}: run {(*path, key)} is {child.status}"
            )
            self._over(thread, child, (*path, key))

    # ---- promises that are looked at later

    def forked(self, thread: str, at: int | None, new: str) -> None:
        """A fork is what its source was."""
        if at is None or self.cuts or thread not in self.ledger.threads or new not in self.ledger.threads:
            return
        try:
            source, copy = self.reader.get_state(thread, at=at), self.reader.get_state(new)
        except (CheckpointError, MinideepError) as exc:
            self.expect(self.ledger.deleted[thread], f"a fork of {thread} at {at} cannot be read: {exc!r}")
            return
        self.expect(_plain(source) == _plain(copy), f"{new} is not what {thread} was at {at}")

    def cancelled(self, process: Process, thread: str, reason: str) -> None:
        """A cancel returned True: the log says so, unless the store failed or the runner died."""
        known = self.ledger.threads.get(thread)
        if self.calm and not self.unreliable and known is not None and not self.cuts:
            ends = [one for path, one in known.events.values() if isinstance(one, TurnCancelled) and not path]
            self.expect(ends, f"{thread} was cancelled with {reason!r}, and no turn of it is")

    def _said(self, thread: str) -> None:
        """What was heard is stored once; what was not is not stored."""
        known = self.ledger.threads.get(thread)
        for _, where, text, heard, deleted in self.said:
            if where == thread and known is not None and deleted == self.ledger.deleted[thread]:
                count = known.inputs[text]
                self.expect(count <= 1, f"{thread}: {text!r} was said once, and is there {count} times")
                if self.calm:
                    self.expect(heard or not count, f"{thread}: {text!r} is there, though nobody heard it")
                    self.expect(not heard or count or self.unreliable, f"{thread}: {text!r} was heard, and is lost")
