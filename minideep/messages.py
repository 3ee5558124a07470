"""What is said: messages, the blocks they are made of, tool calls and results, and what they cost.

Every value here is frozen, holds only frozen values, and can be written to a log. Text, calls and results are ours;
whatever else a provider sent is kept as its own bytes and goes back to that provider unchanged.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, overload

import msgspec
from msgspec import Struct

from .errors import ConfigError
from .kinds import Rule

StopReason = Literal["done", "truncated", "refused", "continue"]
"""Why a reply ended: by itself, at its size limit, by refusal; `continue`: the provider wants to be asked again."""


class Block(Struct, frozen=True, array_like=True, gc=False):
    """Base of what messages are made of. Frozen values hold no cycles, so the garbage collector may pass them over."""


class Text(Block, frozen=True, array_like=True, tag="text"):
    text: str


class Thinking(Block, frozen=True, array_like=True, tag="thinking"):
    """Reasoning that a provider wants back unchanged."""

    text: str
    """What of it can be shown; may be empty."""
    provider: str
    raw: bytes
    """The provider's own JSON, signature or encrypted content included."""


class ProviderBlock(Block, frozen=True, array_like=True, tag="provider"):
    """A block that only its provider understands. Left out when the thread goes to another provider."""

    provider: str
    raw: bytes
    """The provider's own JSON."""


class Image(Block, frozen=True, array_like=True, tag="image"):
    data: bytes
    media_type: str = "image/png"


class Document(Block, frozen=True, array_like=True, tag="document"):
    data: bytes
    media_type: str = "application/pdf"
    name: str = ""


class _Call(type(Struct)):
    """Lets `ToolCall` be made from a mapping, though what it keeps is bytes."""

    def __call__(cls, name: str, args: Mapping[str, Any] | bytes = b"{}", id: str | None = None) -> Any:
        return super().__call__(name, args if isinstance(args, bytes) else arguments_json(args), id or "")


class ToolCall(Block, frozen=True, array_like=True, tag="call", metaclass=_Call):
    """A tool the model asks for: `ToolCall("ls", {"path": "/"})`.

    The arguments are kept as JSON bytes, so that nobody can change what was recorded and everything that JSON can
    say survives. `args` reads them into a new dict each time.
    """

    name: str
    raw: bytes
    """The arguments as JSON; a JSON string holds what the model wrote where it was no JSON object."""
    id: str

    if TYPE_CHECKING:

        def __init__(self, name: str, args: Mapping[str, Any] | bytes = b"{}", id: str | None = None) -> None: ...

    @property
    def args(self) -> dict[str, Any]:
        """The arguments; empty if the model wrote something that is no JSON object."""
        return {} if self.malformed else from_json(self.raw)

    @property
    def malformed(self) -> str:
        """What the model wrote instead of a JSON object, or nothing."""
        return "" if self.raw.startswith(b"{") else str(from_json(self.raw))

    def __repr__(self) -> str:
        return f"ToolCall({self.name!r}, {self.malformed or self.args!r}, id={self.id!r})"


AnyBlock = Text | Thinking | ToolCall | Image | Document | ProviderBlock
Content = str | tuple[AnyBlock, ...]


