"""Followers that drop and return at random, while a process that runs half of their threads is killed again and again.

    python bench/followers.py [followers=200] [kills=20]

Runs once with each durability and prints what was counted. Exits with 1 if an event is lost, shown twice, or wrong.
"""

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import get_args

from campaign import run
from harness.followers import Plan, campaign

from minideep.checkpoint import Durability


def main(followers: int, kills: int) -> None:
    for durability in get_args(Durability):
        plan = Plan(threads=8, followers=followers, turns=10, kills=kills, durability=durability)
        with tempfile.TemporaryDirectory() as folder:
            print(durability, asyncio.run(campaign(Path(folder, "state"), plan)))


if __name__ == "__main__":
    sys.exit(run(main, *map(int, [*sys.argv[1:], *["200", "20"][len(sys.argv) - 1 :]])))
