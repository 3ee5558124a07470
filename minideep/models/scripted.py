"""A model that says what it was told to: for tests, examples and benchmarks."""

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from msgspec import structs

from ..checks import checked
from ..errors import ConfigError, ModelError
from ..events import TextDelta
from ..kinds import Positive
from ..messages import AssistantMessage, Text, ToolCall, Usage
from ..ports import Emit, Reply, Request

Say = str | ToolCall | list[str | ToolCall] | AssistantMessage | Reply | BaseException
"""One reply: text, a call, several of them, a whole message or `Reply`, or an exception to raise."""


NOTHING = Usage()


class ScriptedModel:
    """Answers each request with the next of *replies*, or with what the function *replies* makes of the request.

    A reply takes no tokens and costs nothing, unless it is a `Reply` that says otherwise.
    `requests` holds every request it got. *window* is the model's window in tokens; without one it
    never ends, and nothing is compacted.
    Asked past the end it raises `ModelError`.
    """

    name = "scripted"
    states_cost = True

    @checked
    def __init__(
        self,
        replies: Iterable[Say] | Callable[[Request], Say | Awaitable[Say]],
        window: Positive | None = None,
    ) -> None:
        self._function = replies if callable(replies) else None
        self._replies = iter(()) if callable(replies) else iter(replies)
        self.window: float = math.inf if window is None else window
        self.requests: list[Request] = []

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        self.requests.append(request)
        reply = as_reply(await self._next(request))
        if emit and reply.message.text:
            emit(TextDelta(reply.message.text))
        return reply

    async def _next(self, request: Request) -> Say:
        if self._function:
            said: Any = self._function(request)
            return await said if hasattr(said, "__await__") else said
        try:
            return next(self._replies)
        except StopIteration:
            told = len(self.requests) - 1
            raise ModelError(f"scripted: the script has {told} replies and was asked for one more") from None


def as_reply(said: Say) -> Reply:
    """What a script or a policy says, as a model's reply.

    Raises:
        ConfigError: it is nothing that a model can say.
    """
    match said:
        case str():
            message = AssistantMessage(said)
        case ToolCall():
            message = AssistantMessage((said,))
        case list():
            message = AssistantMessage(tuple([Text(part) if isinstance(part, str) else part for part in said]))
        case AssistantMessage():
            message = said
        case Reply():
            return said if said.cost is not None else structs.replace(said, cost=0.0)
        case BaseException():
            raise said
        case _:
            raise ConfigError(f"a model cannot say {said!r}; say text, a `ToolCall`, a list of those, or an exception")
    return Reply(message, NOTHING, "done", 0.0)
