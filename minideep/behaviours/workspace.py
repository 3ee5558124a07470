"""The folder of a case: made from the files of a task, and compared afterwards with what was given."""

from collections.abc import Mapping
from pathlib import Path

from ..evals import Trajectory
from ..spec import ABOUT
from ..state import as_bytes

WORKSPACE = "workspace"
"""The key of the folder in `AgentSpec.about`: the log of a thread says where its files were."""
GIVEN, ROOT = "given", "root"
"""The files as they were given, and those that the agent works on: `diff -r given root` shows what it did."""
OF_THE_HARNESS = ("/large_tool_results/", "/conversation_history/")
"""What stands in these folders was put there by the agent's middleware, not by the model."""
Files = Mapping[str, str | bytes]
"""The content of files by their path, which begins with `/`."""


def make(case: Path, files: Files, outside: Files) -> Path:
    """Make the folder of a case and return the root that the agent works on. *outside* are files beside the root."""
    for folder in (GIVEN, ROOT):
        write(case / folder, files)
    write(case, outside)
    return case / ROOT


def write(folder: Path, files: Files) -> None:
    """Write *files* below *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, content in files.items():
        place = folder / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(as_bytes(content))


def read(folder: Path) -> dict[str, bytes]:
    """Return the files below *folder*, links not followed, without those of the harness."""
    found = {f"/{path.relative_to(folder).as_posix()}": path for path in sorted(folder.rglob("*"))}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if path.is_file() and not path.is_symlink() and not name.startswith(OF_THE_HARNESS)
    }


def case_of(trajectory: Trajectory) -> Path:
    """Return the folder of the case, as the log has it."""
    return Path(trajectory.state.notes[ABOUT][WORKSPACE])


def given(trajectory: Trajectory) -> dict[str, bytes]:
    """Return the files as they were given."""
    return read(case_of(trajectory) / GIVEN)


def left(trajectory: Trajectory) -> dict[str, bytes]:
    """Return the files as the agent left them."""
    return read(case_of(trajectory) / ROOT)
