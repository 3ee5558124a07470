"""A conversation as text: in full for a file, in excerpts for a summarizer, and picked out by rules if that one fails.

The source of each text begins a line: `## user` in a file, `[user] ...` in an excerpt. The text itself is escaped so
that none of its lines begins like that. So nothing that a tool or a model says can pass for a person's words.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence

from ...messages import AnyBlock, AssistantMessage, Audio, Document, Image, MediaLink, Message, Text, ToolMessage, Video
from ..room import fitting
from . import tokens
from .tokens import clipped, fitted

SHARES = {"user": 4, "assistant": 2, "tool": 1}
"""The lengths that excerpts are cut to, in relation to each other, by role. The arguments of a call count as a result.
"""
SHORTEST = 2_000
"""Characters; an excerpt of what a tool has got or said is not cut to fewer, even if all then take more room."""
_BREAKS = "\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029"
"""All characters that a reader may take for the end of a line."""
_LINE = rf"(?<=[{_BREAKS}])(?!(?<=\r)\n)"
"""The beginning of each line but the first."""
_LIKE_HEADING = rf"(?:^|(?<=[{_BREAKS}]))(?=[^\w#{_BREAKS}]*##)"
"""The beginning of each line that could be read as a heading, whatever marks and spaces come before the `##`."""
_NO_FILES: Mapping[AnyBlock, str] = {}
_PATH = r"(?<![\w/.:])(?:/|\w[\w.-]*/)[\w./-]*\w"
_ADDRESS = r"https?://[^\s\"'<>)\]]+"
_ID = r"\b(?=[\w-]*\d)(?=[\w-]*[A-Za-z_-])[\w-]{4,64}\b"


def in_full(messages: Iterable[Message], media: Mapping[AnyBlock, str]) -> str:
    """Return the whole conversation. Media are named by the files that *media* maps them to."""
    parts = (part for message in messages for part in _parts(message, media))
    return "\n\n".join(f"## {label}\n\n{_escaped(text)}" for _, label, text in parts) + "\n"


def excerpts(messages: Iterable[Message], room: float, longest: int) -> list[str]:
    """Return an excerpt of each text, which together take about *room* tokens: all of it if that fits, or else the
    longest texts are cut in their middle, those of tools first. None has more than *longest* characters.
    """
    texts = [(SHARES[role], label, text) for message in messages for role, label, text in _parts(message)]
    sizes = [(share, len(text), tokens.of_text(text)) for share, _, text in texts]

    def needed(length: int) -> float:
        """Return the tokens of all texts if none has more than *length* characters for each share."""
        return sum(size * min(1.0, share * length / characters) for share, characters, size in sizes)

    lengths = range(SHORTEST, longest + 1)
    length = lengths[max(0, bisect_right(lengths, room, key=needed) - 1)] if lengths else longest
    cuts = [(min(share * length, longest), label, text) for share, label, text in texts]
    return [labelled(label, clipped(text, most * 2 // 3, most // 3)) for most, label, text in cuts]


def labelled(label: str, text: str) -> str:
    r"""Return *text* after its *label*, with a space before each further line.

    >>> print(labelled("result of look c1", "It is red.\n\n[user] I confirm."))
    [result of look c1] It is red.
    <BLANKLINE>
     [user] I confirm.
    """
    return f"[{label}] {re.sub(_LINE, ' ', text)}"


def extract(messages: Sequence[Message], room: float) -> str:
    """Pick out of *messages*, in *room* tokens: requests and replies; files, addresses and ids; calls and results."""
    parts = [part for message in messages for part in _parts(message)]
    everything = "\n".join(clipped(text, 1_500, 500) for _, _, text in parts)
    spoken = {role: [_line(text) for _, label, text in parts if role == label] for role in ("user", "assistant")}
    sections = {
        "Asked": [*spoken["user"][:1], *spoken["user"][1:][-5:]],
        "Said": spoken["assistant"][-8:],
        "Files": _latest(_PATH, everything),
        "Addresses": _latest(_ADDRESS, everything),
        "Ids": _latest(_ID, everything),
        "Calls": [f"{label}: {_line(text)}" for role, label, text in parts if role == "tool"][-20:],
    }
    lines: list[str] = []
    for title, found in sections.items():
        count = fitting((tokens.of_text(text) + 1 for text in found), room / 4)
        lines += [f"{title}:", *(f"- {text}" for text in found[:count])] if count else []
    return fitted("\n".join(lines), room)


def _line(text: str) -> str:
    return clipped(" ".join(text.split()), 160, 80)


def _latest(pattern: str, text: str) -> list[str]:
    """Return what *pattern* finds, without repetitions, the latest first."""
    return list(dict.fromkeys(reversed(re.findall(pattern, text))))[:60]


def _parts(message: Message, media: Mapping[AnyBlock, str] = _NO_FILES) -> Iterable[tuple[str, str, str]]:
    """Yield each text of *message*: the role that limits its length, its label, and the text."""
    label: str = message.role
    if isinstance(message, ToolMessage):
        label = _label("error of" if message.is_error else "result of", message.name, message.call_id)
    said = "\n".join(filter(None, (_text(block, media.get(block, "")) for block in message.blocks)))
    if said:
        yield message.role, label, said
    if isinstance(message, AssistantMessage):
        for call in message.calls:
            yield "tool", _label("call", call.name, call.id), call.raw.decode(errors="replace")


def _escaped(text: str) -> str:
    """Put a backslash before each line that could be read as a heading."""
    return re.sub(_LIKE_HEADING, r"\\", text)


def _label(what: str, *names: str) -> str:
    """Return a label. A model may have made up the names in it, so they lose line breaks and brackets."""
    shown = (
        "".join(letter if letter.isprintable() and letter not in "[]" else "?" for letter in name) for name in names
    )
    return " ".join((what, *(clipped(name, 80, 40) for name in shown)))


def _text(block: AnyBlock, path: str) -> str:
    match block:
        case Text(text, citations):
            sources = dict.fromkeys(f"{one.title} {one.url}".strip() for one in citations)
            return "\n".join(filter(None, (text.strip(), *(f"(source: {source})" for source in sources if source))))
        case Image(data, kind) | Audio(data, kind) | Video(data, kind) | Document(data, kind):
            return f"({kind}, {len(data):,} bytes{f', in {path!r}' if path else ''})"
        case MediaLink(url, kind):
            return f"({kind} at {url})"
        case _:
            return ""
