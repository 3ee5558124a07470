"""Middleware for tests: one has calls wait for a person, one takes tools out of requests."""

from msgspec import structs

from minideep import Interrupt, Middleware
from minideep.ports import Request


class AskFirst(Middleware):
    """Calls of the named tools, or of all, wait for a person."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def before_tool(self, ctx, call):
        asks = ctx.decision is None and (not self.names or call.name in self.names)
        return Interrupt(call, f"may I {call.name}?") if asks else call


class Hide(Middleware):
    """Requests do not show the named tools."""

    def __init__(self, *names: str) -> None:
        self.names = names

    async def before_model(self, ctx, request: Request) -> Request:
        return structs.replace(request, tools=tuple(one for one in request.tools if one.name not in self.names))
