"""An SDK's client for each event loop."""

import asyncio
import gc
from collections.abc import Callable
from typing import Generic, TypeVar

from ..workers import in_thread
from .background import IMPORTING

T = TypeVar("T")


class PerLoop(Generic[T]):
    """One value for each event loop. Those of closed loops are dropped when the next one is put."""

    def __init__(self) -> None:
        self._values: dict[asyncio.AbstractEventLoop, T] = {}

    def get(self) -> T | None:
        """Return the value of the running loop."""
        return self._values.get(asyncio.get_running_loop())

    def put(self, value: T) -> T:
        """Keep *value* for the running loop, unless it has one; return the one it has."""
        self.drop_closed()
        return self._values.setdefault(asyncio.get_running_loop(), value)

    def drop_closed(self) -> bool:
        """Drop the values of closed loops; return whether there were any."""
        closed = [loop for loop in list(self._values) if loop.is_closed()]
        for loop in closed:
            self._values.pop(loop, None)
        return bool(closed)


class Client(Generic[T]):
    """An SDK's client: the one *given*, or the one that *connect* makes, off the event loop, at first use.

    *connect* imports the SDK. Its connections belong to an event loop, so that a program which calls `asyncio.run`
    twice gets two clients.
    """

    def __init__(self, given: T | None, connect: Callable[[], T]) -> None:
        self._given = given
        self._connect = connect
        self._clients = PerLoop[T]()

    async def get(self) -> T:
        """Return the client of the running event loop."""
        client = self._given if self._given is not None else self._clients.get()
        return self._clients.put(await in_thread(self._make)) if client is None else client

    def _make(self) -> T:
        # Collected here, on a thread: on a running loop, a client of the SDKs would try to close its connections there,
        # though they belong to a loop that is closed.
        if self._clients.drop_closed():
            gc.collect()
        with IMPORTING:
            return self._connect()
