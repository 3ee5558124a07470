"""Damage stores and ask each of them everything; then fork and verify stores that somebody else writes to.

    python bench/damage.py [stores=5000] [seconds=60] [seed=1000]

A store is damaged in one row or two: flipped, cut off, replaced, missing, forged with a correct checksum, or under
another key. Forking and verifying take so many seconds each. Exits with 1 at the first violation; an error that is not
of minideep is raised with the number of its store.
"""

import logging
import sys
import tempfile
from pathlib import Path

from campaign import run
from harness import busy, damage
from harness.killing import expect


def attack(stores: int, seconds: int, seed: int) -> None:
    logging.disable(logging.CRITICAL)  # Maintenance after a turn warns about each damaged store.
    damage.campaign(stores, seed)
    print(f"{stores:,} damaged stores: no error that is not of minideep")
    with tempfile.TemporaryDirectory() as folder:
        forks, torn = busy.forks_beside_a_writer(Path(folder, "forks"), seconds)
        print(f"{forks:,} forks beside a writer in {seconds} s: {len(torn)} were not whole {torn[:3]}")
        looks, alarms = busy.verified_beside_a_writer(Path(folder, "verified"), seconds)
        print(f"{looks:,} looks at a store beside a writer in {seconds} s: {len(alarms)} false alarms {alarms[:3]}")
    expect(not torn and not alarms, "a fork was torn, or a sound store was called damaged")


def main(stores: int = 5000, seconds: int = 60, seed: int = 1000) -> int:
    return run(attack, stores, seconds, seed)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
