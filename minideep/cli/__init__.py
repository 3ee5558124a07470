"""The terminal: `minideep run`, `plan` and `resume`, and the commands that show, fork, check and delete threads."""

import argparse
import asyncio
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..errors import ConfigError, MinideepError, UnknownThread
from .text import LogLines, aside, resume_command

FAILED, USAGE, CANCELLED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code.

    0 ended, 1 failed (`eval`: a case failed or was not run, or is worse than in `--baseline`; `check`: something is
    damaged), 2 usage, 3 paused or escalated, 4 exhausted, 130 cancelled.
    """
    for stream in ("stdout", "stderr"):
        if getattr(sys, stream) is None:  # The process was started with this descriptor closed.
            setattr(sys, stream, Path(os.devnull).open("w"))  # noqa: SIM115
    options = parser().parse_args(argv)
    logging.lastResort = LogLines()  # Python's own prints tracebacks, and control characters that a model wrote.
    try:
        from . import commands
    except ModuleNotFoundError as exc:
        return _fail(f"the terminal needs {exc.name!r}: pip install 'minideep[cli]'", USAGE)
    try:
        return getattr(commands, options.command)(options)
    except UnknownThread:
        places = "`minideep threads` lists all of them, --root or --state selects another place"
        return _fail(f"no thread {options.thread!r} here; {places}", USAGE)
    except ConfigError as exc:
        return _fail(str(exc), USAGE)
    except MinideepError as exc:
        return _fail(f"{type(exc).__name__}: {exc}", FAILED)
    except (KeyboardInterrupt, asyncio.CancelledError):
        again = f"; resume with `{resume_command(options)}`" if getattr(options, "thread", None) else ""
        return _fail(f"cancelled{again}", CANCELLED)
    except OSError as exc:
        # Python flushes the rest when it ends, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(exc, BrokenPipeError):  # The reader, such as `head`, has seen enough.
            return FAILED
        return _fail(f"cannot write the output: {exc}", FAILED)


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="minideep", description="Deep agents on one loop whose every cost is visible.")
    top.add_argument("-V", "--version", action="version", version=f"minideep {__version__}", help="print the version")
    commands = top.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, (summary, options) in _COMMANDS.items():
        command = commands.add_parser(name, help=summary, description=f"{summary[0].upper()}{summary[1:]}.")
        for option in options.split():
            command.add_argument(option.partition("=")[0], **_OPTIONS[option])
        root = f"{_ROOTS.get(name, 'the folder whose threads to use')} (default: the current one)"
        command.add_argument("--root", type=Path, metavar="DIR", help=root)
        state = _STATES.get(name, "the folder that keeps threads (default: a private one per root)")
        command.add_argument("--state", type=Path, metavar="DIR", help=state)
    commands.choices["plan"].set_defaults(agent=None)
    commands.choices["eval"].set_defaults(command="evaluate")
    decision = commands.choices["resume"].add_mutually_exclusive_group()
    decision.add_argument("--approve", action="store_true", help="approve every pending call")
    decision.add_argument("--reject", metavar="REASON", help="reject every pending call, with a reason")
    decision.add_argument("--respond", metavar="TEXT", help="answer every pending call or question yourself")
    decision.add_argument(
        "--plan", type=Path, metavar="FILE", help="replace the pending plan by a JSON file, and run it"
    )
    return top


def _amount(text: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = 0.0
    if not 0 < amount < 10**9:
        raise argparse.ArgumentTypeError(f"must be a number above 0, not {text[:20]!r}")
    return amount


def _positive(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to 1,000,000,000, not {text[:20]!r}")
    return int(text)


_TURN = "goal --model --thread --drop-waiting --limit-steps --json"
_COMMANDS = {
    "run": ("let an agent work on a goal, in a folder of files", f"{_TURN} --yes --permissions --agent"),
    "plan": ("plan a goal, let subagents do it, and judge the result", f"{_TURN} --approve"),
    "resume": (
        "resume a paused, failed, cancelled or interrupted turn",
        "thread --model --limit-steps --json --yes --permissions --agent",
    ),
    "eval": (
        "run a golden set with the stock blueprint or an agent of your own, or --behaviours with a model; exit with 1 "
        "if a case fails",
        "file --behaviours --from --agent=MODULE:NAME --model --repeat --budget --timeout --concurrency "
        "--json=OUT.json --junit --baseline",
    ),
    "threads": ("list the threads, most recently used first", ""),
    "show": ("print the messages of a thread", "thread --subagents --agent"),
    "history": ("list the boundaries of a thread, where its turns ended or paused", "thread"),
    "costs": ("show where the time, bytes, tokens and money of a thread went", "thread --turn --last --json"),
    "fork": ("start a new thread as a copy of another one", "thread --at --name --agent"),
    "export": ("print all messages of a thread and its subagents as lines of JSON", "thread --events"),
    "replay": (
        "run a thread again, in memory, with another model or an agent that has changed; show both runs",
        "thread --model --others --at=N --json=LINE --yes --agent",
    ),
    "files": ("list what a thread has delivered, or write it into a folder", "thread --out"),
    "delete": ("delete a thread with its subagents and files", "thread"),
    "check": ("read everything that is kept and report damage; exit with 1 if there is any", ""),
}
"""Each command with its summary and its options."""
_ROOTS = {
    "run": "the folder it may read and write",
    "plan": "the folder it may read",
    "eval": "the folder it may read",
    "resume": "the folder whose threads to use, and to work on",
    "replay": "the folder whose threads to use, and to read",
}
_STATES = {"eval": "the folder in which to keep the threads of the cases (default: they are not kept)"}
_FLAG = "store_true"
_OPTIONS: dict[str, dict[str, Any]] = {
    "goal": {"help": "the task"},
    "thread": {"help": "the id of the thread"},
    "file": {"type": Path, "nargs": "?", "help": "the golden set: JSON, one golden a line, or a YAML list"},
    "--model": {"help": "provider:model, such as anthropic:claude-sonnet-4-6 or offline:"},
    "--thread": {"help": "the thread to continue or to start (default: a new one)"},
    "--drop-waiting": {"action": _FLAG, "help": "continue a thread that waits for you, and drop the pending calls"},
    "--limit-steps": {
        "type": _positive,
        "metavar": "N",
        "help": "the most model replies of a run (default: the thread's own limit, or 100)",
    },
    "--from": {"nargs": "+", "dest": "threads", "metavar": "THREAD", "help": "print the goldens of threads instead"},
    "--events": {"action": _FLAG, "help": "print all events instead, to be run again by `minideep.testing.recorded`"},
    "--others": {
        "choices": ("refuse", "run"),
        "default": "refuse",
        "help": "calls that were not made before with the same arguments: refuse them, or run them (default: refuse)",
    },
    "--at=N": {"type": _positive, "metavar": "N", "help": "leave out what came after boundary N of `history`"},
    "--json=LINE": {"action": _FLAG, "help": "print both runs as a line of JSON"},
    "--json": {"action": _FLAG, "help": "print each event as a line of JSON"},
    "--approve": {
        "action": argparse.BooleanOptionalAction,
        "help": "show each plan and wait for `resume --approve` (default: the thread's own setting, or no)",
    },
    "--permissions": {
        "choices": ("default", "ask", "read-only"),
        "help": "ask before every change of a file, or change none (default: the thread's own setting, or only the "
        "guard of your own files)",
    },
    "--yes": {"action": _FLAG, "help": "change and delete your files without asking (never what is in .git)"},
    "--agent": {"metavar": "MODULE:NAME", "help": "an agent of your own: an Agent, or a function that returns one"},
    "--agent=MODULE:NAME": {
        "metavar": "MODULE:NAME",
        "help": "an agent of your own: an Agent, or a function that returns one, without arguments or for a golden",
    },
    "--behaviours": {
        "nargs": "*",
        "metavar": "TASK",
        "help": "instead of a golden set: tasks that show how a model behaves, all or those named; without a model, "
        "scripts of right and wrong behaviour",
    },
    "--repeat": {"type": _positive, "default": 1, "metavar": "N", "help": "runs of each golden (default: 1)"},
    "--budget": {
        "type": _amount,
        "metavar": "DOLLARS",
        "help": "begin no further case once that much is spent, or a cost is unknown (default: no limit)",
    },
    "--timeout": {"type": _amount, "metavar": "SECONDS", "help": "the time of a case (default: no limit)"},
    "--json=OUT.json": {"type": Path, "metavar": "OUT.json", "help": "also write the report as JSON"},
    "--baseline": {
        "type": Path,
        "metavar": "OLD.json",
        "help": "compare with the report that --json wrote; exit with 1 only if something is worse",
    },
    "--junit": {"type": Path, "metavar": "OUT.xml", "help": "also write the results as JUnit XML"},
    "--concurrency": {"type": _positive, "default": 1, "metavar": "N", "help": "cases at a time (default: 1)"},
    "--subagents": {"action": _FLAG, "help": "also print the messages of its subagents"},
    "--at": {"type": _positive, "metavar": "N", "help": "copy up to boundary N of `history` (default: everything)"},
    "--turn": {
        "type": _positive,
        "metavar": "N",
        "help": "the turn to show by step and subagent (default: the newest)",
    },
    "--last": {"type": _positive, "metavar": "N", "help": "how many turns to list (default: 10; with --json, all)"},
    "--out": {"type": Path, "metavar": "DIR", "help": "write the files there; nothing that is there is changed"},
    "--name": {"help": "the id of the new thread (default: a new one, which is printed)"},
}
"""The options as `add_argument` takes them, by name. What stands behind a `=` tells apart those of one name."""


def _fail(problem: str, code: int) -> int:
    aside(" ".join(problem.split("\n")))
    return code
