"""Measure a start in a process of its own: `python -m bench.compare.start CONTENDER` imports it and builds an agent.

What this program and the scripted work have loaded before, some modules of the standard library, is in no figure.
"""

import json
import os
import resource
import sys
from pathlib import Path
from time import perf_counter

from .contender import Contender, load
from .work import Work


def main() -> None:
    name = sys.argv[1]
    work, modules = Work(1), len(sys.modules)
    started = perf_counter()
    contender = load(name)
    contender.build(work)
    values = {
        "import_ms": (perf_counter() - started) * 1e3,
        "modules": len(sys.modules) - modules,
        "rss_mb": resident(),
    }
    values |= {"build_ms": built_ms(contender, work), "build_kib": built_kib(contender, work)}
    line = {"contender": name, "configuration": "", "work": "import", "n": 0, "stopped_at": None, "values": values}
    print(json.dumps(line))


def built_ms(contender: Contender, work: Work) -> float:
    """Return the milliseconds of building one more agent: the median of up to 50."""
    times: list[float] = []
    while len(times) < 5 or (sum(times) < 0.5 and len(times) < 50):
        started = perf_counter()
        contender.build(work)
        times.append(perf_counter() - started)
    return sorted(times)[len(times) // 2] * 1e3


def built_kib(contender: Contender, work: Work) -> float:
    """Return the memory of an agent, the mean of ten that are kept."""
    import gc
    import tracemalloc

    tracemalloc.start()
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    agents = [contender.build(work) for _ in range(10)]
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    return (after - before) / len(agents) / 1024


def resident() -> float:
    """Return the megabytes of memory that this process takes now; where the system does not say, the most so far."""
    status = Path("/proc/self/statm")
    if status.exists():
        return int(status.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return peak()


def peak() -> float:
    """Return the most megabytes of memory that this process took so far."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    main()
