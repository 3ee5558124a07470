"""What each command does."""

import argparse
import asyncio
import os
import sys
import uuid
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import msgspec
from msgspec import Struct

from ..agent import Agent, checked_thread_id
from ..backends.filesystem import FilesystemBackend
from ..checkpoint.disk import DiskCheckpointer
from ..deep_agent import create_deep_agent
from ..errors import CheckpointError, ConfigError
from ..export import event_json, json_line
from ..messages import as_message
from ..state import Approve, Decision, Edit, Interrupt, Limits, Reject
from ..stream import Stream
from .blueprints import blueprint_of
from .render import Screen

EXIT_CODES = {"ended": 0, "failed": 1, "paused": 3, "escalated": 3, "exhausted": 4, "cancelled": 130}

KEYS = {"ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-6", "OPENAI_API_KEY": "openai:gpt-5"}
"""The model that is used when only a key says which."""


class Settings(Struct):
    """How a thread is run, remembered beside it so that `resume THREAD` needs nothing else."""

    model: str
    root: str
    limit_steps: int
    command: str = "run"
    approve: bool = False


def run(options: argparse.Namespace) -> int:
    """Begin a thread or go on with one: one turn."""
    as_message(options.goal)
    thread = options.thread = checked_thread_id(uuid.uuid4().hex[:8] if options.thread is None else options.thread)
    root, approve = str(options.root.resolve()), getattr(options, "approve", False)
    settings = Settings(_model(options.model), root, options.limit_steps, options.command, approve)
    with closing(DiskCheckpointer(options.state)) as store:
        agent = _agent(settings, store)
        _remember(options.state, thread, settings)
        return asyncio.run(_watch(agent.stream(options.goal, thread), thread, options))


plan = run


def resume(options: argparse.Namespace) -> int:
    """Go on with a turn that did not end."""
    with closing(DiskCheckpointer(options.state)) as store:
        agent = _agent(_remembered(options.state, options.thread), store)
        state = agent.get_state(options.thread)  # Unknown threads are refused before anything is shown.
        decisions = {"/".join((*wait.path, wait.call_id)): _decision(wait, options) for wait in state.interrupts}
        if not decisions and (options.approve or options.reject is not None or options.plan):
            raise ConfigError(f"nothing of thread {options.thread!r} waits for a decision; it is {state.status}")
        given = {waiting: decision for waiting, decision in decisions.items() if decision is not None}
        return asyncio.run(_watch(agent.resume_stream(options.thread, given), options.thread, options))


def _decision(wait: Interrupt, options: argparse.Namespace) -> Decision | None:
    """What the person who resumes has decided about a call that waits."""
    if options.reject is not None:
        return Reject(options.reject)
    if options.plan is None:
        return Approve() if options.approve else None
    if "plan" not in wait.call.args:
        raise ConfigError(f"{wait.call.name} waits, which is no plan: use --approve or --reject")
    try:
        return Edit({"plan": msgspec.json.decode(options.plan.read_bytes())})
    except (OSError, msgspec.DecodeError) as exc:
        raise ConfigError(f"{str(options.plan)!r} cannot be read as a plan: {exc}") from None


def threads(options: argparse.Namespace) -> int:
    """List what is kept."""
    with closing(DiskCheckpointer(options.state)) as store:
        Screen().threads(_reader(store).threads())
    return 0


def show(options: argparse.Namespace) -> int:
    """Print a thread."""
    with closing(DiskCheckpointer(options.state)) as store:
        state = _reader(store).get_state(options.thread, subagents=True)
    Screen().transcript(options.thread, state, whole=options.subagents)
    return 0


def history(options: argparse.Namespace) -> int:
    """List the boundaries of a thread."""
    with closing(DiskCheckpointer(options.state)) as store:
        Screen().history(_reader(store).history(options.thread))
    return 0


def fork(options: argparse.Namespace) -> int:
    """Begin a thread as another one was, run as that one is."""
    settings = _remembered(options.state, options.thread)
    name = checked_thread_id(uuid.uuid4().hex[:8] if options.name is None else options.name)
    with closing(DiskCheckpointer(options.state)) as store:
        _reader(store).fork(options.thread, at=options.at, thread_id=name)
    _remember(options.state, name, settings)
    Screen().line(name)
    return 0


