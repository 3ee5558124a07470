"""Run tasks with a model, and prove offline that their assertions catch what they are for."""

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from msgspec import Meta

from ..agent import Agent
from ..checks import checked
from ..documented import Struct
from ..errors import ConfigError
from ..evals import Assertion, Case, Golden, Report, evaluate, only_for
from ..kinds import Positive, Seconds
from ..messages import Usage
from ..models import model_info, resolve
from ..ports import Model, Store
from .checks import ALWAYS
from .shapes import Shape, ShapeModel
from .task import Task, agent_of
from .tasks import TASKS

PRICED = ("claude-sonnet-4-6", "claude-haiku-4-5", "gpt-5", "gpt-5-mini")
"""Models whose list price an estimate is made for."""


class Played(Struct, frozen=True):
    """One shape that was played: what its task's assertions said of it."""

    task: str
    shape: Shape
    case: Case
    usage: Usage
    """Tokens, estimated at four characters each."""

    @property
    def caught(self) -> tuple[str, ...]:
        """The assertions that failed, without their arguments."""
        return tuple(failure.assertion.partition("(")[0] for failure in self.case.failures)

    @property
    def as_expected(self) -> bool:
        """True if exactly those assertions failed that the shape names."""
        return set(self.caught) == set(self.shape.fails)


class Proof(Struct, frozen=True):
    """The result of playing all shapes: good ones pass, and every bad one is caught by the right assertions."""

    played: tuple[Played, ...]

    @property
    def passed(self) -> bool:
        return all(one.as_expected for one in self.played)

    def table(self) -> str:
        """Return a line for each shape with what caught it, and the totals."""
        from .table import proof_table  # Only a reader needs it.

        return proof_table(self)

    @property
    def usage(self) -> Usage:
        """The tokens of one run of each task as it should be, estimated."""
        first = {one.task: one.usage for one in reversed(self.played) if not one.shape.fails}
        return sum(first.values(), Usage())

    def prices(self) -> dict[str, float]:
        """Return what one run of each task costs at the list prices of some models, in US dollars: an estimate from the
        tokens of the shapes, without a cache. A model that needs more steps than they do costs more.
        """
        known = {name: info.price for name in PRICED if (info := model_info(name))}
        costs = {name: price.of(self.usage) for name, price in known.items() if price}
        return {name: cost for name, cost in costs.items() if cost is not None}


@checked
async def run(
    model: str | Model,
    tasks: Iterable[Task] | None = None,
    *,
    repeat: Positive = 1,
    concurrency: Positive = 1,
    timeout: Seconds | None = None,
    budget: Annotated[float, Meta(gt=0)] | None = None,
    store: Store | None = None,
    on_case: Callable[[Case], object] | None = None,
) -> Report:
    """Run *tasks* with a deep agent on *model*, each on fresh files in a temporary folder, and check every turn.

    If *tasks* is None, all `TASKS` are run. The other arguments are as for `minideep.evals.evaluate`.

    Raises:
        ConfigError: the model or an argument is not usable, or *tasks* is empty.
    """
    listed, number = _listed(tasks), count(1)
    known = {task.name: task for task in listed}
    asked = resolve(model)
    with TemporaryDirectory(prefix="minideep-behaviours-") as folder:

        def fresh(golden: Golden) -> Agent:
            return agent_of(known[golden.name], asked, Path(folder, f"{next(number)}-{golden.name}"))

        return await evaluate(
            fresh,
            [task.golden for task in listed],
            _assertions(listed),
            repeat=repeat,
            concurrency=concurrency,
            timeout=timeout,
            budget=budget,
            store=store,
            on_case=on_case,
        )


def _listed(tasks: Iterable[Task] | None) -> list[Task]:
    listed = list(TASKS if tasks is None else tasks)
    if not listed:
        raise ConfigError("tasks is empty, and a run of nothing would pass; give at least one of `TASKS`")
    return listed


def _assertions(tasks: Iterable[Task]) -> list[Assertion]:
    return [*ALWAYS, *(only_for(task.name, check) for task in tasks for check in task.checks)]


@checked
async def prove(tasks: Iterable[Task] | None = None) -> Proof:
    """Play every shape of *tasks*, without a model or a network: does each assertion catch what it is for?

    If *tasks* is None, those of all `TASKS` are played.

    Raises:
        ConfigError: *tasks* is empty.
    """
    return Proof(tuple([await _played(task, shape) for task in _listed(tasks) for shape in task.shapes]))


async def _played(task: Task, shape: Shape) -> Played:
    model = ShapeModel(shape)
    report = await run(model, [task])
    return Played(task.name, shape, report.cases[0], model.usage)
