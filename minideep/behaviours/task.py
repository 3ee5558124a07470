"""A task: a folder of files, what the person says, what must be true afterwards, and the shapes that prove it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from msgspec import structs

from ..agent import Agent
from ..backends import FilesystemBackend
from ..checks import UserWritten, check_fields
from ..deep_agent import create_deep_agent
from ..errors import ConfigError
from ..evals import Assertion, Golden
from ..ports import Model
from ..state import Limits
from .shapes import Shape
from .workspace import WORKSPACE, make

LIMITS = Limits(steps=40, max_children=8)
"""A model that loops is stopped here. A task that is done well takes less than half of it."""


class Task(UserWritten, frozen=True, kw_only=True):
    """A task that shows one behaviour."""

    name: str
    """What is asked for, as a name: `fix-a-test`."""
    shows: str
    """The behaviour, in one line."""
    prompt: str
    """What the person says."""
    checks: tuple[Assertion, ...]
    """What must be true of the files, of the answer, and of the way to it."""
    shapes: tuple[Shape, ...]
    """Ways to behave: at least one that passes, and at least one that does not."""
    files: Mapping[str, str | bytes] = {}
    """The content of each file by its path, which begins with `/`."""
    outside: Mapping[str, str] = {}
    """Files beside the folder of the agent, which it cannot reach."""
    earlier: tuple[str, ...] = ()
    """What the person says before, each a turn of the same thread."""
    parts: Callable[[Path], Mapping[str, Any]] | None = None
    """Returns further arguments of `create_deep_agent` for the folder of a case: tools, memory, skills, ..."""

    def __post_init__(self) -> None:
        check_fields(self)
        if not any(not shape.fails for shape in self.shapes) or all(not shape.fails for shape in self.shapes):
            raise ConfigError(
                f"task {self.name!r}: give a shape that passes and one that fails, or its checks are idle"
            )

    @property
    def golden(self) -> Golden:
        return Golden(self.prompt, id=self.name, earlier=self.earlier, metadata={"outside": dict(self.outside)})


def agent_of(task: Task, model: Model, case: Path) -> Agent:
    """Return a deep agent for one case of *task*, on files that are made fresh in the folder *case*."""
    root = make(case, task.files, task.outside)
    parts: Mapping[str, Any] = task.parts(root) if task.parts else {}
    agent = create_deep_agent(model, backend=FilesystemBackend(root), limits=LIMITS, **parts)
    agent.spec = structs.replace(agent.spec, about={**agent.spec.about, WORKSPACE: str(case)})
    return agent
