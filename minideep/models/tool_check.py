"""Whether the tools of an agent fit its model, and its guards those that the model's provider runs."""

from collections.abc import Collection, Iterable

from ..errors import ConfigError
from ..ports import Middleware, Model
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


def check_guards(tools: Iterable[Tool], middleware: Iterable[Middleware]) -> None:
    """Check that no guard in *middleware* means to decide about calls that it will never see.

    Raises:
        ConfigError: one has a rule about a tool that the provider runs.
    """
    hosted = [tool.name for tool in tools if tool.is_hosted]
    for part in middleware if hosted else ():
        for name in hosted:
            if (decides := getattr(part, "decides_about", None)) and decides(name):
                problem = f"{part.name} decides about {name!r}, which the provider of the model runs"
                raise ConfigError(f"{problem}, so that its calls are seen by no guard; leave out the tool or the rule")
