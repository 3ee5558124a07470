"""Models that ask no provider: a script for tests, and a policy, which is a plain function of the request."""

import math
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

from msgspec import structs

from ..checks import checked
from ..errors import ConfigError
from ..events import TextDelta
from ..kinds import Positive
from ..messages import AssistantMessage, Text, ToolCall, Usage
from ..ports import Emit, Reply, Request
from ..tools import Tool

Say = str | ToolCall | list[str | ToolCall] | AssistantMessage | Reply | BaseException
"""One reply: text, a tool call, several of them, a whole message or `Reply`, or an exception to raise."""


NOTHING = Usage()


class ScriptedModel:
    """Answers with the next of *replies*, or with what the function *replies* returns for the request.

    With *structured_output* it stands for a model whose provider holds replies to a schema (`Request.schema`). A reply
    takes no tokens and costs nothing, unless it is a `Reply` that says otherwise. `requests` lists every
    request so far. *window* is the model's window in tokens; without it the window is infinite and nothing is
    compacted. A request after the last of *replies* raises `ModelError`, which says what was asked.
    """

    name = "scripted"
    states_cost = True

    @checked
    def __init__(
        self,
        replies: Iterable[Say] | Callable[[Request], Say | Awaitable[Say]],
        window: Positive | None = None,
        *,
        structured_output: bool = False,
    ) -> None:
        self._function = replies if callable(replies) else None
        self._replies = iter(()) if callable(replies) else iter(replies)
        self.window: float = math.inf if window is None else window
        self.structured_output: bool = structured_output
        self.requests: list[Request] = []

    def __repr__(self) -> str:
        return f"<ScriptedModel, {len(self.requests)} requests>"

    def check_tools(self, tools: Collection[Tool]) -> None:
        """Accept every tool, also those that a provider would run: the script says what comes of them."""

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        self.requests.append(request)
        return _answer(await self._next(request), emit)

    async def _next(self, request: Request) -> Say:
        if self._function:
            said: Any = self._function(request)
            return await said if hasattr(said, "__await__") else said
        try:
            return next(self._replies)
        except StopIteration:
            from .unscripted import past_the_end  # Only if a test is wrong.

            raise past_the_end(request, len(self.requests) - 1) from None


class Policy:
    """Answers with what the plain function *decide* returns for the request; keeps no state.

    It is the model of an agent whose tools run other agents, such as a `Blueprint`.
    """

    name = "policy"
    free = True
    """True: it may be asked after a budget is spent, because it then decides how the turn ends."""
    states_cost = True

    def __init__(self, decide: Callable[[Request], Say]) -> None:
        self._decide = decide

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        return _answer(self._decide(request), emit)


def _answer(said: Say, emit: Emit | None) -> Reply:
    reply = as_reply(said)
    if emit and reply.message.text:
        emit(TextDelta(reply.message.text))
    return reply


def as_reply(said: Say) -> Reply:
    """Convert what a script or a policy says to a `Reply`, or raise it if it is an exception.

    Raises:
        ConfigError: a model cannot say this.
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
