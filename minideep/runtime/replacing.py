"""The spec of an agent, or one of its models, under the model of `Agent.override`."""

from collections.abc import Sequence

from msgspec import structs

from ..ports import Model
from ..spec import AgentSpec


def applied(spec: AgentSpec, parent: AgentSpec | None, overrides: Sequence[tuple[object, Model]]) -> AgentSpec:
    """Return *spec* under the override that holds for it, if there is one."""
    model = parent.override if parent else None
    # That of the agent itself wins over the one that its parent runs under, and the innermost over those round it.
    model = next((other for origin, other in reversed(overrides) if origin is spec.origin), model)
    return spec if model is None else with_model(spec, model)


def in_place_of(model: Model, override: Model) -> Model:
    """Return the model to ask for *model* under *override*.

    A `Policy` stays: it asks nobody, and is part of how the agent works, as the graph of a blueprint is.
    """
    return model if getattr(model, "free", False) else override


def with_model(spec: AgentSpec, model: Model) -> AgentSpec:
    """Return *spec* with *model* in place of every model of it, and of those below."""
    return structs.replace(spec, model=in_place_of(spec.model, model), override=model, other_models=())
