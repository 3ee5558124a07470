"""The results document: what was measured where, and every value of every repeat."""

import json
import platform
import subprocess
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

from . import environment
from .contender import about
from .plan import Line, Mode, cores

Key = tuple[str, str, str, int]


class Results:
    """Measurements by contender, configuration, work and size; a value has one number for each repeat."""

    def __init__(self, mode: Mode, contenders: list[str]) -> None:
        self.mode, self.contenders = mode, contenders
        self.started = perf_counter()
        self.minutes = 0.0
        self.measurements: dict[Key, Line] = {}

    def add(self, lines: Iterable[Line]) -> None:
        for line in lines:
            key = line["contender"], line["configuration"], line["work"], line["n"]
            kept = self.measurements.setdefault(key, {**line, "values": {}})
            kept["stopped_at"] = line["stopped_at"] if kept["stopped_at"] is None else kept["stopped_at"]
            for name, value in line.get("values", {}).items():
                kept["values"].setdefault(name, []).append(value)
        for (contender, configuration, work, n), line in list(self.measurements.items()):
            if work == "commits":  # Counted apart, as a trace of all statements takes time.
                steps = self.measurements.get((contender, configuration, "steps", n))
                if steps and "commits" in line["values"]:
                    steps["values"]["commits"] = line["values"]["commits"]

    @property
    def rounds(self) -> int:
        """Return the most repeats that any value has."""
        values = (found for line in self.measurements.values() for found in line["values"].values())
        return max(map(len, values), default=0)

    def finish(self) -> None:
        self.minutes = (perf_counter() - self.started) / 60

    def all(self, contender: str, configuration: str, work: str, n: int, value: str) -> list[float]:
        """Return the numbers of all repeats, or an empty list if there are none."""
        line = self.measurements.get((contender, configuration, work, n))
        return line["values"].get(value, []) if line else []

    def one(self, contender: str, configuration: str, work: str, n: int, value: str) -> float | None:
        """Return the median of a value."""
        found = self.all(contender, configuration, work, n, value)
        return median(found) if found else None

    def stopped(self, contender: str, configuration: str, work: str) -> tuple[int, int] | None:
        """Return the size at which a work was stopped, and the step or turn at which."""
        for (*found, n), line in self.measurements.items():
            if found == [contender, configuration, work] and line["stopped_at"] is not None:
                return n, line["stopped_at"]
        return None

    def document(self) -> dict[str, Any]:
        said = {name: about(name) for name in self.contenders}
        packages = sorted({package for one in said.values() for package in one.packages})
        return {
            "date": date.today().isoformat(),
            "minutes": round(self.minutes, 1),
            "mode": self.mode,
            "machine": machine(),
            "versions": versions(packages),
            "titles": {name: one.title for name, one in said.items()},
            "kept": {name: one.configurations for name, one in said.items()},
            "measurements": list(self.measurements.values()),
        }

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.document(), indent=1, ensure_ascii=False) + "\n")


def machine() -> dict[str, Any]:
    cpu = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
        cpu = names[0] if names else cpu
    return {"cpu": cpu, "cores": cores(), "python": platform.python_version(), "system": platform.platform()}


def versions(packages: list[str]) -> dict[str, str]:
    """Return what is installed in the environment of the contenders."""
    program = (
        "import json, sys; from importlib.metadata import version as v; "
        "print(json.dumps({name: v(name) for name in sys.argv[1:]}))"
    )
    command = [str(environment.PYTHON), "-c", program, *packages]
    done = subprocess.run(command, env=environment.variables(), capture_output=True, text=True, check=True)
    return json.loads(done.stdout)
