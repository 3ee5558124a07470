"""Retries of tools: a call that failed runs again, after a wait."""

import asyncio
import re
from collections.abc import Callable, Iterable

from ..backoff import wait_before
from ..checks import checked
from ..context import ToolContext
from ..kinds import Positive, Seconds
from ..messages import ToolCall, ToolResult
from ..ports import Middleware, RunTool


class ToolRetry(Middleware):
    """Runs a call of one of *tools* again if it failed, up to *retries* times: `ToolRetry(["fetch"])`.

    Name only tools that may run twice. The first wait has about *initial_backoff* seconds, each further one twice as
    many, up to *max_backoff*; each is shortened by up to half at random. By default a call has failed if its tool
    raised an exception or did not end in time. A `ToolError` is what the tool has to say to the model, so it is no
    reason; neither are wrong arguments. *when* decides otherwise: it gets the result, and returns whether to try again.

    A cancelled turn waits no longer, and once a budget of the run is spent nothing is tried again. Only the last result
    is recorded. All attempts have the same `idempotency_key`.

    Raises:
        ConfigError: an argument is wrong.
    """

    @checked
    def __init__(
        self,
        tools: Iterable[str],
        retries: Positive = 2,
        *,
        initial_backoff: Seconds = 1.0,
        max_backoff: Seconds = 30.0,
        when: Callable[[ToolResult], bool] | None = None,
    ) -> None:
        self._tools = frozenset(tools)
        self._retries = retries
        self._backoff = initial_backoff, max_backoff
        self._when = when

    async def wrap_tool(self, ctx: ToolContext, call: ToolCall, run: RunTool) -> ToolResult:
        result = await run(call)
        if call.name not in self._tools:
            return result
        for attempt in range(1, self._retries + 1):
            failed = self._when(result) if self._when else broke(call.name, result)
            if not failed or ctx.spent.reached(ctx.state.limits):
                break
            await asyncio.sleep(wait_before(attempt, *self._backoff))
            result = await run(call)
        return result


def broke(tool: str, result: ToolResult) -> bool:
    """Return whether *tool* raised something else than a `ToolError`, or was stopped at its timeout."""
    told = rf"{re.escape(tool)} (failed: \w+: |did not end within [\d.]+ s and was stopped)"
    return result.is_error and re.match(told, result.text) is not None
