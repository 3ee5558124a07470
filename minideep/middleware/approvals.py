"""Human-in-the-loop: calls of the named tools wait for a person before they run."""

from collections.abc import Mapping

from ..checks import checked
from ..context import ToolContext
from ..messages import ToolCall
from ..ports import Middleware
from ..state import Interrupt


class HumanInTheLoopMiddleware(Middleware):
    """Makes each call of a tool that *interrupt_on* maps to True wait until `Agent.resume` brings a decision.

    Put it last in the list, so that the person sees the call as it will run. Other calls of the same reply run
    meanwhile.

    Raises:
        ConfigError: *interrupt_on* is not a mapping of tool names to True or False.
    """

    @checked
    def __init__(self, interrupt_on: Mapping[str, bool]) -> None:
        self._names = frozenset(name for name, on in interrupt_on.items() if on)

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | Interrupt:
        if call.name in self._names and ctx.decision is None:
            return Interrupt(call, f"{call.name} runs only when a person has decided")
        return call
