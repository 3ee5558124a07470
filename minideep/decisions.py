"""A person's decisions: which waiting call each is for, and the events that let the thread go on."""

import time
from collections.abc import Mapping

from .errors import ConfigError
from .events import AnyEvent, Decided, Resumed
from .state import Decision, Interrupt, Limits, Path


def match(waiting: tuple[Interrupt, ...], decisions: Mapping[str, Decision]) -> list[tuple[Interrupt, Decision]]:
    """Each decision with the call that it is for, found by the call's id or by `path/id`.

    Raises:
        ConfigError: it is for no waiting call, or for more than one.
    """
    found: list[tuple[Interrupt, Decision]] = []
    names = [("/".join((*wait.path, wait.call_id)), wait) for wait in waiting]
    for name, decision in decisions.items():
        matching = [wait for full, wait in names if name in (full, wait.call_id)]
        if not isinstance(decision, Decision):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigError(f"{name!r}: a decision is Approve, Edit, Reject or Respond, not {decision!r}")
        if len(matching) != 1:
            problem = "more than one call waits under" if matching else "no call waits under"
            raise ConfigError(f"{problem} {name!r}; waiting are {', '.join(full for full, _ in names) or 'none'}")
        found.append((matching[0], decision))
    return found


def resumption(decided: list[tuple[Interrupt, Decision]], limits: Limits) -> list[tuple[Path, AnyEvent]]:
    """The events that let a thread go on: each decision in the log of the run that owns the call, and `Resumed`
    there and in every run above it, naming the calls whose children go on.
    """
    now = time.time()
    going: dict[Path, set[str]] = {(): set()}
    for wait, _ in decided:
        going.setdefault(wait.path, set())
        for depth, key in enumerate(wait.path):
            going.setdefault(wait.path[:depth], set()).add(key.split("/")[0])
    decisions: list[tuple[Path, AnyEvent]] = [(wait.path, Decided(wait.call_id, answer)) for wait, answer in decided]
    return decisions + [
        (path, Resumed(now, None if path else limits, tuple(sorted(calls)))) for path, calls in going.items()
    ]
