"""Run turns from four processes on one thread, then on four, while a fifth process reads.

    python bench/hammer.py [seconds=20]

Prints what was counted. Exits with 1 if a turn is lost, torn or there twice.
"""

import sys

from campaign import run
from harness import hammer

if __name__ == "__main__":
    sys.exit(run(hammer.campaign, float((sys.argv[1:] or ["20"])[0])))
