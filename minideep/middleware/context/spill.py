"""Files for text that is too large for the context, and the stubs that a model is shown in its place.

A stub is not stored. It follows from the message and from the files of the thread, so a restart shows the same one.
"""

import logging
import re
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any, cast

from ...backends import CONVERSATION, MAX_FILE, RESULTS, Missing, escaped, join, quoted
from ...context import ToolContext
from ...errors import ToolError
from ...events import FileWritten
from ...messages import AnyBlock, Content, Message, Text, ToolCall, ToolMessage, ToolResult, UserMessage, clean, text_of
from ...ports import Backend
from ...workers import in_thread
from . import tokens
from .tokens import clipped

logger: logging.Logger = logging.getLogger("minideep")
LONGEST_NAME = 100
"""Characters of a file's name."""
MIN_STUBBED = 500
"""Tokens; a stub saves little of a smaller message."""
ALWAYS_SHOWN = int(MIN_STUBBED / tokens.MAX_PER_CHARACTER)
"""Characters; a text of so few never has more tokens."""
LINES, HEAD, TAIL = 5, 80, 40
"""Lines that a stub shows at each end, and characters of both ends of each line."""
LONG_ARGUMENT, SHOWN_ARGUMENT = 2_000, 20
"""Characters of an argument from which it is shortened in old calls, and characters that it keeps."""
WRITING = frozenset({"write_file", "edit_file"})
"""Tools whose long arguments are shortened: the file holds the text."""

# ---- files


def digest(content: str | bytes) -> str:
    """Return 16 hex digits that tell contents apart in file names."""
    return sha256(_bytes(content)).hexdigest()[:16]


def file_name(*parts: str) -> str:
    """Return *parts* as one file name: letters, digits, `-` and `_`, joined by dots; a hash if that is too long."""
    name = ".".join(re.sub(r"[^A-Za-z0-9_-]", "_", part) for part in parts)
    return name if len(name) <= LONGEST_NAME else digest("/".join(parts))


def path_in(folder: str, backend: Backend, name: str = "") -> str:
    """Return the path of *name* in a folder of the runtime, which is below the backend's home."""
    return join(join(backend.home, folder), name)


def result_path(ctx: ToolContext, backend: Backend, call_id: str) -> str:
    """Return the path for the result of a call."""
    # A backend that blocks is shared by threads that may write at once, and some servers name every first call
    # `call_0`. So the thread is part of the name there.
    thread = [digest(ctx.thread_id)] if backend.blocking else []
    return path_in(RESULTS, backend, file_name(*thread, *ctx.path, call_id))


def message_path(backend: Backend, text: str) -> str:
    """Return the path for a user's large message. It is named by its text, so that it is found again."""
    return path_in(CONVERSATION, backend, f"message-{digest(text)}.md")


async def to_file(ctx: ToolContext, backend: Backend, path: str, content: str | bytes) -> str:
    """Write *content* to a new file at *path*, or beside it if that is taken, and record it like any other file.

    Returns its path; or "" if it could not be written, which is logged.
    """
    try:
        # Call ids repeat in other runs and threads, so the path may hold another result.
        event = await write_new_file(ctx, backend, path, content, lambda sha256: f"{path}-{sha256[:16]}")
        ctx.record(event)
    except Exception as exc:  # noqa: BLE001  Whatever a backend raises, the text is still in context.
        logger.warning("%s was not written: %s", escaped(path), exc)
        return ""
    return event.file


async def write_new_file(
    ctx: ToolContext, backend: Backend, path: str, content: str | bytes, beside: Callable[[str], str]
) -> FileWritten:
    """Write *content* to *path*; or, if something else is there, to the path that *beside* makes of its SHA-256.

    Returns the event, which the caller records. A store keeps its content apart from the state (`blob`); it is None
    if the backend keeps the content itself.

    Raises:
        ToolError: *content* is too large to be read back, or the backend refused it.
    """
    data = _bytes(content)
    if len(data) > MAX_FILE:
        raise ToolError(f"{len(data):,} bytes are more than the {MAX_FILE:,} that can be read back")
    sha = sha256(data).hexdigest()

    def write() -> tuple[str, bool]:
        at = beside(sha) if _is_taken(ctx, backend, path, data) else path
        return at, backend.write(ctx, at, data)

    at, in_state = await in_thread(write) if backend.blocking else write()
    kept = (content if isinstance(content, bytes) else data.decode()) if in_state else None
    return FileWritten(at, kept, len(data), sha, time.time(), ctx.path, in_state)


