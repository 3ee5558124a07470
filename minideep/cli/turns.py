"""`run`, `plan` and `resume`: start a turn of a thread, or resume one with the settings in its log."""

import argparse
import os
import shlex
import sys
import uuid
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from .. import Agent, Approve, Edit, Interrupt, MemoryCheckpointer, Reject, Respond, State
from ..checkpoint import finish_work, wait_for
from ..content import checked_message
from ..errors import ConfigError, UnknownThread
from ..models import begin_imports, resolve
from ..ports import Store
from ..runtime import checked_thread_id
from ..state import Decision
from . import agents
from .approval import AskBeforeChanges, created_by
from .places import checked_root, existing_store, writable_store
from .prompt import is_interactive
from .session import Session, watch
from .settings import Settings, of_thread, recorded, with_flags
from .text import aside, resume_command

KEYS = {"ANTHROPIC_API_KEY": "anthropic:claude-sonnet-4-6", "OPENAI_API_KEY": "openai:gpt-5"}
"""The model to use if no option names one, by the key in the environment."""


def run(options: argparse.Namespace) -> int:
    """Run one turn of a new or an existing thread."""
    checked_message(options.goal)
    is_new = options.thread is None
    options.thread = checked_thread_id(uuid.uuid4().hex[:8] if is_new else options.thread)
    with opened(options, writable_store) as (agent, store):
        state = None if is_new else _stored(store, options.thread)
        session = _session(agent, state, store, options, options.goal)
        if state is not None and state.status == "paused" and not options.drop_waiting:
            raise ConfigError(
                f"thread {options.thread!r} waits for your decision: `{resume_command(options)} --approve` or "
                "`--reject REASON`; --drop-waiting drops the pending calls and continues with your message"
            )
        return watch(session, session.agent.stream(options.goal, options.thread), options)


plan = run


def resume(options: argparse.Namespace) -> int:
    """Resume a turn that did not end."""
    with opened(options, existing_store) as (agent, store):
        state = reader(store).get_state(options.thread, subagents=True)
        session = _session(agent, state, store, options, state.said.text if state.said else "")
        decisions = {"/".join((*wait.path, wait.call_id)): _decision(wait, options) for wait in state.interrupts}
        if not decisions and (options.approve or options.plan or {options.reject, options.respond} != {None}):
            raise ConfigError(
                f"no call of thread {options.thread!r} waits for a decision; its status is {state.status!r}"
            )
        given = {waiting: decision for waiting, decision in decisions.items() if decision is not None}
        return watch(session, session.agent.resume_stream(options.thread, given), options)


def _decision(wait: Interrupt, options: argparse.Namespace) -> Decision | None:
    """Return the decision about a pending call that the options state, if any."""
    if options.reject is not None:
        return Reject(options.reject)
    if options.respond is not None:
        return Respond(options.respond)
    if options.plan is None:
        return Approve() if options.approve else None
    if "plan" not in wait.call.args:
        raise ConfigError(f"the pending call is {wait.call.name}, not a plan; use --approve or --reject")
    try:
        return Edit({"plan": msgspec.json.decode(options.plan.read_bytes())})
    except (OSError, msgspec.DecodeError) as exc:
        raise ConfigError(f"{str(options.plan)!r} cannot be read as a plan: {exc}") from None


def _session(agent: Agent | None, state: State | None, store: Store, options: argparse.Namespace, goal: str) -> Session:
    """Return the session of the *agent* of `--agent`, or of the one that the thread's settings describe."""
    kept = not isinstance(store, MemoryCheckpointer)
    if agent is not None:
        if state is not None and recorded(state) is not None:
            raise ConfigError(f"thread {options.thread!r} belongs to this command's own agent; omit --agent")
        begin_imports(agent.spec.model)
        return Session(agent, f"agent {options.agent}", kept=kept)
    found = _settings(state, store, options)
    begin_imports(resolve(found.model))  # While the agent is built, and the person is asked.
    if found.command == "plan":
        return Session(agents.blueprint(found, store), str(found), kept=kept)
    guard = AskBeforeChanges(
        Path(found.root),
        goal,
        created=created_by(state) if state else (),
        allowed=options.yes,
        can_ask=is_interactive(sys.stdin, sys.stderr),
        refused=aside,
    )
    return Session(agents.deep_agent(found, store, guard), str(found), guard, kept=kept)


def _settings(state: State | None, store: Store, options: argparse.Namespace) -> Settings:
    """Return the settings of a turn. A thread stays with the command that started it.

    Raises:
        ConfigError: the thread was started by another command, or by another program.
    """
    if state is None:
        new = Settings(model_of(options.model), str(checked_root(options.root)), command=options.command)
        return with_flags(new, options)
    found = of_thread(state, getattr(store, "directory", None), options.thread, options)
    if options.command not in ("resume", found.command):
        raise ConfigError(
            f"thread {options.thread!r} was started by `minideep {found.command}`; "
            f"continue it with `minideep {found.command} GOAL --thread {shlex.quote(options.thread)}`"
        )
    return found


@contextmanager
def opened(
    options: argparse.Namespace, open_store: Callable[[argparse.Namespace], Store]
) -> Generator[tuple[Agent | None, Store]]:
    """Yield the agent of `--agent`, if one is named, and the store of the command, which is closed at the end.

    The agent keeps its own checkpointer, unless it has none or `--state` names another.

    Raises:
        ConfigError: it is not an agent, or a flag applies to this command's own agents only.
    """
    agent = _library_agent(options) if options.agent else None
    own = agent.checkpointer if agent is not None and options.state is None else None
    store = open_store(options) if own is None else own
    try:
        if agent is not None:
            agent.checkpointer = store
        yield agent, store
    finally:
        finish_work(store)
        wait_for(store, store.aclose)


def _library_agent(options: argparse.Namespace) -> Agent:
    for flag in ("model", "limit_steps", "yes", "permissions"):
        if getattr(options, flag, None):
            name = flag.replace("_", "-")
            raise ConfigError(f"--{name} applies to this command's own agents only; omit it, or omit --agent")
    return agents.imported(options.agent)


def reader(store: Store) -> Agent:
    """Return an agent that only reads the store."""
    return Agent("offline:", checkpointer=store)


def _stored(store: Store, thread: str) -> State | None:
    """Return the state of a thread with those of its subagents, or None if it does not exist."""
    try:
        return reader(store).get_state(thread, subagents=True)
    except UnknownThread:
        return None


def model_of(asked: str | None) -> str:
    """Return the model named by an option, else the one for a key in the environment.

    Without either, a person at a terminal gets a model of this machine, if there is one; else it is the stand-in.
    """
    if asked:
        return asked
    for key, model in KEYS.items():
        if os.environ.get(key):
            return model
    reason, looked = f"no --model and no {' or '.join(KEYS)}", ""
    if is_interactive(sys.stdin, sys.stdout):
        from . import discovery  # Here, because most commands need no model or are told which.

        if found := discovery.find(discovery.here()):
            aside(f"{reason}: using {found.model}, which can call tools, of {found.where}")
            return found.model
        looked = "; neither Ollama nor LM Studio has a model here that can call tools"
    aside(f"{reason}: using offline:, a stand-in without a language model{looked}")
    return "offline:"
