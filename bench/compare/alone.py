"""Part of the comparison from its own command line."""

import argparse
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from . import environment
from .contender import known, names
from .plan import SIZES, Mode, Sizes, Task, run
from .results import Results


def run_alone(
    kind: Callable[[str, Sizes], list[Task]],
    table: Callable[[Iterable[dict[str, Any]]], str],
    about: str | None,
    repeat: bool = False,
    held: Callable[[Iterable[dict[str, Any]]], bool] = lambda lines: True,
) -> int:
    """Do the tasks of one kind for the contenders that the command line names, and print their table.

    With *repeat*, as often as the mode measures times. Return 1 if a contender breaks, or a bound that *held* prints.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smoke", action="store_true")
    size.add_argument("--full", action="store_true")
    parser.add_argument("--only", type=known, default=names(), help="contenders, separated by commas")
    parser.add_argument("--out", type=Path, help="a file for the results")
    given = parser.parse_args()
    mode: Mode = "smoke" if given.smoke else "full" if given.full else "default"
    environment.prepare()
    results, broken = Results(mode, given.only), list[Task]()
    for _ in range(SIZES[mode].rounds if repeat else 1):
        for task in run([task for name in given.only for task in kind(name, SIZES[mode])]):
            print(f"{task.name}: {task.took_s:.1f} s", file=sys.stderr, flush=True)
            results.add(task.lines)
            broken += [task] * bool(task.failed or task.missing())
    results.finish()
    lines = results.measurements.values()
    print(table(lines))
    for task in broken:
        print(f"\nBROKEN: {task.name}\n{task.failed[-2000:]}")
    if given.out:
        results.write(given.out)
    return bool(broken) or not held(lines)
