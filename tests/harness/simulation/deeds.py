"""What callers do to threads, each as one coroutine in a process: it is judged by what comes back."""

import asyncio
from contextlib import aclosing

from harness.simulation.callers import Call, decided, undecided
from minideep import Approve, CheckpointError, ConfigError, Edit, Reject, Respond, UnknownThread
from minideep.events import Rewound

WRONG = "nobody"


async def run(life, process, thread):
    text, key = life.input(thread)
    wait = life.random.random() < 0.3
    with Call(life, process, thread, "run", text=text, key=key, wait=wait) as call:
        call.returned(await process.agent.run(text, thread, key=key, wait=wait))


async def stream(life, process, thread):
    """A turn whose reader is slow, and may leave early."""
    random = life.random
    text, key = life.input(thread)
    leaves = random.randrange(1, 8) if random.random() < 0.4 else 10_000
    with Call(life, process, thread, "stream", text=text, key=key) as call:
        numbers = []
        async with process.agent.stream(text, thread, key=key) as stream:
            async for event in stream:
                if event.number:
                    life.expect(not numbers or event.number > numbers[-1], f"{thread}: {event.number} after {numbers}")
                    numbers.append(event.number)
                if random.random() < 0.2:
                    await asyncio.sleep(random.expovariate(2))
                leaves -= 1
                if not leaves:
                    break
        if leaves:
            call.returned(stream.turn)


async def start(life, process, thread):
    random = life.random
    text, key = life.input(thread)
    wait = random.random() < 0.3
    with Call(life, process, thread, "start", text=text, key=key, wait=wait, closes=True) as call:
        handle = await process.agent.start(text, thread, key=key, wait=wait)
        call.accepted()
        if random.random() < 0.3:
            return
        if random.random() < 0.4:
            life.follow(process, thread, handle.number)
        call.returned(await handle)


async def resume(life, process, thread):
    """Decide about some of what waits, sometimes wrongly."""
    random, wrong = life.random, False
    with Call(life, process, thread, "look"):
        state = await process.agent_state(thread)
        waits = list(state.interrupts) if state.status == "paused" else []
        chosen = {one: _decision(life, one) for one in waits if random.random() < 0.7}
        named = {"/".join((*one.path, one.call_id)): decision for one, decision in chosen.items()}
        if random.random() < 0.1:
            named[WRONG], wrong = Approve(), True
        life.ledger.refused -= {(thread, one.path, one.call_id) for one in chosen}
        how = random.choice(["resume", "resume", "start_resume", "resume_stream"])
        with Call(life, process, thread, how, wrong=wrong or bool(named), closes=True) as call:
            if how == "resume":
                turn = await process.agent.resume(thread, named)
            elif how == "start_resume":
                handle = await process.agent.start_resume(thread, named)
                decided(life, thread, chosen, call)
                turn = await handle
            else:
                async with process.agent.resume_stream(thread, named) as stream:
                    async for _ in stream:
                        pass
                turn = stream.turn
            life.expect(not wrong, f"{thread}: a decision for nobody was taken")
            decided(life, thread, chosen, call)
            call.returned(turn)
        if type(call.error) is CheckpointError:
            undecided(life, thread, chosen)


def _decision(life, wait):
    chance = life.random.random()
    if chance < 0.6:
        return Approve()
    if chance < 0.75 and "n" in wait.call.args:
        n = life.number()
        life.edited[n] = wait.call.args["n"]
        return Edit({"n": n})
    return Reject("no") if chance < 0.9 else Respond("it is done already")


async def cancel(life, process, thread):
    reason = f"reason {life.number()}"
    with Call(life, process, thread, "cancel"):
        if await process.agent.cancel(thread, reason):
            life.trace("cancelled", thread, reason)
            life.cancelled(process, thread, reason)


async def say(life, process, thread):
    text = f"by the way {life.number()}"
    with Call(life, process, thread, "say"):
        heard = await process.agent.say(thread, text)
        life.said.append((process, thread, text, heard, life.ledger.deleted[thread]))
        life.trace("said", thread, text, heard)


async def status(life, process, thread):
    with Call(life, process, thread, "status"):
        found = await process.agent.status(thread)
        known = life.ledger.threads.get(thread)
        life.expect(
            (found.status == "running") == bool(found.runs), f"{thread} is {found.status} and runs {found.runs}"
        )
        life.trace("status", thread, found.status, found.runs, known is not None)


async def look(life, process, thread):
    """Read a thread in every way, beside whatever happens to it."""
    with Call(life, process, thread, "look"):
        agent = process.agent
        what = life.random.choice([agent.history, agent.transcript, agent.runs, agent.export, agent.get_state])
        await asyncio.to_thread(what, thread)


async def save(life, process, thread):
    with Call(life, process, thread, "save") as call:
        await process.agent.save(thread)
        call.flushed()


async def fork(life, process, thread):
    new, random = f"fork{life.number()}", life.random
    with Call(life, process, thread, "fork", wrong=True):
        lines = await asyncio.to_thread(process.agent.history, thread)
        at = random.choice(lines).at if lines and random.random() < 0.6 else None
        await asyncio.to_thread(lambda: process.agent.fork(thread, at=at, thread_id=new))
        life.trace("forked", thread, at, new)
        life.forked(thread, at, new)


async def delete(life, process, thread):
    with Call(life, process, thread, "delete"):
        await asyncio.to_thread(process.agent.delete, thread)
        process.unsaved.pop(thread, None)
        life.trace("deleted", thread)


async def close(life, process, thread):
    life.closed = True
    with Call(life, process, thread, "aclose"):
        await process.agent.aclose(life.random.choice([0.0, 0.05, 5.0]))


async def watch(life, process, watcher, wait=False):
    """Follow a thread from where the watcher left off; return whether it came to an end."""
    thread, random = watcher.thread, life.random
    slow, watcher.by = random.random() < 0.3, process
    with Call(life, process, thread, "follow", cuts=True) as call:
        async with aclosing(process.agent.follow(thread, after=watcher.last, wait=wait)) as events:
            async for event in events:
                watcher.sees(event)
                if slow and not isinstance(event, Rewound):
                    await asyncio.sleep(random.expovariate(20))
                if random.random() < 0.02 and not watcher.last_time:
                    return False
        watcher.complete()
        return True
    return isinstance(call.error, ConfigError | UnknownThread)
