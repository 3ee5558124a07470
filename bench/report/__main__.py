"""Measure everything, and write a page of tables and pictures.

    python -m bench.report                      default: under 15 minutes on two quiet cores, once installed
    python -m bench.report --smoke              everything once with tiny sizes, in a temporary folder; not for figures
    python -m bench.report --full               all sizes, repeats and time that it takes
    python -m bench.report --from FILE.json     draw a page from saved results, without measuring
    python -m bench.report --out FOLDER         by default bench/report, beside this program

It runs `python -m bench.compare` and `pytest bench/`, keeps what they print as `results.json`, and draws. All of it
happens in the environment of the comparison, `.bench/`. Exits with 1 if the comparison does, or a benchmark fails.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter
from typing import Any

from ..compare import environment

HERE = Path(__file__).parent


def main() -> int:
    chosen = arguments()
    if not environment.ready():
        print("making the environment in .bench (minutes, once) ...", file=sys.stderr, flush=True)
        environment.make()
    folder = Path(chosen.out or (tempfile.mkdtemp(prefix="report-") if chosen.smoke else HERE))
    folder.mkdir(parents=True, exist_ok=True)
    results, failed = folder / "results.json", False
    if chosen.source is None:
        failed = measure(chosen, results)
    elif Path(chosen.source).resolve() != results.resolve():
        shutil.copy(chosen.source, results)
    return bool(run(["bench.report.draw", str(results), str(folder)]) or failed)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.report", description=(__doc__ or "").split("\n")[0])
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--smoke", action="store_true", help="everything once, with tiny sizes, in a temporary folder")
    how.add_argument("--full", action="store_true", help="all sizes and repeats, however long it takes")
    how.add_argument("--from", dest="source", metavar="FILE", help="draw from these results, without measuring")
    parser.add_argument("--out", metavar="FOLDER", help="where to write (default: bench/report)")
    return parser.parse_args()


def measure(chosen: argparse.Namespace, results: Path) -> bool:
    """Measure, and write the results; return whether something failed or a bound does not hold.

    Raises:
        SystemExit: the comparison gave no results; those that were there are kept.
    """
    began, how = perf_counter(), ["--smoke"] if chosen.smoke else ["--full"] if chosen.full else []
    with tempfile.TemporaryDirectory() as folder:
        compared, benchmarked = Path(folder, "compare.json"), Path(folder, "parts.json")
        saved = (
            ["--benchmark-disable"] if chosen.smoke else [f"--benchmark-json={benchmarked}", "--benchmark-max-time=0.3"]
        )
        compare = ["bench.compare", *how, "--out", str(compared)]
        benchmark = ["pytest", "-q", "bench", *saved, *(["-m", ""] if chosen.full else [])]
        with ThreadPoolExecutor(2 if chosen.smoke else 1) as pool:  # Both at once where no time is measured.
            failed = any(list(pool.map(run, (compare, benchmark))))
        if not compared.exists():
            sys.exit("the comparison gave no results")
        document: dict[str, Any] = json.loads(compared.read_text())
        document["parts"] = parts(json.loads(benchmarked.read_text())) if benchmarked.exists() else []
    document["minutes"] = round((perf_counter() - began) / 60, 1)
    results.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return failed


def parts(saved: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the report needs of a run of pytest-benchmark."""
    return [
        {
            "group": one["group"] or "",
            "name": (one["param"] or "").replace("-", ", ") or one["name"].removeprefix("test_").replace("_", " "),
            "extra_info": one["extra_info"],
            **{name: one["stats"][name] for name in ("median", "min", "max", "rounds")},
        }
        for one in saved["benchmarks"]
    ]


def run(command: Sequence[str]) -> int:
    """Run a module with its arguments in the environment of the comparison."""
    whole = [str(environment.PYTHON), "-m", *command]
    return subprocess.run(whole, cwd=environment.ROOT, env=environment.variables(), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
