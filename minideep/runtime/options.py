"""`Agent.with_options`: the spec of an agent with other settings for some of its turns."""

from collections.abc import Mapping

from msgspec import structs

from ..errors import ConfigError
from ..models import check_tools
from ..ports import Model
from ..spec import AgentSpec
from ..state import Limits
from .spec import check_prices


def with_options(
    spec: AgentSpec, limits: Limits | None, model: Model | None, tags: Mapping[str, str] | None
) -> AgentSpec:
    """Return *spec* with what is not None of these. Another model is given the same prompt and tools.

    Raises:
        ConfigError: the model's settings declare a tool that does not fit the agent's, or it does not state its cost
            although there is a budget of it; or the agent computes its replies, as a blueprint does.
    """
    if model is not None:
        if getattr(spec.model, "free", False):  # Its parts ask the models that they were given.
            problem = f"model: agent {spec.name!r} computes its replies, so another model would have no effect"
            raise ConfigError(f"{problem}; `override(model=...)` holds for all that its parts ask")
        check_tools(model, spec.tools.values())
        spec = structs.replace(spec, model=model)
    if tags is not None:
        spec = structs.replace(spec, about={**spec.about, "tags": dict(tags)})
    spec = structs.replace(spec, limits=limits or spec.limits)
    check_prices(spec, spec.limits, spec.name)
    return spec
