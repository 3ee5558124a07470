"""A cache of results: a call that the thread has made before gets the result that it had."""

import json
import threading
import time
from collections.abc import Iterable

from msgspec import msgpack

from ..checks import checked
from ..context import ToolContext
from ..kinds import Seconds
from ..messages import ToolCall, ToolResult
from ..ports import Middleware, RunTool

MAX_SIZE = 50_000_000
"""Bytes of all results that one cache keeps; the ones that were stored first go first."""


class ToolResultCache(Middleware):
    """Answers a call of one of *tools* with the result of an earlier one with the same arguments in the same thread:
    `ToolResultCache(["search", "fetch"], ttl=3600)`.

    Name only tools that change nothing and whose results depend on their arguments alone: a cached call does not run.
    Its result is recorded like any other. The runs of one agent in a thread share their results. Threads share none, as
    they may belong to different people, nor do different agents, as one may read what another may not.

    A result is kept for *ttl* seconds (None: as long as there is room) in the memory of this process: after a restart
    the tool runs again. Errors, and results that end the turn, are not kept. Two equal calls at the same time both run.

    Raises:
        ConfigError: an argument is wrong.
    """

    @checked
    def __init__(self, tools: Iterable[str], ttl: Seconds | None = None) -> None:
        self._tools = frozenset(tools)
        self._ttl = ttl
        self._size = 0
        self._lock = threading.Lock()  # Threads of one agent may run on several event loops.
        self._kept: dict[tuple[str, ...], tuple[float, int, ToolResult]] = {}
        """The time at which each result was stored, its size, and the result; the oldest first."""

    async def wrap_tool(self, ctx: ToolContext, call: ToolCall, run: RunTool) -> ToolResult:
        if call.name not in self._tools or call.malformed:
            return await run(call)
        # The end of the key is the thread's own: one that is deleted and begun again must not see the old results.
        epoch = ctx.idempotency_key.rpartition("/")[2]
        key = (ctx.thread_id, epoch, ctx.state.agent, call.name, json.dumps(call.args, sort_keys=True))
        if (kept := self._kept.get(key)) and (self._ttl is None or time.monotonic() - kept[0] < self._ttl):
            return kept[2]
        result = await run(call)
        if not (result.is_error or result.ends):
            self._keep(key, result)
        return result

    def _keep(self, key: tuple[str, ...], result: ToolResult) -> None:
        size = len(msgpack.encode(result))
        with self._lock:
            self._drop(key)
            self._kept[key] = (time.monotonic(), size, result)
            self._size += size
            while self._size > MAX_SIZE:
                self._drop(next(iter(self._kept)))

    def _drop(self, key: tuple[str, ...]) -> None:
        if dropped := self._kept.pop(key, None):
            self._size -= dropped[1]
