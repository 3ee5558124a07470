"""`Agent.override`: another model in place of all models of an agent, for a while."""

from collections.abc import Generator
from contextlib import contextmanager

from ..ports import Model
from ..spec import AgentSpec
from .replacing import with_model
from .spec import OVERRIDES, check_prices


@contextmanager
def override(spec: AgentSpec, model: Model) -> Generator[None, None, None]:
    """Let *model* answer every request of the agent of *spec*, in the turns that begin inside.

    Raises:
        ConfigError: the agent has a cost budget, and *model* does not state its cost.
    """
    check_prices(with_model(spec, model), spec.limits, spec.name)
    entry = (spec.origin, model)
    OVERRIDES.set((*OVERRIDES.get(), entry))
    try:
        yield
    finally:
        # Not by the token, which only the context that made it accepts: a fixture may be left in another task.
        OVERRIDES.set(tuple(other for other in OVERRIDES.get() if other is not entry))
