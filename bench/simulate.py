"""Simulate lives of threads: crashes, failing and lying stores, lost leases and two runners, on virtual time.

    python bench/simulate.py [lives=10000] [first seed=0]
    python bench/simulate.py --seed N [--trace]

Uses every core. Prints each life that broke a promise, and the lives a second; exits with 1 if there was one. With
`--seed` it lives one life again, exactly as before, and `--trace` prints all that happened in it.
"""

import argparse
import multiprocessing
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness.simulation import failures, lived, report

CHUNK = 200


def chunk(first: int, last: int) -> dict[int, list[str]]:
    return failures(range(first, last))


def campaign(lives: int, first: int) -> int:
    """Live many lives and return the number of those that broke a promise."""
    started, broken = time.perf_counter(), 0
    chunks = [(seed, min(seed + CHUNK, first + lives)) for seed in range(first, first + lives, CHUNK)]
    with multiprocessing.get_context("spawn").Pool(os.cpu_count()) as pool:
        for result in [pool.apply_async(chunk, part) for part in chunks]:
            if found := result.get():
                broken += len(found)
                print(report(found), flush=True)
    seconds = time.perf_counter() - started
    print(f"{lives} lives, {broken} of them broke a promise; {lives / seconds:.0f} a second")
    return broken


def replay(seed: int, traced: bool) -> int:
    """Live one life again and return the number of promises that it broke."""
    trace: list[tuple[object, ...]] | None = [] if traced else None
    broken = lived(seed, trace)
    for when, what, *more in trace or ():
        print(f"{when:12.6f}  {what}", *more)
    print("\n".join(broken) or "no promise is broken")
    return len(broken)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("lives", nargs="?", type=int, default=10_000)
    parser.add_argument("first", nargs="?", type=int, default=0)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--trace", action="store_true")
    args = parser.parse_args()
    sys.exit(bool(replay(args.seed, args.trace) if args.seed is not None else campaign(args.lives, args.first)))
