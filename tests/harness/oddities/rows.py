"""What a row of the table of oddities says, and the words that the tables share."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.providers import Answer
from minideep import ModelError, Usage
from minideep.messages import UNKNOWN, StopReason

HI = "hi there"
LS = ("ls", {"path": "a"})
"""A call as a tuple of its name and its arguments."""
INJECTED = "injected: no server is known that does it"


USED = Usage(7, 3)
"""What the wire formats of the harness say that a reply took."""


@dataclass(frozen=True, kw_only=True)
class Oddity:
    """An odd answer of a server, and what must be made of it.

    *document* is sent to a request that asked for one document, *stream* to one that asked for a stream. The answer is
    read, or it is refused with an *error* whose text holds all of *words*.
    """

    name: str
    source: str
    """A public issue thread or page that shows it, or `INJECTED`."""
    document: Answer | None = None
    stream: Answer | None = None
    text: str = ""
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    malformed: str = ""
    """What the model wrote instead of the arguments of its last call."""
    thinking: str = ""
    cited: tuple[str, ...] = ()
    """The addresses of the sources of its texts."""
    usage: Usage = USED
    stop: StopReason = "done"
    has_more: bool = False
    """True if the reply holds other blocks besides its text."""
    back: tuple[str, ...] = ()
    """What the next request must hold."""
    error: type[ModelError] | None = None
    words: tuple[str, ...] = ()

    @property
    def is_plain(self) -> bool:
        """True if what is read is a text as any other, so that what is sent back is nothing special."""
        return self.text == HI and not (
            self.has_more or self.cited or self.calls or self.thinking or self.back or self.error
        )

    def answers(self) -> Iterator[tuple[str, Answer]]:
        """Yield the forms in which it is sent, with their answers."""
        yield from ((form, answer) for form in ("document", "stream") if (answer := getattr(self, form)))


COUNTS: dict[str, tuple[Any, Any, Usage, str]] = {
    "null": (None, None, UNKNOWN, "https://github.com/neuron-core/neuron-ai/issues/223"),
    "floats": (7.0, 3.0, Usage(7, 3), "https://github.com/philschmid/easyllm/issues/40"),
    "fractions": (7.2, 2.9, Usage(7, 3), "https://github.com/BerriAI/litellm/issues/28024"),
    "texts": ("7", "3", UNKNOWN, "https://github.com/Arize-ai/openinference/pull/1183"),
    "objects": ({"n": 7}, [3], UNKNOWN, INJECTED),
    "negative": (-7, -3, UNKNOWN, INJECTED),
    "no numbers": (math.nan, math.inf, UNKNOWN, INJECTED),
    "true": (True, True, UNKNOWN, INJECTED),
    "too large": (10**30, 3, Usage(0, 3, unknown=1), INJECTED),
}
"""Counts of input and of output tokens as servers write them, what they mean, and where they were seen."""

USAGES: dict[str, tuple[Any, str]] = {
    "null": (None, "https://github.com/sgl-project/sglang/issues/4550"),
    "empty": ({}, INJECTED),
    "a text": ("7 in, 3 out", INJECTED),
    "a list": ([7, 3], INJECTED),
}
"""Usages that hold no counts at all."""


def sent_as(body: str | bytes | Any, content_type: str | None = "application/json", status: int = 200) -> Answer:
    """Return an answer with this body, as JSON unless it is text, and this content type."""
    raw = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
    return Answer(raw, status, {"content-type": content_type} if content_type else {})


def lines(text: str) -> Answer:
    """Return a stream of exactly this text."""
    return sent_as(text, "text/event-stream")
