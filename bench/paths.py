"""Try paths that lead elsewhere at every backend, by its methods and by the tools of an agent.

    python bench/paths.py [paths=10000] [swaps=1000]

First so many generated paths at each backend, alone and as a part of a composite. Then so many calls on the disk, alone
and in a composite, while another process swaps a folder for a link to the outside. Exits with 1 if something outside
was seen or changed, or if a run crashed.
"""

import sys
import tempfile
from pathlib import Path

from campaign import run
from harness import paths
from harness.killing import expect
from harness.swapping import Swapped


def attack(count: int, swaps: int) -> None:
    print(paths.campaign(count), flush=True)
    for route in ("", "/in"):
        with tempfile.TemporaryDirectory() as folder:
            done, escaped = Swapped(Path(folder), route).attack(swaps)
        print(f"{swaps:,} calls beside a swapping process; done inside: {dict(done)}; outside: {dict(escaped)}")
        expect(not escaped, "a call was led out of its root")


if __name__ == "__main__":
    given = [int(argument) for argument in sys.argv[1:]]
    sys.exit(run(attack, *given, *(10_000, 1_000)[len(given) :]))
