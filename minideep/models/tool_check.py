"""Whether the tools of an agent fit its model."""

from collections.abc import Collection

from ..errors import ConfigError
from ..ports import Model
from ..tools import Tool


def check_tools(model: Model, tools: Collection[Tool]) -> None:
    """Check that an agent with *tools* can ask *model*, which may declare tools of its own, and run some itself.

    Raises:
        ConfigError: it declares one that does not fit the agent's, or has not one that it should run.
    """
    if check := getattr(model, "check_tools", None):
        check(tools)
    elif hosted := [tool for tool in tools if tool.is_hosted]:
        remedy = "`Anthropic` and `OpenAI` do; give the agent a function that does it"
        raise ConfigError(f"model {model.name!r} runs no tools itself, such as {type(hosted[0]).__name__!r}; {remedy}")