class _Message(Struct, frozen=True, array_like=True, gc=False):
    """Base of the three messages."""

    content: Content

    @property
    def blocks(self) -> tuple[AnyBlock, ...]:
        return (Text(self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


class UserMessage(_Message, frozen=True, array_like=True, tag="user"):
    """What a person, or a middleware in their place, says."""

    role: ClassVar = "user"


class AssistantMessage(_Message, frozen=True, array_like=True, tag="assistant"):
    """What the model replied."""

    role: ClassVar = "assistant"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        if isinstance(self.content, str):
            return ()
        return tuple([block for block in self.content if isinstance(block, ToolCall)])


class ToolMessage(_Message, frozen=True, array_like=True, tag="tool"):
    """The result of one call."""

    role: ClassVar = "tool"
    call_id: str
    name: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolMessage


class Messages(Sequence[Message]):
    """A read-only view of the first *length* messages of a list that only grows. It costs nothing to make."""

    __slots__ = ("_all", "_length")

    def __init__(self, messages: list[Message], length: int | None = None) -> None:
        self._all = messages
        self._length = len(messages) if length is None else length

    def same_list(self, other: object) -> bool:
        """Whether *other* views the same list: a compaction makes another one."""
        return type(other) is Messages and other._all is self._all

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            if step == 1:
                return self._all[start:stop]
            return [self._all[i] for i in range(start, stop, step)]
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._all[index % self._length]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str):
            return NotImplemented
        return list(self) == list(other)  # pyright: ignore[reportUnknownArgumentType]

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(list(self))


Input = str | UserMessage | Annotated[Iterable[AnyBlock], Rule(lambda blocks: True, "blocks")]
"""What `run` takes."""


class ToolResult(Struct, frozen=True, array_like=True, gc=False):
    """What a tool answers; becomes the call's `ToolMessage`."""

    content: Content
    is_error: bool = False
    ends: bool = False
    """Whether the turn ends once every call of this reply is answered."""

    @property
    def text(self) -> str:
        return text_of(self.content)


class Usage(Struct, frozen=True, array_like=True, gc=False):
    """Tokens. The cached ones are part of *input*, the reasoning ones part of *output*.

    A provider may answer without counting. That is not 0 tokens: such a reply has `unknown=1`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    unknown: int = 0
    """Replies whose tokens are not known, or not all of them: the other fields count at least what was used."""

    @property
    def total(self) -> int:
        return self.input + self.output

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input - other.input,
            self.output - other.output,
            self.cache_read - other.cache_read,
            self.cache_write - other.cache_write,
            self.reasoning - other.reasoning,
            self.unknown - other.unknown,
        )

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            self.reasoning + other.reasoning,
            self.unknown + other.unknown,
        )


UNKNOWN = Usage(unknown=1)
"""What a reply took of which nobody said anything."""


DEEPEST = 100
"""How deep plain data may nest; readers recurse, and what is kept must be read from wherever they are called."""


def to_json(value: Any) -> bytes:
    """Plain data as compact JSON; whatever `json.loads` can give survives, lone surrogates, NaN and big integers too.

    Raises:
        TypeError: *value* holds something that JSON cannot say.
    """
    try:
        raw = msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":")).encode()
    # msgspec writes NaN and the infinities as null.
    return json.dumps(value, separators=(",", ":")).encode() if b"null" in raw else raw


def arguments_json(value: Any) -> bytes:
    """`to_json` of a call's arguments.

    Raises:
        ConfigError: JSON cannot say them.
        ValueError: they nest deeper than 100.
    """
    if too_deep(value):
        raise ValueError(f"arguments nest deeper than {DEEPEST}")
    try:
        return to_json(value)
    except TypeError as exc:
        raise ConfigError(f"args must be a mapping of what JSON can say: {exc}") from None


def too_deep(value: Any) -> bool:
    """Whether lists and mappings in *value* nest deeper than 100."""
    level: list[Any] = [value]
    for _ in range(DEEPEST):
        inner: list[Any] = [item for item in level if isinstance(item, dict | list | tuple)]
        if not inner:
            return False
        level = [part for item in inner for part in (item.values() if isinstance(item, dict) else item)]  # pyright: ignore
    return True


def from_json(raw: bytes | str) -> Any:
    """What *raw* says, read as `json.loads` reads it: NaN, infinities and lone surrogates included.

    Raises:
        ValueError: it is no JSON.
    """
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return json.loads(raw)


def is_json(raw: bytes) -> bool:
    """Whether *raw* can be read by `from_json`."""
    try:
        _skimmer.decode(raw)
    except msgspec.DecodeError:
        try:
            json.loads(raw)
        except (ValueError, RecursionError):
            return False
    return True


_skimmer = msgspec.json.Decoder(msgspec.Raw)


def parse_arguments(text: str) -> bytes:
    """A call's arguments as a model wrote them, as `ToolCall` keeps them: what is no JSON object becomes a string."""
    try:
        value = from_json(text or "{}")
        return arguments_json(value if isinstance(value, dict) else text)
    except (ValueError, RecursionError):
        return to_json(text)


def text_of(content: Content) -> str:
    """The text blocks of *content*, joined."""
    if isinstance(content, str):
        return content
    return "".join(block.text for block in content if isinstance(block, Text))


def clean(text: str) -> str:
    """*text* with lone surrogates, which no encoding can carry, written as escapes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def clean_content(content: Content | Iterable[AnyBlock]) -> Content:
    """*content* with every text block cleaned, as a value that can be kept."""
    if isinstance(content, str):
        return clean(content)
    blocks = content if isinstance(content, tuple) else tuple(content)
    for block in blocks:
        if isinstance(block, Text) and not block.text.isascii():
            return tuple([Text(clean(part.text)) if isinstance(part, Text) else part for part in blocks])
    return blocks


def as_message(input: Input) -> UserMessage:
    """*input* as a message that can be kept.

    Raises:
        ConfigError: it is empty, or no text, block list or `UserMessage`.
    """
    content: Any = input.content if isinstance(input, UserMessage) else input
    if not isinstance(content, str):
        try:
            content = tuple(content)
        except TypeError:
            raise ConfigError(f"the input must be text, blocks or a `UserMessage`, not {content!r}") from None
    for block in () if isinstance(content, str) else content:
        if not isinstance(block, Block):
            raise ConfigError(f"the input must be text, blocks or a `UserMessage`; it holds {block!r}")
    if not content or (isinstance(content, str) and not content.strip()):
        raise ConfigError("the input is empty; say what the agent is to do")
    try:
        return UserMessage(clean_content(content))
    except (AttributeError, TypeError) as exc:
        raise ConfigError(f"the input holds a block that was not made as its class says: {exc}") from None
