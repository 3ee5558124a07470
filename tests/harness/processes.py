"""Runs a function in a process of its own."""

from collections.abc import Callable
from multiprocessing import get_context


def run_apart(function: Callable[..., object], *args: object) -> None:
    """Call *function* of a module in a new process, and fail if it raises there.

    A function that forks needs this: pytest's process has threads, which a child would not have but may wait for.
    """
    process = get_context("spawn").Process(target=function, args=args)
    process.start()
    process.join()
    assert process.exitcode == 0, f"{function.__name__} failed in its process; the captured stderr says why"
