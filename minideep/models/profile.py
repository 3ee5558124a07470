"""The wording that one model needs and others do not."""

from collections.abc import Mapping
from copy import copy
from functools import cache

from ..checks import UserWritten, check_fields, checked
from ..errors import ConfigError
from ..ports import Model
from ..tools import Tool


class Profile(UserWritten, frozen=True):
    """Adapts prompts and tool descriptions to the model that has it as its attribute `profile`.

    It applies to every agent that uses the model. No profile is built in.
    """

    suffix: str = ""
    """Appended to an agent's own prompt, before the part that changes from step to step."""
    descriptions: Mapping[str, str] = {}
    """Replaces descriptions of tools, by tool name. Tools that an agent does not have are ignored."""

    def __post_init__(self) -> None:
        check_fields(self)

    @checked
    def worded(self, tool: Tool) -> Tool:
        """Return a copy of *tool* with the description given here; without one, *tool* itself."""
        if tool.name not in self.descriptions:
            return tool
        other = copy(tool)
        other.description = self.descriptions[tool.name]
        return other


def profile_of(model: Model) -> Profile:
    """Return the profile of *model*, or an empty one.

    Raises:
        ConfigError: the attribute `profile` is not a `Profile`.
    """
    profile = getattr(model, "profile", None)
    if profile is not None and not isinstance(profile, Profile):
        raise ConfigError(f"model {model.name!r}: profile must be a `Profile`, not {profile!r}")
    return profile or _no_profile()


@cache
def _no_profile() -> Profile:
    """Return the same for all models without one: it is asked for with each agent that is built."""
    return Profile()
