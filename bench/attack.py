"""Search a folder from three processes with their store inside it, then fork a process that appends all the time.

    python bench/attack.py [seconds=20] [forks=100]

Prints what was counted. Exits with 1 if a turn is lost, an effect happened twice, or a child could not write.
"""

import sys

from campaign import run
from harness import attack


def main(seconds: str = "20", forks: str = "100") -> int:
    return run(attack.campaign, float(seconds), int(forks))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
