"""A server on loopback for each wire format, which gives the same answer to every request; prints where they are.

    python bench/parts/wire_servers.py [pieces]

Ends with its standard input.
"""

import json
import sys
from contextlib import ExitStack
from typing import Any

from harness.providers import Answer, Provider, sse
from harness.wires import WIRES

WORD = "word "
PIECES = int(sys.argv[1]) if sys.argv[1:] else 200
"""How many a stream has; an even number."""


class Server(Provider):
    """Answers with a text: as one JSON document, or in pieces."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        wire = WIRES[kind]
        whole = wire.said(WORD * PIECES)
        self.whole, self.streamed = wire.answer(whole), sse(*in_pieces(wire.events(whole)))

    def answer_to(self, body: Any) -> Answer:
        self.bodies.clear()  # Nobody looks at them.
        self.headers.clear()
        return self.streamed if body.get("stream") else self.whole


def in_pieces(events: list[Any]) -> list[Any]:
    """Return a stream with an event for each word. *events* has one for each half of the text, both alike."""
    place = next(place for place in range(len(events)) if events[place] == events[place + 1])
    word = json.loads(json.dumps(events[place]).replace(WORD * (PIECES // 2), WORD))
    return [*events[:place], *[word] * PIECES, *events[place + 2 :]]


def main() -> None:
    with ExitStack() as stack:
        print(json.dumps({kind: stack.enter_context(Server(kind)).url for kind in WIRES}), flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
