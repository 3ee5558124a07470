"""`run`, `plan` and `resume`: a turn of a thread, begun or gone on with as its log says."""

import argparse
import os
import shlex
import uuid
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import msgspec

from ..agent import Agent, checked_thread_id
from ..checkpoint import MemoryCheckpointer
from ..errors import ConfigError, UnknownThread
from ..messages import as_message
from ..ports import Store
from ..state import Approve, Decision, Edit, Interrupt, Reject, State
from . import agents
from .asking import AskBeforeChanges, created_by
from .places import begun_in, checked_root, kept_in
from .prompt import somebody_is_there
from .settings import Settings, of_thread, recorded, with_flags
from .text import aside, resuming
from .watching import Session, watch

KEYS = {"ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-6", "OPENAI_API_KEY": "openai:gpt-5"}
"""The model that is used when only a key says which."""


def run(options: argparse.Namespace) -> int:
    """Begin a thread or go on with one: one turn."""
    as_message(options.goal)
    is_new = options.thread is None
    options.thread = checked_thread_id(uuid.uuid4().hex[:8] if is_new else options.thread)
    agent = library_agent(options, begun_in) if options.agent else None
    with closing(store_of(agent) if agent else begun_in(options)) as store:
        state = None if is_new else _stored(store, options.thread)
        session = _session(agent, state, store, options, options.goal)
        if state is not None and state.status == "paused" and not options.drop_waiting:
            raise ConfigError(
                f"thread {options.thread!r} waits for your decision: `{resuming(options)} --approve` or "
                "`--reject REASON`; with --drop-waiting the calls that wait are not done, and your message goes on"
            )
        return watch(session, session.agent.stream(options.goal, options.thread), options)


plan = run


def resume(options: argparse.Namespace) -> int:
    """Go on with a turn that did not end."""
    agent = library_agent(options, kept_in) if options.agent else None
    with closing(store_of(agent) if agent else kept_in(options)) as store:
        state = reader(store).get_state(options.thread, subagents=True)
        session = _session(agent, state, store, options, state.said.text if state.said else "")
        decisions = {"/".join((*wait.path, wait.call_id)): _decision(wait, options) for wait in state.interrupts}
        if not decisions and (options.approve or options.reject is not None or options.plan):
            raise ConfigError(f"nothing of thread {options.thread!r} waits for a decision; it is {state.status}")
        given = {waiting: decision for waiting, decision in decisions.items() if decision is not None}
        return watch(session, session.agent.resume_stream(options.thread, given), options)


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


def _session(agent: Agent | None, state: State | None, store: Store, options: argparse.Namespace, goal: str) -> Session:
    """Who runs the thread: the *agent* of `--agent`, or the one that the thread's settings describe."""
    kept = not isinstance(store, MemoryCheckpointer)
    if agent is not None:
        if state is not None and recorded(state) is not None:
            raise ConfigError(f"thread {options.thread!r} is one of this command's own agents; leave --agent out")
        return Session(agent, f"agent {options.agent}", kept=kept)
    found = _settings(state, store, options)
    if found.command == "plan":
        return Session(agents.blueprint(found, store), str(found), kept=kept)
    asking = AskBeforeChanges(
        Path(found.root),
        goal,
        created=created_by(state) if state else (),
        allowed=options.yes,
        can_ask=somebody_is_there(),
        refused=aside,
    )
    return Session(agents.deep_agent(found, store, asking), str(found), asking, kept=kept)


def _settings(state: State | None, store: Store, options: argparse.Namespace) -> Settings:
    """What a turn runs with. A thread goes on as what it was begun.

    Raises:
        ConfigError: it was begun by another command, or by an agent of a program.
    """
    if state is None:
        begun = Settings(model_of(options.model), str(checked_root(options.root)), command=options.command)
        return with_flags(begun, options)
    found = of_thread(state, getattr(store, "directory", None), options.thread, options)
    if options.command not in ("resume", found.command):
        raise ConfigError(
            f"thread {options.thread!r} is one of `minideep {found.command}`: "
            f"`minideep {found.command} GOAL --thread {shlex.quote(options.thread)}` goes on with it"
        )
    return found


def library_agent(options: argparse.Namespace, opened: Callable[[argparse.Namespace], Store]) -> Agent:
    """The agent of `--agent`, with its own checkpointer, or with the store that is *opened* where it has none or
    `--state` names another.

    Raises:
        ConfigError: it is no agent, or a flag is given that is about this command's own agents.
    """
    for flag in ("model", "limit_steps", "yes"):
        if getattr(options, flag, None):
            name = flag.replace("_", "-")
            raise ConfigError(f"--{name} is for this command's own agents; the one of --agent says that itself")
    agent = agents.imported(options.agent)
    if agent.checkpointer is None or options.state is not None:
        agent.checkpointer = opened(options)
    return agent


def store_of(agent: Agent) -> Store:
    """Where the agent keeps its threads."""
    assert agent.checkpointer is not None  # `library_agent` sees to it.
    return agent.checkpointer


def reader(store: Store) -> Agent:
    """An agent that is only asked what the store holds."""
    return Agent("offline:", checkpointer=store)


def _stored(store: Store, thread: str) -> State | None:
    """A thread's state with its subagents', or None if there is no such thread."""
    try:
        return reader(store).get_state(thread, subagents=True)
    except UnknownThread:
        return None


def model_of(asked: str | None) -> str:
    """The model that was asked for, or the one that a key in the environment allows, or the stand-in."""
    if asked:
        return asked
    for key, model in KEYS.items():
        if os.environ.get(key):
            return model
    aside(f"no --model and no {' or '.join(KEYS)}: using offline:, a stand-in that is no language model")
    return "offline:"
