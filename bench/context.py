"""Measure a run much longer than its model's window: the summaries it takes, and what a prefix cache still holds.

    python bench/context.py [steps]

A turn of 400 steps with results of 30 KB, on a model with a window of 128,000 tokens that counts a fifth more than the
package estimates. Prints with bounds: refused requests; the largest request; all tokens against the same schedule with
free summaries; the share of the run's own input that an ideal prefix cache holds; and the time of the two hooks in a
step in which they have nothing to do, early and late.
"""

import asyncio
import sys
from itertools import takewhile
from statistics import median
from time import perf_counter

from bounds import bound, verdict

from minideep import Agent, AssistantMessage, Limits, Middleware, Reply, ToolCall, Usage, tool
from minideep.backends import StateBackend
from minideep.errors import ContextOverflow
from minideep.messages import Message
from minideep.middleware import FilesystemMiddleware, OffloadMiddleware, SummarizationMiddleware
from minideep.middleware.context import tokens
from minideep.models import ScriptedModel
from minideep.ports import Emit, Request

WINDOW, FACTOR, SIZE = 128_000, 1.2, 30_000
SUMMARY = "Goal: to look at everything. Known: " + "what was seen so far, number by number; " * 60


class Counting:
    """A provider with a window, its own count of tokens, and a cache of the last request's prefix."""

    name, window = "counting", WINDOW

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.seen: list[Message] = []
        self.head = 0.0
        self.refused = self.summaries = self.asked = 0
        self.largest = self.total = self.summed_up = self.cached = 0.0

    async def complete(self, request: Request, emit: Emit | None) -> Reply:
        sizes = [tokens.of_message(message) * FACTOR for message in request.messages]
        head = tokens.of_head(request) * FACTOR
        size = head + sum(sizes)
        if size > WINDOW:
            self.refused += 1
            raise ContextOverflow(f"{size:,.0f} tokens, more than {WINDOW:,}")
        self.largest, self.total = max(self.largest, size), self.total + size
        if not request.tools:
            self.summaries, self.summed_up = self.summaries + 1, self.summed_up + size
            return Reply(AssistantMessage(SUMMARY), Usage(round(size), round(tokens.of_text(SUMMARY))))
        same = takewhile(lambda pair: pair[0] == pair[1], zip(self.seen, request.messages, strict=False))
        cached = self.head + sum(sizes[: sum(1 for _ in same)])
        self.seen, self.head, self.cached = [*request.messages], head, self.cached + cached
        self.left, self.asked = self.left - 1, self.asked + 1
        call = ToolCall("look", {"about": f"part {self.asked}"}, f"c{self.asked}")
        said = AssistantMessage((call,) if self.left >= 0 else "done")
        return Reply(said, Usage(round(size), 30, cache_read=round(cached)))


def long_run(steps: int) -> None:
    @tool
    async def look(about: str) -> str:
        """Look at a part."""
        return (f"{about}: " + "all that there is to be seen, and more. " * 1000)[:SIZE]

    model, backend = Counting(steps), StateBackend()
    middleware = [FilesystemMiddleware(backend), OffloadMiddleware(backend), SummarizationMiddleware(model, backend)]
    agent = Agent(model, [look], middleware=middleware, limits=Limits(steps=None))
    turn = agent.run_sync("Look at everything", "t")
    assert turn.status == "ended", turn.error
    assert len(turn.messages) == len(agent.transcript("t")) == 2 * steps + 2
    assert abs(turn.usage.input - model.total) < len(turn.messages), "the costs lack a summary"
    print(f"{steps} steps with results of {SIZE:,} characters on a window of {WINDOW:,} tokens")
    print(f"  {model.summaries} summaries, {model.total:,.0f} tokens in, {model.summed_up:,.0f} of them for summaries")
    bound("requests that were refused", model.refused, 0)
    bound("the largest request, to the window", model.largest / WINDOW, 0.9)
    bound("tokens, to the same schedule with free summaries", model.total / (model.total - model.summed_up), 1.1)
    own = model.total - model.summed_up
    bound("share of the run's own input that is a prefix seen before", model.cached / own, 0.8, least=True)


class Timed(Middleware):
    """Another middleware, with the times that its hook takes."""

    def __init__(self, inner: Middleware) -> None:
        self.inner = inner
        self.times: list[float] = []

    async def before_model(self, ctx, request):
        started = perf_counter()
        shown = await self.inner.before_model(ctx, request)
        self.times.append(perf_counter() - started)
        return shown


def idle(make, steps: int = 5000) -> tuple[float, float]:
    """Return the microseconds of a hook that has nothing to do, in the steps 10 to 110 and in the last 100."""

    @tool
    async def ping() -> str:
        """Answer at once."""
        return "pong"

    script = ScriptedModel([*[ToolCall("ping")] * steps, "done"])
    timed = Timed(make(script))
    turn = asyncio.run(Agent(script, [ping], middleware=[timed], limits=Limits(steps=None)).run("go"))
    assert turn.status == "ended", turn.error
    return median(timed.times[10:110]) * 1e6, median(timed.times[-100:]) * 1e6


def main(steps: int = 400) -> int:
    long_run(steps)
    print("microseconds of a hook with nothing to do, at step 100, and how they grow to step 5,000")
    backend = StateBackend()
    for name, make in {
        "offload": lambda model: OffloadMiddleware(backend),
        "summarization": lambda model: SummarizationMiddleware(model, backend, trigger=10**9),
    }.items():
        runs = [idle(make) for _ in range(5)]
        early, late = min(run[0] for run in runs), min(run[1] for run in runs)
        bound(f"{name}, early", early, 5.0)
        bound(f"{name}, late to early", late / early, 1.5)
    return verdict()


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
