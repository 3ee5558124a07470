"""Delegation: running an agent below a tool call. Its run is opened or continued, bounded in number, and driven."""

import time
from collections.abc import Sequence
from time import perf_counter

from msgspec import structs

from ..context import DRIVEN, CallPaused
from ..errors import ConfigError, ToolError
from ..events import Noted, Resumed, UserSaid
from ..messages import Input, Message, clean
from ..spec import AgentSpec, Runnable, Said
from ..state import BUDGETS, Path, State
from ..turn import Turn
from .loop import drive
from .run import Call, Run
from .spec import below, check_prices, overridden

INSTEAD = "do this work yourself with the tools that you have"
"""The remedy for a model that may not delegate."""


async def run_child(call: Call, agent: Runnable, input: Input, key: str | None, attempt: int) -> Turn:
    """Run *agent* below a call, or continue what the log has of it. This is what `ToolContext.run` does."""
    started, parent = perf_counter(), call.run
    said = agent.spec.accept(input, agent.spec.model)
    key = key_of(call, key, attempt)
    # Before the child begins, so that a second one under its key is refused.
    call.children[key] = ended = parent.loop.create_future()
    try:
        child = open_child(call, spec_below(agent, parent.spec), key, said)
        state = child.state
        try:
            if state.status == "running":
                parent.below[child] = started
                await drive(child)
                if "result" in child.saves_at:
                    await child.checkpoint()  # The call may run others for long.
        finally:
            parent.child_over(child, started)
        # A child that lost the thread is `failed`. The tool must not take that for a result and go on.
        if (conflict := parent.scope.conflict) is not None:
            raise conflict
        if state.status == "paused":
            # Kept by the call, since a tool may swallow even this exception.
            call.paused += state.interrupts
            raise CallPaused
        if is_out_of_budget(state) and parent.over_budget():
            # An answer would close the call, and the child's work, which was paid for, could never be continued.
            call.stopped = True
            raise CallPaused
        return child.turn()
    finally:
        ended.set_result(None)


def spec_below(agent: Runnable, parent: AgentSpec) -> AgentSpec:
    """Return the spec of *agent* as it works for *parent*: the guards of *parent* hold there too."""
    return below(overridden(agent.spec, parent), parent)


def spec_beside(agent: Runnable, parent: AgentSpec) -> AgentSpec:
    """Return the spec of *agent* as it works for *parent* in a thread of its own, with the same version and tags."""
    return structs.replace(spec_below(agent, parent), about=parent.about)


def key_of(call: Call, key: str | None, attempt: int) -> str:
    """Return the key of a child of *call*, which no other child of it has.

    Raises:
        ConfigError: *key* is taken, or UTF-8 cannot encode it.
    """
    # The key becomes part of rows and events: one lone surrogate would block every later append.
    if key and clean(key) != key:
        raise ConfigError(f"key {key!r} holds characters that UTF-8 cannot encode; give another one")
    # A call that a middleware runs again begins fresh children, since those of the first attempt are over.
    name = f"{key or ''}#{attempt}" if attempt > 1 else key
    call_id = call.entry.call.id
    full = f"{call_id}/{name}" if name else call_id
    # The second child would be given the answer of the first one out of the log.
    if full in call.children:
        raise ConfigError(f"call {call_id!r} already runs a child under key {key!r}; give each its own `key`")
    return full


def open_child(call: Call, spec: AgentSpec, key: str, said: Said) -> Run:
    """Return the run of *spec* below *call* for what was *said*: a new one, or the one in the log. One that was cut
    short is made to run again; one that is over, or that waits for a person, is returned as it is.

    Raises:
        ToolError: it would be one run too many, for the parent or for a run above it; nothing was begun.
        ConfigError: the log knows *key* with another agent or input; or a cost budget applies here, and a model of
            *spec* does not state its cost. Nothing was begun.
    """
    parent, path, (earlier, message) = call.run, (*call.run.path, key), said
    # What is in memory was resumed by a decision in this turn, or has events that no append has saved yet.
    in_memory = path in parent.journal.states
    # A child that is continued was checked and counted when it began.
    if not in_memory and path not in parent.journal.log.runs:
        for run in parent.budgets:
            check_prices(spec, run.state.limits, run.spec.name)
        count_child(parent, path)
    child = parent.child(spec, path, call)
    state = child.state
    if state.status == "ready":
        if earlier:
            from .inputs import record_history

            record_history(child, earlier)
        child.record(UserSaid(message, time.time(), spec.limits, agent=spec.name))
        _share_notes(child, parent.state)
    # After a deploy, or with an input made from the clock, the log has the answer to another question.
    elif state.agent != spec.name or (state.said != message and not spec.keyed):
        raise ConfigError(f"run {path!r} was begun by agent {state.agent!r} or with another input; give a `key`")
    elif _goes_on(parent, state, in_memory):
        # One that failed, or reached a limit while its parent could go on, is over, and its caller knows.
        was_running, child.has_new_budget = state.status == "running", state.status == "exhausted"
        seconds = child.seconds_before() if was_running else 0.0
        child.record(Resumed(time.time(), spec.limits, seconds=seconds))
        if was_running:
            child.take_over()
    return child


def _goes_on(parent: Run, child: State, in_memory: bool) -> bool:
    """Return whether a child out of the log was cut short, or was stopped together with its parent."""
    if child.status == "running":
        return parent.live.taken_over or not in_memory
    return child.status == "cancelled" or (parent.has_new_budget and is_out_of_budget(child))


def is_out_of_budget(child: State) -> bool:
    """Return whether a budget stopped the run: its own, or one of a run above it."""
    return child.status == "exhausted" and child.reason in BUDGETS


def count_child(parent: Run, path: Path) -> None:
    """Count a run that begins at *path* for its parent and every run above, if the limits of all of them allow it.

    Raises:
        ToolError: one of them does not; nothing was counted.
    """
    line = [parent]
    while (above := line[-1].parent) is not None:
        line.append(above)
    # Every limit is asked before anything is counted: a child that is refused costs nobody anything.
    for run in line:
        limits, name = run.state.limits, run.spec.name
        if limits.max_depth is not None and len(path) - len(run.path) > limits.max_depth:
            found = f"below {name!r} there may be {limits.max_depth} levels of subagents"
            raise ToolError(f"not begun: {found}; {INSTEAD}")
        if limits.max_children is not None and run.begun >= limits.max_children:
            found = f"one reply of {name!r} may begin {limits.max_children} subagents, and has"
            raise ToolError(f"not begun: {found}; {INSTEAD}, or ask again in your next reply")
    for run in line:
        run.begun += 1


def _share_notes(child: Run, parent: State) -> None:
    """Copy the parent's notes that the agent of *child* shares."""
    for owner in child.spec.share:
        for name, value in parent.notes.get(owner, {}).items():
            child.record(Noted(owner, name, value))


async def messages_of_run(call_id: str) -> Sequence[Message]:
    """Return the messages in context of the run that an earlier call of the run that is driven here began; none if
    there was no such run.

    Raises:
        CheckpointError: it cannot be read.
    """
    run: Run = DRIVEN.get()
    journal, path = run.journal, (*run.path, call_id)
    if (state := journal.states.get(path)) is None:
        state, _ = await journal.store.off_loop(lambda: journal.saved_run(path))
    return tuple(state.messages)