def export(options: argparse.Namespace) -> int:
    """Print a thread for other programs."""
    screen = Screen()
    with closing(DiskCheckpointer(options.state)) as store:
        for line in _reader(store).export(options.thread):
            screen.line(line)
    return 0


def delete(options: argparse.Namespace) -> int:
    """Remove a thread, and how it was run."""
    with closing(DiskCheckpointer(options.state)) as store:
        _reader(store).delete(options.thread)
    _settings_file(options.state, options.thread).unlink(missing_ok=True)
    return 0


def check(options: argparse.Namespace) -> int:
    """Read all that is kept, and name what is damaged."""
    with closing(DiskCheckpointer(options.state)) as store:
        damages = store.verify()
        counts = (len(store.keys(f"{kind}/", f"{kind}0")) for kind in ("head", "log"))
        Screen().damages(damages, *counts)
    return EXIT_CODES["failed" if damages else "ended"]


def evaluate(options: argparse.Namespace) -> int:
    """Run a golden set; the threads of its cases are kept."""
    from ..evals import evaluate as evaluated  # Here, for no other command needs it.
    from ..evals import load

    goldens, junit = load(options.file), options.junit
    if junit and not junit.absolute().parent.is_dir():
        raise ConfigError(f"--junit {str(junit)!r} is in no folder that is there; make it first")
    with closing(DiskCheckpointer(options.state)) as store:
        blueprint = blueprint_of(_model(options.model), options.root, store)
        report = asyncio.run(evaluated(blueprint, goldens, concurrency=options.concurrency))
    Screen().line(report.table())
    if junit:
        junit.write_text(report.junit(), encoding="utf-8")
    return EXIT_CODES["ended" if report.passed else "failed"]


async def _watch(stream: Stream, thread: str, options: argparse.Namespace) -> int:
    screen = Screen()
    screen.begin(thread, quiet=options.json)
    async for event in stream:
        if options.json:
            screen.line(json_line(event_json(event)))
        else:
            screen.event(event)
    turn = stream.turn
    assert turn is not None  # The stream came to its end.
    if options.json:
        screen.line(json_line(event_json(turn)))
    else:
        screen.turn(turn)
    return EXIT_CODES[turn.status]


def _agent(settings: Settings, store: DiskCheckpointer) -> Agent:
    if settings.command == "plan":
        steps, approve = settings.limit_steps, settings.approve
        return blueprint_of(settings.model, settings.root, store, steps=steps, approve_plan=approve)
    return create_deep_agent(
        settings.model,
        backend=FilesystemBackend(settings.root),
        limits=Limits(steps=settings.limit_steps),
        checkpointer=store,
    )


def _reader(store: DiskCheckpointer) -> Agent:
    """An agent that is only asked what the store holds."""
    return Agent("offline:", checkpointer=store)


def _model(asked: str | None) -> str:
    """The model that was asked for, or the one that a key in the environment allows, or the stand-in."""
    if asked:
        return asked
    for key, model in KEYS.items():
        if os.environ.get(key):
            return model
    Screen.aside(f"no --model and no {' or '.join(KEYS)}: using offline:, a stand-in that is no language model")
    return "offline:"


def _settings_file(state: Path, thread: str) -> Path:
    name = quote(thread, safe="")
    return state / "settings" / f"{name if len(name) < 200 else sha256(name.encode()).hexdigest()}.json"


def _remember(state: Path, thread: str, settings: Settings) -> None:
    """Keep how the thread is run. A state directory that cannot be written to is reported by the turn itself."""
    file = _settings_file(state, thread)
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.parent.mkdir(exist_ok=True)
        partial = file.with_suffix(f".{os.getpid()}.part")
        partial.write_bytes(msgspec.json.encode(settings))
        partial.replace(file)
    except OSError as exc:
        print(f"minideep: this thread will not be kept: {exc}", file=sys.stderr)  # noqa: T201


def _remembered(state: Path, thread: str) -> Settings:
    try:
        return msgspec.json.decode(_settings_file(state, thread).read_bytes(), type=Settings)
    except FileNotFoundError:
        raise ConfigError(f"no thread {thread!r} in {str(state)!r}; `minideep threads` lists them") from None
    except (OSError, msgspec.DecodeError) as exc:
        raise CheckpointError(f"the settings of thread {thread!r} cannot be read: {exc}") from exc
