"""Shows a turn while it runs, asks the person about pending calls, and resumes the turn with the decisions."""

import argparse
import asyncio
from collections.abc import Sequence

from msgspec import Struct

from .. import Agent, Stream, ToolCall, Turn
from .approval import AskBeforeChanges
from .prompt import ask, preview
from .render import Screen
from .text import aside, resume_command

EXIT_CODES = {"ended": 0, "failed": 1, "paused": 3, "escalated": 3, "exhausted": 4, "cancelled": 130}


class Session(Struct):
    """An agent that runs a thread for a person, and what the person is told about it."""

    agent: Agent
    using: str
    """One line that names the agent or its settings."""
    guard: AskBeforeChanges | None = None
    kept: bool = True
    """True if the thread outlives the process."""

    def preview(self, call: ToolCall) -> Sequence[str]:
        return preview(call, self.guard) if self.guard else ()


def watch(session: Session, stream: Stream, options: argparse.Namespace) -> int:
    """Show a turn and those that resume it after the person's decisions; return the exit code of the last."""
    screen, guard = Screen(), session.guard
    if options.json:
        aside(session.using)
    else:
        screen.begin(options.thread, session.using)
    while True:
        turn = asyncio.run(_shown(stream, screen, as_json=options.json))
        # Between two turns no event loop runs: Ctrl-C ends a question at once.
        if turn.status != "paused" or guard is None or not guard.can_ask:
            break
        if not (decisions := ask(turn.interrupts, guard)):
            break
        if turn.costs.steps and not options.json:
            screen.costs(turn.costs)
        stream = session.agent.resume_stream(options.thread, decisions)
    if not options.json:
        screen.turn(turn, session.preview, again=resume_command(options) if session.kept else "")
    return EXIT_CODES[turn.status]


async def _shown(stream: Stream, screen: Screen, *, as_json: bool) -> Turn:
    async for event in stream:
        if as_json:
            screen.line(event.json())
        else:
            screen.event(event)
    if as_json:
        screen.line(stream.turn.json())
    return stream.turn
