"""The stock assertions: those that apply to every turn, and those that compare a turn with its golden."""

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import PurePosixPath

from ..blueprint import STATE_LIMIT_BYTES
from ..checks import checked
from ..messages import Message
from ..middleware import refusals
from ..ports import Request
from .trajectory import Assertion, Trajectory

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
def roles_are_themselves(trajectory: Trajectory) -> str | None:
    """Each request of a role has that role's exact prompt, one user message, and the role's own tool calls after it.

    It contains no text of the planner, of reflection or of another run.
    """
    for role, request in _delegated(trajectory):
        if request.system != trajectory.roles[role].prompt:
            sizes = f"{len(request.system):,} characters instead of {len(trajectory.roles[role].prompt):,}"
            return f"{role}: its system text is not its prompt: {sizes}, beginning {request.system[:MAX_QUOTED]!r}"
    return next(chain(_leaks(trajectory), _foreign_messages(trajectory)), None)


@checked
def ends_honestly(trajectory: Trajectory) -> str | None:
    """The turn ended with an answer because reflection decided so, or it asks a question. It did not just stop."""
    turn, decision = trajectory.turn, trajectory.board.decision
    match turn.status:
        case "ended" if trajectory.roles and decision != "end":
            return f"the turn ended without a decision to end; the last decision was {decision!r}"
        case "ended" if turn.reason != "done":
            return f"the turn ended because the last reply was {turn.reason}"
        case "ended":
            return None if turn.text.strip() else "the turn ended with an empty answer"
        case "escalated":
            return None if turn.question.strip() else "the turn escalated without a question"
        case status:
            why = f"{type(turn.error).__name__}: {turn.error}" if turn.error else turn.reason or "it waits for a person"
            return f"expected an answer or a question, but the turn is {status} ({why})"


@checked
def answers_as_expected(trajectory: Trajectory) -> str | None:
    """The answer contains the expected one, ignoring case and white space."""
    expected, answer = trajectory.golden.expected_final_answer, trajectory.turn.text
    if _plain(expected) in _plain(answer):
        return None
    return f"expected {expected[:MAX_QUOTED]!r} in the answer, found {answer[:MAX_QUOTED]!r}"


@checked
def delivers_the_artifacts(trajectory: Trajectory) -> str | None:
    """Every expected artifact was delivered, with the status `done`."""
    there = _delivered(trajectory)
    statuses = {name: there.get(name.lstrip("/"), "missing") for name in trajectory.golden.expected_artifact_set}
    if problems := [f"{name!r} is {status}" for name, status in statuses.items() if status != "done"]:
        return f"{', '.join(problems)}; delivered: {', '.join(map(repr, there)) or 'nothing'}"
    return None


ASSERTIONS: tuple[Assertion, ...] = (
    state_is_small,
    roles_are_themselves,
    ends_honestly,
    answers_as_expected,
    delivers_the_artifacts,
)
"""The stock assertions, which `evaluate` uses by default."""


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())


def _delivered(trajectory: Trajectory) -> dict[str, str]:
    """Return the status of each delivered artifact, by each of its names. The last version counts."""
    there = {name: "done" for path in trajectory.turn.artifacts for name in _names(path)}
    for entry in trajectory.board.ledger:
        if "file" in entry:
            there |= {name: str(entry["status"]) for name in (entry["artifact"], *_names(entry["file"]))}
    return there


def _names(path: str) -> tuple[str, str]:
    return path.lstrip("/"), PurePosixPath(path).name


# ---- requests of roles


def _delegated(trajectory: Trajectory) -> Iterator[tuple[str, Request]]:
    return ((agent, request) for agent, request in trajectory.requests if agent in trajectory.roles)


def _leaks(trajectory: Trajectory) -> Iterator[str]:
    """Yield the places where a role's request contains text of the planner or of reflection."""
    prompts = {request.system for agent, request in trajectory.requests if agent not in trajectory.roles}
    lines = {line for prompt in prompts for line in prompt.splitlines() if len(line) >= MIN_LEAK}
    others = (run for run in trajectory.state.subagents.values() if run.agent not in trajectory.roles)
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
