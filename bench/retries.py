"""Kill workers that send inputs under keys, again and again; every input must happen once.

    python bench/retries.py [kills=26] [seed]

Two workers at a time send the same 24 inputs of three threads, with `durability="tool"`. Exits with 1 if an input is
lost, there twice or out of order, if a finished call ran again, or if one idempotency key stood for two calls.
"""

import sys
import time

from campaign import run
from harness import retries

if __name__ == "__main__":
    kills, seed = [int(number) for number in sys.argv[1:]] + [26, time.time_ns() % 10**6][len(sys.argv) - 1 :]
    sys.exit(run(retries.campaign, kills, seed))
