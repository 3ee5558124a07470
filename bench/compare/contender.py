"""What each module in `contenders/` has: a title, its packages, its configurations, and an agent that does the work."""

import argparse
import ast
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, cast

from .work import Work

FOLDER = Path(__file__).parent / "contenders"
FIRST = ("minideep", "deep_minideep", "langgraph", "deepagents")
Kept = Literal["caller", "memory", "disk"]
"""Where threads are between turns: with the caller or in the agent itself, in a store in memory, or on a disk."""


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
        """Return what the store has of *thread*: roles ("user", "assistant", "tool") and texts, without the prompt.

        A thread that is not there has none.
        """
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


class About(NamedTuple):
    """What a module in `contenders/` says of itself."""

    title: str
    packages: tuple[str, ...]
    configurations: dict[str, Kept]
    cannot: dict[str, str]
    """The works that it cannot do, and why."""


def about(name: str) -> About:
    """Read what a contender says of itself, from its source: its packages need not be here, and load slowly."""
    found: dict[str, Any] = {"CANNOT": {}}
    for node in ast.parse((FOLDER / f"{name}.py").read_text()).body:
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if isinstance(target, ast.Name) and target.id in ("TITLE", "PACKAGES", "CONFIGURATIONS", "CANNOT"):
            found[target.id] = ast.literal_eval(cast(ast.Assign, node).value)
    return About(found["TITLE"], found["PACKAGES"], found["CONFIGURATIONS"], found["CANNOT"])


def names() -> list[str]:
    """Return the names of all contenders in the order of their rows."""
    found = sorted(path.stem for path in FOLDER.glob("[a-z]*.py"))
    return [*(name for name in FIRST if name in found), *(name for name in found if name not in FIRST)]


def known(text: str) -> list[str]:
    """Return the contenders that a command line names, separated by commas."""
    chosen = text.split(",")
    unknown = [name for name in chosen if name not in names()]
    if unknown:
        raise argparse.ArgumentTypeError(f"no contender {', '.join(unknown)}; there are {', '.join(names())}")
    return [name for name in names() if name in chosen]


def load(name: str) -> Contender:
    """Import a contender, and with it what it is made of."""
    return cast(Contender, import_module(f"{__package__}.contenders.{name}"))
