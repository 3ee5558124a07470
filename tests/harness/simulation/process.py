"""A simulated process: an agent, a store client, and everything that runs for them. It may die at any callback."""

import asyncio

from harness.simulation.actors import Model, spec
from harness.simulation.exchange import Exchange
from harness.simulation.loop import PROCESS, WORLD, Killed
from harness.simulation.server import Store
from minideep import Agent
from minideep.checkpoint import open_store, pace


class AskedStore(Store):
    """A store with an exchange."""

    def __init__(self, server, process) -> None:
        super().__init__(server, process)
        self.exchange = Exchange(server, process)


class Process:
    """What a kill takes away at once: the agent, its caches, its tasks. The rows stay on the server."""

    def __init__(self, life, name: str) -> None:
        self.life, self.name, self.server, self.loop = life, name, life.server, life.loop
        self.dead = False
        self.fuse: int | None = None
        """The number of callbacks after which it dies."""
        self.context = WORLD.copy()
        self.context.run(PROCESS.set, self)
        self.unsaved: dict[str, list[str]] = {}
        """Inputs of turns that could not be saved, which the next append takes along."""
        self.store = (AskedStore if life.has_exchange else Store)(life.server, self)
        # A suspending store is shielded by minideep; its plain readers can be driven here all the same.
        self.store.immediate = self.store.shields = life.immediate
        self.checked = open_store(self.store)
        self.store.immediate = True
        self.checked._readers, self.checked._maintenance = _Nothing(), Worker(self)
        self.agent = Agent(Model(), checkpointer=self.store, durability=life.durability)
        self.agent._turns._grace = life.grace
        self.agent.spec = spec(life.deep)

    def lives(self) -> bool:
        """Return whether its next callback runs: asked once before each."""
        if self.fuse is not None and not self.dead:
            self.fuse -= 1
            if self.fuse < 0:
                self.die()
        return not self.dead

    def die(self) -> None:
        """End without another word."""
        if not self.dead:
            self.dead = True
            self.life.trace("dies", self.name)
            self._leave_the_loop()
            self.server.cut_off(self, self.life.random.choice([0.0, 0.01, self.life.random.uniform(0, 20)]))

    def _leave_the_loop(self) -> None:
        """Give up what minideep keeps for each event loop: here processes share one, and the others must go on."""
        if (shared := pace._paces.pop(self.loop, None)) is not None:
            for future in shared._waiting:
                if not future.done():
                    future.set_result(None)

    def spawn(self, coro):
        """Run a coroutine as a task of this process."""
        return self.context.copy().run(self.loop.create_task, coro)

    async def agent_state(self, thread: str):
        return await asyncio.to_thread(self.agent.get_state, thread)

    def has_lost(self, ctx) -> bool:
        """Return whether the turn of a tool knows that its thread is somebody else's."""
        lease = ctx._run.journal.lease
        return lease is not None and lease.lost


class _Nothing:
    executor = None

    def finish(self):
        pass


class Worker:
    """The OS thread for maintenance: one job after the other, beside everything else."""

    def __init__(self, process: Process) -> None:
        self.process, self.executor = process, self
        self._jobs, self._busy = [], False

    def submit(self, job):
        self._jobs.append(job)
        if not self._busy:
            self._busy = True
            self._later()

    def finish(self):
        pass

    def _later(self):
        loop = self.process.loop
        loop.call_later(loop.random.expovariate(200), self._work, context=self.process.context.copy())

    def _work(self):
        try:
            self._jobs.pop(0)()
        except Killed:
            return
        if self._jobs:
            self._later()
        else:
            self._busy = False
