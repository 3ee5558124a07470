"""About how many tokens a model will count: four ASCII characters are one, a Chinese or Japanese character is one.

Tokenizers differ by a third and more. Whoever must know better corrects this by what the provider reports.
"""

from ...messages import AnyBlock, Document, Image, Message, Text, Thinking, ToolCall, to_json
from ...ports import Request

MOST = 1.375
"""Tokens of a character, at most."""
MESSAGE = 4.0
"""What a message takes besides its content."""
IMAGE = 1600.0
"""A large image: https://platform.claude.com/docs/en/build-with-claude/vision"""
PAGE = 60_000
"""Bytes of a PDF that are counted as one page, which is about twice an image: its text, and how it looks."""


def of_text(text: str) -> float:
    """Tokens of *text*. Other scripts take two or three bytes a character, and more tokens."""
    if text.isascii():
        return len(text) / 4
    return (3 * len(text.encode("utf-8", "surrogatepass")) - len(text)) / 8


def of_message(message: Message) -> float:
    content = message.content
    if isinstance(content, str):
        return MESSAGE + (len(content) / 4 if content.isascii() else of_text(content))
    total = MESSAGE
    for block in content:
        total += _of_call(block) if type(block) is ToolCall else _of_block(block)
    return total


def of_head(request: Request) -> float:
    """Tokens of what stands before the messages: the system prompt and the tools."""
    tools = (of_text(tool.name) + of_text(tool.description) + len(to_json(tool.schema)) / 4 for tool in request.tools)
    return of_text(request.system) + sum(tools)


def _of_call(call: ToolCall) -> float:
    raw = call.raw
    return MESSAGE + len(call.name) / 4 + (len(raw) / 4 if raw.isascii() else _of_bytes(raw))


def _of_block(block: AnyBlock) -> float:
    match block:
        case ToolCall():
            return _of_call(block)
        case Text(text):
            return of_text(text)
        case Image():
            return IMAGE
        case Document(data, media_type):
            return _of_bytes(data) if media_type.startswith("text/") else 2 * IMAGE * (1 + len(data) // PAGE)
        case Thinking(text, _, raw):
            return of_text(text) or len(raw) / 4
        case _:
            return len(block.raw) / 4


def _of_bytes(data: bytes) -> float:
    return len(data) / 4 if data.isascii() else of_text(data.decode(errors="replace"))
