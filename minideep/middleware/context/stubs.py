"""What a model is shown in the place of text that is too large: where it is, and how it begins and ends."""

from collections.abc import Mapping

from ...backends.names import quoted
from ...backends.paths import CONVERSATION
from ...messages import AnyBlock, Content, Message, Text, ToolCall, ToolMessage, ToolResult, UserMessage, text_of
from ...ports import Backend
from ...state import FileEntry
from . import spill as keeping, tokens

LEAST = 500
"""Tokens; a stub would save little of what is smaller."""
LINES, HEAD, TAIL = 5, 80, 40
LONG_ARGUMENT, SHOWN_ARGUMENT = 2_000, 20
"""Characters of an argument that is shortened in old calls, and of what stays of it."""
WRITING = frozenset({"write_file", "edit_file"})


def stub(what: str, text: str, path: str) -> str:
    """*text* as its place, its size, and its first and last lines, cut where they are long.

    >>> print(stub("This result", "one line", "/f"))  # doctest: +ELLIPSIS
    This result is too large to be shown: 8 characters, 1 lines. All of it is in '/f'; read ...
    one line
    """
    lines = text.removesuffix("\n").split("\n")
    sizes = f"{len(text):,} characters, {len(lines):,} lines"
    how = f"All of it is in {quoted(path)}; read parts of it with read_file (offset, limit), or search it with grep."
    if not path:
        how = "It could not be put into a file; ask for less at a time."
    left_out = len(lines) - 2 * LINES
    if left_out > 0:
        lines = [*lines[:LINES], f"... {left_out:,} lines ...", *lines[-LINES:]]
    return "\n".join(
        [f"{what} is too large to be shown: {sizes}. {how}", *(clipped(line, HEAD, TAIL) for line in lines)]
    )


def clipped(text: str, head: int, tail: int) -> str:
    """The beginning and the end of *text*, if it is longer than both."""
    return text if len(text) <= head + tail + 5 else f"{text[:head]} ... {text[len(text) - tail :]}"


def fitted(text: str, room: float) -> str:
    """The beginning and the end of *text*, in at most *room* tokens."""
    while text and (size := tokens.of_text(text)) > room:
        most = int(len(text) * room / size) - 10
        text = f"{text[: max(0, most * 2 // 3)]} ... {text[len(text) - max(0, most // 3) :]}" if most > 0 else ""
    return text


def with_text(content: Content, text: str) -> Content:
    """*content* with *text* in the place of its own; images and documents stay."""
    if isinstance(content, str):
        return text
    return (Text(text), *(block for block in content if not isinstance(block, Text)))


def result_stub(result: ToolResult | ToolMessage, path: str) -> Content:
    return with_text(result.content, stub("This result", text_of(result.content), path))


def user_path(backend: Backend, text: str) -> str:
    """Where a large message of a user is put: named by what it says, so that it is found again."""
    return keeping.place(backend, CONVERSATION, f"message-{keeping.digest(text)}.md")


def shown_user(message: UserMessage, files: Mapping[str, FileEntry], backend: Backend) -> UserMessage:
    """The message, or its stub, if it is one of those that were put into a file."""
    text = message.text
    if tokens.of_text(text) <= LEAST or (path := user_path(backend, text)) not in files:
        return message
    return UserMessage(with_text(message.content, stub("This message", text, path)))


def shortened(message: Message) -> Message:
    """An old reply with the long texts left out that it wrote to files."""
    if isinstance(message.content, str) or not any(map(_is_long, message.content)):
        return message
    return type(message)(tuple(map(_short, message.content)))  # type: ignore[call-arg]


def _is_long(block: AnyBlock) -> bool:
    return isinstance(block, ToolCall) and block.name in WRITING and len(block.raw) > LONG_ARGUMENT


def _short(block: AnyBlock) -> AnyBlock:
    if not (isinstance(block, ToolCall) and _is_long(block)):
        return block
    args = {
        name: f"{value[:SHOWN_ARGUMENT]}...({len(value):,} characters, cut)"
        if isinstance(value, str) and len(value) > LONG_ARGUMENT
        else value
        for name, value in block.args.items()
    }
    return ToolCall(block.name, args, block.id)
