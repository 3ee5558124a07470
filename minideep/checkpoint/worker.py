"""The one thread of a store, for what no event loop should wait for."""

from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Lock

from . import atfork


class Worker:
    """An executor with one thread, made when it is first asked for: again after `finish`, and in a forked process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        atfork.watch(self)

    @property
    def executor(self) -> Executor:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, "minideep-store")
            return self._pool

    def finish(self) -> None:
        """Wait until everything is done, and what that has asked for too; then end the thread."""
        while (pool := self._take()) is not None:
            pool.shutdown()

    def before_fork(self) -> None:
        self._lock.acquire()

    def after_fork(self, *, child: bool) -> None:
        if child:
            self._pool = None  # Its thread is the parent's.
        self._lock.release()

    def _take(self) -> ThreadPoolExecutor | None:
        with self._lock:
            pool, self._pool = self._pool, None
            return pool
