"""The environment in which contenders run: their packages as pyproject's extra `bench` pins them, for them alone."""

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".bench"
PYTHON = FOLDER / "venv" / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = FOLDER / "made-of.json"
QUIET = {
    "AGNO_TELEMETRY": "false",
    "DEEPAGENTS_TELEMETRY": "0",
    "HF_HUB_OFFLINE": "1",
    "LANGSMITH_TRACING": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "MSWEA_SILENT_STARTUP": "1",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
}
"""No contender reports to anybody or asks a network while it is measured, and none prints what it is."""


def made_of() -> dict[str, object]:
    """Return what the environment is made of; it is reused as long as this stays the same."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {
        "python": sys.version,
        "dependencies": project["dependencies"],
        "bench": project["optional-dependencies"]["bench"],
    }


def ready() -> bool:
    return PYTHON.exists() and STAMP.exists() and json.loads(STAMP.read_text()) == made_of()


def prepare() -> None:
    """Make the environment unless it is there, and compile what is measured."""
    if not ready():
        print("making the environment of the contenders in .bench (minutes, once) ...", file=sys.stderr, flush=True)
        make()
    compile_own()


def make() -> None:
    """Make the environment with this Python, by uv if it is here, else by venv and pip.

    Raises:
        RuntimeError: a command of it failed, with what it printed.
    """
    FOLDER.mkdir(exist_ok=True)
    STAMP.unlink(missing_ok=True)
    shutil.rmtree(FOLDER / "venv", ignore_errors=True)
    beside = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    uv, venv = shutil.which("uv", path=beside), str(FOLDER / "venv")
    if uv:
        do(uv, "venv", "-q", "--python", sys.executable, venv)
        do(uv, "pip", "install", "-q", "--compile-bytecode", "--python", str(PYTHON), "-e", f"{ROOT}[bench]")
    else:
        do(sys.executable, "-m", "venv", venv)
        do(str(PYTHON), "-m", "pip", "install", "-q", "-e", f"{ROOT}[bench]")
    STAMP.write_text(json.dumps(made_of()))


def compile_own() -> None:
    """Compile the package and the benchmarks: an install compiles only what it installs."""
    do(str(PYTHON), "-m", "compileall", "-q", str(ROOT / "minideep"), str(ROOT / "bench" / "compare"))


def do(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, env=variables(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")


def variables() -> dict[str, str]:
    """Return the environment variables of a worker: this clone first, bytecode kept, nobody reported to."""
    without = ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONPYCACHEPREFIX", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if name not in without}
    configuration = {"MSWEA_GLOBAL_CONFIG_DIR": str(FOLDER / "mini-swe-agent")}
    return {**kept, **QUIET, **configuration, "PYTHONPATH": str(ROOT)}
