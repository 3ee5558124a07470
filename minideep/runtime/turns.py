"""Turns of an agent's threads: one at a time on each thread, over all processes; the last threads stay in memory."""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from functools import partial
from typing import Any

from msgspec import Struct

from ..checkpoint import (
    CheckedStore,
    Durability,
    HeldThread,
    Journal,
    Redact,
    after_a_gap,
    lost_thread,
    open_thread,
    unknown_thread,
)
from ..checks import checked
from ..errors import CheckpointError, ConfigError, IllegalEvent, ThreadConflict
from ..events import Noted, TurnCancelled, UserSaid
from ..messages import Input
from ..spec import ABOUT, AgentSpec, Said
from ..state import Decision, ThreadId, UnattendedDecision
from ..turn import Turn
from .cancel import GRACE, TurnScope
from .children import unanswered
from .live import LiveTurn, turns_of
from .main_run import drive_main
from .process import TurnSlot
from .run import Run

logger: logging.Logger = logging.getLogger("minideep")
Files = Mapping[str, str | bytes] | None
KEPT = 128
"""Threads whose state an agent keeps in memory after a turn. Reading a thread takes as long as a short turn, so as many
should be kept as take turns at once.
"""


class TurnConfig(Struct, frozen=True):
    """The settings of one turn."""

    spec: AgentSpec
    store: CheckedStore
    durability: Durability = "turn"
    redact: Redact | None = None
    context: Any = None
    wait: bool = False
    """True to wait for a thread that is busy."""
    begun: Callable[[LiveTurn], None] | None = None
    """Called before the input is recorded."""
    detached: bool = False
    """True if the task that the turn runs in is our own."""
    unattended: UnattendedDecision | None = None
    """The decision about calls that would wait for a person."""


class Accepted(Struct, frozen=True):
    """An input whose events are recorded."""

    past: Turn | None = None
    """The turn of the past to return, as nothing is left to run."""
    must_save: bool = False
    """True if nothing may run before the input is saved: a decision that got lost would let a call run twice."""


