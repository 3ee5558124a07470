"""Runs a golden set: each golden is a turn of its own thread, and what goes wrong there stays there."""

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
    """Run every golden with *agent*, a `Blueprint` or any other, and hold each turn against all *assertions*;
    None: `ASSERTIONS`.

    Each case has a thread of its own in the agent's store, where it can be looked at afterwards: `Case.thread_id`.
    *concurrency* is how many run at a time; one that takes longer than *timeout* seconds is cancelled. A case that
    raises, or takes too long, is a failed one.

    Raises:
        ConfigError: there are no goldens, or an argument is not usable.
    """
    listed = list(goldens)
    held = list(ASSERTIONS if assertions is None else assertions)
    if not listed:
        raise ConfigError("there are no goldens; an evaluation of nothing would pass")
    gate = asyncio.Semaphore(concurrency)

    async def one(golden: Golden) -> Case:
        async with gate:
            return await _case(agent, golden, held, timeout)

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(golden)) for golden in listed]
    return Report(tuple(task.result() for task in tasks))


async def _case(agent: Agent, golden: Golden, assertions: Sequence[Assertion], timeout: float | None) -> Case:
    failures: list[Failure] = []
    case, started = Case(golden, f"eval-{uuid.uuid4().hex[:12]}", "raised"), perf_counter()
    with _door("turn", failures):
        trajectory = await _in_time(walk(agent, golden, case.thread_id), timeout)
        case = _measured(case, trajectory)
        for assertion in assertions:
            _assert(assertion, trajectory, failures)
    return structs.replace(case, failures=tuple(failures), seconds=perf_counter() - started)


def _measured(case: Case, trajectory: Trajectory) -> Case:
    turn, costs = trajectory.turn, trajectory.turn.costs
    return structs.replace(
        case,
        status=turn.status,
        steps=costs.steps,
        tokens=costs.usage.total,
        unknown=costs.usage.unknown,
        state_bytes=trajectory.state_bytes,
    )


async def _in_time(work: Awaitable[T], timeout: float | None) -> T:
    bound = asyncio.timeout(timeout)
    try:
        async with bound:
            return await work
    except TimeoutError:
        if not bound.expired():
            raise
        raise TimeoutError(f"it took longer than {timeout:g} s") from None


def _assert(assertion: Assertion, trajectory: Trajectory, failures: list[Failure]) -> None:
    name = getattr(assertion, "__name__", type(assertion).__name__)
    with _door(name, failures):
        said = cast(Any, assertion(trajectory))
        if said is not None:
            problem = said if isinstance(said, str) else f"it returned {said!r}; return what is wrong, or None"
            failures.append(Failure(name, problem))


@contextmanager
def _door(name: str, failures: list[Failure]) -> Generator[None]:
    try:
        yield
    except (KeyboardInterrupt, asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as exc:  # noqa: BLE001 - The hook door: agents and assertions are anybody's, and none is the
        # end; `pytest.fail` and `sys.exit` raise no `Exception`.
        failures.append(Failure(name, _told(exc)))


def _told(exc: BaseException) -> str:
    """What an exception says; a bare `assert` says nothing, so its line does."""
    said = str(exc)
    if not said and isinstance(exc, AssertionError):
        said = extract_tb(exc.__traceback__)[-1].line or ""
    return f"{type(exc).__name__}: {said}" if said else type(exc).__name__
