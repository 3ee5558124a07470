"""The base class of models that pass requests on to other models and take over their attributes."""

from collections.abc import Collection, Sequence

from ..ports import Model, StructuredOutput
from ..tools import Tool
from .profile import Profile
from .tool_check import check_tools


class ModelWrapper:
    """The attributes of a model that passes its requests on to *models*.

    They are read from the models whenever they are asked for, so that what is set on a model shows here as well.
    """

    def __init__(self, models: Sequence[Model]) -> None:
        self.models: tuple[Model, ...] = tuple(models)
        self.name: str = " or ".join(model.name for model in self.models)

    @property
    def window(self) -> float | None:
        """The smallest known window, in tokens: the request must fit whichever model is asked."""
        windows = (getattr(model, "window", None) for model in self.models)
        return min((window for window in windows if window is not None), default=None)

    @property
    def states_cost(self) -> bool:
        """True if each of the models states what its replies cost."""
        return all(getattr(model, "states_cost", False) for model in self.models)

    @property
    def structured_output(self) -> StructuredOutput:
        """What each of the models can do."""
        modes = {getattr(model, "structured_output", False) for model in self.models}
        if False in modes:
            return False
        return True if modes == {True} else "without tools"

    @property
    def free(self) -> bool:
        """True if each of the models may be asked after a budget is spent."""
        return all(getattr(model, "free", False) for model in self.models)

    @property
    def url_types(self) -> tuple[str, ...] | None:
        """The media types of links that the first model takes. The others are told of what they do not see."""
        return getattr(self.models[0], "url_types", None)

    @property
    def profile(self) -> Profile | None:
        """The profile of the first model, which answers nearly every request."""
        return getattr(self.models[0], "profile", None)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self.models))})"

    def check_tools(self, tools: Collection[Tool]) -> None:
        """Check that an agent with these *tools* can ask each of the models.

        Raises:
            ConfigError: one of the models declares a tool that the agent lacks, or has not one that it should run.
        """
        for model in self.models:
            check_tools(model, tools)

    async def preload(self) -> None:
        """Import what each of the models needs."""
        for model in self.models:
            preload = getattr(model, "preload", None)
            if preload is not None:
                await preload()
