"""Tools that a provider runs, in one line for every provider that has them: `tools=[WebSearch()]`."""

from collections.abc import Collection, Iterable, Sequence
from typing import Any, NoReturn

from ..checks import checked
from ..errors import ConfigError, ToolError
from ..kinds import Injected, Positive
from ..messages import ToolCall
from ..ports import Middleware
from ..tools import Tool


class ProviderTool(Tool):
    """A tool that the provider of the model runs: its calls never reach the agent, so no hook, permission or approval
    sees them. An agent whose model has no such tool cannot be built.
    """

    is_hosted = True

    def __init__(self, name: str, description: str) -> None:
        async def run() -> None:
            raise AssertionError  # `bind` refuses every call.

        super().__init__(run, name=name, description=description)

    def normalized(self, call: ToolCall) -> ToolCall:
        return call

    def bind(self, call: ToolCall, ctx: Injected | None) -> NoReturn:
        raise ToolError(f"{call.name} runs at the provider and cannot be called like a function; use another tool")


class WebSearch(ProviderTool):
    """A search of the web: `WebSearch(allowed_domains=["python.org"])`.

    * *allowed_domains* are the only ones that are searched, with everything below them, and *blocked_domains* those
      that are not, which only Anthropic can do; only one of the two may be given.
    * *max_uses* is the limit of searches in one request, which only Anthropic has.

    Raises:
        ConfigError: both kinds of domains are given.
    """

    @checked
    def __init__(
        self,
        *,
        allowed_domains: Sequence[str] = (),
        blocked_domains: Sequence[str] = (),
        max_uses: Positive | None = None,
    ) -> None:
        super().__init__("web_search", "Search the web.")
        if allowed_domains and blocked_domains:
            raise ConfigError("WebSearch: give allowed_domains or blocked_domains, not both")
        self.allowed_domains: list[str] = list(allowed_domains)
        self.blocked_domains: list[str] = list(blocked_domains)
        self.max_uses: int | None = max_uses


class CodeExecution(ProviderTool):
    """A container at the provider in which the model runs code."""

    def __init__(self) -> None:
        super().__init__("code_execution", "Run code in a container.")


class FileSearch(ProviderTool):
    """A search of files that are at the provider, which only OpenAI has: `FileSearch(["vs_123"])`.

    *vector_store_ids* are the stores to search; *max_results* is the limit of results, from 1 to 50.

    Raises:
        ConfigError: no store is given.
    """

    @checked
    def __init__(self, vector_store_ids: Sequence[str], *, max_results: Positive | None = None) -> None:
        super().__init__("file_search", "Search the files that were uploaded.")
        if not vector_store_ids:
            raise ConfigError("FileSearch: vector_store_ids is empty; give the id of a vector store")
        self.vector_store_ids: list[str] = list(vector_store_ids)
        self.max_results: int | None = max_results


def without_options(tool: Tool, model: str, names: Collection[str], remedy: str) -> None:
    """Refuse options of *tool* that *model* has nothing for.

    Raises:
        ConfigError: one of the attributes *names* is set.
    """
    for name in names:
        if getattr(tool, name):
            raise ConfigError(f"{model} has nothing for `{type(tool).__name__}({name}=...)`; {remedy}")


def given(**options: Any) -> dict[str, Any]:
    """Return the *options* that are set."""
    return {name: value for name, value in options.items() if value}


def check_guards(hosted: Iterable[Tool], middleware: Iterable[Middleware]) -> None:
    """Check that no guard in *middleware* means to decide about calls of *hosted* tools, which it will never see.

    Raises:
        ConfigError: one has a rule about such a tool.
    """
    for tool in hosted:
        for part in middleware:
            if (decides := getattr(part, "decides_about", None)) and decides(tool.name):
                problem = f"{part.name} decides about {tool.name!r}, which the provider of the model runs"
                raise ConfigError(f"{problem}, so that its calls are seen by no guard; leave out the tool or the rule")
