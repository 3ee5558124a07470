"""What one model needs to be told in other words than the rest."""

from collections.abc import Mapping
from copy import copy

from msgspec import Struct

from ..checks import check_fields, checked
from ..errors import ConfigError
from ..ports import Model
from ..tools import Tool


class Profile(Struct, frozen=True):
    """How the prompt and the tools are worded for a model, which has it as its attribute `profile`.

    It holds for every agent that uses the model. None is built in.
    """

    suffix: str = ""
    """Stands at the end of an agent's own prompt, before what changes from step to step."""
    descriptions: Mapping[str, str] = {}
    """What is said of a tool, by its name, instead of its own description; of those that an agent does not have
    nothing is said.
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @checked
    def worded(self, tool: Tool) -> Tool:
        """*tool* with the description that stands here; itself, if there is none."""
        if tool.name not in self.descriptions:
            return tool
        other = copy(tool)
        other.description = self.descriptions[tool.name]
        return other


def profile_of(model: Model) -> Profile:
    """The profile of *model*; an empty one, if it has none.

    Raises:
        ConfigError: its attribute `profile` is something else.
    """
    profile = getattr(model, "profile", None)
    if profile is not None and not isinstance(profile, Profile):
        raise ConfigError(f"model {model.name!r}: profile is a `Profile`, not {profile!r}")
    return profile or Profile()
