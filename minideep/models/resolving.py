"""A model as an agent is given it: an object, or a string that names a provider and its model."""

from ..errors import ConfigError
from ..kinds import shown
from ..ports import Model


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