class Turns:
    """Begins turns, resumes them, and remembers the threads of the last ones."""

    def __init__(self, grace: float = GRACE) -> None:
        self._grace = grace
        self._kept: dict[tuple[CheckedStore, str], Journal] = {}
        self.tasks: set[asyncio.Task[Turn]] = set()
        """The turns that were started and run on their own."""
        self._closing = False
        """True during `aclose`: a turn that was started and still waits for its thread must not get it now."""
        self.blocks: int = 0  # That are open, of `async with agent:`. Outside, no tool may begin a turn beside its own.

    async def run(
        self, config: TurnConfig, input: Input, thread_id: str | None, key: str | None = None, files: Files = None
    ) -> Turn:
        """Run one turn, from *input* to its boundary. An input with a *key* is accepted once: its turn is returned, or
        continued if it was cut short, however often it is sent.

        Raises:
            ConfigError: *key* is given without *thread_id*, or was accepted with another input.
        """
        if key is not None and thread_id is None:
            raise ConfigError(f"key={key!r} needs a thread_id: a key belongs to its thread")
        record = partial(_record_message, config.spec.accept(input, config.spec.model), files, key or "")
        return await self._turn(config, uuid.uuid4().hex if thread_id is None else thread_id, record, new=True)

    async def resume(self, config: TurnConfig, thread_id: str, decisions: Mapping[str, Decision]) -> Turn:
        """Resume a turn, or return the last one."""
        if (config.store, thread_id) not in self._kept and not await config.store.has(thread_id):
            raise unknown_thread(thread_id)  # Before anything is made for it.
        return await self._turn(config, thread_id, partial(_record_decisions, decisions), new=False)

    async def aclose(self, grace: float) -> None:
        """Cut short, after *grace* seconds, the turns that run here. Those can be resumed."""
        tasks = set(self.tasks)
        waits = [asyncio.ensure_future(live.wait()) for live in turns_of(self)]
        if waits and grace > 0:
            await asyncio.wait(waits, timeout=grace)
        self._closing = True
        try:
            await asyncio.gather(*(live.cut("shutdown") for live in turns_of(self)), *waits)
            own = {task for task in tasks if task.get_loop() is asyncio.get_running_loop()}
            for task in own:
                task.cancel()  # It waits for its thread, or is about to end.
            if own:
                await asyncio.wait(own)
        finally:
            self._closing = False

    async def save(self, config: TurnConfig, thread_id: str) -> None:
        """Append what earlier turns left unsaved."""
        store = config.store
        if (store, thread_id) not in self._kept:
            if not await store.has(thread_id):
                raise unknown_thread(thread_id)
            return
        async with HeldThread(store, thread_id, config.wait) as opened:
            try:
                if (kept := await self._left(store, thread_id)) is not None:
                    kept.lease = opened.lease
                    kept.set_redact(config.redact)
                    await kept.append()
            except ThreadConflict:
                self.forget(store, thread_id)
                raise

    async def update(self, config: TurnConfig, thread_id: str, record: Callable[[Run], Awaitable[Accepted]]) -> None:
        """Record a change of a thread between two turns, and save it. If that fails, nothing was changed."""
        async with HeldThread(config.store, thread_id, config.wait) as opened:
            if (journal := await self._open(config.store, thread_id, opened.head)) is None:
                raise unknown_thread(thread_id)
            journal.lease = opened.lease
            await self._accept(self._main_run(config, journal), record)
            self._keep(journal)

    def forget(self, store: CheckedStore, thread_id: str) -> bool:
        """Drop a thread that was deleted; return whether it was kept."""
        return self._kept.pop((store, thread_id), None) is not None

    async def _turn(
        self, config: TurnConfig, thread_id: str, record: Callable[[Run], Awaitable[Accepted]], *, new: bool
    ) -> Turn:
        """Hold the thread, record the input, drive the main run to a boundary and save it."""
        # The slot first: a turn that waits for one must not keep its thread from others.
        async with TurnSlot(), HeldThread(config.store, thread_id, config.wait) as opened:
            journal = await self._open(config.store, thread_id, opened.head)
            if journal is None:
                if not new:
                    raise unknown_thread(thread_id)
                journal = Journal(thread_id, config.store)
            if self._closing and config.detached:
                raise asyncio.CancelledError  # As if it had been cancelled while it waited.
            journal.lease = opened.lease
            run = self._main_run(config, journal)
            opened.lease.on_lost(lambda: run.scope.lose(lost_thread(thread_id)))
            with run.live:
                if config.begun is not None:
                    config.begun(run.live)
                accepted, failed = await self._accept(run, record)
                run.live.accept()
                if accepted.past is not None:
                    turn = self._result(run, failed, accepted.past)
                else:
                    turn = await self._driven(run, config.detached)
        # Now that the thread is released: maintenance must hold it to truncate or delete.
        journal.schedule()
        return turn

    def _main_run(self, config: TurnConfig, journal: Journal) -> Run:
        """Return the main run of a thread.

        Raises:
            ConfigError: the thread is another agent's.
        """
        spec, owner = config.spec, journal.root.agent
        if owner in spec.background and owner != spec.name:
            from .delegation import spec_beside  # Seldom: somebody turns to a background task itself.

            spec = spec_beside(spec.background[owner], spec)
        elif owner and owner != spec.name and owner not in spec.continues:
            found = f"thread {journal.thread_id!r} is of agent {owner!r}, and this one is {spec.name!r}"
            raise ConfigError(f"{found}; to continue it all the same, make the agent with continues=[{owner!r}]")
        journal.set_redact(config.redact)
        live = LiveTurn(journal, TurnScope(self._grace), self, _answer)
        live.unattended = config.unattended
        return Run(spec, live, _run_child, durability=config.durability, context=config.context)

    async def _accept(
        self, run: Run, record: Callable[[Run], Awaitable[Accepted]]
    ) -> tuple[Accepted, CheckpointError | None]:
        """Record an input and try to save it. Return what the input asks for, and why it was not saved, if it was not.

        A message that is not saved runs all the same: the append at the boundary tries again. If this raises, what
        earlier turns left unsaved is kept as it was.
        """
        journal, before = run.journal, run.journal.unsaved
        try:
            accepted = await record(run)
            failed = await run.save()
            run.scope.check()
            if failed is not None and accepted.must_save:
                raise failed
        except BaseException:
            # Only this input is taken back. What earlier turns left unsaved is still wanted; if there is nothing, the
            # journal is forgotten, and the next turn reads the thread from the store.
            if before and run.scope.status != "lost":
                journal.rollback(max(0, journal.unsaved - before))
                self._keep(journal)
            await asyncio.sleep(0)  # A cancellation that arrived meanwhile is raised instead.
            raise
        if failed is not None:
            journal.number = after_a_gap(journal.number)
        return accepted, failed

    async def _driven(self, run: Run, detached: bool) -> Turn:
        """Drive a turn and save its boundary. The answer comes back even if it cannot be saved."""
        try:
            await drive_main(run, detached=detached)
        finally:  # A cancelled turn is saved too, and kept for `resume`.
            turn = self._result(run, await run.save(release=True))
        return turn

    def _result(self, run: Run, failed: CheckpointError | None, past: Turn | None = None) -> Turn:
        """Return the result of a turn, or one of the *past*, and keep the thread for the next one."""
        turn = past or run.turn()
        turn.saved = failed is None
        if failed is not None:
            logger.warning("thread %r is not saved: %s", turn.thread_id, failed)
        turn.error = turn.error or failed  # Why the turn failed matters more than that it is not saved.
        if isinstance(failed, ThreadConflict):  # Nor is it kept: another writer has continued the thread.
            turn.status, turn.reason, turn.error = "failed", type(failed).__name__, failed
            return turn
        if turn.status == "running":
            turn.reason = "interrupted"
        if turn.saved:
            run.journal.plan()
        if run.journal.store.live.get(turn.thread_id) is run.journal:  # Otherwise the next turn runs already.
            self._keep(run.journal)
        return turn

    # ---- threads in memory

    async def _open(self, store: CheckedStore, thread_id: str, head_row: bytes | None) -> Journal | None:
        """Return the thread as this agent left it, if the store still has it so; else as the store has it."""
        kept = await self._left(store, thread_id)
        # A turn that ends keeps its journal again. If a turn breaks half-way, the next one reads the store instead.
        self.forget(store, thread_id)
        if kept is not None and kept.unsaved:  # Its first append finds out if somebody else has written.
            return kept
        if head_row is None:
            return None  # A new thread, or one that was deleted meanwhile.
        if kept is not None and kept.is_current(head_row):
            return kept
        # Not on the loop: a long thread takes tens of milliseconds to decode, and other turns would stand still.
        return await store.off_loop(lambda: open_thread(store, thread_id, head_row))

    async def _left(self, store: CheckedStore, thread_id: str) -> Journal | None:
        """Return what is kept of a thread, without events that were rolled back."""
        kept = self._kept.get((store, thread_id))
        if kept is None:
            return None
        try:
            self._kept[store, thread_id] = fresh = await kept.rolled_back()
        except ThreadConflict:
            self.forget(store, thread_id)
            raise
        return fresh

    def _keep(self, journal: Journal) -> None:
        """Remember a thread: always if something of it is unsaved, else among the last `KEPT`."""
        journal.close_turn()
        key = journal.store, journal.thread_id
        self._kept.pop(key, None)  # The one that was used last stands last.
        self._kept[key] = journal
        if len(self._kept) <= KEPT:
            return
        # A copy: other event loops may use the same agent.
        saved = [key for key, kept in list(self._kept.items()) if not kept.pending]
        for key in saved[: max(0, len(saved) - KEPT)]:
            self._kept.pop(key, None)


