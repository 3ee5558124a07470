"""Threads for plain functions: started when needed, bounded in number, and ended when idle.

They are daemons of our own. Ctrl-C and the end of the program wait for the threads of `asyncio.to_thread`; they do not
wait for these, so a function that never returns cannot keep the program alive.
"""

import os
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from .loops import CALLING, MAX_THREADS, ThreadCall

IDLE_SECONDS = 10.0
"""How long an idle thread waits for another call before it ends."""


class ThreadPool:
    """Runs at most *max_threads* calls at once (None: no bound); others wait in a queue.

    A call that another one starts, such as a plain tool of an agent that a tool runs with `run_sync`, neither waits nor
    counts. Otherwise every thread could be held by a call that waits for a thread.
    """

    def __init__(self, max_threads: int | None = MAX_THREADS, idle_seconds: float = IDLE_SECONDS) -> None:
        self._max_threads = max_threads
        self._idle_seconds = idle_seconds
        self.reset()

    def reset(self) -> None:
        """Forget all threads: a forked process has none of them."""
        # Another thread may have held the old lock at the fork, and would never release it here.
        self._lock = threading.Lock()
        self._counted: set[ThreadCall | None] = set()
        self._waiting: deque[ThreadCall] = deque()
        self._idle: list[SimpleQueue[ThreadCall]] = []

    def set_max_threads(self, max_threads: int | None) -> None:
        """Change the bound. Running calls are not stopped."""
        self._max_threads = max_threads
        self._begin(self._admit())

    def start(self, function: Callable[[], Any]) -> ThreadCall:
        """Run *function* in a copy of this context, now or when its turn comes."""
        call = ThreadCall(function, self.release)
        if CALLING.get() in self._counted:
            call.nested = call.begun = True
            self._begin([call])
        else:
            self._waiting.append(call)
            self._begin(self._admit())
        return call

    def release(self, call: ThreadCall) -> None:
        """Stop counting *call*, so that another may begin."""
        self._begin(self._admit(call))

    def _admit(self, ended: ThreadCall | None = None, inbox: SimpleQueue[ThreadCall] | None = None) -> list[ThreadCall]:
        """Stop counting *ended*, and take the calls from the queue that may begin now.

        If there are none, the thread of *inbox* is idle.
        """
        admitted: list[ThreadCall] = []
        with self._lock:  # Two threads that both find room for one call would exceed the bound.
            self._counted.discard(ended)
            while self._waiting and (self._max_threads is None or len(self._counted) < self._max_threads):
                call = self._waiting.popleft()
                if not call.done():  # It may have been cancelled while it waited.
                    call.begun = True
                    self._counted.add(call)
                    admitted.append(call)
            if inbox and not admitted:  # Under the lock: a call between the two would start a thread over the bound.
                self._idle.append(inbox)
        return admitted

    def _begin(self, calls: list[ThreadCall]) -> None:
        """Give each of *calls* a thread: an idle one, else a new one."""
        while calls:
            call = calls.pop(0)
            try:
                inbox = self._idle.pop()
            except IndexError:
                inbox = SimpleQueue[ThreadCall]()
                thread = threading.Thread(target=self._serve, args=(inbox,), daemon=True, name="minideep-tool")
                try:
                    thread.start()
                except RuntimeError as exc:  # The system allows no more threads.
                    call.deliver(None, exc)
                    calls += self._admit(call)
                    continue
            inbox.put(call)

    def _serve(self, inbox: SimpleQueue[ThreadCall]) -> None:
        call = self._next(inbox)
        while call is not None:
            call.run()
            admitted = self._admit(call, inbox)
            self._begin(admitted[1:])
            call = None  # Drop the last call before waiting: it may hold much memory.
            call = admitted.pop(0) if admitted else self._next(inbox)

    def _next(self, inbox: SimpleQueue[ThreadCall]) -> ThreadCall | None:
        """Wait for a call; return None when the thread has been idle for too long."""
        while True:
            try:
                return inbox.get(timeout=self._idle_seconds)
            except Empty:
                try:
                    self._idle.remove(inbox)  # Atomic: testing first could find an inbox that is taken a moment later.
                except ValueError:
                    continue  # It has just been taken, and a call is on its way.
                return None


POOL = ThreadPool()
"""The pool of this process."""
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=POOL.reset)


def start_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> ThreadCall:
    """Call *function* on another thread, in a copy of this context; return a future of its result."""
    return POOL.start(partial(function, *args, **kwargs))


async def in_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Call *function* on another thread, in a copy of this context, and return its result."""
    return await start_thread(function, *args, **kwargs)
