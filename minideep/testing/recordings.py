"""`recorded`: a thread that was run once, as a model and tools, and as a test that needs no key and no network."""

from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import Any, cast, get_args

from ..agent import Agent
from ..checkpoint import open_store, thread_events
from ..checks import checked
from ..errors import ConfigError
from ..events import EVENTS, AnyEvent, from_json
from ..kinds import Pathname
from ..plain_json import from_json as json_value
from ..ports import Model, Store
from ..replay import RecordedModel, RecordedTool, Recording, Replay, Script, play
from ..runtime import run_sync
from ..state import ThreadId
from ..tools import Tool

UNRECORDED = {"Turn", *(kind.__name__ for kind in EVENTS if kind not in get_args(AnyEvent))}
"""What `minideep run --json` prints beside the events that a log holds: pieces of text, and the turn at the end."""


class Recorded:
    """A recorded thread: `model, tools = recorded(...)`, or `await recorded(...).run(agent)`.

    `model` gives the replies of all runs, each at its place, also to runs side by side. `tools` have the names of all
    tools that were called, and their results; for an agent that has tools already, use `run`.
    """

    def __init__(self, recording: Recording, events: list[AnyEvent]) -> None:
        self._recording = recording
        self._events = events
        script = Script(recording)
        self.model: Model = RecordedModel(script)
        self.tools: tuple[Tool, ...] = tuple(
            RecordedTool(script, name) for name in sorted({call.call.name for call in recording.calls()})
        )

    def __iter__(self) -> Iterator[Any]:
        yield self.model
        yield self.tools

    def __repr__(self) -> str:
        return f"<Recorded thread {self._recording.thread_id!r}, {len(self._recording.inputs)} inputs>"

    @checked
    async def run(self, agent: Agent, *, context: Any = None) -> Replay:
        """Give *agent* the inputs of the thread again, on a thread of its own in memory: messages, decisions, what was
        said meanwhile, cancellations and resumptions. All models and tools answer what they answered.

        Prompts, hooks and limits are those of *agent*, and run. A tool that ran other agents runs again, for they are
        known to nobody else. *context* is what tools and hooks get as `ctx.context`.

        Raises:
            MinideepError: an input was refused, as by `Agent.run`.
        """
        return await play(self._recording, agent, context)

    @checked
    def run_sync(self, agent: Agent, *, context: Any = None) -> Replay:
        """Do what `run` does, from synchronous code."""
        return run_sync(self.run(agent, context=context))

    @checked
    def save(self, path: Pathname) -> None:
        """Write the thread to a file that can be committed and edited: one event a line, as JSON."""
        lines = "".join(f"{event.json()}\n" for event in self._events)
        Path(path).write_text(lines, encoding="utf-8")


@checked
def recorded(source: Store | Pathname, thread_id: ThreadId | None = None) -> Recorded:
    """Return a recorded thread. *source* is the store that holds *thread_id*, or a file that `Recorded.save`,
    `minideep export --events` or `minideep run --json` has written; its name is then the default of *thread_id*.

    The thread is only read. What runs meanwhile is read as far as it is saved.

    Raises:
        ConfigError: *source* is a store and *thread_id* is missing, or a file that does not hold a whole thread.
        UnknownThread, CheckpointError
        HistoryCut: retention has removed the beginning of the thread.
    """
    if isinstance(source, str | PathLike):
        path = Path(source)
        thread_id, events = thread_id or path.stem, _events_in(path)
    elif thread_id is None:
        raise ConfigError("recorded: a store needs a thread_id; give the id of the thread to run again")
    else:
        events = thread_events(open_store(source), thread_id)
    return Recorded(Recording(events, thread_id), events)


def _events_in(path: Path) -> list[AnyEvent]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as exc:
        raise ConfigError(f"the recording {str(path)!r} cannot be read: {exc}") from None
    found: list[AnyEvent] = []
    for number, line in enumerate(lines, 1):
        try:
            value: Any = json_value(line) if line.strip() else {"event": "Turn"}
            if value.get("event") not in UNRECORDED:
                found.append(cast(AnyEvent, from_json(value)))
        except (ValueError, AttributeError, ConfigError) as exc:
            raise ConfigError(f"{str(path)!r}, line {number}: {exc}; expected an event as a line of JSON") from None
    return found
