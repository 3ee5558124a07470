"""The work that is measured: texts that never repeat, tools and models that answer at once, turns that stand still."""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from pathlib import Path
from random import Random
from typing import Any

from minideep import Agent, Limits, ToolCall, tool
from minideep.models import ScriptedModel
from minideep.ports import Request

WORDS = Path(__file__).read_text().split() + inspect.getsource(Agent).split()
RANDOM = Random(7)
PHRASES = [f"{RANDOM.choice(WORDS)} {RANDOM.randrange(10**4)}" for _ in range(50_000)]
NO_LIMIT = Limits(steps=None)
STEPS = 100
"""Steps between two looks at the clock."""


def text(size: int) -> str:
    """Return new text of *size* characters, about as compressible as prose."""
    return " ".join(RANDOM.choices(PHRASES, k=size // 8 + 1)).ljust(size, ".")[:size]


@tool
async def ping(text: str = "") -> str:
    """Answer at once."""
    return "pong"


@tool
def ping_on_a_thread(text: str = "") -> str:
    """Answer at once, on an OS thread."""
    return "pong"


class Pages:
    """Texts that are made before the clock starts, and a tool that returns the next one."""

    def __init__(self, size: int = 2_000) -> None:
        self.size, self.texts = size, list[str]()
        self.tool = tool(self.look)

    def print(self, count: int) -> None:
        """Make sure that *count* texts are ready."""
        self.texts += [text(self.size) for _ in range(count - len(self.texts))]

    async def look(self) -> str:
        """Look at the next page."""
        return self.texts.pop()


LOOK = ToolCall("look", {})


def reading(steps: int) -> Callable[[Request], Any]:
    """Return what a model does that looks at *steps* pages, one after another, and is done. It goes by the request."""

    def say(request: Request) -> Any:
        results = 0
        for message in reversed(request.messages):
            if message.role == "user":
                break
            results += message.role == "tool"
        return LOOK if results < steps else "done"

    return say


def done(request: Request) -> str:
    """Answer every request alike."""
    return "done"


class Pausing(ScriptedModel):
    """A model that asks for *calls* at each step, and stands still after as many steps as it was told to take."""

    def __init__(self, calls: list[Any], window: int | None = None) -> None:
        super().__init__(self._say, window)
        self.reply, self.left = calls, 0
        self.stands, self.goes = asyncio.Event(), asyncio.Event()

    async def forward(self, steps: int) -> None:
        """Let the turn go on for *steps* steps."""
        self.left = steps
        self.stands.clear()
        self.goes.set()
        await self.stands.wait()

    def _say(self, request: Request) -> Any:
        self.left -= 1
        return self.reply if self.left >= 0 else self._wait()

    async def _wait(self) -> list[Any]:
        self.goes.clear()
        self.stands.set()
        await self.goes.wait()
        self.left -= 1
        return self.reply


class Turn:
    """A turn that stands still between rounds, so that only its steps are measured. *begin* runs it with a model."""

    def __init__(
        self,
        runner: asyncio.Runner,
        begin: Callable[[Pausing], Coroutine[Any, Any, Any]],
        calls: list[Any],
        *,
        window: int | None = None,
    ) -> None:
        self._runner, self._model = runner, Pausing(calls, window)
        self._task = runner.get_loop().create_task(begin(self._model))

    def forward(self, steps: int = STEPS) -> None:
        """Let it go on for *steps* steps."""
        self._runner.run(self._forward(steps))

    async def _forward(self, steps: int) -> None:
        standing = asyncio.ensure_future(self._model.forward(steps))
        await asyncio.wait([standing, self._task], return_when=asyncio.FIRST_COMPLETED)
        assert not self._task.done(), f"the turn ended too early: {self._task}"


def pings(count: int = 1, name: str = "ping") -> list[Any]:
    return [ToolCall(name, {"text": "x"}) for _ in range(count)]


def counted(what: str) -> Callable[[int], str]:
    """Return a function that names numbers of *what* in a table."""
    return lambda count: f"{count:,} {what}{'s' * (count != 1)}"
