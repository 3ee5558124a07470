"""Processes that search a folder with their store inside it, and a busy process that forks.

Three processes run turns on the same threads; a turn searches the whole root and has an effect. A process that finds a
thread in use must get `ThreadBusy`. In the end the database must be sound and hold every saved turn once; no effect may
have happened twice, and none while another process held the thread. Then a process that appends all the time forks, and
every child must be able to write.
"""

import asyncio
import contextlib
import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from harness.killing import asked, expect
from harness.stores import plain
from minideep import Agent, DiskCheckpointer, ThreadBusy, ThreadConflict, ToolCall, create_deep_agent, tool
from minideep.backends import FilesystemBackend
from minideep.models import ScriptedModel

PROCESSES, THREADS = 3, ("a", "b")
TESTS = Path(__file__).parents[1]


def search(home: Path, name: str, seconds: float) -> None:
    """Run turns and print the outcome, thread and text of each."""

    @tool
    async def act(text: str) -> str:
        """Do something that must not happen twice, nor beside another runner of the thread."""
        mark = home / f"mark {text.split('.')[0]}"
        os.close(os.open(mark, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        await asyncio.sleep(0.002)
        mark.unlink()
        print(f"effect {text.split('.')[0]} {text}", flush=True)
        return "done"

    def say(request):
        text, replied = asked(request.messages)
        if replied == 2:
            return f"did {text}"
        return (
            ToolCall("act", {"text": text}, text) if replied else ToolCall("grep", {"pattern": "nothing"}, f"g{text}")
        )

    store = DiskCheckpointer(home / "root" / "state")
    agent = create_deep_agent(ScriptedModel(say), [act], backend=FilesystemBackend(home / "root"), checkpointer=store)

    async def run() -> None:
        number, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            number += 1
            thread = THREADS[number % len(THREADS)]
            text = f"{thread}.{name}.{number}"
            try:
                turn = await agent.run(text, thread, wait=number % 5 == 0)
            except ThreadBusy:
                print(f"ThreadBusy {thread} {text}", flush=True)
                await asyncio.sleep(0.005)
                continue
            if isinstance(turn.error, ThreadConflict) or turn.status != "ended" or not turn.saved:
                print(f"broken {thread} {text} {turn!r} {turn.error!r}", flush=True)
            else:
                print(f"saved {thread} {text}", flush=True)

    asyncio.run(run())
    store.close()


def searching(seconds: float) -> str:
    """Let three processes search; return a line of counts."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "root").mkdir()
        for number in range(30):
            (home / "root" / f"{number}.txt").write_text("some words\n" * 100)
        command = [sys.executable, "-m", "harness.attack", folder]
        processes = [
            subprocess.Popen([*command, str(n), str(seconds)], cwd=TESTS, stdout=subprocess.PIPE, text=True)
            for n in range(PROCESSES)
        ]
        lines = [line.split(" ", 3) for process in processes for line in process.communicate()[0].splitlines()]
        expect(not any(process.returncode for process in processes), "a process failed")
        tally = Counter(line[0] for line in lines)
        broken = [" ".join(line) for line in lines if line[0] == "broken"]
        expect(not broken, f"{len(broken)} turns broke, such as: {(broken or [''])[0]}")
        effects = Counter(line[2] for line in lines if line[0] == "effect")
        expect(max(effects.values()) == 1, f"effects that happened twice: {effects.most_common(3)}")
        with DiskCheckpointer(home / "root" / "state") as store:
            for thread in THREADS:
                state = Agent("offline:", checkpointer=store).get_state(thread)
                said = Counter(message.text for message in state.messages if message.role == "user")
                saved = Counter(line[2] for line in lines if line[0] == "saved" and line[1] == thread)
                expect(said == saved, f"thread {thread!r} holds other turns than those that were saved")
        with contextlib.closing(sqlite3.connect(home / "root" / "state" / "cache.db")) as db:
            expect(db.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the database is broken")
    return f"{PROCESSES} processes, {seconds:g} s: {tally['saved']} turns saved, {tally['ThreadBusy']} times ThreadBusy"


def forking(forks: int) -> str:
    """Fork beside threads that append all the time; return a line of counts."""
    with tempfile.TemporaryDirectory() as folder, DiskCheckpointer(folder) as store:
        going, appended = True, Counter[str]()

        def append(thread: str) -> None:
            head = None
            while going:
                new = os.urandom(8)
                plain(store).append(thread, head, new, {f"log/{thread}": os.urandom(20_000)})
                head = new
                appended[thread] += 1

        threads = [threading.Thread(target=append, args=(name,)) for name in "ab"]
        for thread in threads:
            thread.start()
        try:
            began = time.monotonic()
            children = [_child(store, number) for number in range(forks)]
            wrote = sum(_ended_well(pid, began + 60 + forks) for pid in children)
            seconds = time.monotonic() - began
        finally:
            going = False
            for thread in threads:
                thread.join()
        expect(wrote == forks, f"{wrote} of {forks} children wrote")
        expect(len(plain(store).keys("head/child", "head/childz")) == forks, "what a child wrote is gone")
    return f"{forks} forks beside {sum(appended.values())} appends: {wrote} children wrote, {seconds:.1f} s"


def _child(store: DiskCheckpointer, number: int) -> int:
    time.sleep(0.005)
    if pid := os.fork():
        return pid
    code = 1
    try:
        turn = Agent(ScriptedModel(["ok"]), checkpointer=store).run_sync("go", f"child {number}")
        code = 0 if turn.saved else 2
    finally:
        os._exit(code)


def _ended_well(pid: int, until: float) -> bool:
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status == 0
        time.sleep(0.005)
    os.kill(pid, 9)
    return False


def campaign(seconds: float, forks: int) -> None:
    """Search for *seconds*, then fork *forks* times. Prints what was counted.

    Raises:
        Violation: a turn is lost or there twice, an effect happened twice, or a child could not write.
    """
    print(searching(seconds), flush=True)
    print(forking(forks), flush=True)


if __name__ == "__main__":
    search(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
