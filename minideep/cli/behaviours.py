"""`eval --behaviours`: the behaviour set with a model or, if there is none, with scripts."""

import argparse
import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from ..behaviours import TASKS, Task, prove, run
from ..errors import ConfigError
from ..evals import Report
from ..models import OfflineModel, resolve
from .render import Screen
from .session import EXIT_CODES
from .text import aside, safe
from .turns import model_of


def with_model(options: argparse.Namespace) -> tuple[int, Callable[..., Coroutine[Any, Any, Report]]] | None:
    """Return the number of the tasks, and what runs them with a model; or None if there is no model.

    Raises:
        ConfigError: a task does not exist, or the model is not usable.
    """
    if options.agent:
        raise ConfigError("--agent applies to a golden set only, as each task makes an agent of its own; omit it")
    tasks, model = _tasks(options.behaviours), model_of(options.model)
    if isinstance(resolve(model), OfflineModel):
        return None
    aside(f"tasks: {len(tasks)}, with {model}; --budget limits what they may cost")
    return len(tasks), partial(run, model, tasks)


def shapes(options: argparse.Namespace) -> int:
    """Play the shapes of the tasks, and print what came of each.

    Raises:
        ConfigError: an option needs a report, which scripts do not make.
    """
    if needing := [f"--{name}" for name in ("json", "junit", "baseline", "budget", "state") if getattr(options, name)]:
        raise ConfigError(f"{needing[0]} needs a model, and there is none; give --model or a key, or omit {needing[0]}")
    proof = asyncio.run(prove(_tasks(options.behaviours)))
    Screen().line(safe(proof.table()))
    aside("no model was asked: these are scripts; --model or a key runs the tasks with a model")
    return EXIT_CODES["ended" if proof.passed else "failed"]


def _tasks(names: Sequence[str]) -> list[Task]:
    known = {task.name: task for task in TASKS}
    for name in names:
        if name not in known:
            raise ConfigError(f"--behaviours: there is no task {name!r}; the tasks are {', '.join(known)}")
    return [task for task in TASKS if not names or task.name in names]