def _is_taken(ctx: ToolContext, backend: Backend, path: str, data: bytes) -> bool:
    try:
        return backend.read(ctx, path) != data
    except Missing:
        return False
    except ToolError:  # A folder, or a file that is too large to be this one.
        return True


def _bytes(content: str | bytes) -> bytes:
    return content if isinstance(content, bytes) else clean(content).encode()


# ---- what is shown instead


def stub(what: str, text: str, path: str) -> str:
    """Return the place of *text*, its size, and its first and last lines, cut where they are long.

    >>> print(stub("This result", "one line", "/f"))  # doctest: +ELLIPSIS
    This result is too large to be shown: 8 characters, 1 lines. All of it is in '/f'; read ...
    one line
    """
    lines = text.removesuffix("\n").split("\n")
    sizes = f"{len(text):,} characters, {len(lines):,} lines"
    ways = "read parts of it with read_file (offset, limit), or search it with grep (path)"  # Other greps pass it over.
    how = f"All of it is in {quoted(path)}; {ways}."
    if not path:
        how = "It could not be put into a file; ask for less at a time."
    how += " Only its ends follow:"
    left_out = len(lines) - 2 * LINES
    if left_out > 0:
        lines = [*lines[:LINES], f"... {left_out:,} lines ...", *lines[-LINES:]]
    return "\n".join(
        [f"{what} is too large to be shown: {sizes}. {how}", *(clipped(line, HEAD, TAIL) for line in lines)]
    )


def result_stub(result: ToolResult | ToolMessage, path: str) -> Content:
    """Return the content of *result* with its text, which is in the file *path*, replaced by a stub."""
    return _with_text(result.content, stub("This result", text_of(result.content), path))


def file_of_message(message: UserMessage, backend: Backend) -> str:
    """Return the path for the text of *message*; "" if it is so small that it is never put into a file."""
    content = message.content
    if type(content) is str and len(content) <= ALWAYS_SHOWN:  # Nearly all: no need to count tokens.
        return ""
    text = message.text
    return message_path(backend, text) if tokens.of_text(text) > MIN_STUBBED else ""


def message_stub(message: UserMessage, path: str) -> UserMessage:
    """Return *message* with its text, which is in the file *path*, replaced by a stub."""
    return UserMessage(_with_text(message.content, stub("This message", message.text, path)))


def _with_text(content: Content, text: str) -> Content:
    """Return *content* with its text replaced by *text*; media stay."""
    if isinstance(content, str):
        return text
    return (Text(text), *(block for block in content if not isinstance(block, Text)))


def with_short_arguments(message: Message) -> Message:
    """Return an old reply without the long texts that it wrote to files."""
    if isinstance(message.content, str) or not any(map(_is_long, message.content)):
        return message
    return type(message)(tuple(map(_short, message.content)))  # type: ignore[call-arg]


def _is_long(block: AnyBlock) -> bool:
    return isinstance(block, ToolCall) and block.name in WRITING and len(block.raw) > LONG_ARGUMENT


def _short(block: AnyBlock) -> AnyBlock:
    if not (isinstance(block, ToolCall) and _is_long(block)):
        return block
    return ToolCall(block.name, {name: _cut(value) for name, value in block.args.items()}, block.id)


def _cut(value: Any) -> Any:
    """Return an argument with long texts cut, in lists too: an edit may be one of several."""
    if isinstance(value, list):
        return [_cut(one) for one in cast(list[Any], value)]
    if not isinstance(value, str) or len(value) <= LONG_ARGUMENT:
        return value
    return f"{value[:SHOWN_ARGUMENT]}...({len(value):,} characters, cut)"
