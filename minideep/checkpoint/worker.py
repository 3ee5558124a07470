"""OS threads of a store, for work that no event loop should wait for."""

from concurrent.futures import Executor, ThreadPoolExecutor

from .atfork import AtRest


class Worker(AtRest):
    """An executor with up to *threads* threads, created when it is first used; again after `finish`, and in a forked
    process.
    """

    def __init__(self, threads: int = 1) -> None:
        super().__init__()
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None

    @property
    def executor(self) -> Executor:
        with self.lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, "minideep-store")
            return self._pool

    def finish(self) -> None:
        """Wait until all work is done, including the work that it submitted; then end its threads."""
        while (pool := self._take()) is not None:
            # Without the lock: the work that ends may submit more.
            pool.shutdown()

    def reset(self) -> None:
        self._pool = None  # Its threads are the parent's.

    def _take(self) -> ThreadPoolExecutor | None:
        with self.lock:
            pool, self._pool = self._pool, None
            return pool
