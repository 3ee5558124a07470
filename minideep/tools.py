"""Tools: functions that a model may call, their schemas, and how a call's arguments reach a function."""

import logging
import threading
from collections.abc import Callable, Iterable
from functools import cached_property, update_wrapper
from string import ascii_letters, digits
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Annotated, Any, Generic, cast, overload

import msgspec

from .checks import checked
from .errors import ConfigError
from .kinds import Check, Injected, Seconds, remedy, shown
from .messages import Block, ToolCall, ToolResult, clean, clean_content
from .plain_json import from_json

if TYPE_CHECKING:  # With defaults, so that a plain `Tool` in an annotation stays complete for a strict type checker.
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any, covariant=True)  # What a tool returns, or an agent.

    from .access import Access
else:
    from typing import ParamSpec, TypeVar

    P, R = ParamSpec("P"), TypeVar("R")
MAX_RESULT = 1_000_000
"""The maximum number of characters of text in one result. If the agent has a middleware that offloads results, a larger
one goes into a file; otherwise it becomes an error result.
"""


@remedy("pass a function, or decorate one with `@tool`")
class Tool(Generic[P, R]):
    """A function that a model may call.

    The model is sent *name* (str), *description* (str) and *schema* (a JSON Schema object). *timeout* is in seconds;
    None means no limit. *access* takes the arguments of a call, by name, and returns what the call reaches; guards such
    as permissions ask it. *thread_only* is True if a call changes nothing but its thread, so that a replay may run it.

    Calling the tool calls the function itself, as if it were not a tool: arguments are not converted, *timeout* does
    not count, and an async function returns its awaitable.
    """

    is_hosted = False
    """True if the provider of the model runs it: then its calls never come here."""
    rename = "give one of them another name"
    """How to tell two tools of one name apart."""

    @checked
    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        timeout: Seconds | None = None,
        access: "Callable[[dict[str, Any]], Iterable[Access]] | None" = None,
        thread_only: bool = False,
    ) -> None:
        from .parameters import described, plain_function, tool_parameters  # Loaded with the first tool.

        # `tool(name="other")(shout)` is another tool of the same function.
        function = cast(Any, function).function if isinstance(function, Tool) else function
        plain = function if type(function) in (FunctionType, MethodType) else plain_function(function)
        update_wrapper(self, plain, updated=())
        self.function: Callable[..., Any] = function
        self._parameters = tool_parameters(name or getattr(function, "__name__", type(function).__name__), function)
        own, doc, self._notes = described(plain, self._parameters.names, bool(description))
        self.name: str = name or own
        self.description: str = description or doc
        self.is_async: bool = self._parameters.is_async
        self.timeout = timeout  # The property below checks it.
        self.takes_context: bool = bool(self._parameters.context)
        self.access: Callable[[dict[str, Any]], Iterable[Access]] | None = access
        self.thread_only: bool = thread_only
        _check_wording(self)

    @property
    def timeout(self) -> float | None:
        """Seconds that a call may take."""
        return self._timeout

    @timeout.setter
    def timeout(self, given: float | None) -> None:
        number = isinstance(given, int | float) and not isinstance(given, bool)
        if given is not None and not (number and 0 < given < threading.TIMEOUT_MAX):
            raise ConfigError(
                f"tool {self.name!r}: timeout must be a number of seconds above 0, or None for no limit, not {given!r}"
            )
        self._timeout = given
        # Otherwise it runs in a task or a thread that can be left behind.
        self.runs_inline: bool = self.is_async and given is None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, and return what it returns or raise what it raises."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def normalized(self, call: ToolCall) -> ToolCall:
        """Return *call* with the arguments as this tool takes them: what the model wrote, in the one way of reading it
        that fits. If there is no such way they stay as they are, and `bind` says what is wrong.
        """
        try:
            self._parameters.decoder.decode(call.raw)
            if not self._parameters.has_objects:
                return call
        except Exception:  # noqa: BLE001  A class of the user's may raise anything when it is made of arguments.
            pass
        from .arguments import reread  # Most calls fit.

        return reread(call.as_json(), self._parameters)

    def bind(self, call: ToolCall, ctx: Injected | None) -> dict[str, Any]:
        """Check the call's arguments and return the keyword arguments of the function. *ctx* may be None unless the
        function `takes_context`.

        Raises:
            ToolError: they do not fit; the text says what is wrong and what the tool takes.
        """
        try:
            checked: Any = self._parameters.decoder.decode(call.raw)
        except msgspec.DecodeError as exc:
            from .arguments import checked_slowly

            checked = checked_slowly(call, self._parameters, self.schema, exc)
        if self._parameters.has_objects:
            from .arguments import check_strays

            check_strays(call, self._parameters, self.schema)
        given = msgspec.structs.asdict(checked)
        if context := self._parameters.context:
            given[context] = ctx
        return given

    @cached_property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        # Few of the agents that a service builds use all of their tools, and each may change its own.
        schema = from_json(self._parameters.schema)
        for name in self._notes.keys() & schema["properties"].keys():
            schema["properties"][name].setdefault("description", self._notes[name])
        return schema

    @property
    def signature(self) -> str:
        """The arguments as a model reads them: `path (string), limit (integer, optional)`."""
        from .arguments import signature_of

        return signature_of(self.schema)


