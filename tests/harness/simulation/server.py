"""The server of a simulated store: rows, leases, and a ledger of what has landed. It outlives every process."""

import asyncio
from random import Random

from harness.simulation.ledger import Ledger
from harness.simulation.loop import PROCESS, Loop, later
from minideep import MemoryCheckpointer
from minideep.checkpoint.layout import head_key
from minideep.checkpoint.memory import MemoryRows
from minideep.checkpoint.waiting import may_block
from minideep.errors import ThreadConflict
from minideep.ports import Opened, Range, Retention

TIMEOUT = 10.0


class Faults:
    """How often a store misbehaves, each as a share of its operations."""

    def __init__(self, append: float = 0.0, read: float = 0.0, slow: float = 0.0) -> None:
        self.append, self.read, self.slow = append, read, slow


class Server:
    """What all processes share."""

    def __init__(self, loop: Loop, random: Random, retention: Retention, ledger: Ledger, faults: Faults) -> None:
        self.loop, self.random, self.ledger, self.faults = loop, random, ledger, faults
        self.rows = MemoryRows(retention)
        self.leases: dict[str, Lease] = {}
        self.announced: dict[str, tuple[object, object]] = {}
        """The process that answers questions about each thread, and how."""
        self.connections = []
        self.last_held: dict[str, float] = {}
        """When each thread was last given up."""
        self._reader: MemoryCheckpointer | None = None
        self._queues: dict[str, list[list]] = {}
        self._freed: dict[str, list[asyncio.Future]] = {}

    def latency(self) -> float:
        if self.faults.slow and self.random.random() < self.faults.slow:
            return self.random.uniform(1, 20)
        return self.random.expovariate(500)

    # ---- leases

    async def open(self, store, thread, wait, purpose):
        until, me = self.loop.time() + wait, [store.process]
        queue = self._queues.setdefault(thread, [])
        if waits := purpose == "turn" and wait > 0:
            queue.append(me)
        try:
            while True:
                other = self.leases.get(thread)
                while queue and queue[0][0].dead:  # Its connection is gone.
                    del queue[0]
                if other is None and (queue[0] is me if waits else purpose != "turn" or not queue):
                    return self.grant(store, thread, purpose)
                if may_block():
                    return None
                moment = other is not None and other.purpose == "maintenance" and purpose == "turn"
                left = max(TIMEOUT if moment else 0.0, until - self.loop.time())
                if left <= 0:
                    return None
                freed = self.loop.create_future()
                self._freed.setdefault(thread, []).append(freed)
                await asyncio.wait([freed], timeout=left if left < 1e9 else None)
                if not freed.done():
                    return None
        finally:
            if waits:
                queue[:] = [one for one in queue if one is not me]
                self._tell(thread)

    def grant(self, store, thread, purpose):
        lease = self.leases[thread] = Lease(self, store, thread, purpose)
        return lease

    def free(self, lease) -> None:
        lease.over = True
        self.last_held[lease.thread] = self.loop.time()
        if self.leases.get(lease.thread) is lease:
            del self.leases[lease.thread]
        self._tell(lease.thread)

    def _tell(self, thread) -> None:
        for freed in self._freed.pop(thread, []):
            if not freed.done():
                freed.set_result(None)

    def revoke(self, thread, delay: float) -> bool:
        """Give a thread's lease up behind its holder's back, who hears of it after *delay* seconds."""
        lease = self.leases.get(thread)
        if lease is None:
            return False
        self.ledger.note_loss(thread, lease.store.process)
        self.free(lease)
        self.loop.call_later(delay, lease.hear, context=lease.store.process.context.copy())
        return True

    def cut_off(self, process, after: float) -> None:
        """A process is dead: what it holds is freed once the server finds out."""
        for lease in list(self.leases.values()):
            if lease.store.process is process:
                later(self.loop, after, self.free, lease)
        for thread, (owner, _) in list(self.announced.items()):
            if owner is process:
                del self.announced[thread]
        for connection in self.connections:
            if process in (connection.asker, connection.owner):
                connection.broke()

    # ---- rows

    def land(self, store, thread, expected, head, rows, deletes, lease, release) -> None:
        check = lease.check if lease is not None else None
        self.rows.append(thread, expected, head, rows, deletes, check=check)
        grew = self.ledger.landed(store.process, thread, expected, head, rows, deletes)
        self.ledger.expect(
            lease is not None or expected is None or not grew, f"{thread}: an append of a turn did not show its lease"
        )
        if release:
            self.free(lease)

    def reader(self) -> MemoryCheckpointer:
        """Return a store that reads what is there now, without any delay or fault."""
        if self._reader is None:
            self._reader = MemoryCheckpointer()
            self._reader.plain = self._reader._calls.plain = self.rows
        return self._reader

    def head(self, thread) -> bytes | None:
        found = self.rows.read(Range(head_key(thread)))[0]
        return found[0][1] if found else None


