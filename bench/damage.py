"""What damage does to a store, and what is said of one that is busy: as in the tests, for as long as you like.

    python bench/damage.py [stores=5000] [seconds=60] [seed=1000]

Damages so many stores, each in one row or two: flipped, cut off, replaced, missing, forged with a right checksum,
under another key. Each is asked everything that an agent can be asked, and verified. Then for so many seconds each:
forks of a thread that is cut, and verifying a store that another process writes to. Ends with 1 at what is wrong; an
error that is not ours names the number that `test_damage.look` was called with.
"""

import logging
import sys
import tempfile
from pathlib import Path
from time import monotonic

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from scenarios import test_damage, test_fork_races
from unit.checkpoint import test_verify


def main(stores: int = 5000, seconds: int = 60, seed: int = 1000) -> int:
    logging.disable(logging.CRITICAL)  # What is done after turns says that it could not be.
    began = monotonic()
    for one in range(seed, seed + stores):
        test_damage.look(one)
    print(f"{stores:,} damaged stores in {monotonic() - began:.0f} s: no error that is not ours")
    with tempfile.TemporaryDirectory() as folder:
        forks, torn = test_fork_races.forks_beside_a_writer(Path(folder, "forks"), seconds)
        print(f"{forks:,} forks beside a writer in {seconds} s: {len(torn)} were not whole {torn[:3]}")
        looks, alarms = test_verify.verified_beside_a_writer(Path(folder, "verified"), seconds)
        print(f"{looks:,} looks at a store beside a writer in {seconds} s: {len(alarms)} false alarms {alarms[:3]}")
    return int(bool(torn or alarms))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
