"""A model that calls no provider: a function of the request says what is done next."""

from collections.abc import Callable

from ..events import TextDelta
from ..ports import Emit, Reply, Request
from .scripted import Say, as_reply


class Policy:
    """Answers each request with what the plain function *decide* makes of it; keeps nothing.

    An agent that is put together from others has one for its model: its tools run the others.
    """

    name = "policy"
    free = True
    """It may be asked when a budget is spent: it decides how the turn then ends."""
    states_cost = True

    def __init__(self, decide: Callable[[Request], Say]) -> None:
        self._decide = decide

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        reply = as_reply(self._decide(request))
        if emit and reply.message.text:
            emit(TextDelta(reply.message.text))
        return reply
