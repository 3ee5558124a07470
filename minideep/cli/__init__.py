"""The terminal: `minideep run`, `plan`, `resume`, and what shows, forks and deletes threads."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import ConfigError, MinideepError, UnknownThread
from .text import LogLines, aside, resuming

ROOT = "the folder whose threads are meant"
ROOTS = {
    "run": "the folder it may read and write",
    "plan": "the folder it may read",
    "eval": "the folder it may read",
    "resume": f"{ROOT}, and on which the thread goes on",
}
FAILED, USAGE, CANCELLED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 ended, 1 failed (of `eval`: a case did; of `check`: something is damaged), 2 usage, 3 paused or escalated,
    4 exhausted, 130 cancelled.
    """
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # Closed by whoever started us.
            setattr(sys, stream, Path(os.devnull).open("w"))  # noqa: SIM115
    options = parser().parse_args(argv)
    logging.lastResort = LogLines()  # Python's own prints tracebacks, and what a model said as it is.
    try:
        from . import commands
    except ModuleNotFoundError as exc:
        return _say(f"the terminal needs {exc.name!r}: pip install 'minideep[cli]'", USAGE)
    try:
        return getattr(commands, options.command)(options)
    except UnknownThread:
        found = f"there is no thread {options.thread!r} here"
        return _say(f"{found}; `minideep threads` lists those that are, --root or --state names another place", USAGE)
    except ConfigError as exc:
        return _say(str(exc), USAGE)
    except MinideepError as exc:
        return _say(f"{type(exc).__name__}: {exc}", FAILED)
    except (KeyboardInterrupt, asyncio.CancelledError):
        again = resuming(options) if getattr(options, "thread", None) else ""
        return _say(f"cancelled; `{again}` goes on with it" if again else "cancelled", CANCELLED)
    except BrokenPipeError:
        # The reader went away; Python would complain when it flushes what is left.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except OSError as exc:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _say(f"cannot write the output: {exc}", FAILED)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="minideep", description="Deep agents on one loop whose every cost is visible.")
    commands = top.add_subparsers(dest="command", required=True)

    run = commands.add_parser("run", help="give an agent a goal, and files to work on")
    _about_a_turn(run)
    _about_changes(run)
    _about_an_agent(run)
    plan = commands.add_parser("plan", help="have a goal planned, done by subagents, and judged, until it is reached")
    _about_a_turn(plan)
    plan.add_argument(
        "--approve",
        action=argparse.BooleanOptionalAction,
        help="show each plan and wait for `resume --approve` (default: as the thread has it, or no)",
    )
    plan.set_defaults(agent=None)
    _about_resuming(commands.add_parser("resume", help="resume a paused, failed, cancelled or interrupted turn"))
    _evaluation(commands.add_parser("eval", help="run a golden set with the stock blueprint; exits 1 if a case fails"))

    commands.add_parser("threads", help="list the threads, the last used one first")
    show = commands.add_parser("show", help="print what was said in a thread")
    show.add_argument("thread")
    show.add_argument("--subagents", action="store_true", help="print what its subagents said, too")
    _about_an_agent(show)
    commands.add_parser("history", help="list where a thread's turns handed over").add_argument("thread")
    _about_forking(commands.add_parser("fork", help="begin a thread as another one was, and go on from there"))
    export = commands.add_parser("export", help="print all messages of a thread and its subagents as lines of JSON")
    export.add_argument("thread")
    commands.add_parser("delete", help="remove a thread with its subagents and files").add_argument("thread")
    commands.add_parser("check", help="read all that is kept, and name what is damaged; exits 1 if anything is")
    for name, command in commands.choices.items():
        command.add_argument("--root", type=Path, metavar="DIR", help=f"{ROOTS.get(name, ROOT)} (default: this one)")
        command.add_argument(
            "--state", type=Path, metavar="DIR", help="where threads are kept (default: a private folder for each root)"
        )
    return top


def _about_a_turn(command: argparse.ArgumentParser) -> None:
    command.add_argument("goal", help="what is to be done")
    _about_the_model(command)
    command.add_argument("--thread", help="the thread to go on with, or to begin (default: a new one)")
    command.add_argument(
        "--drop-waiting", action="store_true", help="go on with a thread that waits for you, without what waits"
    )
    _about_steps_and_output(command)


def _about_the_model(command: argparse.ArgumentParser) -> None:
    command.add_argument("--model", help="provider:model, such as anthropic:claude-sonnet-4-6 or offline:")


def _about_steps_and_output(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--limit-steps", type=_positive, metavar="N", help="model replies a run (default: as the thread has it, or 100)"
    )
    command.add_argument("--json", action="store_true", help="print one event a line, as JSON")


def _about_changes(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--yes", action="store_true", help="let it change and delete your files without asking (never what is in .git)"
    )


def _about_an_agent(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--agent", metavar="MODULE:NAME", help="an agent of your own: an Agent, or a function that returns one"
    )


def _about_resuming(command: argparse.ArgumentParser) -> None:
    command.add_argument("thread")
    decision = command.add_mutually_exclusive_group()
    decision.add_argument("--approve", action="store_true", help="let everything run that waits for you")
    decision.add_argument("--reject", metavar="REASON", help="let nothing of it run, and say why")
    decision.add_argument("--plan", type=Path, metavar="FILE", help="let the plan that waits run as FILE has it, JSON")
    _about_the_model(command)
    _about_steps_and_output(command)
    _about_changes(command)
    _about_an_agent(command)


def _about_forking(command: argparse.ArgumentParser) -> None:
    command.add_argument("thread")
    command.add_argument(
        "--at", type=_positive, metavar="N", help="at the boundary N of `history` (default: as it is now)"
    )
    command.add_argument("--name", help="the id of the new thread (default: a new one, which is printed)")
    _about_an_agent(command)


def _evaluation(command: argparse.ArgumentParser) -> None:
    command.set_defaults(command="evaluate")
    command.add_argument("file", type=Path, help="JSON lines: goal, expected_final_answer, expected_artifact_set")
    _about_the_model(command)
    command.add_argument("--junit", type=Path, metavar="OUT.xml", help="write the results as JUnit XML, too")
    command.add_argument("--concurrency", type=_positive, default=1, metavar="N", help="cases at a time (1)")


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 1,000,000,000, not {text[:20]!r}")
    return int(text)


def _say(problem: str, code: int) -> int:
    aside(" ".join(problem.split("\n")))
    return code
