"""What each module in `contenders/` has: a title, its packages, its configurations, and an agent that does the work."""

from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Literal, Protocol, cast

from . import contenders
from .work import Work

Kept = Literal["caller", "memory", "disk"]
"""Where threads are between turns: with the caller, who hands the messages over again, in memory, or on a disk."""


class Session(Protocol):
    """An agent with its store, opened. A contender without a coroutine for something blocks the event loop."""

    async def turn(self, thread: str, text: str) -> str:
        """Run one turn of *thread* from the user's message *text*; return the text of the last reply."""
        ...

    async def resume(self, thread: str) -> str:
        """Continue a turn that a killed process left; return the text of the last reply.

        Raises:
            LookupError: nothing is stored that can be continued.
        """
        ...

    async def messages(self, thread: str) -> list[tuple[str, str]]:
        """Return what the store has of *thread*: roles ("user", "assistant", "tool") and texts, without the prompt."""
        ...

    async def close(self) -> None:
        """Save what is left, and release the store."""
        ...


class Contender(Protocol):
    """A module in `contenders/`. Its own imports are those that a user of it needs."""

    TITLE: str
    PACKAGES: tuple[str, ...]
    CONFIGURATIONS: dict[str, Kept]
    """By name. One that is called `compaction` summarizes as the contender ships; no other one does."""

    def build(self, work: Work) -> object:
        """Build an agent without a store."""
        ...

    async def open(self, configuration: str, folder: Path, work: Work) -> Session:
        """Build an agent, and open its store in *folder* if the configuration has one."""
        ...


def names() -> list[str]:
    """Return the names of all contenders, minideep's first."""
    found = [module.name for module in iter_modules(contenders.__path__)]
    return sorted(found, key=lambda name: ("minideep" not in name, len(name) if "minideep" in name else 0, name))


def load(name: str) -> Contender:
    """Import a contender, and with it what it is made of."""
    return cast(Contender, import_module(f"{contenders.__name__}.{name}"))
