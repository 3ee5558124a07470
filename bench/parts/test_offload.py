"""A context that grows too large: large results go into files, and a summary takes the place of old messages."""

from typing import Any

import pytest
from work import LOOK, NO_LIMIT, Pages, Turn, reading, text

from minideep import Agent
from minideep.backends import StateBackend
from minideep.middleware import FilesystemMiddleware, OffloadMiddleware, SummarizationMiddleware
from minideep.models import ScriptedModel

SIZES = {"10 KB": 10_000, "100 KB": 10**5, "1 MB": 10**6}
"""Results of more than 20,000 tokens are offloaded."""
WITH = {
    "without middleware": lambda files: [],
    "offload, files in the state": lambda files: [FilesystemMiddleware(files), OffloadMiddleware(files)],
}


@pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize("middleware", WITH.values(), ids=WITH)
def test_offload(measure, runner, store, middleware, size):
    """A turn with one tool call, by the size of the result, which offloading puts into a file."""
    pages = Pages(size)
    parts = middleware(StateBackend())
    agent = Agent(ScriptedModel(reading(1)), [pages.tool], middleware=parts, checkpointer=store)
    offloaded = bool(parts) and size > 80_000

    async def turn() -> None:
        files = (await agent.run("go")).artifacts
        assert bool(files) == offloaded, files

    measure(lambda _: runner.run(turn()), setup=lambda: pages.print(1), rounds=10)


WINDOWS = {"never compacted": None, "a window of 20,000 tokens": 20_000, "a window of 100,000 tokens": 100_000}


@pytest.mark.parametrize("window", WINDOWS.values(), ids=WINDOWS)
def test_summarization_with_free_summaries(measure, runner, window):
    """A step with a result of 2,000 characters, in a context that is compacted before it outgrows its window."""
    pages, summarizer, files = Pages(), ScriptedModel(lambda request: text(2_000)), StateBackend()

    def begin(model: Any) -> Any:
        middleware = [FilesystemMiddleware(files), SummarizationMiddleware(model, files, summarizer=summarizer)]
        return Agent(model, [pages.tool], middleware=middleware, limits=NO_LIMIT).run("go")

    turn = Turn(runner, begin, [LOOK], window=window)
    measure(lambda _: turn.forward(200), setup=lambda: pages.print(200), rounds=10, each=200)
    assert bool(summarizer.requests) == bool(window)