_FUNCTION = Check(callable, "a function, and its name given by `name=`")


@overload
def tool(function: Callable[P, R], /) -> Tool[P, R]: ...
@overload
def tool(*, name: str | None = None, timeout: Seconds | None = None) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
@checked
def tool(
    function: Annotated[Callable[..., Any], _FUNCTION] | None = None,
    /,
    *,
    name: str | None = None,
    timeout: Seconds | None = None,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a `Tool` from a function: its schema from the type hints, its description from the docstring.

    A plain `def` runs in a worker thread of the process. A call that takes longer than *timeout* seconds gets an error
    result.

    >>> @tool
    ... async def shout(text: str, times: int = 1) -> str:
    ...     "Return *text* in capitals."
    ...     return text.upper() * times
    >>> shout.signature
    'text (string), times (integer, optional)'

    The tool can still be called as the function it was made from, in a test for example: `await shout("hi", 2)`.
    """

    def make(function: Callable[..., Any]) -> Tool:
        return Tool(function, name=name, timeout=timeout)

    return make if function is None else make(function)


def as_tool(value: Tool | Callable[..., Any]) -> Tool:
    """Return *value* if it is a `Tool`, or make a tool from a function.

    Raises:
        ConfigError: it is neither.
    """
    if isinstance(value, Tool):
        return value  # pyright: ignore
    if not callable(value):
        raise ConfigError(f"a tool must be a function or a `Tool`, not {value!r}")
    return Tool(value)


def as_result(value: Any) -> ToolResult:
    """Convert a tool's return value to a `ToolResult`. Text and blocks are kept, also in a list, None becomes "done",
    and any other value becomes JSON or, if JSON cannot express it, its `str`.
    """
    match value:
        case str():
            return ToolResult(value if value.isascii() else clean(value))
        case None:
            return ToolResult("done")
        case ToolResult():
            return ToolResult(clean_content(value.content), value.is_error, value.ends)
        case Block():
            return ToolResult(clean_content((cast(Any, value),)))
        case list() | tuple() if any(isinstance(item, Block) for item in cast(list[Any], value)):
            from .results import content_of

            return ToolResult(clean_content(content_of(cast(list[Any], value))))
        case _:
            from .results import text_of_value  # Most tools return text.

            return ToolResult(text_of_value(value))


_LETTERS = frozenset(f"{ascii_letters}{digits}_-")
"""The characters that providers accept in the name of a tool."""
logger: logging.Logger = logging.getLogger("minideep")


def _check_wording(tool: Tool) -> None:
    """Refuse a name that providers would refuse, and warn of a tool that a model could not choose."""
    if not 1 <= len(tool.name) <= 128 or not _LETTERS.issuperset(tool.name):
        name = "`@tool(name=...)` gives another name"
        raise ConfigError(f"tool {shown(tool.name)}: its name must be 1 to 128 letters, digits, '_' or '-'; {name}")
    if not tool.description.strip():
        logger.warning("tool %r has no description; give its function a docstring, which the model reads", tool.name)
