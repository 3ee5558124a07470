"""Measure long-term files: a namespace of 10,000 files in a store on a disk.

    python bench/files.py [files=10000]

First what a look into a folder of 10 files costs, as a share of a walk over all of them. Then a
read and a write of 1 KB, as multiples of the same file on a disk. Last, writers of one namespace side by side.
"""

import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from threading import Thread
from time import perf_counter

from bounds import bound, verdict

from minideep import DiskCheckpointer
from minideep.backends import FilesystemBackend, StoreBackend
from minideep.testing import tool_context

ROUNDS = 7
CTX = tool_context()
NAMESPACE = ("memories", "acme")


def seconds(act: Callable[[], object]) -> float:
    """Return the time of *act*, the best of several rounds."""
    times = list[float]()
    for _ in range(ROUNDS):
        started = perf_counter()
        act()
        times.append(perf_counter() - started)
    return min(times)


def filled(folder: Path, files: int) -> StoreBackend:
    backend = StoreBackend(DiskCheckpointer(folder), NAMESPACE)
    for number in range(files - 10):
        backend.write(CTX, f"/many/{number // 1000}/{number:06}.md", b"x" * 1000)
    for number in range(10):
        backend.write(CTX, f"/few/{number}.md", b"x" * 1000)
    return backend


def beside(folder: Path, writers: int, each: int) -> float:
    """Return the seconds that so many writers of one namespace take, each on an OS thread."""
    backend = StoreBackend(DiskCheckpointer(folder), NAMESPACE)

    def write(name: int) -> None:
        for number in range(each):
            backend.write(CTX, f"/{name}/{number}", b"x" * 1000)

    threads = [Thread(target=write, args=(name,)) for name in range(writers)]
    started = perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return perf_counter() - started


def measure(files: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "disk").mkdir()
        disk, backend = FilesystemBackend(home / "disk"), filled(home / "store", files)
        disk.write(CTX, "/few/0.md", b"x" * 1000)
        whole = seconds(lambda: list(backend.walk(CTX, "/")))
        print(f"a walk of {files:,} files: {whole * 1e3:.1f} ms")
        part = 100 / whole
        bound("ls of a folder of 10, as a share of that walk", seconds(lambda: backend.ls(CTX, "/few")) * part, 2, "%")
        bound("a walk of that folder", seconds(lambda: list(backend.walk(CTX, "/few"))) * part, 2, "%")
        bound("ls of the root, with two folders in it", seconds(lambda: backend.ls(CTX, "/")) * part, 2, "%")
        read = seconds(lambda: backend.read(CTX, "/few/0.md"))
        bound("a read of 1 KB, beside one of a disk", read / seconds(lambda: disk.read(CTX, "/few/0.md")), 3, "x")
        write = seconds(lambda: backend.write(CTX, "/few/0.md", b"y" * 1000))
        plain = seconds(lambda: disk.write(CTX, "/few/0.md", b"y" * 1000))
        bound("a write of 1 KB, beside one of a disk", write / plain, 3, "x")
        alone = beside(home / "alone", 1, 400)
        bound("8 writers, beside one that writes as much", beside(home / "beside", 8, 50) / alone, 3, "x")
    return verdict()


if __name__ == "__main__":
    sys.exit(measure(int((sys.argv[1:] or ["10000"])[0])))
