"""Measure what file tools cost, and try to lead them out of their root.

    python bench/confinement.py [tries=60000]

First the milliseconds of walking a tree of 10,000 files and of reading 1,000 of them, the best of several rounds. Then
so many reads, lists, walks, writes and deletes while another process swaps a folder for a link to the outside. Exits
with 1 if one of them had an effect there.
"""

import sys
import tempfile
from pathlib import Path
from time import perf_counter

from campaign import run
from harness.files import context
from harness.killing import expect
from harness.swapping import Swapped

from minideep.backends import FilesystemBackend

ROUNDS = 7


def tree(folder: Path) -> None:
    for number in range(100):
        inner = folder / f"a{number % 10}" / f"b{number}"
        inner.mkdir(parents=True)
        for file in range(100):
            (inner / f"f{file}.txt").write_text("hello")


def speed(folder: Path) -> tuple[float, float]:
    """Return the milliseconds of a walk of 10,000 files, and of 1,000 reads."""
    tree(folder)
    backend, ctx = FilesystemBackend(folder), context()
    walks, reads = list[float](), list[float]()
    for _ in range(ROUNDS):
        started = perf_counter()
        files = [file.path for file in backend.walk(ctx, "/")]
        walked = perf_counter()
        for file in files[:1_000]:
            backend.read(ctx, file)
        walks.append(walked - started)
        reads.append(perf_counter() - walked)
    return min(walks) * 1e3, min(reads) * 1e3


def attack(tries: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        walk, read = speed(Path(folder))
    print(f"a walk of 10,000 files: {walk:.0f} ms; 1,000 reads: {read:.0f} ms")
    with tempfile.TemporaryDirectory() as folder:
        done, escaped = Swapped(Path(folder)).attack(tries)
    print(f"{tries:,} tries beside a swapping process; done inside: {dict(done)}; outside: {dict(escaped)}")
    expect(not escaped, "a file tool was led out of its root")


if __name__ == "__main__":
    sys.exit(run(attack, int((sys.argv[1:] or ["60000"])[0])))
