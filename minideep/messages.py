"""Messages, the blocks they are made of, tool calls and their results, and token counts.

Every value is frozen, holds only frozen values, and can be written to a log. Text, calls and results have one form for
all providers. Whatever else a provider sends is kept as its own bytes and goes back to that provider unchanged.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from operator import attrgetter, sub
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, overload

from msgspec import structs

from .documented import Struct
from .kinds import Check
from .plain_json import arguments_json, from_json, is_json, parse_arguments

StopReason = Literal["done", "truncated", "refused", "continue"]
"""Why a reply ended. `done`: by itself; `truncated`: at its size limit; `refused`: by refusal; `continue`: the provider
wants to be asked again.
"""


class Block(Struct, frozen=True, array_like=True, gc=False):
    """Base class of the parts of a message."""

    # gc=False: frozen values cannot form cycles, and a long thread holds thousands for the collector to visit.
    # array_like: a log repeats no field names. A field that is added must go last, or old logs are misread.


class Citation(Struct, frozen=True, array_like=True, gc=False, repr_omit_defaults=True):
    """A source of a text, as the provider named it."""

    url: str = ""
    """Where it can be read; empty if it is a file or a document."""
    title: str = ""
    """Its title, or the name of the file."""
    quote: str = ""
    """The words of the source that the text rests on; may be empty."""
    start: int | None = None
    """The part of the block's text that it supports begins at this character; None if the provider does not say."""
    end: int | None = None
    """That part ends before this character."""
    provider: str = ""
    raw: bytes = b""
    """The provider's own JSON, sent back to it unchanged. It may hold more, such as the id of a file."""


class Text(Block, frozen=True, array_like=True, tag="text", repr_omit_defaults=True):
    text: str
    citations: tuple[Citation, ...] = ()
    """The sources that the provider named for it."""


class Thinking(Block, frozen=True, array_like=True, tag="thinking"):
    """Reasoning that a provider wants back unchanged."""

    text: str
    """The part that may be shown; may be empty."""
    provider: str
    raw: bytes
    """The provider's own JSON, signature or encrypted content included."""


class ProviderBlock(Block, frozen=True, array_like=True, tag="provider"):
    """A block that only its provider understands. It is not sent to other providers."""

    provider: str
    raw: bytes
    """The provider's own JSON."""


class Image(Block, frozen=True, array_like=True, tag="image"):
    data: bytes
    media_type: str = "image/png"


class Audio(Block, frozen=True, array_like=True, tag="audio"):
    data: bytes
    media_type: str = "audio/wav"


class Video(Block, frozen=True, array_like=True, tag="video"):
    data: bytes
    media_type: str = "video/mp4"


class Document(Block, frozen=True, array_like=True, tag="document"):
    data: bytes
    media_type: str = "application/pdf"
    name: str = ""


class MediaLink(Block, frozen=True, array_like=True, tag="link"):
    """An image or a document at a public address, which the provider fetches with each request:
    `MediaLink("https://example.com/plan.pdf")`.

    A `data:` URL is recorded as the `Image` or `Document` that it holds. Sound and films must be given as bytes. An
    address with a user name or a password is refused; what else it has, such as a signature, is recorded.
    """

    url: str
    media_type: str = ""
    """Such as `image/png`; empty: as the end of the address says."""


class _Call(type(Struct)):
    """Lets `ToolCall` take a mapping, though it keeps bytes. A metaclass, as a Struct cannot have an `__init__`."""

    def __call__(cls, name: str, args: Mapping[str, Any] | bytes = b"{}", id: str | None = None) -> Any:
        return super().__call__(name, args if isinstance(args, bytes) else arguments_json(args), id or "")

    __call__.__qualname__ = "ToolCall"  # Python names it in the error for a wrong call.


class ToolCall(Block, frozen=True, array_like=True, tag="call", metaclass=_Call):
    """A call to a tool, as the model asked for it: `ToolCall("ls", {"path": "/"})`.

    The arguments are kept as JSON bytes: the record cannot be changed, and everything that JSON can express survives.
    Each read of `args` decodes them into a new dict.
    """

    name: str
    raw: bytes
    """The arguments as a JSON object; or, if the model wrote something else, its text as a JSON string."""
    id: str

    if TYPE_CHECKING:

        def __init__(self, name: str, args: Mapping[str, Any] | bytes = b"{}", id: str | None = None) -> None: ...

    @property
    def args(self) -> dict[str, Any]:
        """The arguments; empty if the model did not write a JSON object."""
        return from_json(self.raw) if self.raw.startswith(b"{") else {}

    @property
    def malformed(self) -> str:
        """The text that the model wrote instead of a JSON object; empty if it wrote one."""
        return "" if self.raw.startswith(b"{") else str(from_json(self.raw))

    def as_json(self) -> "ToolCall":
        """Return this call with arguments that are JSON: others could be written to a log, but not read again."""
        return (
            self
            if is_json(self.raw)
            else ToolCall(self.name, parse_arguments(self.raw.decode(errors="replace")), self.id)
        )

    def __repr__(self) -> str:
        return f"ToolCall({self.name!r}, {self.malformed or self.args!r}, id={self.id!r})"


