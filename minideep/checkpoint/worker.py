"""The one thread of a store, for what no event loop should wait for."""

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from threading import Lock


class Worker:
    """An executor with one thread, made when it is first asked for: again after `finish`, and in a forked process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._pid = 0

    @property
    def executor(self) -> Executor:
        with self._lock:
            if self._pool is None or self._pid != os.getpid():
                self._pool, self._pid = ThreadPoolExecutor(1, "minideep-store"), os.getpid()
            return self._pool

    def finish(self) -> None:
        """Wait until everything is done, and what that has asked for too; then end the thread."""
        while (pool := self._take()) is not None:
            pool.shutdown()

    def _take(self) -> ThreadPoolExecutor | None:
        with self._lock:
            pool, self._pool = self._pool, None
            return pool if self._pid == os.getpid() else None
