"""`replay`, `export --events` and `eval --from`: threads that are run again, or become tests."""

import argparse
import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

from .. import Agent
from ..checkpoint import open_store, thread_events
from ..ports import Store
from . import agents
from .approval import AskBeforeChanges, created_by
from .places import existing_store
from .render import Screen
from .settings import of_thread
from .text import aside, safe
from .turns import opened, reader


def replay(options: argparse.Namespace) -> int:
    """Run a thread again, and show both runs; fail if the last turn does."""
    model, options.model = options.model, None if options.agent else options.model
    with opened(options, existing_store) as (own, store):
        agent = own or _agent_of(store, options)
        about: dict[str, Any] = {"at": options.at, "model": model if own else None, "others": options.others}
        found = asyncio.run(agent.replay(options.thread, **about))
    Screen().line(found.json() if options.json else safe(found.table()))
    return int(found.turn.status == "failed")


def _agent_of(store: Store, options: argparse.Namespace) -> Agent:
    """Return the agent that the thread's settings describe, with the model that the options name."""
    state = reader(store).get_state(options.thread, subagents=True)
    settings = of_thread(state, getattr(store, "directory", None), options.thread, options)
    if settings.command == "plan":
        return agents.blueprint(settings, store)
    guard = AskBeforeChanges(
        Path(settings.root),
        state.said.text if state.said else "",
        created=created_by(state),
        allowed=options.yes or options.others == "refuse",  # Then nothing changes a file.
        refused=aside,
    )
    return agents.deep_agent(settings, store, guard)


def print_events(options: argparse.Namespace) -> int:
    """Print every event of a thread, as `minideep.testing.recorded` reads them from a file."""
    screen = Screen()
    with closing(existing_store(options)) as store:
        for event in thread_events(open_store(store), options.thread):
            screen.line(event.json())
    return 0


def print_goldens(options: argparse.Namespace) -> int:
    """Print a golden for each message of the threads of `--from`, to be edited and run."""
    from ..evals import from_thread

    screen = Screen()
    with closing(existing_store(options)) as store:
        for thread in options.threads:
            options.thread = thread  # An unknown one is named.
            for golden in from_thread(store, thread):
                screen.line(golden.json())
    return 0
