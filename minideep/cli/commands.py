"""The commands of the terminal, one function each."""

import argparse
import uuid
from contextlib import closing

from ..checkpoint import open_store, thread_costs
from ..errors import ConfigError
from ..runtime import checked_thread_id
from .costs import CostsScreen, as_json
from .places import existing_store
from .render import Screen
from .session import EXIT_CODES
from .settings import copy_file, settings_file
from .text import safe
from .turns import opened, plan, reader, resume, run

LISTED = 10
"""Turns that `costs` lists by default."""
__all__ = [
    "check",
    "costs",
    "delete",
    "evaluate",
    "export",
    "files",
    "fork",
    "history",
    "plan",
    "replay",
    "resume",
    "run",
    "show",
    "threads",
]


def threads(options: argparse.Namespace) -> int:
    """List the threads."""
    with closing(existing_store(options)) as store:
        Screen().threads(reader(store).threads())
    return 0


def show(options: argparse.Namespace) -> int:
    """Print a thread."""
    with opened(options, existing_store) as (_, store):
        state = reader(store).get_state(options.thread, subagents=True)
    Screen().transcript(options.thread, state, whole=options.subagents)
    return 0


def history(options: argparse.Namespace) -> int:
    """List the boundaries of a thread."""
    with closing(existing_store(options)) as store:
        Screen().history(reader(store).history(options.thread))
    return 0


def costs(options: argparse.Namespace) -> int:
    """Show what a thread has cost."""
    screen = CostsScreen()
    with closing(existing_store(options)) as store:
        found = thread_costs(open_store(store), options.thread)
    newest = found.turns[-1].number
    whole = next((turn for turn in found.turns if turn.number == (options.turn or newest)), None)
    if whole is None:
        raise ConfigError(f"thread {options.thread!r} keeps no turn {options.turn}; its newest is {newest}")
    if options.json:
        listed = [whole] if options.turn else found.turns[-(options.last or len(found.turns)) :]
        for line in as_json(found, listed):
            screen.line(line)
    else:
        screen.thread(found, found.turns[-(options.last or LISTED) :], whole)
    return 0


def files(options: argparse.Namespace) -> int:
    """List the files of a thread, or write them into a folder."""
    from .files import files  # Here, because no other command needs it.

    return files(options)


def fork(options: argparse.Namespace) -> int:
    """Start a thread as a copy of another one; its settings are in the log that is copied."""
    name = checked_thread_id(uuid.uuid4().hex[:8] if options.name is None else options.name)
    with opened(options, existing_store) as (_, store):
        reader(store).fork(options.thread, at=options.at, thread_id=name)
        copy_file(getattr(store, "directory", None), options.thread, name)
    Screen().line(safe(name))
    return 0


def export(options: argparse.Namespace) -> int:
    """Print a thread for other programs."""
    if options.events:
        from .replays import print_events

        return print_events(options)
    screen = Screen()
    with closing(existing_store(options)) as store:
        for line in reader(store).export(options.thread):
            screen.line(line)
    return 0


def delete(options: argparse.Namespace) -> int:
    """Delete a thread."""
    with closing(existing_store(options)) as store:
        reader(store).delete(options.thread)
        settings_file(store.directory, options.thread).unlink(missing_ok=True)
    return 0


def check(options: argparse.Namespace) -> int:
    """Read everything that is kept, and report damage."""
    with closing(existing_store(options)) as store:
        if not (store.directory / "cache.db").is_file():
            raise ConfigError(f"there are no threads in {str(store.directory)!r}")
        damages = store.verify()
        counts = (len(open_store(store).keys(f"{kind}/", f"{kind}0")) for kind in ("head", "log"))
        Screen().damages(damages, *counts)
    return EXIT_CODES["failed" if damages else "ended"]


def replay(options: argparse.Namespace) -> int:
    """Run a thread again with other parts."""
    from .replays import replay  # As above.

    return replay(options)


def evaluate(options: argparse.Namespace) -> int:
    """Run a golden set."""
    from .evaluation import evaluate  # Here, because no other command needs it.

    return evaluate(options)
