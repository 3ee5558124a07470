"""Tools that run at OpenAI: how they are declared.

https://developers.openai.com/api/docs/guides/tools-web-search, and the pages of the other tools beside it.
"""

from ...errors import ConfigError
from ...tools import Tool
from ..adapter import Wire
from ..provider_tools import CodeExecution, FileSearch, WebSearch, given, without_options


def provider_tool(tool: Tool, model: str) -> Wire:
    """Return the declaration of a `ProviderTool` for *model*.

    Raises:
        ConfigError: OpenAI has no such tool, or nothing for one of its options.
    """
    match tool:
        case WebSearch():
            without_options(tool, model, ["max_uses"], "`OpenAI(..., max_tool_calls=5)` limits all tools together")
            without_options(tool, model, ["blocked_domains"], "name the allowed_domains")
            return {"type": "web_search"} | given(filters=given(allowed_domains=tool.allowed_domains))
        case CodeExecution():
            return {"type": "code_interpreter", "container": {"type": "auto"}}
        case FileSearch():
            found: Wire = {"type": "file_search", "vector_store_ids": tool.vector_store_ids}
            return found | given(max_num_results=tool.max_results)
        case _:
            raise ConfigError(f"{model} has no tool {type(tool).__name__!r}; give the agent a function that does it")


def no_tool(tool: Tool, model: str) -> Wire:
    """Refuse a `ProviderTool`: Chat Completions has none.

    Raises:
        ConfigError: always.
    """
    remedy = "use `OpenAI`, the Responses API, or give the agent a function that does it"
    raise ConfigError(f"{model} has no tool {type(tool).__name__!r}, as Chat Completions runs no tools; {remedy}")
