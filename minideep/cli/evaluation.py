"""`eval`: run a golden set, print its report, write it for machines, and compare it with an earlier one."""

import argparse
import asyncio
from collections.abc import Callable, Coroutine
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from .. import Agent, DiskCheckpointer
from ..blueprint import ASSERTIONS
from ..errors import ConfigError
from ..evals import Assertion, Case, Golden, Report, evaluate as run_cases, load
from . import agents
from .places import checked_root
from .render import Screen
from .session import EXIT_CODES
from .settings import Settings
from .text import aside, one_line, safe
from .turns import model_of

Work = Callable[..., Coroutine[Any, Any, Report]]
"""Runs an evaluation, with the settings that the command adds."""


def evaluate(options: argparse.Namespace) -> int:
    """Run a golden set or the behaviour set, or print a set made of threads. The threads of its cases are kept only if
    `--state` says where.
    """
    if [options.file is not None, options.behaviours is not None, bool(options.threads)].count(True) != 1:
        raise ConfigError(
            "eval needs a golden set: its file, `--behaviours`, or `--from THREAD` to print one of a thread"
        )
    if options.threads:
        from .replays import print_goldens

        return print_goldens(options)
    if options.file is None:
        from . import behaviours  # Here, because a golden set does not need its tasks.

        found = behaviours.with_model(options)
        if found is None:
            return behaviours.shapes(options)
    else:
        found = _golden_set(options)
    cases, work = found
    baseline = _baseline(options.baseline) if options.baseline else None
    for name in ("json", "junit"):
        _check_writable(name, getattr(options, name))
    settings = {name: getattr(options, name) for name in ("repeat", "concurrency", "timeout", "budget")}
    store = DiskCheckpointer(options.state) if options.state else None
    progress = _Progress(cases * options.repeat)
    with closing(store) if store else nullcontext():
        report = asyncio.run(work(store=store, on_case=progress, **settings))
    _show(report, baseline, options)
    for out, text in ((options.json, report.json), (options.junit, report.junit)):
        if out:
            out.write_text(text(), encoding="utf-8")
    is_good = report.passed if baseline is None else not report.compare(baseline).regressed
    return EXIT_CODES["ended" if is_good else "failed"]


def _golden_set(options: argparse.Namespace) -> tuple[int, Work]:
    goldens = load(options.file)
    agent, assertions = _evaluated(options)
    return len(goldens), partial(run_cases, agent, goldens, assertions)


class _Progress:
    """Says on standard error how each case went: an evaluation may take long, and Ctrl-C ends it without a report."""

    def __init__(self, cases: int) -> None:
        self._cases, self._done = cases, 0

    def __call__(self, case: Case) -> None:
        self._done += 1
        result = "pass" if case.passed else "FAIL" if case.ran else "not run"
        aside(f"{self._done}/{self._cases} {result}, {case.seconds:.1f} s: {one_line(case.golden.name, 60)}")


def _evaluated(options: argparse.Namespace) -> tuple[Agent | Callable[[Golden], Agent], tuple[Assertion, ...]]:
    """Return the agent of `--agent`, or the stock blueprint with the assertions about blueprints."""
    if options.agent:
        if options.model:
            raise ConfigError("--model applies to this command's own agents only; omit it, or omit --agent")
        return agents.evaluated(options.agent), ()
    settings = Settings(model_of(options.model), str(checked_root(options.root)), command="plan")
    return agents.blueprint(settings, None), ASSERTIONS


def _show(report: Report, baseline: Report | None, options: argparse.Namespace) -> None:
    screen = Screen()
    screen.line(safe(report.table()))
    if baseline is not None:
        screen.line(safe(f"\ncompared with {options.baseline}\n{report.compare(baseline).table()}"))
    if report.failed and options.state:
        aside(f"read a thread with `minideep show THREAD --state {options.state}`")
    elif report.failed:
        aside("the threads were not kept; with --state DIR they can be read afterwards")


def _baseline(path: Path) -> Report:
    try:
        return Report.from_json(path.read_bytes())
    except (OSError, ConfigError) as exc:
        raise ConfigError(f"--baseline {str(path)!r} cannot be read: {exc}") from None


def _check_writable(option: str, path: Path | None) -> None:
    """Check now what would otherwise fail after everything is paid for."""
    if path and (not path.absolute().parent.is_dir() or path.is_dir()):
        problem = "is a folder; name a file" if path.is_dir() else "is in no folder that exists; create it first"
        raise ConfigError(f"--{option} {str(path)!r} {problem}")
