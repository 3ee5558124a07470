"""A model as an agent is given it: an object, or a string that names a provider and its model."""

from collections.abc import Collection

from ..errors import ConfigError
from ..kinds import shown
from ..ports import Model
from ..tools import Tool


def resolve(model: str | Model) -> Model:
    """Return *model* itself, or the model that a string such as `anthropic:claude-sonnet-4-6` or `offline:` names.

    Raises:
        ConfigError: the string names no known provider or no model, or what it names, or *model*, is not a model.
    """
    found: object = model
    if isinstance(model, str):
        from .registry import made  # Here, because tests and most services give a model.

        found = made(model)
    if callable(getattr(found, "complete", None)) and isinstance(getattr(found, "name", None), str):
        return found  # pyright: ignore[reportReturnType]
    if isinstance(model, str):
        provider, wanted = model.partition(":")[0], "a model, which has `name` and `async complete(request, emit)`"
        raise ConfigError(f"provider {provider!r}: its factory must return {wanted}, not {shown(found)}")
    raise ConfigError(f"a model is a string or has `name` and `async complete(request, emit)`, not {model!r}")


def check_tools(model: Model, tools: Collection[Tool]) -> None:
    """Check that an agent with *tools* can ask *model*, which may declare tools of its own, and run some itself.

    Raises:
        ConfigError: it declares one that does not fit the agent's, or has not one that it should run.
    """
    if check := getattr(model, "check_tools", None):
        check(tools)
    elif hosted := next((tool for tool in tools if tool.is_hosted), None):
        remedy = "`Anthropic` and `OpenAI` do; give the agent a function that does it"
        raise ConfigError(f"model {model.name!r} runs no tools itself, such as {type(hosted).__name__!r}; {remedy}")
