"""Measure a search of the contents of files, beside a plain loop and beside the system's `grep`.

    python bench/search.py [files=10000]

A tree of so many files of 5 KB, one in a hundred of which holds the text. The loop opens each file, reads it and looks
for the text: what any search in Python has to do. Each figure is the best of several rounds.
"""

import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from bounds import bound, verdict
from harness.files import context

from minideep.backends import FilesystemBackend, grep

ROUNDS = 5
LINE = "the quick brown fox jumps over the lazy dog, again and again\n"


def tree(folder: Path, files: int) -> list[Path]:
    paths: list[Path] = []
    for number in range(files):
        inner = folder / f"a{number % 10}" / f"b{number % 100}"
        inner.mkdir(parents=True, exist_ok=True)
        paths.append(inner / f"f{number}.txt")
        paths[-1].write_text(LINE * 82 + ("here is the Needle\n" if number % 100 == 0 else ""))
    return paths


def best(work: Callable[[], object]) -> float:
    """Return the milliseconds of the fastest round."""
    times = list[float]()
    for _ in range(ROUNDS):
        started = perf_counter()
        work()
        times.append((perf_counter() - started) * 1e3)
    return min(times)


def loop(paths: list[Path]) -> int:
    return sum("Needle" in path.read_text() for path in paths)


def main(files: int) -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = tree(folder, files)
        backend, ctx = FilesystemBackend(folder), context()
        search = partial(grep, ctx, backend, path="/")
        assert len(search("Needle").hits) == loop(paths) == files // 100
        plain = best(partial(loop, paths))
        system = best(partial(subprocess.run, ["grep", "-rF", "Needle", folder], capture_output=True))
        print(f"{files:,} files of 5 KB: a plain loop {plain:.0f} ms, grep -rF {system:.0f} ms")
        bound("literal text, as multiples of the loop", best(partial(search, "Needle")) / plain, 4.5)
        bound("in any case", best(partial(search, "NEEDLE", ignore_case=True)) / plain, 5)
        bound("as a regular expression", best(partial(search, "N[aeiou]{2}dle", regex=True)) / plain, 8)
        (folder / ".gitignore").write_text("*.log\n/build/\n" * 15)
        ignoring = partial(grep, ctx, FilesystemBackend(folder, gitignore=True), path="/")
        bound("with a .gitignore of 30 rules", best(partial(ignoring, "Needle")) / plain, 7)
    return verdict()


if __name__ == "__main__":
    sys.exit(main(int((sys.argv[1:] or ["10000"])[0])))
