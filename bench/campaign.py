"""Runs a campaign of `tests/harness` from the command line."""

import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from harness.killing import Violation


def run(campaign: Callable[..., object], *args: object) -> int:
    """Run *campaign*, print its seconds, and return the exit code: 1 after a violation, which is printed."""
    started = time.perf_counter()
    try:
        campaign(*args)
    except Violation as exc:
        print(exc, file=sys.stderr)
        return 1
    print(f"{time.perf_counter() - started:.0f} s")
    return 0
