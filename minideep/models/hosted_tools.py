"""The tools that the settings of a model declare, in the provider's words."""

from collections.abc import Callable, Collection, Iterable
from typing import Any

from msgspec import Struct

from ..errors import ConfigError
from ..plain_json import from_json
from ..tools import Tool
from .answers import Wire
from .body import Part, encode


class Hosted(Struct, frozen=True):
    """A tool that the settings declare."""

    name: str
    """The name by which the model calls it; empty if it has none."""
    is_ours: bool
    """True if a tool of the agent answers its calls, False if the provider does."""
    raw: bytes
    """The declaration as JSON."""


class HostedTools:
    """The *tools* that the settings of *model* declare.

    *caller* returns, for a declaration, what `Hosted` says of it: its name, and whether a tool of the agent answers.

    Raises:
        ConfigError: two of them have one name.
    """

    def __init__(self, model: str, tools: Iterable[Any], caller: Callable[[Wire], tuple[str, bool]]) -> None:
        self._model = model
        self._tools: list[Hosted] = []
        for raw in map(encode, tools):
            name, is_ours = caller(from_json(raw))
            if name and any(tool.name == name for tool in self._tools):
                raise ConfigError(f"{model}: two of the tools in its settings are named {name!r}; leave one out")
            self._tools.append(Hosted(name, is_ours, raw))

    def check(self, names: Collection[str]) -> None:
        """Check that an agent with tools of these *names* can use all of them.

        Raises:
            ConfigError: one has no tool of the agent to answer it, or one too many.
        """
        for tool in self._tools:
            if tool.is_ours and tool.name not in names:
                declared = f"{self._model} declares {tool.name!r} in its settings"
                remedy = "give the agent a tool of that name, or leave the declaration out"
                raise ConfigError(f"{declared}, whose calls a tool of the agent must answer; {remedy}")
        self._check_names(names)

    def beside(self, own: Collection[Tool], declared: Callable[[Tool], Part]) -> list[bytes]:
        """Return these declarations, and then those of the request's *own* tools, which *declared* returns.

        A declaration whose calls the agent answers takes the place of the one of its tool. It is left out of a request
        without that tool, such as one for a summary.

        Raises:
            ConfigError: a tool has the name of one that the provider runs.
        """
        if not self._tools:
            return [part for tool in own for part in declared(tool).parts]
        names = {tool.name for tool in own}
        self._check_names(names)
        shown = [tool.raw for tool in self._tools if not tool.is_ours or tool.name in names]
        replaced = {tool.name for tool in self._tools}
        return [*shown, *(part for tool in own if tool.name not in replaced for part in declared(tool).parts)]

    def _check_names(self, names: Collection[str]) -> None:
        for tool in self._tools:
            if tool.name in names and not tool.is_ours:
                problem = f"two tools are named {tool.name!r}: the provider's, in the settings of {self._model}, and"
                raise ConfigError(f"{problem} one's own; leave one out, or give yours another name")
