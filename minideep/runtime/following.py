"""Following a thread, stopping its turn, speaking to it and asking how it is, from any process on the same store."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Literal

from ..checkpoint import CheckedStore, head_key, read_head, read_page, unknown_thread
from ..documented import Struct
from ..errors import ConfigError
from ..events import Rewound, StreamEvent, with_path
from ..messages import UserMessage, clean
from ..state import Status
from .feed import Feed, position
from .live import LiveTurn, find

POLL = 0.05
"""Seconds between two looks at a thread that another process runs and that cannot be asked, or that nobody runs yet."""

MAX_REASON, MAX_TEXT = 10_000, 250_000
"""Characters: four bytes each at most, so that a question to another process holds them."""


class ThreadStatus(Struct, frozen=True):
    """How a thread is: the result of `Agent.status`."""

    thread_id: str
    status: Status | Literal["interrupted"]
    """`running` while somebody runs it; `interrupted` if its turn was cut short and can be resumed; else as saved."""
    runs: Literal["here", "elsewhere", ""]
    """Where its turn runs: in this process, in another one, or nowhere."""
    number: int
    """The number of its last event: as saved, or, if it runs here, as recorded."""
    turn: int
    agent: str
    updated: float
    """Seconds since 1970, when it was last saved."""


async def status_of(store: CheckedStore, thread_id: str) -> ThreadStatus:
    """Return how a thread is, with one look at its head and one at its lock. Takes nothing.

    Raises:
        UnknownThread, CheckpointError
    """
    live = find(store, thread_id)
    # Before the head: a turn that ends between the two has saved its boundary by then.
    elsewhere = live is None and await store.held(thread_id)
    row = await store.value(head_key(thread_id))
    if row is None:
        raise unknown_thread(thread_id)
    head = read_head(thread_id, row)
    about = (head.turn, head.agent, head.updated)
    if live is not None and live.accepted:
        return ThreadStatus(thread_id, "running", "here", live.journal.number, *about)
    if elsewhere:
        return ThreadStatus(thread_id, "running", "elsewhere", head.number, *about)
    return ThreadStatus(thread_id, "interrupted" if head.status == "running" else head.status, "", head.number, *about)


async def cancel_turn(store: CheckedStore, thread_id: str, reason: str) -> bool:
    """Cancel the turn of a thread and wait until that is saved. Return False if nobody runs it, or it ended first."""
    reason = clean(reason)[:MAX_REASON]  # It must not keep the end of the turn out of the log.
    if (live := find(store, thread_id)) is not None:
        return await live.cut("agent", reason)
    if (exchange := store.exchange) is None:
        return False
    from .remote import Cancel, request

    done = await request(exchange, thread_id, Cancel(reason), lambda: store.held(thread_id))
    # A process that ends may save the turn and not get round to the answer.
    return (await status_of(store, thread_id)).status == "cancelled" if done is None else done


async def say_to_turn(store: CheckedStore, thread_id: str, text: str) -> bool:
    """Have a message recorded in the running turn of a thread. Return False if nobody runs it, or it ends first.

    Raises:
        ConfigError: *text* is empty or too long.
    """
    text = clean(text)
    if not 0 < len(text) <= MAX_TEXT:
        raise ConfigError(f"text has {len(text):,} characters; at least one and at most {MAX_TEXT:,} can be said")
    if (live := find(store, thread_id)) is not None:
        return await live.say(UserMessage(text))
    if (exchange := store.exchange) is None:
        return False
    from .remote import Say, request

    return bool(await request(exchange, thread_id, Say(text), lambda: store.held(thread_id)))


async def follow(
    store: CheckedStore, thread_id: str, after: int | str, wait: bool
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the events of a thread after one of them, those that happen included.

    Raises:
        UnknownThread: there is none, and *wait* is False.
        HistoryCut: retention removed events after that one.
        CheckpointError: the thread cannot be read.
    """
    follower = Follower(store, thread_id, after)
    while True:
        live = find(store, thread_id)
        # Before the log is read: if nobody runs the thread, the log then has all there will be.
        running = live is not None or await store.held(thread_id)
        events = follower.turn(live) if live is not None else follower.elsewhere(running)
        async with aclosing(events):
            async for event in events:
                yield event
        if not running:
            if not wait:
                follower.check_known()
                return
            await asyncio.sleep(POLL)