class Lease:
    """The right to run a thread, as one process has it."""

    def __init__(self, server: Server, store, thread: str, purpose: str) -> None:
        self.server, self.store, self.thread, self.purpose = server, store, thread, purpose
        self.lost = self.over = False
        self._callbacks = []

    def on_lost(self, callback):
        self._callbacks.append(callback)
        if self.lost:
            self.hear()

    def hear(self):
        self.lost = True
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def check(self):
        if self.over:
            raise ThreadConflict(f"thread {self.thread!r} is no longer held under this lease")

    def release(self):
        if not self.over and not self.store.process.dead:
            self.server.free(self)


class Store:
    """The client of a simulated store: one for each process, all with the same rows."""

    def __init__(self, server: Server, process) -> None:
        self.server, self.process, self.retention = server, process, server.rows.retention
        self.immediate = self.shields = True

    # ---- on the way

    async def _way(self) -> None:
        """Spend the time that a message takes."""
        self._check()
        if may_block():
            self.server.loop.pause(self.server.latency())
        else:
            await asyncio.sleep(self.server.latency())
        self._check()

    def _check(self) -> None:
        if self.process.dead:
            raise OSError("this process is dead")

    async def _fail_at(self, share: float) -> None:
        if share and self.server.random.random() < share:
            if self.server.random.random() < 0.1 and not may_block():
                await asyncio.sleep(TIMEOUT)
                raise TimeoutError("the store did not answer")
            raise OSError("the connection was cut")

    # ---- the port

    async def open(self, thread, *, wait=0.0, purpose="turn"):
        await self._way()
        await self._fail_at(self.server.faults.read)
        lease = await self.server.open(self, thread, wait, purpose)
        if lease is None:
            return None
        try:
            head = self.server.head(thread)
            await self._way()
            await self._fail_at(self.server.faults.read)
        except BaseException:
            lease.release()
            raise
        return Opened(head, lease)

    async def read(self, *ranges):
        await self._way()
        await self._fail_at(self.server.faults.read)
        found = self.server.rows.read(*ranges)
        await self._way()
        return found

    async def append(self, thread, expected, head, rows, deletes=(), *, lease=None, release=False):
        work = (self, thread, expected, head, dict(rows), list(deletes), lease, release)
        self._check()
        if may_block():
            self._append_here(work)
            return
        loop, fate = self.server.loop, self._fate()
        outcome = loop.create_future()
        context = PROCESS.get().context.copy()

        def answer(error) -> None:
            later_by = TIMEOUT if fate == "hangs" else self.server.latency()
            loop.call_later(later_by, _settle, outcome, error, context=context)

        later(loop, self.server.latency(), self._arrive, work, fate, answer)
        cancels = 0
        if not self.shields:
            await outcome
        while not outcome.done():
            try:
                await asyncio.wait([outcome])
            except asyncio.CancelledError:  # Nothing of an append is cut off half-way.
                cancels += 1
        if cancels and (me := asyncio.current_task()) is not None:
            me.uncancel()
            me.cancel()
        outcome.result()

    def _append_here(self, work) -> None:
        fate, loop = self._fate(), self.server.loop
        loop.pause(self.server.latency())
        self._check()
        errors = []
        self._arrive(work, fate, errors.append)
        loop.pause(self.server.latency())
        if errors[0]:
            raise errors[0]

    def _fate(self) -> str:
        random, share = self.server.random, self.server.faults.append
        if not share or random.random() >= share:
            return ""
        return random.choice(["refused", "refused", "lies", "lies", "hangs"])

    def _arrive(self, work, fate, answer) -> None:
        try:
            if fate == "refused" or (fate == "hangs" and self.server.random.random() < 0.5):
                raise OSError("the connection was cut before it was done")
            self.server.land(*work)
            if fate:
                raise OSError("the connection was cut after it was done")
        except Exception as exc:
            answer(exc)
        else:
            answer(None)

    async def heads(self, after="", limit=100):
        found = (await self.read(Range(max(after, "head/"), "head0")))[0]
        return [row for row in found if row[0] > after][:limit]

    async def held(self, thread):
        await self._way()
        await self._fail_at(self.server.faults.read)
        lease = self.server.leases.get(thread)
        return lease is not None and lease.purpose == "turn"

    async def aclose(self):
        pass


def _settle(outcome, error) -> None:
    if not outcome.done():
        outcome.set_result(None) if error is None else outcome.set_exception(error)
