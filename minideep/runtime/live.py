"""The turns that run in this process, as others reach them: to follow them, to stop them, to say something."""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from ..checkpoint import CheckedStore, Journal
from ..errors import ConfigError, IllegalEvent, SegmentTooLarge
from ..events import AnyEvent, StreamEvent, UserSaid
from ..exchange import Exchange
from ..messages import UserMessage
from ..state import Path, Status, UnattendedDecision
from .cancel import Cut, TurnScope

if TYPE_CHECKING:
    from .feed import Feed

SHORT = 0.05
"""Seconds that a turn must last for other processes to be able to ask it: an address costs a short one too much."""
Answering = Callable[["LiveTurn", bytes], AsyncIterator[bytes]]
SAY = "say"
"""Who says a message that comes during a turn, as `UserSaid.by` has it."""


class LiveTurn:
    """A turn of this process. Nothing is made for followers before there is one."""

    __slots__ = (
        "__weakref__",
        "_announced",
        "_announcing",
        "_answer",
        "_ending",
        "_feeds",
        "accepted",
        "accepting",
        "inbox",
        "journal",
        "listening",
        "loop",
        "number",
        "over",
        "owner",
        "resumed",
        "scope",
        "status",
        "taken_over",
        "unattended",
    )

    def __init__(self, journal: Journal, scope: TurnScope, owner: object, answer: Answering) -> None:
        self.journal: Journal = journal
        self.scope: TurnScope = scope
        self.owner: object = owner
        """The `Turns` that runs it."""
        self.loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.number: int = journal.number
        """The number of the last event before the turn."""
        self.listening: bool = False
        """True once anybody follows: the run then passes on what it records and emits."""
        self.accepted: bool = False
        self.over: bool = False
        self.resumed: bool = False
        """True if it goes on with an earlier turn, which may have left runs open."""
        self.taken_over: bool = False
        """True if that turn was cut short."""
        self.unattended: UnattendedDecision | None = None
        """The decision about calls that would wait for a person."""
        self.status: Status = "running"
        """The status that the turn has left."""
        self.accepting: asyncio.Future[None] | None = None
        self._feeds: tuple[Feed, ...] = ()
        """One for followers; a second one for the caller, if others get redacted events."""
        self.inbox: deque[tuple[UserMessage, Future[bool]]] = deque()
        """Messages that were said and are not recorded yet."""
        self._ending: list[Future[None]] = []
        self._answer = answer
        """Answers the questions of other processes."""
        self._announcing: asyncio.TimerHandle | None = None
        self._announced: Exchange | None = None

    # ---- while it runs

    def __enter__(self) -> "LiveTurn":
        """Let readers of the thread see what is not saved, and others, also of other processes, reach the turn."""
        journal = self.journal
        _begun.add(self)
        journal.turn = self
        journal.store.live[journal.thread_id] = journal
        if journal.store.offers_exchange:
            self._announcing = self.loop.call_later(SHORT, self._announce)
        return self

    def __exit__(self, *exc: object) -> None:
        journal = self.journal
        if self._announcing is not None:
            self._announcing.cancel()
        # The next turn may run already, on another event loop of this process: the last append frees the thread.
        if journal.turn is self:
            journal.turn = None
            if journal.store.live.get(journal.thread_id) is journal:
                del journal.store.live[journal.thread_id]
        following = find(journal.store, journal.thread_id) if self._announced is not None else None
        if self._announced is not None and (following is None or following._announced is None):
            self._announced.withdraw(journal.thread_id)
        self.finish()
        _begun.discard(self)

    def _announce(self) -> None:
        if (exchange := self.journal.store.exchange) is not None:
            exchange.announce(self.journal.thread_id, partial(self._answer, self))
            self._announced = exchange

    # ---- following

    def feed(self, *, private: bool = False) -> "Feed":
        """Return the events of the turn, to be read on any event loop; call it on the turn's own. They are as `redact`
        leaves them, except in the *private* feed, which is for the caller who runs the turn.
        """
        from .feed import Feed, RedactedFeed  # Most turns have no followers.

        kind = Feed if private or self.journal.redaction is None else RedactedFeed
        for feed in self._feeds:
            if type(feed) is kind:
                return feed
        self._feeds = *self._feeds, (feed := kind(self.journal))
        self.listening = True
        feed.fill()
        self._show()
        return feed

    def record(self, path: Path, event: AnyEvent) -> None:
        """Pass on an event that was recorded. Called only while somebody listens."""
        for feed in self._feeds:
            feed.record(path, event)
        self._show()

    def emit(self, path: Path, event: StreamEvent) -> None:
        """Pass on an event that is not recorded. Called only while somebody listens."""
        for feed in self._feeds:
            if feed.emit(path, event):
                self._show()

    def accept(self) -> None:
        """Show the input to followers: it is saved, or at least kept."""
        self.accepted = True
        self._show()
        if self.accepting is not None and not self.accepting.done():
            self.accepting.set_result(None)

    def finish(self) -> None:
        """End the turn for all who follow it or wait for its end."""
        self.over, self.status = True, self.journal.root.status
        while self.inbox:
            _settle(self.inbox.popleft()[1], False)
        # Of a thread that was lost to another writer, nothing since the last append will ever be in the log.
        lost = self.scope.conflict is not None
        for feed in self._feeds:
            if lost:
                feed.rewind(self.journal.log.head.number)
            feed.close(shown=self.accepted and not lost)
        for waiter in self._ending:
            _settle(waiter, None)

    def _show(self) -> None:
        # The input is shown once it is saved, and the boundary with what follows it once that is: by `finish`.
        if self.accepted and self.journal.root.status == "running":
            for feed in self._feeds:
                feed.show()

    # ---- from outside, on any event loop

    async def cut(self, cut: Cut, reason: str = "") -> bool:
        """Cancel the turn and wait until it is over and saved. Return whether it was cancelled before it ended."""
        self.call(lambda: self.scope.request_cancel(cut, reason))
        await self.wait()
        return self.status == "cancelled"

    async def say(self, message: UserMessage) -> bool:
        """Have a message recorded before the next request to the model. Return False if the turn ends first."""
        heard: Future[bool] = Future()
        self.call(lambda: _settle(heard, False) if self.over else self.inbox.append((message, heard)))
        return await asyncio.wrap_future(heard)

    async def wait(self) -> None:
        """Wait until the turn is over."""
        ended: Future[None] = Future()
        self.call(lambda: _settle(ended, None) if self.over else self._ending.append(ended))
        await asyncio.wrap_future(ended)

    def call(self, act: Callable[[], object]) -> None:
        """Call *act* on the loop of the turn: now if this is it, else soon."""
        if asyncio.get_running_loop() is self.loop:
            act()
        else:
            self.loop.call_soon_threadsafe(act)

    # ---- for the main run

    def hear(self, record: Callable[[UserSaid], object]) -> bool:
        """Record the messages that came since the last request. Return whether there were any."""
        any_recorded = False
        while self.inbox:
            message, heard = self.inbox.popleft()
            if not heard.set_running_or_notify_cancel():
                continue  # Who said it has given up.
            try:
                record(UserSaid(message, time.time(), by=SAY))
            except (IllegalEvent, SegmentTooLarge) as exc:  # Not the fault of the turn.
                heard.set_exception(ConfigError(f"the text cannot be kept: {exc}"))
            else:
                heard.set_result(any_recorded := True)
        return any_recorded


_begun: "WeakSet[LiveTurn]" = WeakSet()
"""All turns of this process that are not over. One whose last append has freed its thread may still wait to hear of it,
while the next one runs.
"""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begun.clear)  # They are the parent's.


def find(store: CheckedStore, thread_id: str) -> LiveTurn | None:
    """Return the turn of a thread that runs in this process, or None."""
    journal = store.live.get(thread_id)
    live: LiveTurn | None = None if journal is None else journal.turn
    return None if live is None or live not in _begun or live.loop.is_closed() else live


def turns_of(owner: object) -> list[LiveTurn]:
    """Return the turns that one `Turns` runs in this process."""
    return [live for live in list(_begun) if live.owner is owner and not live.loop.is_closed()]


def _settle(future: "Future[Any]", value: Any) -> None:
    """Set the result of a future, unless nobody waits for it any more."""
    if future.set_running_or_notify_cancel():
        future.set_result(value)
