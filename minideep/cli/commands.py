"""What each command does."""

import argparse
import asyncio
import uuid
from contextlib import closing

from ..agent import checked_thread_id
from ..errors import ConfigError
from ..ports import Store
from . import agents
from .places import begun_in, checked_root, kept_in
from .render import Screen
from .settings import Settings, copy_file, settings_file
from .text import safe
from .turns import library_agent, model_of, plan, reader, resume, run, store_of
from .watching import EXIT_CODES

__all__ = ["check", "delete", "evaluate", "export", "fork", "history", "plan", "resume", "run", "show", "threads"]


def threads(options: argparse.Namespace) -> int:
    """List what is kept."""
    with closing(kept_in(options)) as store:
        Screen().threads(reader(store).threads())
    return 0


def show(options: argparse.Namespace) -> int:
    """Print a thread."""
    with closing(_store(options)) as store:
        state = reader(store).get_state(options.thread, subagents=True)
    Screen().transcript(options.thread, state, whole=options.subagents)
    return 0


def history(options: argparse.Namespace) -> int:
    """List the boundaries of a thread."""
    with closing(kept_in(options)) as store:
        Screen().history(reader(store).history(options.thread))
    return 0


def fork(options: argparse.Namespace) -> int:
    """Begin a thread as another one was; what it runs with is in the log that is copied."""
    name = checked_thread_id(uuid.uuid4().hex[:8] if options.name is None else options.name)
    with closing(_store(options)) as store:
        reader(store).fork(options.thread, at=options.at, thread_id=name)
        copy_file(getattr(store, "directory", None), options.thread, name)
    Screen().line(safe(name))
    return 0


def export(options: argparse.Namespace) -> int:
    """Print a thread for other programs."""
    screen = Screen()
    with closing(kept_in(options)) as store:
        for line in reader(store).export(options.thread):
            screen.line(line)
    return 0


def delete(options: argparse.Namespace) -> int:
    """Remove a thread."""
    with closing(kept_in(options)) as store:
        reader(store).delete(options.thread)
        settings_file(store.directory, options.thread).unlink(missing_ok=True)
    return 0


def check(options: argparse.Namespace) -> int:
    """Read all that is kept, and name what is damaged."""
    with closing(kept_in(options)) as store:
        if not (store.directory / "cache.db").is_file():
            raise ConfigError(f"there are no threads in {str(store.directory)!r}")
        damages = store.verify()
        counts = (len(store.keys(f"{kind}/", f"{kind}0")) for kind in ("head", "log"))
        Screen().damages(damages, *counts)
    return EXIT_CODES["failed" if damages else "ended"]


def evaluate(options: argparse.Namespace) -> int:
    """Run a golden set; the threads of its cases are kept."""
    from ..evals import (
        evaluate as evaluated,  # Here, for no other command needs it.
        load,
    )

    goldens, junit = load(options.file), options.junit
    if junit and not junit.absolute().parent.is_dir():
        raise ConfigError(f"--junit {str(junit)!r} is in no folder that is there; make it first")
    with closing(begun_in(options)) as store:
        begun = Settings(model_of(options.model), str(checked_root(options.root)), command="plan")
        blueprint = agents.blueprint(begun, store)
        report = asyncio.run(evaluated(blueprint, goldens, concurrency=options.concurrency))
    Screen().line(safe(report.table()))
    if junit:
        junit.write_text(report.junit(), encoding="utf-8")
    return EXIT_CODES["ended" if report.passed else "failed"]


def _store(options: argparse.Namespace) -> Store:
    """Where the threads are that a command looks for, or those of the agent of `--agent`."""
    return store_of(library_agent(options, kept_in)) if options.agent else kept_in(options)
