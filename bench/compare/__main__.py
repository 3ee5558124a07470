"""Measure the same work with minideep and with what a user would pick instead.

    python -m bench.compare              default: minutes on two quiet cores, once installed
    python -m bench.compare --smoke      every contender once, with tiny sizes; not for figures
    python -m bench.compare --full       all sizes, repeats and time that it takes
    python -m bench.compare --only minideep,langgraph --out results.json

The contenders are installed into `.bench/` here, and nowhere else. Exits with 1 if a contender breaks, a row is
missing, or a bound that README states does not hold. The results, every repeat of every value, are in
`.bench/results.json` or in the file that --out names.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from time import perf_counter

from . import curve, environment, guarantees
from .contender import known, names
from .plan import SIZES, Mode, Task, rounds, run
from .results import Results
from .tables import bounds, tables


def main() -> int:
    chosen = arguments()
    mode: Mode = "smoke" if chosen.smoke else "full" if chosen.full else "default"
    environment.prepare()
    results = Results(mode, chosen.only)
    broken = measure(mode, chosen.only, results)
    results.finish()
    results.write(chosen.out)
    lines = list(results.measurements.values())
    print(tables(results), curve.table(lines), guarantees.table(lines), sep="\n\n")
    for task in broken:
        print(f"\nBROKEN: {task.name}\n{task.failed[-2000:]}\nmissing: {task.missing()}")
    held = [guarantees.held(lines), mode == "smoke" or bounds(results)]
    return bool(broken) or not all(held)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.compare", description=(__doc__ or "").split("\n")[0])
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--smoke", action="store_true", help="every contender once, with tiny sizes")
    size.add_argument("--full", action="store_true", help="all sizes and repeats, however long it takes")
    parser.add_argument("--only", type=known, default=names(), help=f"of {', '.join(names())}; all without it")
    parser.add_argument("--out", type=Path, default=environment.FOLDER / "results.json", help="a file for the results")
    environment.FOLDER.mkdir(exist_ok=True)
    chosen = parser.parse_args()
    if not chosen.out.absolute().parent.is_dir():
        parser.error(f"--out {chosen.out}: there is no folder {chosen.out.parent}")
    return chosen


def measure(mode: Mode, only: Iterable[str], results: Results) -> list[Task]:
    """Run all tasks; return those that broke."""
    until, dear, broken = perf_counter() + 60 * SIZES[mode].minutes, set[str](), list[Task]()
    for number, tasks in enumerate(rounds(mode, only), 1):
        left = [task for task in tasks if task.name not in dear]
        for place, task in enumerate(run(left), 1):
            if number > 1 and perf_counter() > until:
                return broken
            say(f"round {number}, {place} of {len(left)}: {task.name}: {task.took_s:.1f} s")
            results.add(task.lines)
            if task.took_s > SIZES[mode].dear_s:
                dear.add(task.name)
            if task.failed or task.missing():
                broken.append(task)
                dear.add(task.name)
    return broken


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
