"""A person's decisions: the pending call that each is for, and the events that resume the thread."""

import time
from collections.abc import Mapping
from contextlib import suppress

from ..checkpoint import encode
from ..errors import ConfigError, MinideepError
from ..events import AnyEvent, Decided, Resumed
from ..plain_json import is_json
from ..state import (
    Answer,
    Decision,
    Edit,
    Interrupt,
    Limits,
    OpenCall,
    Path,
    RecordedDecision,
    Respond,
    State,
    UnattendedDecision,
)


def match(state: State, decisions: Mapping[str, Decision]) -> list[tuple[Interrupt, RecordedDecision]]:
    """Return each decision with the call that it is for, found by the call's id, by `path/id` or by its key.

    *state* is the main run's. A paused call there lists the interrupts of its children too, each with its path.

    Raises:
        ConfigError: a decision is for no pending call or for several, or two are for the same one; or calls wait in a
            turn that is not paused.
    """
    # After a crash calls may wait in a turn that is not paused, since its other calls had not ended. Or the call that
    # is decided about does not wait again yet.
    if decisions and state.interrupts and state.status == "escalated":
        raise ConfigError("the agent asks a question while calls wait; answer it with `run`")
    if decisions and (state.status == "running" or (state.interrupts and state.status != "paused")):
        how = "cut short" if state.status == "running" else state.status
        raise ConfigError(f"the turn was {how} before every call waited; `resume` it without decisions, then decide")
    found: dict[tuple[Path, str], tuple[Interrupt, RecordedDecision]] = {}
    waiting = state.interrupts if state.status == "paused" else ()
    names = [("/".join((*wait.path, wait.call_id)), wait) for wait in waiting]
    for name, decision in decisions.items():
        _check(name, decision)
        matching = [wait for full, wait in names if name in (full, wait.call_id, wait.key)]
        if len(matching) != 1:
            problem = "several pending calls are named" if matching else "no pending call"
            raise ConfigError(f"{problem} {name!r}; pending: {', '.join(full for full, _ in names) or 'none'}")
        place = (matching[0].path, matching[0].call_id)
        # `p1` and `task/p1` may name the same call, and the later decision would win unseen.
        if place in found:
            raise ConfigError(f"two decisions are for the pending call {name!r}; give one of them")
        found[place] = (matching[0], _fitting(matching[0], name, decision))
    return list(found.values())


def decided_beforehand(entry: OpenCall, decision: UnattendedDecision) -> RecordedDecision | None:
    """Return *decision*, which was made before anything waited, for a call; None if it cannot be given about it, or if
    only children of it wait.
    """
    own = [wait for wait in entry.waits if wait.call_id == entry.call.id]
    if not own or own != [*entry.waits]:
        return None
    with suppress(ConfigError):
        return _fitting(own[0], entry.call.id, decision)
    return None


def _fitting(wait: Interrupt, name: str, decision: Decision) -> RecordedDecision:
    """Return *decision* as it is recorded for the call that waits.

    Raises:
        ConfigError: it is not of a kind that may be given about this call.
    """
    kind: str = type(decision).__struct_config__.tag  # type: ignore[assignment]
    kinds = wait.decisions or ("approve", "edit", "reject", "respond")
    if kind not in kinds:
        problem = f"{kind.capitalize()} cannot be given about this call of {wait.call.name}"
        raise ConfigError(f"{name!r}: {problem}; give {' or '.join(one.capitalize() for one in kinds)}")
    return Answer(decision.text) if wait.question and isinstance(decision, Respond) else decision


def _check(name: str, decision: Decision) -> None:
    """Refuse a decision that the log cannot keep, before anything is recorded."""
    if isinstance(decision, Edit) and not (decision.raw.startswith(b"{") and is_json(decision.raw)):
        raise ConfigError(f"{name!r}: an Edit takes the call's arguments as a mapping, not {decision.raw!r}")
    # As the log will do it: one that cannot be stored would leave those before it half recorded.
    try:
        encode(1, Decided(name, decision))
    except MinideepError as exc:
        raise ConfigError(f"{name!r}: {decision!r} cannot be kept: {exc}") from None


def resumption(
    decided: list[tuple[Interrupt, RecordedDecision]], limits: Limits, seconds: float = 0.0
) -> list[tuple[Path, AnyEvent]]:
    """Return the events that resume a thread, each with the path of its run.

    A decision goes to the run that owns the call. `Resumed` goes there and to every run above it, and names the calls
    whose children are resumed. *seconds* is what a turn that was cut short had taken.
    """
    now = time.time()
    resumed: dict[Path, set[str]] = {(): set()}
    for wait, _ in decided:
        resumed.setdefault(wait.path, set())
        for depth, key in enumerate(wait.path):
            resumed.setdefault(wait.path[:depth], set()).add(key.split("/")[0])  # A child's key is `call id/key`.
    events: list[tuple[Path, AnyEvent]] = []
    for path in sorted(resumed, key=len):  # The main run first: readers find where a turn begins by its `Resumed`.
        # `Decided` first: it needs a run that is still paused.
        events += [(path, Decided(wait.call_id, answer)) for wait, answer in decided if wait.path == path]
        events.append(
            (path, Resumed(now, None if path else limits, tuple(sorted(resumed[path])), 0.0 if path else seconds))
        )
    return events
