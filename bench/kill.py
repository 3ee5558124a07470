"""Kill workers at random moments or at chosen points; read, compare and resume the threads that they leave.

    python bench/kill.py [kills=300] [seed]
    python bench/kill.py points [every=1]

With numbers: so many kills for each durability, aimed at tools, model calls, saves, merges, or nothing, and half as
many in turns that wait for a person. With `points`: one short thread with parallel pauses, killed once before and
after each append, then once before each statement of SQL, or before every Nth. Exits with 1 at the first violation.
"""

import sys
import time

from campaign import run
from harness import kills


def main(what: str = "300", number: str = "") -> int:
    if what == "points":
        return run(kills.points, int(number or 1))
    return run(kills.kills, int(what), int(number or time.time_ns() % 10**6))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
