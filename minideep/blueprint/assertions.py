"""Assertions for evaluations of a blueprint: its state stays small, and its roles see nothing of each other."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ..checks import checked
from ..evals import Assertion, Trajectory
from ..messages import Message
from ..middleware import refusals
from ..ports import Request
from .blueprint import Blueprint
from .files import STATE_LIMIT_BYTES
from .roles import Role

MIN_LEAK = 40
"""Characters of a line or a message; a shorter one may occur in another request by chance."""
MAX_QUOTED = 200
"""Characters of a text that a problem quotes."""


@checked
def state_is_small(trajectory: Trajectory) -> str | None:
    """The state at the end of the turn has less than 500,000 bytes, as the store writes it."""
    if (size := trajectory.state_bytes) < STATE_LIMIT_BYTES:
        return None
    return f"the state has {size:,} bytes at the end, expected less than {STATE_LIMIT_BYTES:,}"


@checked
def ends_by_decision(trajectory: Trajectory) -> str | None:
    """A blueprint's turn that ended did so because reflection decided so."""
    agent, turn = trajectory.agent, trajectory.turn
    if turn.status != "ended" or not isinstance(agent, Blueprint):
        return None
    decision = agent.board(turn.thread_id).decision
    problem = f"the turn ended without a decision to end; the last decision was {decision!r}"
    return None if decision == "end" else problem


@checked
def roles_are_themselves(trajectory: Trajectory) -> str | None:
    """Each request of a role has that role's exact prompt, one user message, and the role's own tool calls after it.

    It contains no text of the planner, of reflection or of another run.
    """
    roles = _roles(trajectory)
    for role, request in _delegated(trajectory):
        if request.system != roles[role].system:
            sizes = f"{len(request.system):,} characters instead of {len(roles[role].system):,}"
            return f"{role}: its system text is not its prompt: {sizes}, beginning {request.system[:MAX_QUOTED]!r}"
    return next(chain(_leaks(trajectory), _foreign_messages(trajectory)), None)


ASSERTIONS: tuple[Assertion, ...] = (state_is_small, ends_by_decision, roles_are_themselves)
"""The assertions about every turn of a blueprint. Turns of other agents pass all but the first."""


def _roles(trajectory: Trajectory) -> Mapping[str, Role]:
    """Return the roles as their author wrote them: the requests are compared with these."""
    agent: Any = trajectory.agent
    return agent.pool.roles if isinstance(agent, Blueprint) else {}


def _delegated(trajectory: Trajectory) -> Iterator[tuple[str, Request]]:
    roles = _roles(trajectory)
    return ((agent, request) for agent, request in trajectory.requests if agent in roles)


def _leaks(trajectory: Trajectory) -> Iterator[str]:
    """Yield the places where a role's request contains text of the planner or of reflection."""
    roles = _roles(trajectory)
    prompts = {request.system for agent, request in trajectory.requests if agent not in roles}
    lines = {line for prompt in prompts for line in prompt.splitlines() if len(line) >= MIN_LEAK}
    others = (run for run in trajectory.state.subagents.values() if run.agent not in roles)
    said = [message.text for run in others for message in run.messages if len(message.text) >= MIN_LEAK]
    for role, request in _delegated(trajectory):
        asked = "\n".join(message.text for message in request.messages if message.role == "user")
        for line in request.system.splitlines():
            if line in lines:
                yield f"{role}: its prompt contains another agent's text: {line[:MAX_QUOTED]!r}"
        for text in said:
            if text in asked:
                yield f"{role}: its message contains another agent's text: {text[:MAX_QUOTED]!r}"


def _foreign_messages(trajectory: Trajectory) -> Iterator[str]:
    """Yield the requests of roles that are neither one user message nor the continuation of an own earlier request."""
    before: dict[str, list[Sequence[Message]]] = {}
    for role, request in _delegated(trajectory):
        messages = list(request.messages)
        spoken = [message.role for message in messages]
        if spoken[:1] != ["user"] or spoken.count("user") != 1 + refusals(messages):
            yield f"{role}: expected one user message, and it first; found {', '.join(spoken) or 'none'}"
        elif len(messages) > 1 and messages[: _last_reply(spoken)] not in before.get(role, []):
            yield f"{role}: its {len(messages)} messages do not continue any of its own requests"
        before.setdefault(role, []).append(messages)


def _last_reply(spoken: Sequence[str]) -> int:
    return max((place for place, role in enumerate(spoken) if role == "assistant"), default=0)