AnyBlock = Text | Thinking | ToolCall | Image | Audio | Video | Document | MediaLink | ProviderBlock
Content = str | tuple[AnyBlock, ...]


class _Message(Struct, frozen=True, array_like=True, gc=False):
    """Base class of the three messages."""

    content: Content

    @property
    def blocks(self) -> tuple[AnyBlock, ...]:
        return (Text(self.content),) if isinstance(self.content, str) else self.content

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


class UserMessage(_Message, frozen=True, array_like=True, tag="user"):
    """A message from a person, or from a middleware in their place."""

    role: ClassVar[Literal["user"]] = "user"


class AssistantMessage(_Message, frozen=True, array_like=True, tag="assistant"):
    """A reply of the model."""

    role: ClassVar[Literal["assistant"]] = "assistant"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        if isinstance(self.content, str):
            return ()
        return tuple([block for block in self.content if isinstance(block, ToolCall)])


class ToolMessage(_Message, frozen=True, array_like=True, tag="tool"):
    """The result of one call."""

    role: ClassVar[Literal["tool"]] = "tool"
    call_id: str
    name: str
    is_error: bool = False


Message = UserMessage | AssistantMessage | ToolMessage


class Messages(Sequence[Message]):
    """A read-only view of the first *length* messages of a list. Making one copies nothing."""

    # The list only grows at its end, so a view stays as it is. A compaction makes a new list.
    __slots__ = ("_all", "_length")

    def __init__(self, messages: list[Message], length: int | None = None) -> None:
        self._all = messages
        self._length = len(messages) if length is None else length

    def same_list(self, other: object) -> bool:
        """Return True if *other* views the same list. After a compaction it does not: that makes a new list."""
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

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # Equal to a list, which has no hash either.

    def __repr__(self) -> str:
        return repr(list(self))


list_behind: Callable[[Messages], list[Message]] = attrgetter("_all")  # It runs in C, as it is asked at every step.
"""Return the list that messages are a view of, to compare it with another; nobody changes it."""

_Item = AnyBlock | Message | Mapping[str, Any]
Input = str | UserMessage | Annotated[Iterable[_Item], Check(iter, "a list of blocks or messages")]
"""The input of a turn: text, a message, its blocks, or a history that ends with it: messages, or mappings such as
`{"role": "user", "content": "hi"}`.
"""


class ToolResult(Struct, frozen=True, array_like=True, gc=False):
    """The result of a tool call; it becomes the call's `ToolMessage`."""

    content: Content
    is_error: bool = False
    ends: bool = False
    """True if the turn ends once all calls of this reply are answered."""

    @property
    def text(self) -> str:
        return text_of(self.content)


class Usage(Struct, frozen=True, array_like=True, gc=False):
    """Token counts. Cached tokens are part of *input*, reasoning tokens part of *output*.

    A provider may answer without reporting tokens. That does not mean 0 tokens: such a reply has `unknown=1`.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0
    unknown: int = 0
    """Replies whose tokens are not fully reported. The other fields are then lower bounds."""

    @property
    def total(self) -> int:
        return self.input + self.output

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(*map(sub, structs.astuple(self), structs.astuple(other)))

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(  # Written out, since it runs in every step.
            self.input + other.input, self.output + other.output, self.cache_read + other.cache_read,
            self.cache_write + other.cache_write, self.reasoning + other.reasoning, self.unknown + other.unknown,
        )  # fmt: skip


UNKNOWN = Usage(unknown=1)
"""The usage of one reply whose provider reported no tokens."""


def text_of(content: Content) -> str:
    """Return the text blocks of *content*, joined."""
    if isinstance(content, str):
        return content
    return "".join(block.text for block in content if isinstance(block, Text))


def fit_together(messages: Sequence[Message], unanswered: Collection[str]) -> bool:
    """Return whether the results of each reply follow it, all of them and no others, but for those *unanswered*."""
    wanted: set[str] = set()
    for message in messages:
        if isinstance(message, ToolMessage):
            if message.call_id not in wanted:
                return False
            wanted.remove(message.call_id)
        elif wanted:
            return False
        elif isinstance(message, AssistantMessage):
            wanted = {call.id for call in message.calls}
    return wanted == {*unanswered}


def clean(text: str) -> str:
    """Return *text* with lone surrogates, which UTF-8 cannot encode, written as escapes."""
    if text.isascii():  # Python knows this without a scan; the text of most results ends here.
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def clean_content(content: Content | Iterable[AnyBlock]) -> Content:
    """Return *content* with every text block cleaned, as a value that the log can keep."""
    if isinstance(content, str):
        return clean(content)
    blocks = content if isinstance(content, tuple) else tuple(content)
    for block in blocks:
        if isinstance(block, Text) and (block.citations or not block.text.isascii()):
            return tuple([_clean_text(part) if isinstance(part, Text) else part for part in blocks])
    return blocks


def _clean_text(block: Text) -> Text:
    def cleaned(one: Citation) -> Citation:
        return structs.replace(one, url=clean(one.url), title=clean(one.title), quote=clean(one.quote))

    return Text(clean(block.text), tuple(map(cleaned, block.citations)))