async def _record_message(input: Said, files: Files, key: str, run: Run) -> Accepted:
    """Record a user's message. Runs below calls that it answers are cancelled, in the same append."""
    (earlier, message), spec = input, run.spec
    said = UserSaid(message, time.time(), spec.limits, agent=spec.name, key=key)
    if key:
        from .past import known_turn  # Most inputs have no key.

        if (past := await known_turn(run, said)) is not None:
            # It may have been cut short.
            return await _record_decisions({}, run) if past.status == "running" else Accepted(past)
    cut_off = unanswered(run)  # Before the message answers their calls.
    try:
        if earlier:
            from .inputs import begin_with_history

            begin_with_history(run, earlier)
        run.record(said)
        if key:
            run.journal.keyed = True
        _note_changes(run)
    except IllegalEvent as exc:
        raise ConfigError(f"the input cannot be kept: {exc}") from None
    for path in cut_off:
        run.record_at(path, TurnCancelled(time.time()))
    if files:
        from .inputs import add_files

        await add_files(run, files)
    return Accepted()


async def _record_decisions(decisions: Mapping[str, Decision], run: Run) -> Accepted:
    """Record a person's decisions, or that a turn without them is resumed."""
    # A script that does not know how far a killed turn got may resume it, and nothing runs twice.
    if not decisions and run.state.status in ("ended", "escalated", "paused"):
        from .past import last_turn

        return Accepted(last_turn(run))
    from .decisions import match, resumption  # Loaded to resume.

    decided, was = match(run.state, decisions), run.state.status
    was_running, run.has_new_budget = was == "running", was == "exhausted"
    for path, event in resumption(decided, run.spec.limits, run.seconds_before() if was_running else 0.0):
        run.record_at(path, event)
    run.live.resumed = True
    if was_running:
        run.take_over()
    _note_changes(run)
    return Accepted(must_save=bool(decided))


def _note_changes(run: Run) -> None:
    """Note what is new about the agent since the last input: the log says which version ran each turn."""
    known = run.state.notes.get(ABOUT, {})
    for key, value in run.spec.about.items():
        # Only changes: a note at every turn would make each log longer for nothing.
        if known.get(key, "") != value:
            run.record(Noted(ABOUT, key, value))


def _run_child(*about: Any) -> Awaitable[Turn]:
    from .delegation import run_child  # Only if a tool delegates.

    return run_child(*about)


def _answer(live: LiveTurn, question: bytes) -> AsyncIterator[bytes]:
    from .answering import answer  # Only if another process asks.

    return answer(live, question)


@checked
def checked_thread_id(thread_id: ThreadId | None) -> str:
    """Return *thread_id*, or a new one."""
    return uuid.uuid4().hex if thread_id is None else thread_id
