"""Workers killed at random moments or at chosen points, and every thread that they leave behind examined.

After each kill the thread is read in every way there is and compared with one that nobody disturbed. Then another
process resumes it, and may be killed in turn, until the thread is whole. `killing` has the worker and what must hold.
"""

import asyncio
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from random import Random

from harness import killing
from harness.killing import Diary, Left, Life, Plan, Store

AIMS = ("", "tool", "model", "save", "join")
PLACES = ("tool", "model", "save", "join", "else")
DURABILITIES = ("turn", "step", "tool")


class Series:
    """Threads that follow one plan, and the lives of their workers."""

    def __init__(self, plan: Plan, durability: str, strict: bool, random: Random, pause: float = 0.005) -> None:
        self.plan, self.durability, self.strict, self.random, self.pause = plan, durability, strict, random, pause
        self.whole = killing.undisturbed(plan)
        self.kills = self.threads = 0
        self.places: Counter[str] = Counter()
        self.tools: list[int] = []
        self.replies: list[int] = []

    def thread(self) -> None:
        """Drive one thread from its first input to its end, through as many lives as it takes."""
        lives: list[list[str]] = []
        stored, repeats = [Left()], Counter[str]()
        with tempfile.TemporaryDirectory() as folder:
            while not stored[-1].done:
                life = Life(partial(self.live, partial(killing.Watched, f"{folder}/state")))
                self.strike(life)
                ended = self.buried(folder, life, lives, stored)
                if not ended:
                    self.count(life.told, stored[-1], repeats)
        killing.expect(repeats.total() == repeated(lives), "more was done again than what was lost")
        self.threads += 1

    def dies_at(self, point: int, appends: bool) -> bool:
        """Kill the first worker of a thread at *point* and let the second finish it; return False past the last point."""
        lives: list[list[str]] = []
        stored = [Left()]
        with tempfile.TemporaryDirectory() as folder:
            for last in (point, 0):
                life = Life(partial(self.live, partial(killing.Fatal, f"{folder}/state", last, appends)))
                if self.buried(folder, life, lives, stored):
                    break
        killing.expect(stored[-1].done, "the second worker has not come to the end")
        return len(lives) == 2

    def live(self, store: Callable[[Diary], Store], diary: Diary) -> None:
        random = Random(self.random.random())  # The fork's own: the parent's does not move.
        with store(diary) as opened:
            agent = killing.worker(self.plan, opened, diary, self.durability, lambda: random.uniform(0, self.pause))
            asyncio.run(killing.live(agent, self.plan, diary, random))

    def buried(self, folder: str, life: Life, lives: list[list[str]], stored: list[Left]) -> bool:
        """Wait until a life ends and examine what it left; return True if it finished the plan."""
        ended = life.end()
        lives.append(life.told)
        stored.append(self.read(folder))
        killing.expect(stored[-1].done or not ended, "a worker has ended before its plan")
        killing.never_again(lives, stored)
        return ended

    def strike(self, life: Life) -> None:
        """Kill a life at a random moment, or right after a random line of its diary."""
        aim, count = self.random.choice(AIMS), self.random.randint(1, 12)
        if not aim:
            time.sleep(self.random.uniform(0.01, 0.4))
        elif aim == "join":
            count = 1 + count // 5
        while aim and count and (line := life.listen()):
            count -= line.startswith(f"{aim}+")
        if aim:
            time.sleep(self.random.uniform(0, 0.004 if aim in ("tool", "model") else 0.0015))
        life.kill()

    def read(self, folder: str) -> Left:
        """Read the store from a copy: the next worker must find what the kill left, and nothing tidier."""
        if not Path(folder, "state").exists():
            return Left()
        copy = shutil.copytree(f"{folder}/state", f"{folder}/copy", ignore=shutil.ignore_patterns("live"))
        left = killing.examine(copy, self.plan, self.whole, self.strict)
        shutil.rmtree(copy)
        return left

    def count(self, life: list[str], left: Left, repeats: Counter[str]) -> None:
        tools, replies = killing.lost(life, left)
        repeats.update(tools | replies)
        self.kills += 1
        self.places[killing.place(life)] += 1
        self.tools.append(len(tools))
        self.replies.append(len(replies))

    def row(self, name: str) -> str:
        hit = "".join(f"{self.places[place]:6}" for place in PLACES)
        again = "".join(f"{sum(lost) / len(lost):8.2f} {max(lost):4}" for lost in (self.tools, self.replies))
        return f"{name:18}{self.kills:6}{self.threads:8}  {hit}  {again}"


def repeated(lives: list[list[str]]) -> int:
    """Return the number of calls and replies that were begun again."""
    begun = Counter(line for life in lives for line in life if line.startswith(("tool+", "model+")))
    return begun.total() - len(begun)


def kills(rounds: int, seed: int) -> None:
    """Kill workers *rounds* times for each durability, and half as often in turns that wait for a person.

    Prints a table: where the kills hit, and how many calls and replies had to be made again.

    Raises:
        Violation: a thread is not what it must be.
    """
    print(f"seed {seed}\n{'':18}{'kills':>6}{'threads':>8}  {'killed in':30}  {'calls again':13}{'replies again':>15}")
    print(f"{'durability':32}  {''.join(f'{place:>6}' for place in PLACES)}  {'mean':>8}  max{'mean':>8}  max")
    for what, plan, part in (("", killing.turns(4), 1), (", asks", killing.payments(2), 2)):
        for durability in DURABILITIES:
            series = Series(plan, durability, durability == "turn" and not what, Random(f"{seed}{durability}{what}"))
            while series.kills < rounds / part:
                series.thread()
            print(series.row(durability + what), flush=True)


def points(every: int, appends: int = 1) -> None:
    """Kill a short thread with parallel pauses once at each *appends*th point before and after its appends, and before
    each *every*th statement of SQL.

    With *appends* 2, that is right before each append, after all effects that it would save. The point after the append
    before leaves the same rows, and fewer effects.

    Raises:
        Violation: a thread is not what it must be.
    """
    for around, stride in ((True, appends), (False, every)):
        for durability in DURABILITIES:
            series = Series(killing.pauses(), durability, False, Random(1), pause=0)
            reached = next(point for point in count(1, stride) if not series.dies_at(point, around))
            killing.expect(reached > stride, "no worker was killed")
            kind = "around appends" if around else "before statements"
            print(f"{durability:8} {reached - stride:4} points {kind}, every {stride}", flush=True)
