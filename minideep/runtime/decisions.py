"""A person's decisions: which waiting call each is for, and the events that let the thread go on."""

import time
from collections.abc import Mapping

from ..checkpoint import decode, encode
from ..errors import ConfigError, MinideepError
from ..events import AnyEvent, Decided, Resumed
from ..messages import is_json
from ..state import Decision, Edit, Interrupt, Limits, Path, State


def match(state: State, decisions: Mapping[str, Decision]) -> list[tuple[Interrupt, Decision]]:
    """Each decision with the call that it is for, found by the call's id or by `path/id`.

    Raises:
        ConfigError: it is for no waiting call, for more than one, or for one that another is for.
    """
    if decisions and state.interrupts and state.status != "paused":
        if state.status == "escalated":
            raise ConfigError("the agent asks something while calls wait: answer it with `run`")
        how = "cut short" if state.status == "running" else state.status
        raise ConfigError(f"the turn was {how} while calls waited: `resume` it alone, and decide then")
    found: dict[tuple[Path, str], tuple[Interrupt, Decision]] = {}
    waiting = state.interrupts if state.status == "paused" else ()
    names = [("/".join((*wait.path, wait.call_id)), wait) for wait in waiting]
    for name, decision in decisions.items():
        _check(name, decision)
        matching = [wait for full, wait in names if name in (full, wait.call_id)]
        if len(matching) != 1:
            problem = "more than one call waits under" if matching else "no call waits under"
            raise ConfigError(f"{problem} {name!r}; waiting are {', '.join(full for full, _ in names) or 'none'}")
        place = (matching[0].path, matching[0].call_id)
        if place in found:
            raise ConfigError(f"two decisions are for the call that waits under {name!r}")
        found[place] = (matching[0], decision)
    return list(found.values())


def _check(name: str, decision: Decision) -> None:
    if isinstance(decision, Edit) and not (decision.raw.startswith(b"{") and is_json(decision.raw)):
        raise ConfigError(f"{name!r}: an Edit holds the call's arguments as a mapping, not {decision.raw!r}")
    try:
        decode(encode(1, Decided(name, decision)))
    except MinideepError as exc:
        raise ConfigError(f"{name!r}: {decision!r} cannot be kept: {exc}") from None


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
    events: list[tuple[Path, AnyEvent]] = []
    for path in sorted(going, key=len):  # The main run first: its log alone says where a turn begins.
        events += [(path, Decided(wait.call_id, answer)) for wait, answer in decided if wait.path == path]
        events.append((path, Resumed(now, None if path else limits, tuple(sorted(going[path])))))
    return events
