"""A trajectory: one turn with its state, its calls and every request to a model, for assertions to check."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from hashlib import sha256
from pathlib import PurePosixPath
from time import perf_counter
from typing import Any

from msgspec import field, structs

from ..agent import Agent
from ..checkpoint import encode_state
from ..context import ToolContext
from ..costs import Costs
from ..documented import Struct
from ..errors import MinideepError
from ..messages import Message, ToolMessage
from ..middleware import FINAL_ANSWER
from ..models import Policy
from ..ports import Ask, Middleware, Reply, Request, Store
from ..runtime import inheriting
from ..state import Path, State, as_bytes
from ..turn import Turn
from .golden import Golden
from .scores import Verdict

Asked = tuple[str, Request]
"""The name of an agent, and a request to its model."""


class Call(Struct, frozen=True):
    """A call to a tool, with its result."""

    name: str
    args: Mapping[str, Any]
    agent: str
    """The agent that made it."""
    path: Path
    """The run that made it; `()` is the main run."""
    step: int
    """The reply that asked for it: 1 for the first of its run in this turn."""
    result: str | None = None
    """The text of its result; None if it has none, as a call that waits for a person."""
    is_error: bool = False

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{name}={value!r}' for name, value in self.args.items())})"


class Trajectory(Struct, frozen=True):
    """The turn of one golden, as read back from the store."""

    golden: Golden
    agent: Agent
    """The agent, on the store of the evaluation: `trajectory.agent.read_file(trajectory.turn.thread_id, ...)`."""
    turn: Turn
    state: State
    """The state of the thread, with its subagents."""
    requests: tuple[Asked, ...]
    """Every request to a model, in order. Those of a blueprint name the planner, reflection or a role."""
    calls: tuple[Call, ...]
    """Every call of the turn, those of the runs below included: they follow the call that began their run. A typed
    answer that the model gave as a call is none.
    """
    runs: Mapping[Path, str]
    """The agent of each run of the turn; `()` is the main run."""
    artifacts: Mapping[str, str]
    """The status of each delivered file, by each of its names. It is `done`, unless the agent says something else."""
    state_bytes: int
    """Bytes of the state as the store writes it, without subagents and without files that the store keeps apart."""
    seconds: float = 0.0
    """Time that the turn took."""
    judging: Costs = field(default_factory=Costs)
    """What assertions have spent on models of their own: a judge adds its costs here, and so may you."""


Assertion = Callable[[Trajectory], Verdict | Awaitable[Verdict]]
"""A check of a trajectory; see `Verdict` for what it returns. Raising an exception fails it too."""


class Recorder(Middleware):
    """Notes each request to a model, in the runs below its agent as well."""

    inherit: bool | None = True

    def __init__(self, requests: list[Asked], agent: Agent) -> None:
        self._requests = requests
        # A policy computes the replies of its agent; no assertion is about what it was shown.
        self._ignored = agent.spec.name if isinstance(agent.spec.model, Policy) else None

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Ask) -> Reply:
        if ctx.state.agent != self._ignored:
            self._requests.append((ctx.state.agent, request))
        return await ask(request)


def on_store(agent: Agent, store: Store) -> Agent:
    """Return a copy of *agent* whose threads are in *store*."""
    mine = copy(agent)
    mine.checkpointer = store
    return mine


async def walk(agent: Agent, golden: Golden, thread_id: str) -> Trajectory:
    """Run one golden as turns of a new thread, of which the last one is returned.

    Raises:
        MinideepError: as `Agent.run`; or the turn could not be saved or read back, or an earlier one did not end.
    """
    asked: list[Asked] = []
    recorded = _recorded(agent, asked)
    first: dict[str, Any] = {"files": golden.files} if golden.files else {}
    for place, said in enumerate(golden.earlier, start=1):
        earlier = await recorded.run(said, thread_id, **first)
        _check_earlier(earlier, f"turn {place} of {len(golden.earlier) + 1}")
        first = {}
        asked.clear()
    started = perf_counter()
    turn = await recorded.run(golden.goal, thread_id, **first)
    seconds = perf_counter() - started
    if not turn.saved and turn.error:  # The store does not have the turn, so nothing of it could be read back.
        raise turn.error
    state = agent.get_state(thread_id, subagents=True)
    size = len(encode_state(structs.replace(state, subagents={})))
    reader = _Calls(agent, thread_id)
    calls = tuple(reader.of_run((), agent.spec.name, turn.messages))
    artifacts = _artifacts(agent, golden, turn)
    return Trajectory(golden, agent, turn, state, tuple(asked), calls, reader.runs, artifacts, size, seconds)


def _recorded(agent: Agent, requests: list[Asked]) -> Agent:
    """Return a copy of *agent*, on the same threads, that adds its requests to *requests*."""
    mine = copy(agent)
    mine.spec = inheriting(agent.spec, (Recorder(requests, agent),))
    return mine


def _check_earlier(turn: Turn, which: str) -> None:
    if turn.status not in ("ended", "escalated"):
        turn.raise_for_status()
        raise MinideepError(f"{which} is {turn.status}, so the goal could not be said")


def _artifacts(agent: Agent, golden: Golden, turn: Turn) -> dict[str, str]:
    """Return the statuses of what the turn has delivered: what it wrote, and what the agent itself knows of it."""
    # What the agent was given is recorded as written, too; it has delivered that only if it has changed it.
    given = {(PurePosixPath(path).name, sha256(as_bytes(text)).hexdigest()) for path, text in golden.files.items()}
    written = [path for path, file in turn.artifacts.items() if (PurePosixPath(path).name, file.sha256) not in given]
    there = {name: "done" for path in written for name in (path.lstrip("/"), PurePosixPath(path).name)}
    delivered: Callable[[str], Mapping[str, str]] | None = getattr(agent, "delivered", None)
    return there | dict(delivered(turn.thread_id)) if delivered else there


def answer_of(turn: Turn) -> str:
    """Return what a turn says to the person: its text or its question, and a typed result as JSON."""
    said, last = turn.text or turn.question, turn.messages[-1:]
    # If the model gave its typed result as text, that is the text of the turn.
    result = last[0].text if turn.output is not None and last and last[0].role == "tool" else ""
    return "\n".join(filter(None, (said, result)))


class _Calls:
    """Reads the calls of a turn back from the log, where a compaction has removed nothing."""

    def __init__(self, agent: Agent, thread_id: str) -> None:
        self._agent, self._thread_id = agent, thread_id
        self.runs: dict[Path, str] = {}
        self._below: dict[tuple[Path, str], list[tuple[Path, str]]] = {}
        for run in agent.runs(thread_id):
            self._below.setdefault((run.path[:-1], run.call_id), []).append((run.path, run.agent))

    def of_run(self, path: Path, agent: str, messages: Sequence[Message]) -> Iterator[Call]:
        self.runs[path] = agent
        results = {message.call_id: message for message in messages if isinstance(message, ToolMessage)}
        replies = (message for message in messages if message.role == "assistant")
        for step, reply in enumerate(replies, start=1):
            for call in reply.calls:
                if call.name == FINAL_ANSWER:  # The way in which some models give a typed answer, and no deed.
                    continue
                found = results.get(call.id)
                result = (found.text, found.is_error) if found else (None, False)
                yield Call(call.name, call.args, agent, path, step, *result)
                for below, name in self._below.get((path, call.id), ()):
                    yield from self.of_run(below, name, self._agent.transcript(self._thread_id, below))
