"""Run tasks with a model, and prove offline that their assertions catch what they are for."""

from collections.abc import Callable, Iterable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from msgspec import Meta

from ..agent import Agent
from ..checks import checked
from ..errors import ConfigError
from ..evals import Assertion, Case, Golden, Report, evaluate, only_for
from ..kinds import Positive, Seconds
from ..models import resolve
from ..ports import Model, Store
from .checks import ALWAYS
from .proof import Played, Proof
from .shapes import Shape, ShapeModel
from .task import Task, agent_of


@checked
async def run(
    model: str | Model,
    tasks: Iterable[Task],
    *,
    repeat: Positive = 1,
    concurrency: Positive = 1,
    timeout: Seconds | None = None,
    budget: Annotated[float, Meta(gt=0)] | None = None,
    store: Store | None = None,
    on_case: Callable[[Case], object] | None = None,
) -> Report:
    """Run *tasks* with a deep agent on *model*, each on fresh files in a temporary folder, and check every turn.

    The other arguments are as for `minideep.evals.evaluate`.

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


def _listed(tasks: Iterable[Task]) -> list[Task]:
    listed = list(tasks)
    if not listed:
        raise ConfigError("tasks is empty, and a run of nothing would pass; give at least one of `TASKS`")
    return listed


def _assertions(tasks: Iterable[Task]) -> list[Assertion]:
    return [*ALWAYS, *(only_for(task.name, check) for task in tasks for check in task.checks)]


@checked
async def prove(tasks: Iterable[Task]) -> Proof:
    """Play every shape of *tasks*, without a model or a network: does each assertion catch what it is for?

    Raises:
        ConfigError: *tasks* is empty.
    """
    return Proof(tuple([await _played(task, shape) for task in _listed(tasks) for shape in task.shapes]))


async def _played(task: Task, shape: Shape) -> Played:
    model = ShapeModel(shape)
    report = await run(model, [task])
    return Played(task.name, shape, report.cases[0], model.usage)