class Follower:
    """How far one follower of a thread is."""

    def __init__(self, store: CheckedStore, thread_id: str, after: int | str) -> None:
        self._store, self._thread_id = store, thread_id
        self._last: int | str = after
        """The id of the last event."""
        self._known = False
        self._broken = False
        """True if the process that ran the turn has died: what it had not saved did not last."""

    def check_known(self) -> None:
        """Check that there was such a thread.

        Raises:
            UnknownThread: there was none.
        """
        if not self._known:
            raise unknown_thread(self._thread_id)

    async def turn(self, live: LiveTurn) -> AsyncGenerator[StreamEvent, None]:
        """Yield what the log has, then the events of a turn of this process, up to its end."""
        self._known = True
        feed = await _feed_of(live)
        # Before the log is read: what is said meanwhile is not lost.
        reader = feed.reader(position(self._last))
        if not feed.has(self._number):
            async for event in self._logged(feed):
                yield event
            reader.after = position(self._last)
        while True:
            while (event := reader.take()) is not None:
                self._last = event.id or self._last
                yield event
            if not await reader.more():
                return

    async def elsewhere(self, running: bool) -> AsyncGenerator[StreamEvent, None]:
        """Yield what the log has, then the events of a turn of another process."""
        answers = None
        if running and not self._broken and await self._is_ahead():
            answers = self._asked()  # Its runner has what is not saved yet, and reads the log if need be.
        if answers is None:
            async for event in self._logged(None):
                yield event
            if not running:
                return
            answers = self._asked()
        if answers is None:
            await asyncio.sleep(POLL)
            return
        self._known = True
        try:
            async with aclosing(answers):
                async for event in answers:
                    self._last = event.id or self._last
                    yield event
        except ConnectionError:
            self._broken = True
            await asyncio.sleep(POLL)  # If it lives all the same, it is asked again.

    def _asked(self) -> AsyncGenerator[StreamEvent, None] | None:
        if (exchange := self._store.exchange) is None:
            return None
        from . import remote

        return remote.follow(exchange, self._thread_id, *position(self._last))

    async def _is_ahead(self) -> bool:
        """Return whether the last event that the follower has seen is not saved yet."""
        row = await self._store.value(head_key(self._thread_id))
        return row is not None and read_head(self._thread_id, row).number < self._number

    async def _logged(self, feed: Feed | None) -> AsyncGenerator[StreamEvent, None]:
        """Yield what the store has, but for what stands in *feed*."""
        while True:
            row = await self._store.value(head_key(self._thread_id))
            number = read_head(self._thread_id, row).number if row is not None else 0
            if number == self._number and not self._broken:  # As at most polls.
                self._known = self._known or row is not None
                return
            page = await self._store.off_loop(lambda: read_page(self._store, self._thread_id, self._number))
            if page is None:
                return
            self._known = True
            if page.known < self._number or self._broken:
                self._broken = False
                rewound = with_path(Rewound(page.known), (), 0, time.time(), str(page.known))
                self._last = rewound.id
                yield rewound
                continue
            for event in page.events:
                if feed is not None and event.number >= feed.first:
                    return
                self._last = event.id
                yield event
            if not page.events:
                return

    @property
    def _number(self) -> int:
        return position(self._last)[0]


async def _feed_of(live: LiveTurn) -> Feed:
    """Return the feed of a turn, which is made on the turn's own event loop."""
    if live.loop is asyncio.get_running_loop():
        return live.feed()
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_made(live), live.loop))


async def _made(live: LiveTurn) -> Feed:
    return live.feed()
