"""Estimate how many tokens a model counts, and cut text to fit.

Four ASCII characters are one token; a Chinese or Japanese character is one token. Tokenizers differ by a third and
more, so `ContextSize` corrects the estimate by what the provider reports.
"""

from ...messages import AnyBlock, Audio, Document, Image, MediaLink, Message, Text, Thinking, ToolCall, Video
from ...plain_json import to_json
from ...ports import Request

MAX_PER_CHARACTER = 1.375
"""The most tokens that one character is counted as."""
MESSAGE = 4.0
"""Tokens of a message besides its content."""
IMAGE = 1600.0
"""Tokens of a large image: https://platform.claude.com/docs/en/build-with-claude/vision"""
PAGE = 60_000
"""Bytes of a PDF that are counted as one page. A page costs about two images: its text, and a picture of it."""
PAGES = 5
"""Pages that a document at an address is counted as, since nobody here knows its size."""
SOUND, RAW_SOUND, FILM = 250, 1_000, 570
"""Bytes that are counted as one token: of sound at 64 kbit/s, of speech as plain samples (16 kHz, 16 bits), and of a
film at 1.2 Mbit/s. A second of sound has 32 tokens and a second of a film 263: https://ai.google.dev/gemini-api/docs/tokens
"""


def of_text(text: str) -> float:
    """Return the tokens of *text*. Other scripts take two or three bytes a character, and more tokens."""
    if text.isascii():
        return len(text) / 4
    return (3 * len(text.encode("utf-8", "surrogatepass")) - len(text)) / 8


def of_message(message: Message) -> float:
    """Return the tokens of *message*."""
    content = message.content
    if isinstance(content, str):
        return MESSAGE + (len(content) / 4 if content.isascii() else of_text(content))
    total = MESSAGE
    for block in content:
        total += _of_block(block)
    return total


def of_head(request: Request) -> float:
    """Return the tokens of the system prompt and the tools, which stand before the messages."""
    tools = (of_text(tool.name) + of_text(tool.description) + len(to_json(tool.schema)) / 4 for tool in request.tools)
    return of_text(request.system) + sum(tools)


def clipped(text: str, head: int, tail: int) -> str:
    """Return the first *head* and the last *tail* characters of *text*, or all of it if it is hardly longer."""
    return text if len(text) <= head + tail + 5 else f"{text[:head]} ... {text[len(text) - tail :]}"


def fitted(text: str, room: float) -> str:
    """Return *text*, cut in its middle to at most *room* tokens."""
    while text and (size := of_text(text)) > room:
        # Characters differ in tokens, so what is left may still be too large: measure again.
        most = int(len(text) * room / size) - 10
        text = f"{text[: max(0, most * 2 // 3)]} ... {text[len(text) - max(0, most // 3) :]}" if most > 0 else ""
    return text


def _of_block(block: AnyBlock) -> float:
    match block:
        case ToolCall(name, raw):
            return MESSAGE + len(name) / 4 + (len(raw) / 4 if raw.isascii() else _of_bytes(raw))
        case Text(text):
            return of_text(text)
        case Image():
            return IMAGE
        case Document(data, media_type):
            return _of_bytes(data) if media_type.startswith("text/") else 2 * IMAGE * (1 + len(data) // PAGE)
        case MediaLink(_, media_type):
            return IMAGE if media_type.startswith("image/") else 2 * IMAGE * PAGES
        case Audio(data, media_type):
            return len(data) / (RAW_SOUND if media_type == "audio/wav" else SOUND)
        case Video(data):
            return len(data) / FILM
        case Thinking(text, _, raw):
            return of_text(text) or len(raw) / 4
        case _:
            return len(block.raw) / 4


def _of_bytes(data: bytes) -> float:
    return len(data) / 4 if data.isascii() else of_text(data.decode(errors="replace"))
