"""Whole lives of threads on virtual time, each from one seed: `lived(seed)`, or a series of them, `failures(seeds)`."""

import contextlib
import gc
import logging
import sys
import warnings
from collections.abc import Generator, Iterable

from harness.simulation.life import Life
from harness.simulation.server import Server

COLLECT = 100
"""Lives between two collections of garbage: what a kill leaves behind is full of cycles."""


@contextlib.contextmanager
def quiet() -> Generator[None]:
    """Keep quiet about what a kill leaves: coroutines that never end, and what a store's failure makes minideep log."""
    logger, hook = logging.getLogger("minideep"), sys.unraisablehook
    was = logger.disabled, gc.isenabled()
    logger.disabled, sys.unraisablehook = True, lambda _: None
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
            gc.collect()
    finally:
        logger.disabled, sys.unraisablehook = was[0], hook
        if was[1]:
            gc.enable()


def lived(seed: int, trace: list | None = None, server: type[Server] = Server) -> list[str]:
    """Live the life of a seed and return the promises that it broke, each once; *trace* gets what happened."""
    with quiet():
        return list(dict.fromkeys(Life(seed, trace, server).live()))


def failures(seeds: Iterable[int], server: type[Server] = Server) -> dict[int, list[str]]:
    """Live the lives of all seeds and return what those that failed have broken."""
    found = {}
    with quiet():
        for count, seed in enumerate(seeds, 1):
            if broken := Life(seed, None, server).live():
                found[seed] = list(dict.fromkeys(broken))
            if not count % COLLECT:
                gc.collect()
    return found


def report(found: dict[int, list[str]]) -> str:
    """Return what a person needs to replay the first few failures."""
    return "\n".join(
        f"python bench/simulate.py --seed {seed} --trace: " + "; ".join(broken[:3])
        for seed, broken in list(found.items())[:5]
    )
