"""`AgentSpec`: an agent as the loop sees it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from .documented import Struct
from .messages import Input, Message, UserMessage, clean
from .ports import Middleware, Model
from .state import Limits
from .tools import Tool

Said = tuple[tuple[Message, ...], UserMessage]
"""The earlier messages of a history, and the input that goes on with them."""
ABOUT = "agent"
"""The owner under which notes about the agent that runs a thread are kept: `state.notes["agent"]`."""


class ToolHook(Struct, frozen=True, eq=False):
    """A middleware that overrides `before_tool`, `after_tool` or both."""

    middleware: Middleware
    before: bool
    after: bool


def read_input(input: Input, model: Model) -> Said:
    """Return *input*, which is for *model*, as messages that the log can keep.

    Raises:
        ConfigError: it is empty, or is not text, blocks, a `UserMessage`, or messages of which the last is the user's;
            or it names a file by its URL that *model* does not fetch.
    """
    if type(input) is str and input.strip():
        return (), UserMessage(clean(input))
    from . import history  # Most inputs are text.

    return history.read_input(input, model)


class AgentSpec(Struct, frozen=True, eq=False):
    """An agent as the loop sees it: values only, put together once."""

    name: str
    model: Model
    system: str
    tools: dict[str, Tool]
    limits: Limits
    before_model: tuple[Middleware, ...] = ()
    wrap_model: tuple[Middleware, ...] = ()
    tool_hooks: tuple[ToolHook, ...] = ()
    wrap_tool: tuple[Middleware, ...] = ()
    """Of all hooks the outermost stand first."""
    before_finish: tuple[Middleware, ...] = ()
    tool_list: tuple[Tool, ...] = ()
    inherited: tuple[Middleware, ...] = ()
    """The middleware that also applies to the runs below this agent."""
    share: tuple[str, ...] = ()
    """Owners of notes. When this agent runs as a child, it begins with a copy of its parent's notes of these owners."""
    about: Mapping[str, Any] = {}
    """Plain data about the agent, such as its version. A changed item is noted under `ABOUT` with the next input."""
    continues: frozenset[str] = frozenset()
    """Names of other agents whose threads this one may continue."""
    background: Mapping[str, "Runnable"] = {}
    """The agents of its background tasks, by name. A thread that one of them began goes on with it, not with this one.
    """
    other_models: tuple[Model, ...] = ()
    """The models that the middleware asks besides `model`."""
    accept: Callable[[Input, Model], Said] = read_input
    """Returns an input as `read_input` does, or raises a `ConfigError`; nothing was done then."""
    origin: object = None
    """The same object in all specs that were made from one agent's."""
    keyed: bool = False
    """True if a run below a call is known by its key alone: one in the log goes on with the input that it began with,
    though the same call would word it differently now.
    """
    add_files: tuple[Middleware, ...] = ()
    """The first one is given the files that come with an input."""
    output: Callable[[Sequence[Message]], Any] | None = None
    """Returns the typed result of a turn that has ended with the last of these messages; None if it has none."""
    override: Model | None = None
    """The model that answers in place of every other one, in this run and in those below (`Agent.override`)."""


class Runnable(Protocol):
    """Something that can be run: an `Agent`."""

    @property
    def spec(self) -> AgentSpec: ...
