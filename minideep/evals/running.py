"""Run a golden set: each case is a turn on a thread of its own, and a failure stays with its case."""

import asyncio
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from importlib import import_module
from time import perf_counter
from traceback import extract_tb
from typing import Annotated, Any, TypeVar, cast

from msgspec import Meta, structs

from ..agent import Agent
from ..checkpoint import MemoryCheckpointer, open_store, thread_costs
from ..checks import check, checked
from ..errors import ConfigError, MinideepError
from ..kinds import Positive, Seconds
from ..messages import clean
from ..models import Policy
from ..ports import Store
from .assertions import ask, dollars_of, name_of
from .cases import NOT_RUN, Case
from .expectations import expectations
from .golden import Golden
from .report import Report
from .scores import Failure, Score, read_verdict
from .trajectory import Assertion, Trajectory, answer_of, on_store, walk

T = TypeVar("T")
VERSION: str = import_module(__name__.partition(".")[0]).__version__
MAX_REPEAT = 1_000
"""Runs of one golden."""
MAX_ANSWER, MAX_CALLS, MAX_CALL = 2_000, 200, 200
"""Characters of an answer, calls, and characters of a call that a case keeps."""
Evaluated = Agent | Callable[[Golden], Agent]
"""An agent, or a function that makes one for a case."""


@checked
async def evaluate(
    agent: Evaluated,
    goldens: Iterable[Golden],
    assertions: Iterable[Assertion] = (),
    *,
    repeat: Annotated[int, Meta(gt=0, le=MAX_REPEAT)] = 1,
    concurrency: Positive = 1,
    timeout: Seconds | None = None,
    budget: Annotated[float, Meta(gt=0)] | None = None,
    store: Store | None = None,
    on_case: Callable[[Case], object] | None = None,
) -> Report:
    """Run every golden *repeat* times with *agent*, and check each turn: what the golden expects, and *assertions*.

    *agent* is an `Agent`, or a function that takes a golden and returns the agent of one case. Each case has a thread
    of its own, in *store* or, if there is none, in memory; the agent's own store is not touched. *concurrency*
    cases run at a time. A case that raises fails; one that takes longer than *timeout* seconds is cancelled and fails.

    *budget* is in US dollars, of agent and assertions together. No case begins once it is spent, or once a cost is
    unknown: the rest is `not run`, and the report has not passed. The cases that run at that moment go on.

    *on_case* is called with each case that is over, in the order of their ends.

    Raises:
        ConfigError: *goldens* is empty, two of them have one name, or an argument is not usable.
    """
    listed = _checked_goldens(goldens)
    work = _Evaluation(agent, list(assertions), timeout, budget, store)
    slots, started = asyncio.Semaphore(concurrency), time.time()

    async def one(golden: Golden, run: int) -> Case:
        async with slots:
            case = await work.case(golden, run)
        if on_case:
            on_case(case)
        return case

    # The first runs of all goldens stand first: a budget that is too small leaves runs out, not goldens.
    order = [(run, golden) for run in range(1, repeat + 1) for golden in listed]
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(golden, run)) for run, golden in order]
    by_golden = tuple(task.result() for place in range(len(listed)) for task in tasks[place :: len(listed)])
    settings = {"repeat": repeat, "concurrency": concurrency, "timeout": timeout, "budget": budget}
    settings["kept"] = store is not None
    return Report(by_golden, {"agents": sorted(work.agents), "minideep": VERSION, "at": started, **settings})


def _checked_goldens(goldens: Iterable[Golden]) -> list[Golden]:
    listed = list(goldens)
    if not listed:
        raise ConfigError("there are no goldens, and an evaluation of nothing would pass; give at least one")
    name, count = Counter(golden.name for golden in listed).most_common(1)[0]
    if count > 1:
        raise ConfigError(f"{count} goldens are named {name[:100]!r}; give each an id, or run one with repeat={count}")
    return listed


