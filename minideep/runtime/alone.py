"""A run without a loop and without a model, for `minideep.testing`: all that a tool or a hook sees of it is real."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

from ..checkpoint import Journal, MemoryCheckpointer, open_store
from ..context import CallPaused, RunView
from ..errors import MinideepError
from ..events import FILE_EVENTS, AnyEvent, StreamEvent
from ..ledger import Ledger, Spent
from ..messages import Input
from ..models import Policy
from ..spec import AgentSpec, Runnable
from ..state import Interrupt, Limits, OpenCall, Path, State, StateView
from ..turn import Turn
from .cancel import TurnScope
from .delegation import run_child
from .live import LiveTurn
from .run import Call, Run

SPEC = AgentSpec("main", Policy(lambda request: ""), "", {}, Limits())
"""The agent of a run that nobody drives."""

IN_AN_AGENT = "a context of a test cannot resume it: test this tool in an agent, with `agent.run` and `agent.resume`"


class LoneRun:
    """A run of a thread in memory. What is recorded is encoded and applied as in any other run; `events` lists it."""

    spec = SPEC

    def __init__(self, thread_id: str = "test", path: Path = (), context: Any = None) -> None:
        self.path: Path = path
        self.context: Any = context
        self.scratch: dict[object, Any] = {}
        self.journal: Journal = Journal(thread_id, open_store(MemoryCheckpointer()))
        self.state: State = self.journal.open_run(path)
        self.view: StateView = self.journal.view(path)
        self.events: list[AnyEvent] = []
        self.emitted: list[StreamEvent] = []
        self._driven: Run | None = None
        self._calls: dict[str, Call] = {}

    @property
    def loop(self) -> Any:
        """The event loop of the caller, or None: whoever calls, on whatever thread, need not hand over to another."""
        try:
            return asyncio.get_running_loop()
        except RuntimeError:
            return None

    @property
    def spent(self) -> Spent:
        return (self._driven.ledger if self._driven else Ledger()).spent

    def model_for(self, model: Any) -> Any:
        return model

    def record(self, event: AnyEvent) -> None:
        """Apply *event*, as `Run.record` does."""
        path = () if self.path and isinstance(event, FILE_EVENTS) else self.path
        self.events.append(self.journal.record(path, event))

    def emit(self, event: StreamEvent) -> None:
        self.emitted.append(event)

    async def run_child(self, call: Any, agent: Runnable, input: Input, key: str | None, attempt: int) -> Turn:
        """Run *agent* below *call*, as the loop does; the child is driven for real, by its own model.

        Raises:
            MinideepError: the child waits for a person.
        """
        if self._driven is None:
            live = LiveTurn(self.journal, TurnScope(), self, _answer)
            self._driven = Run(SPEC, live, run_child, context=self.context, path=self.path)
        entry = call.entry
        # One object for each call: it knows which children the call has run.
        above = self._calls.setdefault(entry.call.id, Call(self._driven, entry))
        try:
            return await run_child(above, agent, input, key, attempt)
        except CallPaused:
            waits = ", ".join(repr(wait.call.name) for wait in above.paused)
            raise MinideepError(f"the child waits for a person, before {waits}; {IN_AN_AGENT}") from None


class LoneCall:
    """A call of a run that nobody drives. It is never over."""

    over = False
    asked = 0
    paused: tuple[Interrupt, ...] = ()

    def __init__(self, run: LoneRun, call_id: str) -> None:
        self.run: RunView = cast(RunView, run)  # As `RecordingContext` says.
        self.entry: OpenCall = run.state.open[call_id]

    def answer_to(self, question: str) -> str:
        """Refuse a question, as there is nobody to answer it.

        Raises:
            MinideepError
        """
        raise MinideepError(f"the tool asks a person {question!r}; {IN_AN_AGENT}")


async def _answer(live: LiveTurn, question: bytes) -> AsyncIterator[bytes]:
    """Nobody can ask: the store is in memory, and only this run knows it."""
    for nothing in ():
        yield nothing
