"""`Agent.override`: another model in place of all models of an agent, for a while."""

import asyncio
from collections.abc import Generator
from contextlib import contextmanager

from ..ports import Model
from ..spec import AgentSpec
from .replacing import with_model
from .spec import EVERYWHERE, OVERRIDES, check_prices


@contextmanager
def override(spec: AgentSpec, model: Model) -> Generator[None, None, None]:
    """Let *model* answer every request of the agent of *spec*, in the turns that begin inside.

    Made in a coroutine it belongs to the context. Made in plain code it holds in the whole process, and one that
    belongs to the context wins over it.

    Raises:
        ConfigError: the agent has a cost budget, and *model* does not state its cost.
    """
    check_prices(with_model(spec, model), spec.limits, spec.name)
    entry, everywhere = (spec.origin, model), not _on_a_loop()
    OVERRIDES.set((*OVERRIDES.get(), entry))
    if everywhere:
        EVERYWHERE.append(entry)
    try:
        yield
    finally:
        if everywhere:
            EVERYWHERE[:] = [other for other in EVERYWHERE if other is not entry]
        # Not by the token, which only the context that made it accepts: a fixture may be left in another task.
        OVERRIDES.set(tuple(other for other in OVERRIDES.get() if other is not entry))


def _on_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