class _Evaluation:
    """What all cases have in common, and what they have spent."""

    def __init__(
        self,
        agent: Evaluated,
        checks: Sequence[Assertion],
        timeout: float | None,
        budget: float | None,
        store: Store | None,
    ) -> None:
        self._agent, self._checks, self._timeout = agent, checks, timeout
        self._budget, self._store = budget, store
        self._spent, self._unpriced = 0.0, 0
        self.agents: set[str] = set()

    async def case(self, golden: Golden, run: int) -> Case:
        """Run one golden once, if the budget allows it."""
        case = Case(golden, run=run)
        if reason := self._why_not():
            return structs.replace(case, status=NOT_RUN, failures=(Failure("budget", reason),))
        started = perf_counter()
        case = await self._turned(structs.replace(case, thread_id=f"eval-{uuid.uuid4().hex[:12]}"))
        self._spent += (case.cost or 0.0) + (case.judging or 0.0)
        self._unpriced += case.unpriced + (case.judging is None)
        return structs.replace(case, seconds=perf_counter() - started)

    def _why_not(self) -> str:
        """Return why no further case may begin, or an empty string."""
        if self._budget is None:
            return ""
        if self._unpriced:
            return f"the cost of {self._unpriced:,} replies is unknown, so the budget cannot be kept"
        return f"${self._budget:g} are spent" if self._spent >= self._budget else ""

    async def _turned(self, case: Case) -> Case:
        """Return *case* with what came of its turn."""
        failures: list[Failure] = []
        with _catching("turn", failures):
            # One in memory is of this case alone: it goes with the last who reads the thread.
            store = MemoryCheckpointer() if self._store is None else self._store
            agent = on_store(self._made(case.golden), store)
            try:
                trajectory = await _in_time(walk(agent, case.golden, case.thread_id), self._timeout)
            finally:
                case = structs.replace(case, **_spent(agent, case.thread_id))
            return await self._checked(structs.replace(case, **_outcome(trajectory)), trajectory)
        return structs.replace(case, failures=tuple(failures))

    def _made(self, golden: Golden) -> Agent:
        agent = cast(Agent, self._agent)
        if not isinstance(self._agent, Agent):
            agent = self._agent(golden)
        check(agent, Agent, "what the function of an agent returns", "evaluate")
        self.agents.add(f"{agent.spec.name} {agent.spec.about.get('version', '')}".strip())
        return agent

    async def _checked(self, case: Case, trajectory: Trajectory) -> Case:
        """Return *case* with what its assertions say."""
        failures: list[Failure] = []
        scores: list[Score] = []
        for assertion in (*expectations(trajectory), *self._checks):
            name = name_of(assertion)
            with _catching(name, failures):
                match read_verdict(await _in_time(ask(assertion, trajectory), self._timeout), name):
                    case Failure() as failure:
                        failures.append(failure)
                    case Score() as score:
                        scores.append(score)
                        failures += [] if score.passed else [Failure(score.name, str(score))]
                    case None:
                        pass
        judging = dollars_of(trajectory.judging)
        return structs.replace(case, failures=tuple(failures), scores=tuple(scores), judging=judging)


def _spent(agent: Agent, thread_id: str) -> dict[str, Any]:
    """Return what the thread has cost, as far as it was saved: also one whose turn was cut off."""
    try:
        found = thread_costs(open_store(cast(Store, agent.checkpointer)), thread_id)
    except MinideepError:  # It was never begun; or it cannot be read, which has been raised already.
        return {}
    # A policy computes its replies; no model is asked.
    asked = [part for part in found.agents if part.models != (Policy.name,)]
    usage, total = found.total.usage, found.total
    return {
        "models": tuple(sorted({model for part in asked for model in part.models})),
        "steps": sum(part.own.replies for part in asked),
        "tool_calls": sum(part.own.tool_calls for part in asked),
        "tokens": usage.total,
        "unknown": usage.unknown,
        "cost": total.cost,
        "unpriced": total.unpriced,
    }


def _outcome(trajectory: Trajectory) -> dict[str, Any]:
    turn = trajectory.turn
    return {
        "status": turn.status,
        "answer": clean(answer_of(turn)[:MAX_ANSWER]),
        "calls": tuple(clean(str(call)[:MAX_CALL]) for call in trajectory.calls[:MAX_CALLS]),
        "state_bytes": trajectory.state_bytes,
    }


async def _in_time(work: Awaitable[T], timeout: float | None) -> T:
    bound = asyncio.timeout(timeout)
    try:
        async with bound:
            found = await work
    except TimeoutError:
        if not bound.expired():  # The agent's own: its text says more.
            raise
        raise TimeoutError(f"it took longer than {timeout:g} s") from None
    # What blocks the event loop cannot be cut off, and is late all the same.
    if (end := bound.when()) is not None and asyncio.get_running_loop().time() > end:
        raise TimeoutError(f"it took longer than {timeout:g} s, and blocked the event loop")
    return found


@contextmanager
def _catching(name: str, failures: list[Failure]) -> Generator[None]:
    """Turn an exception into a failure of *name*, unless it cancels the whole evaluation."""
    try:
        yield
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as exc:
        # the other cases. `pytest.fail` and `sys.exit` do not raise an `Exception`; nor does a task that is awaited
        # after somebody cancelled it.
        task = asyncio.current_task()
        if isinstance(exc, asyncio.CancelledError) and task and task.cancelling():
            raise
        failures.append(Failure(name, clean(_described(exc))))


def _described(exc: BaseException) -> str:
    """Return type and text of an exception. A bare `assert` has no text, so its source line is returned."""
    text = str(exc)
    if not text and isinstance(exc, AssertionError):
        text = extract_tb(exc.__traceback__)[-1].line or ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__
