"""A turn of a thread, shown while it happens; the person is asked about calls that wait, and the turn goes on."""

import argparse
import asyncio
from collections.abc import Sequence

from msgspec import Struct

from ..agent import Agent
from ..export import event_json, json_line
from ..messages import ToolCall
from ..runtime.stream import Stream
from ..turn import Turn
from .asking import AskBeforeChanges
from .prompt import ask, preview
from .render import Screen
from .text import aside, resuming

EXIT_CODES = {"ended": 0, "failed": 1, "paused": 3, "escalated": 3, "exhausted": 4, "cancelled": 130}


class Session(Struct):
    """An agent that runs a thread for a person."""

    agent: Agent
    using: str
    """What it runs with, as the person is told."""
    asking: AskBeforeChanges | None = None
    kept: bool = True
    """Whether the thread is there when the process is over."""

    def preview(self, call: ToolCall) -> Sequence[str]:
        return preview(call, self.asking) if self.asking else ()


def watch(session: Session, stream: Stream, options: argparse.Namespace) -> int:
    """Show a turn, and those that go on with it after the person's decisions. Returns the exit code of the last."""
    screen, asking = Screen(), session.asking
    if options.json:
        aside(session.using)
    else:
        screen.begin(options.thread, session.using)
    while True:
        turn = asyncio.run(_watched(stream, screen, as_json=options.json))
        # Between two turns no event loop runs: Ctrl-C ends a question at once.
        if turn.status != "paused" or asking is None or not asking.can_ask:
            break
        if not (decisions := ask(turn.interrupts, asking)):
            break
        if turn.costs.steps and not options.json:
            screen.costs(turn.costs)
        stream = session.agent.resume_stream(options.thread, decisions)
    if not options.json:
        screen.turn(turn, session.preview, again=resuming(options) if session.kept else "")
    return EXIT_CODES[turn.status]


async def _watched(stream: Stream, screen: Screen, *, as_json: bool) -> Turn:
    async for event in stream:
        if as_json:
            screen.line(json_line(event_json(event)))
        else:
            screen.event(event)
    turn = stream.turn
    assert turn is not None  # The stream came to its end.
    if as_json:
        screen.line(json_line(event_json(turn)))
    return turn
