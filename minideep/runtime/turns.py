"""The threads of an agent: one turn of each at a time, over all processes, and the last few kept in memory."""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from msgspec import Struct

from ..checkpoint import (
    CheckedStore,
    Durability,
    Journal,
    Redact,
    exists,
    hold_thread,
    off_loop,
    open_thread,
    unknown_thread,
)
from ..checks import checked
from ..errors import CheckpointError, ConfigError, IllegalEvent, ThreadConflict
from ..events import Noted, TurnCancelled, UserSaid
from ..messages import Input, as_message
from ..ports import ABOUT, AgentSpec, Emit
from ..state import Decision, ThreadId
from ..turn import Turn
from . import loop
from .calls import abandon, carried, result_of
from .decisions import match, resumption
from .process import TurnSlot
from .run import Run

logger = logging.getLogger("minideep")
KEPT = 16
"""Threads whose state an agent keeps in memory after a turn."""


class TurnConfig(Struct, frozen=True):
    """How one turn is run."""

    spec: AgentSpec
    store: CheckedStore
    durability: Durability
    redact: Redact | None
    context: Any
    emit: Emit | None
    wait: bool
    """Whether to wait for a thread that is busy."""


class Turns:
    """Begins turns, goes on with them, and remembers what the next one needs."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, str], Journal] = {}

    async def turn(self, terms: TurnConfig, input: Input, thread_id: str | None) -> Turn:
        """One turn from *input* to its boundary."""
        message, thread_id = as_message(input), checked_thread_id(thread_id)

        async def accept(run: Run) -> CheckpointError | None:
            cut_off = run.unanswered()
            try:
                run.record(UserSaid(message, time.time(), terms.spec.limits, agent=terms.spec.name))
                _note_changes(run)
            except IllegalEvent as exc:
                raise ConfigError(f"the input cannot be kept: {exc}") from None
            for path in cut_off:
                run.record_at(path, TurnCancelled(time.time()))
            return await run.save()

        async with TurnSlot(), hold_thread(terms.store, thread_id, terms.wait):
            journal = await self._open(terms.store, thread_id) or Journal(thread_id, terms.store)
            run = _run(terms, journal)
            with journal.running():
                turn = await self._accepted(run, await self._or_as_before(run, accept))
        journal.schedule()
        return turn

    async def resumed(self, terms: TurnConfig, thread_id: str, decisions: Mapping[str, Decision]) -> Turn:
        """Go on with a turn, or give the last one back."""
        store = terms.store
        if (id(store), thread_id) not in self._kept and not exists(store, thread_id):
            raise unknown_thread(thread_id)  # Before anything is made for it.

        async def accept(run: Run) -> CheckpointError | None:
            decided = match(run.state, decisions)
            for path, event in () if over else resumption(decided, terms.spec.limits):
                run.record_at(path, event)
            if not over:
                _note_changes(run)
            failed = await run.save()
            if failed and decided:
                raise failed
            return failed

        async with TurnSlot(), hold_thread(terms.store, thread_id, terms.wait):
            journal = await self._open(store, thread_id)
            if journal is None:
                raise unknown_thread(thread_id)
            run = _run(terms, journal)
            over = not decisions and run.state.status in ("ended", "escalated", "paused")
            with journal.running():
                failed = await self._or_as_before(run, accept)
                turn = self._handed_back(run, failed) if over else await self._accepted(run, failed)
        journal.schedule()
        return turn

    async def save(self, terms: TurnConfig, thread_id: str) -> None:
        """Append what earlier turns have left unsaved."""
        if (id(terms.store), thread_id) not in self._kept:
            if not exists(terms.store, thread_id):
                raise unknown_thread(thread_id)
            return
        async with hold_thread(terms.store, thread_id, terms.wait):
            try:
                if (kept := await self._left(terms.store, thread_id)) is not None:
                    kept.set_redact(terms.redact)
                    await kept.append()
            except ThreadConflict:
                self.forget(terms.store, thread_id)
                raise

    def forget(self, store: CheckedStore, thread_id: str) -> bool:
        """Keep nothing of a thread that is deleted; whether there was anything."""
        return self._kept.pop((id(store), thread_id), None) is not None

    async def _or_as_before(
        self, run: Run, accept: Callable[[Run], Awaitable[CheckpointError | None]]
    ) -> CheckpointError | None:
        """Accept an input; if that raises, what earlier turns left unsaved is kept as it was."""
        journal, unsaved = run.journal, run.journal.unsaved
        try:
            return await accept(run)
        except ThreadConflict:  # What was not saved can never be: another writer has gone on.
            raise
        except BaseException:
            if unsaved:
                journal.rollback(max(0, journal.unsaved - unsaved))
                self._keep(journal)
            await asyncio.sleep(0)  # A cancel that came meanwhile goes before.
            raise

    async def _accepted(self, run: Run, failed: CheckpointError | None) -> Turn:
        """Drive a turn whose input is accepted, and save its boundary; the answer comes back even if that fails."""
        try:
            await _driven(run)
        finally:
            try:
                failed = await run.save()
            except ThreadConflict as exc:
                failed = exc
            turn = self._handed_back(run, failed)
        return turn

    def _handed_back(self, run: Run, failed: CheckpointError | None) -> Turn:
        turn = run.turn()
        turn.saved = failed is None
        if failed is not None:
            logger.warning("thread %r is not saved: %s", run.thread_id, failed)
        turn.error = turn.error or failed
        if isinstance(failed, ThreadConflict):
            turn.status, turn.reason, turn.error = "failed", type(failed).__name__, failed
            return turn
        if turn.saved:
            run.journal.plan()
        self._keep(run.journal)
        return turn

    async def _open(self, store: CheckedStore, thread_id: str) -> Journal | None:
        """The thread as this agent left it, while the store still has it so; else as the store has it."""
        kept = await self._left(store, thread_id)
        self.forget(store, thread_id)
        if kept is not None and kept.unsaved:
            return kept
        head_row = store.head(thread_id)
        if head_row is None or (kept is not None and kept.is_current(head_row)):
            return kept if head_row else None
        return await off_loop(store, lambda: open_thread(store, thread_id))

    async def _left(self, store: CheckedStore, thread_id: str) -> Journal | None:
        """What is kept of a thread, without what was refused."""
        kept = self._kept.get((id(store), thread_id))
        if kept is None:
            return None
        try:
            self._kept[id(store), thread_id] = fresh = await kept.rolled_back()
        except ThreadConflict:
            self.forget(store, thread_id)
            raise
        return fresh

    def _keep(self, journal: Journal) -> None:
        """Remember a thread: always if something of it is not saved yet, else among the last few."""
        journal.close_turn()
        self._kept[id(journal.store), journal.thread_id] = journal
        saved = [key for key, kept in list(self._kept.items()) if not kept.unsaved]
        for key in saved[: max(0, len(saved) - KEPT)]:
            self._kept.pop(key, None)


def _run(terms: TurnConfig, journal: Journal) -> Run:
    """The main run of a thread.

    Raises:
        ConfigError: the thread is another agent's.
    """
    spec, owner = terms.spec, journal.root.agent
    if owner and owner != spec.name and owner not in spec.continues:
        found = f"thread {journal.thread_id!r} is of agent {owner!r}, and this one is {spec.name!r}"
        raise ConfigError(f"{found}; to go on with it all the same, make the agent with continues=[{owner!r}]")
    journal.set_redact(terms.redact)
    run = Run(spec, journal, listener=terms.emit, context=terms.context)
    run.scope.durability = terms.durability
    return run


def _note_changes(run: Run) -> None:
    """Note what is new about the agent since the last input: a log says by which version each turn was run."""
    known = run.state.notes.get(ABOUT, {})
    for key, value in run.spec.about.items():
        if known.get(key, "") != value:
            run.record(Noted(ABOUT, key, value))


async def _driven(run: Run) -> None:
    """Drive the main run to its boundary. When cancelled, tools get 5 seconds to end, and are then left behind."""
    task = asyncio.ensure_future(carried(loop.drive(run)))
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        run.scope.cancelled = True
        await abandon(task)
        raise
    finally:
        run.cancel()
    if not task.cancelled():  # Else a tool has cancelled its own task: the turn is `cancelled`, and comes back so.
        result_of(task)


@checked
def checked_thread_id(thread_id: ThreadId | None) -> str:
    """*thread_id*, or a new one."""
    return uuid.uuid4().hex if thread_id is None else thread_id
