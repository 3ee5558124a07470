"""Approvals: calls of named tools wait for a person before they run."""

from collections.abc import Mapping
from typing import Any, cast

from ..context import ToolContext
from ..errors import ConfigError
from ..messages import ToolCall
from ..ports import Middleware
from ..state import Interrupt


class HumanInTheLoopMiddleware(Middleware):
    """Makes each call of the tools that *interrupt_on* maps to True wait until `Agent.resume` brings a decision.

    It stands last in the list, so that a person is asked about what would really run. Other calls of the same reply
    run meanwhile.

    Raises:
        ConfigError: *interrupt_on* is no mapping of tool names to True or False.
    """

    def __init__(self, interrupt_on: Mapping[str, bool]) -> None:
        self._names = frozenset(name for name, on in switches(interrupt_on).items() if on)

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | Interrupt:
        if call.name in self._names and ctx.decision is None:
            return Interrupt(call, f"{call.name} runs only when a person has decided")
        return call


def switches(interrupt_on: Any) -> dict[str, bool]:
    """*interrupt_on* as a dict; none is an empty one.

    Raises:
        ConfigError: it is no mapping of names to True or False.
    """
    if interrupt_on is None:
        return {}
    if not isinstance(interrupt_on, Mapping):
        raise ConfigError(f"interrupt_on must map tool names to True or False, not {interrupt_on!r}")
    given = cast(Mapping[str, Any], interrupt_on)
    for name, on in given.items():
        if not isinstance(on, bool):
            raise ConfigError(f"interrupt_on: {name!r} must be True or False, not {on!r}")
    return dict(given)
