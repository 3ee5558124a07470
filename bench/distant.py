"""Run 64 threads at once on a store in another process, behind a delay, and measure how long the event loop is held.

    python bench/distant.py [milliseconds=5] [turns=20]

Each trip to the store is one message over a socket, which the other process answers after the delay. A turn has one
step with one tool. `cold` runs each turn with a new agent, which reads its thread from the store. Exits with 1 if the
loop was held for more than 30 ms, or if a turn made more trips than promised: 3, or 4 from cold.
"""

import asyncio
import sys
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter

import msgspec
from bounds import bound, verdict

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness.stores import DistantStore

from minideep import Agent, Retention, ToolCall, tool
from minideep.models import ScriptedModel
from minideep.ports import Opened, Range

THREADS = 64
pack, unpack = msgspec.msgpack.encode, msgspec.msgpack.decode


@tool
async def ping() -> str:
    """Answer at once."""
    return "pong"


class Remote:
    """A store whose rows and leases are in another process. It shows what a store of one's own has to do."""

    retention = Retention()

    def __init__(self, port: int) -> None:
        self.port, self.trips, self.waiting = port, 0, dict[int, asyncio.Future]()

    async def connect(self) -> None:
        reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.listening = asyncio.ensure_future(self.listen(reader))

    async def listen(self, reader) -> None:
        while True:
            number, answer = unpack(await reader.readexactly(int.from_bytes(await reader.readexactly(4))))
            self.waiting.pop(number).set_result(answer)

    async def ask(self, what: str, *about):
        self.trips += 1
        self.waiting[self.trips] = answer = asyncio.get_running_loop().create_future()
        data = pack((self.trips, what, about))
        self.writer.write(len(data).to_bytes(4) + data)
        return await answer

    async def open(self, thread, *, wait=0.0, purpose="turn"):
        head, is_free = await self.ask("open", thread)
        return Opened(head, Lease(self, thread)) if is_free else None

    async def read(self, *ranges):
        return [[tuple(row) for row in rows] for rows in await self.ask("read", *ranges)]

    async def append(self, thread, expected, head, rows, deletes=(), *, lease=None, release=False):
        await self.ask("append", thread, expected, head, dict(rows), list(deletes), release)

    async def heads(self, after="", limit=100):
        return await self.ask("heads", after, limit)

    async def held(self, thread):
        return await self.ask("held", thread)

    async def aclose(self):
        self.listening.cancel()
        self.writer.close()


class Lease:
    lost = False

    def __init__(self, store: Remote, thread: str) -> None:
        self.store, self.thread = store, thread

    def on_lost(self, callback) -> None: ...
    def release(self) -> None: ...  # The last append has released it.


def serve(delay: float, port) -> None:
    """Answer the questions of `Remote`, each after *delay* seconds; the port is sent over the pipe *port*."""
    store = DistantStore(delay)

    async def answered(what, about):
        match what:
            case "open":
                opened = await store.open(*about)
                return (opened and opened.head, opened is not None)
            case "read":
                return await store.read(*(msgspec.convert(one, Range) for one in about))
            case "append":
                *change, release = about
                return await store.append(*change, lease=store.leases[about[0]], release=release)
            case _:
                return await getattr(store, what)(*about)

    async def talk(reader, writer):
        async def answer(number, what, about):
            data = pack((number, await answered(what, about)))
            writer.write(len(data).to_bytes(4) + data)

        tasks = set()
        while size := await reader.read(4):
            tasks.add(asyncio.ensure_future(answer(*unpack(await reader.readexactly(int.from_bytes(size))))))

    async def main():
        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        port.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(main())


async def held(worst: list[float]) -> None:
    """Note the longest time for which the event loop did not come round."""
    while True:
        before = perf_counter()
        await asyncio.sleep(0.001)
        worst[0] = max(worst[0], perf_counter() - before - 0.001)


async def measure(port: int, turns: int) -> None:
    store = Remote(port)
    await store.connect()

    def agent() -> Agent:
        model = ScriptedModel(lambda request: "ok" if request.messages[-1].role == "tool" else ToolCall("ping"))
        return Agent(model, [ping], checkpointer=store)

    for name, makes, promised in (("warm", lambda kept: kept, 3), ("cold", lambda kept: agent(), 4)):
        kept = [agent() for _ in range(THREADS)]
        for one, number in zip(kept, range(THREADS), strict=True):
            await one.run("go", f"{name}{number}")

        async def lives(kept: Agent, thread: str, makes=makes) -> None:
            for _ in range(turns):
                assert (await makes(kept).run("go", thread)).saved

        worst, store.trips, began = [0.0], 0, perf_counter()
        watching = asyncio.ensure_future(held(worst))
        await asyncio.gather(*(lives(one, f"{name}{number}") for number, one in enumerate(kept)))
        seconds = perf_counter() - began
        watching.cancel()
        print(f"{name}: {THREADS * turns / seconds:,.0f} turns a second")
        bound("the loop was held for at most", worst[0] * 1000, 30, "ms")
        bound("trips a turn, maintenance included", store.trips / (THREADS * turns), promised + 0.2)
    await store.aclose()


def main(milliseconds: str = "5", turns: str = "20") -> int:
    context = get_context("spawn")
    ear, mouth = context.Pipe(False)
    server = context.Process(target=serve, args=(float(milliseconds) / 1000, mouth), daemon=True)
    server.start()
    asyncio.run(measure(ear.recv(), int(turns)))
    server.terminate()
    return verdict()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
