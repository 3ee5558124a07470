"""Typed results: the final reply of an agent is of a type, or the same run is asked again."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Generic, cast

from msgspec import Meta, structs

from ..access import no_access
from ..checks import checked
from ..context import ToolContext
from ..datatypes import DataType, T, shape_of
from ..errors import ConfigError, OutputViolation
from ..events import Noted
from ..export import as_plain
from ..messages import Message, ToolCall, ToolResult, UserMessage
from ..plain_json import to_json
from ..ports import Middleware, Request
from ..strict_schema import NoStrictForm, strict
from ..tools import R, Tool
from .checking import FINAL_ANSWER, UNFINISHED, last_words, refusal, written

if TYPE_CHECKING:  # Whether it is one is for `DataType` to say: `list[int]` is no class.
    _Kind = type[R] | Mapping[str, Any]
ANSWER = "answer"
"""The field that holds a value that is no object: providers want an object at the top."""
DESCRIPTION = (
    "Give your final answer. Call it once, alone, when all work is done: its arguments are the whole answer, and it "
    "ends your turn."
)
REFUSED = "refused"
"""The key of the note that counts refused replies."""


class RequestSchema(Middleware):
    """Puts the JSON Schema *schema* into every request, as `Request.schema`. Models whose provider has no mode for
    structured output ignore it, and nothing checks the reply.
    """

    def __init__(self, schema: dict[str, Any]) -> None:
        self._schema = schema

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        return structs.replace(request, schema=self._schema)


class ResponseFormat(Middleware, Generic[R]):
    """Makes the final reply of an agent a value of *kind*: `Turn.output`.

    *kind* is a Struct, a dataclass, a TypedDict, a Pydantic model, an enum, `list[...]` and whatever else msgspec can
    decode, or a JSON Schema, whose values stay plain data (that needs `minideep[schema]`).

    A model whose provider can hold a reply to a schema (`structured_output`) writes the value as its reply. Another
    model gets a tool `final_answer` more, whose arguments are the value; so does every model if the provider's mode
    cannot say *kind*. JSON in the text of a reply is taken from either.

    A reply that is none is refused in the same run, with what is wrong and the shape that is wanted, *retries* times a
    turn. The turn then fails with an `OutputViolation`; at once if the model refused, or its reply was cut off.

    Raises:
        ConfigError: JSON cannot express *kind*.
    """

    inherit: bool | None = False

    @checked
    def __init__(self, kind: "_Kind[R]", *, retries: Annotated[int, Meta(ge=0)] = 2) -> None:
        self._type: _AnswerType[R] = _answer_type(kind)
        self._retries = retries
        self.tools: Sequence[Tool] = (_FinalAnswer(self._answer, self._type.asked),)

    def __repr__(self) -> str:
        return f"ResponseFormat({self._type.name}, retries={self._retries})"

    @property
    def shape(self) -> str:
        """The shape of an answer, in few words."""
        return shape_of(self._type.schema)

    # ---- asking for it

    @cached_property
    def _strict(self) -> dict[str, Any] | None:
        try:
            return strict(self._type.asked)
        except NoStrictForm:
            return None

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        others = tuple([tool for tool in request.tools if tool.name != FINAL_ANSWER])
        mode = getattr(ctx.model, "structured_output", False)
        if self._strict is None or not (mode is True or (mode and not others)):
            return request
        return structs.replace(request, schema=self._strict, tools=others)

    # ---- reading it

    def json_in(self, text: str) -> str:
        """Return the value in the text of a model as JSON.

        Raises:
            ValueError: there is none; says what is wrong, and which shape is wanted.
        """
        return to_json(as_plain(self._type.read_text(text))).decode()

    def read_turn(self, messages: Sequence[Message]) -> R | None:
        """Return the value of a turn that ended with the last of *messages*; None if an agent without this ran it."""
        try:
            return self._type.read_text(last_words(messages))
        except ValueError:
            return None

    async def _answer(self, call: bytes, ctx: ToolContext) -> ToolResult:
        try:
            return ToolResult(self.json_in(written(call)), ends=True)
        except ValueError as exc:
            # A result that does not end the turn goes back to the model; an error that does is raised below.
            return ToolResult(f"{FINAL_ANSWER}: {exc}", is_error=True, ends=self._refuse(ctx))

    async def before_finish(self, ctx: ToolContext) -> UserMessage | None:
        state = ctx.state
        if not state.ends and state.stop in UNFINISHED:
            raise OutputViolation(f"the reply is not a {self._type.name}: {UNFINISHED[state.stop]}")
        try:
            self._type.read_text(last_words(state.messages))
        except ValueError as exc:
            if self._refuse(ctx):
                raise OutputViolation(f"the reply is not a {self._type.name}: {exc}") from None
            return refusal(str(exc))
        return None

    def _refuse(self, ctx: ToolContext) -> bool:
        """Count a refused reply, and return whether it was the last one of this turn."""
        state = ctx.state
        turn, step = state.start.number, state.step
        # In the log, as the first replies may have come in another process. A call and the end of the turn may both
        # refuse the same reply.
        known = state.notes.get(self.name, {}).get(REFUSED, [0, 0, 0])
        count = known[2] if known[0] == turn else 0
        if known[:2] != [turn, step]:
            count += 1
            ctx.record(Noted(self.name, REFUSED, [turn, step, count]))
        return count > self._retries


class _FinalAnswer(Tool):
    """A tool whose arguments have a schema of their own; its function checks them."""

    def __init__(self, function: Callable[..., Any], schema: dict[str, Any]) -> None:
        super().__init__(function, name=FINAL_ANSWER, description=DESCRIPTION, access=no_access, thread_only=True)
        self.schema = schema

    def normalized(self, call: ToolCall) -> ToolCall:
        return call.as_json()  # The function reads it as text of a model, and its result is what was read.

    def bind(self, call: ToolCall, ctx: Any) -> dict[str, Any]:
        return {"call": call.raw, "ctx": ctx}


class _AnswerType(DataType[T]):
    """The type of an answer, which stands alone or in the object that a model is asked for."""

    def __init__(self, kind: type[T] | Mapping[str, Any]) -> None:
        super().__init__(kind)
        schema = self.schema
        self._is_object = schema.get("type") == "object" and not {"anyOf", "oneOf", "allOf"} & schema.keys()
        self.asked: dict[str, Any] = schema if self._is_object else _wrapped(schema)
        """The schema of that object."""

    def read(self, value: Any, /) -> T:
        if not self._is_object and isinstance(value, dict) and value.keys() == {ANSWER}:
            value = cast(dict[str, Any], value)[ANSWER]
        return super().read(value)


def _answer_type(kind: Any) -> _AnswerType[Any]:
    try:
        return _AnswerType(kind)
    except ConfigError as exc:
        raise ConfigError(f"response_format: kind must be a type, or a JSON Schema: {exc}") from None


def as_response_format(kind: Any) -> ResponseFormat[Any]:
    """Return *kind* if it is a `ResponseFormat`, or make one of it."""
    return cast(ResponseFormat[Any], kind) if isinstance(kind, ResponseFormat) else ResponseFormat(kind)


def _wrapped(schema: dict[str, Any]) -> dict[str, Any]:
    inner = {name: part for name, part in schema.items() if name != "$defs"}
    whole: dict[str, Any] = {"type": "object", "properties": {ANSWER: inner}, "required": [ANSWER]}
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole
