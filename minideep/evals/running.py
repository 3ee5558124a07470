"""Run a golden set: each golden is a turn on a thread of its own, and a failure stays with its case."""

import asyncio
import uuid
from collections.abc import Awaitable, Generator, Iterable, Sequence
from contextlib import contextmanager
from time import perf_counter
from traceback import extract_tb
from typing import Any, TypeVar, cast

from msgspec import structs

from ..agent import Agent
from ..checks import checked
from ..errors import ConfigError
from ..kinds import Positive, Seconds
from .assertions import ASSERTIONS
from .golden import Golden
from .report import Case, Failure, Report
from .trajectory import Assertion, Trajectory, walk

T = TypeVar("T")


@checked
async def evaluate(
    agent: Agent,
    goldens: Iterable[Golden],
    assertions: Iterable[Assertion] | None = None,
    *,
    concurrency: Positive = 1,
    timeout: Seconds | None = None,
) -> Report:
    """Run every golden with *agent*, a `Blueprint` or any other `Agent`, and check each turn with all *assertions*.

    If *assertions* is None, `ASSERTIONS` are used. Each case has a thread of its own in the agent's store, where it
    stays: `Case.thread_id`. *concurrency* cases run at a time. A case that raises fails; one that takes longer than
    *timeout* seconds is cancelled and fails.

    Raises:
        ConfigError: *goldens* is empty, or an argument is not usable.
    """
    listed = list(goldens)
    checks = list(ASSERTIONS if assertions is None else assertions)
    if not listed:
        raise ConfigError("there are no goldens, and an evaluation of nothing would pass; give at least one")
    slots = asyncio.Semaphore(concurrency)

    async def one(golden: Golden) -> Case:
        async with slots:
            return await _case(agent, golden, checks, timeout)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(golden)) for golden in listed]
    return Report(tuple(task.result() for task in tasks))


async def _case(agent: Agent, golden: Golden, assertions: Sequence[Assertion], timeout: float | None) -> Case:
    failures: list[Failure] = []
    case, started = Case(golden, f"eval-{uuid.uuid4().hex[:12]}", "raised"), perf_counter()
    with _catching("turn", failures):
        trajectory = await _in_time(walk(agent, golden, case.thread_id), timeout)
        turn, usage = trajectory.turn, trajectory.turn.costs.usage
        counts = {"steps": turn.costs.steps, "tokens": usage.total, "unknown": usage.unknown}
        case = structs.replace(case, status=turn.status, state_bytes=trajectory.state_bytes, **counts)
        for assertion in assertions:
            _check(assertion, trajectory, failures)
    return structs.replace(case, failures=tuple(failures), seconds=perf_counter() - started)


async def _in_time(work: Awaitable[T], timeout: float | None) -> T:
    bound = asyncio.timeout(timeout)
    try:
        async with bound:
            return await work
    except TimeoutError:
        if not bound.expired():  # The agent's own: its text says more.
            raise
        raise TimeoutError(f"it took longer than {timeout:g} s") from None


def _check(assertion: Assertion, trajectory: Trajectory, failures: list[Failure]) -> None:
    name = getattr(assertion, "__name__", type(assertion).__name__)
    with _catching(name, failures):
        found = cast(Any, assertion(trajectory))
        if found is not None:
            problem = found if isinstance(found, str) else f"it returned {found!r}; return what is wrong, or None"
            failures.append(Failure(name, problem))


@contextmanager
def _catching(name: str, failures: list[Failure]) -> Generator[None]:
    """Turn an exception into a failure of *name*, unless it cancels the whole evaluation."""
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001 - A user's agent or assertion that fails must not end
        # the other cases. `pytest.fail` and `sys.exit` do not raise an `Exception`.
        failures.append(Failure(name, _described(exc)))


def _described(exc: BaseException) -> str:
    """Return type and text of an exception. A bare `assert` has no text, so its source line is returned."""
    text = str(exc)
    if not text and isinstance(exc, AssertionError):
        text = extract_tb(exc.__traceback__)[-1].line or ""
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__
