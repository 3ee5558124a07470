"""A thread that is put through something: the work with a trap, a session in a folder, and processes of their own."""

import asyncio
import multiprocessing
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

from .contender import Contender, Session
from .work import DONE, Work

STEPS, PATIENCE, THREAD = 8, 120, "t"
FORK = multiprocessing.get_context("fork")  # The imports of a contender are made once.

Messages = list[tuple[str, str]]


class Trial(Work):
    """The work on one thread. What *trap* does happens when *place*, "tool" or "model", reaches *page*."""

    def __init__(
        self, folder: Path, trap: Callable[[], None] | None = None, place: str = "", page: int = -1, pause: float = 0
    ) -> None:
        super().__init__(STEPS, turns=4)
        self.folder = folder
        self.trap = trap
        self.trapped = place, page
        self.pause = pause

    def read(self, page: int) -> str:
        with (self.folder / "effects").open("a") as effects:
            effects.write(f"{page}\n")
        self.reached("tool", page)
        return super().read(page)

    def reply(self, last: str, request: Callable[[], Sequence[str]]) -> int | None:
        time.sleep(self.pause)
        page = super().reply(last, request)
        self.reached("model", page)
        return page

    def reached(self, place: str, page: int | None) -> None:
        if self.trap and self.trapped == (place, page):
            self.trap()

    def effects(self, turn: int) -> Counter[int]:
        """Return how often each call of a turn ran, by its step."""
        lines = (self.folder / "effects").read_text().split()
        pages = (int(line) - turn * STEPS for line in lines)
        return Counter(page + 1 for page in pages if 0 <= page < STEPS)

    def missing(self, messages: Messages, turns: Iterable[int]) -> list[str]:
        """Return what of some finished turns is not in the messages, or is there twice."""
        found, turns = list[str](), list(turns)
        for turn in turns:
            asked = sum(self.question(turn) in text for role, text in messages if role == "user")
            pages = self.pages[turn * STEPS : (turn + 1) * STEPS]
            results = Counter(sum(page in text for role, text in messages if role != "assistant") for page in pages)
            parts = [("the user's message", 1 - asked), ("results", results[0])]
            found += [f"{name} of turn {turn + 1}" for name, lacking in parts if lacking > 0]
            if asked > 1 or any(times > 1 for times in results):
                found.append(f"turn {turn + 1} is there twice")
        found += ["an answer"] * (sum(DONE in text for _, text in messages) < len(turns))
        asks = [role == "assistant" and DONE not in text for role, text in messages]
        answered = [role == "tool" for role, _ in messages[1:]] + [False]
        torn = any(ask and not result for ask, result in zip(asks, answered, strict=True))
        return found + ["the order of calls and results"] * torn

    def is_mixed(self, messages: Messages, turns: Iterable[int]) -> bool:
        """Return True if messages of one of the turns stand among those of another one."""
        spans = list[range]()
        for turn in turns:
            texts = [self.question(turn), *self.pages[turn * STEPS : (turn + 1) * STEPS]]
            at = [place for place, (_, text) in enumerate(messages) if any(one in text for one in texts)]
            spans.append(range(min(at, default=0), max(at, default=0) + 1))
        return any(range(max(a.start, b.start), min(a.stop, b.stop)) for a, b in combinations(spans, 2))


class Place(NamedTuple):
    """A contender in one configuration, and the folder of a trial."""

    contender: Contender
    configuration: str
    folder: Path
    many: bool
    """False if a thread can have one turn only."""

    @property
    def before(self) -> tuple[int, ...]:
        """The turns that a thread has before the one of the scenario."""
        return (0,) if self.many else ()

    @asynccontextmanager
    async def session(self, work: Work) -> AsyncIterator[Session]:
        (store := self.folder / "store").mkdir(exist_ok=True)
        session = await self.contender.open(self.configuration, store, work)
        try:
            yield session
        finally:
            await session.close()


class Child:
    """A forked process that runs a coroutine function and hands back what it returned."""

    def __init__(self, act: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self.answer, answer = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=_in_child, args=(answer, act, args))
        self.process.start()
        answer.close()

    def result(self) -> Any:
        """Return what it returned, or None if it was killed.

        Raises:
            RuntimeError: it raised, or it does not end.
        """
        try:
            if not self.answer.poll(PATIENCE):
                self.process.kill()
                raise RuntimeError(f"a process did not end within {PATIENCE} s")
            result, problem = self.answer.recv()
        except EOFError:
            result, problem = None, ""
        self.process.join()
        if problem:
            raise RuntimeError(f"{problem}: {result}")
        return result


def _in_child(answer: Any, act: Callable[..., Awaitable[Any]], args: tuple[Any, ...]) -> None:
    quiet = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # What a contender logs about the failures.
        os.dup2(quiet, stream)
    answer.send(asyncio.run(outcome(act(*args))))


async def outcome(act: Awaitable[Any]) -> tuple[Any, str]:
    """Return what *act* returns, and the name of the exception if it raised one."""
    try:
        return await act, ""
    except Exception as problem:  # noqa: BLE001  Whatever a contender raises is its outcome.
        return str(problem), type(problem).__name__


def in_child(act: Callable[..., Awaitable[Any]], *args: Any) -> Any:
    return Child(act, *args).result()


async def attempt(turn: Awaitable[str]) -> str:
    """Return "" if *turn* ends with its answer, or else what came instead."""
    text, problem = await outcome(turn)
    return problem or ("" if text == DONE else "another answer")


async def run_turn(place: Place, work: Trial, turn: int) -> str:
    async with place.session(work) as session:
        return await attempt(session.turn(THREAD, work.question(turn)))


async def read(place: Place) -> Messages:
    """Return what a new session finds. A store that it cannot read has no message but the name of the error."""

    async def messages() -> Messages:
        async with place.session(Trial(place.folder)) as session:
            return await session.messages(THREAD)

    found, problem = await outcome(messages())
    return [("unreadable", problem)] if problem else found


async def continued(place: Place, work: Trial, turn: int) -> tuple[Messages, bool, str]:
    """Look at a turn that was cut short, and resume it or send its message again.

    Return what was there, True if it was resumed, and what was raised.
    """
    there = await read(place)
    async with place.session(work) as session:
        if any(work.question(turn) in text for role, text in there if role == "user"):
            problem = await attempt(session.resume(THREAD))
            if problem != "LookupError":
                return there, True, problem
        return there, False, await attempt(session.turn(THREAD, work.question(turn)))
