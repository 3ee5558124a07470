"""`Replay`: a recorded thread and the one that it was run again as, side by side."""

import json
from bisect import bisect_left
from collections.abc import Iterator
from difflib import SequenceMatcher
from itertools import chain
from operator import attrgetter, itemgetter
from typing import Any, TypeVar

from msgspec import Struct, field

from ..checkpoint import STATUS_AFTER
from ..columns import aligned
from ..costs import in_words
from ..documented import Struct as Documented
from ..events import Boundary, ModelReplied, TurnEscalated
from ..export import json_line, plain
from ..messages import ToolResult, Usage
from ..models import Policy
from ..plain_json import from_json
from ..state import Path, Status
from ..turn import Turn, shortened
from .recording import RecordedCall, RecordedInput, Recording

T = TypeVar("T")


class PlayedCall(Documented, frozen=True):
    """A call of a tool."""

    agents: tuple[str, ...]
    """The agents below the main one that lead to it; empty for a call of the main agent."""
    tool: str
    args: Any
    """The arguments, or the text that the model wrote instead of an object."""
    result: str | None
    """The text of its result; None if it has none."""
    is_error: bool

    @property
    def shown(self) -> str:
        """The call in one short line."""
        args = json_line(from_json(json.dumps(self.args, sort_keys=True)))
        below = f"{' > '.join(self.agents)}: " if self.agents else ""
        return f"{below}{self.tool}({args if len(args) <= 100 else args[:99] + '…'})"


class PlayedTurn(Documented, frozen=True):
    """What one message to the agent led to, up to the next message: decisions and resumptions included."""

    status: Status
    """`running` if it was cut short, or still runs; `ready` if it was not run."""
    answer: str
    calls: list[PlayedCall]
    steps: int
    """Replies of models, those of subagents included; what the graph of a blueprint decides is none."""
    usage: Usage
    cost: float | None
    """US dollars; None if no cost is known."""
    seconds: float
    """Without the time between a pause and its decision."""


NOT_RUN = PlayedTurn("ready", "", [], 0, Usage(), None, 0.0)


class ReplayedTurn(Documented, frozen=True):
    """One message, and both runs of what it led to."""

    said: str
    recorded: PlayedTurn
    replayed: PlayedTurn


class Replay(Documented, frozen=True):
    """The result of running a thread again."""

    turn: Turn
    """The last turn of the new run."""
    turns: list[ReplayedTurn]
    differences: list[str]
    """What is different now, a line each: statuses, calls, their results, answers, other messages. Times, tokens and
    money are none.
    """
    agent: Any
    """The agent that ran it, with the new thread: `replay.agent.transcript(replay.turn.thread_id)`."""

    def table(self) -> str:
        """Return both runs of each turn, and the differences, as text."""
        rows = [["turn", "", "status", "calls", "steps", "tokens", "cost", "seconds", "answer"]]
        for number, turn in enumerate(self.turns, 1):
            rows.append([str(number), "recorded", *_cells(turn.recorded)])
            rows.append(["", "replayed", *_cells(turn.replayed)])
        return "\n".join([*aligned(rows), "", *(self.differences or ["no differences"])])

    def json(self) -> str:
        """Return both runs and the differences as one line of JSON."""
        found = {name: plain(getattr(self, name)) for name in ("turns", "differences")}
        return json_line({"event": "Replay", "thread_id": self.turn.thread_id, **found})


def compared(recorded: Recording, replayed: Recording, turn: Turn, agent: Any) -> Replay:
    """Return both recordings side by side."""
    turns: list[ReplayedTurn] = []
    differences: list[str] = []
    before, after = list(_exchanges(recorded)), list(_exchanges(replayed))
    for number, old in enumerate(before, 1):
        new = after[number - 1] if number <= len(after) else None
        pair = ReplayedTurn(old.said, old.played, new.played if new else NOT_RUN)
        found = list(_differences(pair))
        if not found and new and old.texts != new.texts:
            found = ["other messages were added, or in another order"]
        turns.append(pair)
        differences += (f"turn {number}: {line}" for line in found)
    return Replay(turn, turns, differences, agent)


def led_to(recording: Recording) -> Iterator[tuple[RecordedInput, PlayedTurn]]:
    """Yield each input that is a message, and what it led to until somebody decided or resumed."""
    for index, given in enumerate(recording.inputs):
        if given.message is not None:
            yield given, _played(recording, range(index, index + 1))


# ---- one run


class _Exchange(Struct):
    """A message and everything up to the next one."""

    said: str
    played: PlayedTurn
    texts: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    """Role and text of each message of each run."""


def _exchanges(recording: Recording) -> Iterator[_Exchange]:
    begins = [index for index, given in enumerate(recording.inputs) if given.message is not None]
    everything = range(len(recording.inputs))
    below = (recording.below.get((call.path, call.call.id), ()) for call in _calls_below(recording, (), everything))
    order: list[Path] = [(), *chain.from_iterable(below)]
    for first, stop in zip(begins, [*begins[1:], len(recording.inputs)], strict=True):
        indexes, message = range(first, stop), recording.inputs[first].message
        said = [one for path in order for _, one in _within(recording.runs[path].messages, indexes)]
        texts = [(one.role, one.text) for one in said]
        yield _Exchange(message.text if message else "", _played(recording, indexes), texts)


def _within(items: list[tuple[int, T]], indexes: range) -> list[tuple[int, T]]:
    """Return those of *items*, which stand in order, that came after the inputs of these *indexes*."""
    return items[
        bisect_left(items, indexes.start, key=itemgetter(0)) : bisect_left(items, indexes.stop, key=itemgetter(0))
    ]


def _played(recording: Recording, indexes: range) -> PlayedTurn:
    inputs, usage, steps = recording.inputs[indexes.start : indexes.stop], Usage(), 0
    cost: float | None = None
    for _, event in _within(recording.spent, indexes):
        usage += event.usage
        steps += isinstance(event, ModelReplied) and event.model != Policy.name
        cost = cost if event.cost is None else (cost or 0.0) + event.cost
    said = [
        one.text for _, one in _within(recording.runs[()].messages, indexes) if one.role == "assistant" and one.text
    ]
    end = inputs[-1].end
    return PlayedTurn(
        STATUS_AFTER[type(end)] if end else "running",
        _question(end) or (said[-1] if said else ""),
        [_played_call(recording, call) for call in _calls_below(recording, (), indexes)],
        steps,
        usage,
        cost,
        sum(map(_seconds, inputs)),
    )


def _question(end: Boundary | None) -> str:
    return end.question if isinstance(end, TurnEscalated) else ""


def _seconds(given: RecordedInput) -> float:
    return max(0.0, given.end.at - given.at) if given.end else 0.0


def _calls_below(recording: Recording, path: Path, indexes: range) -> Iterator[RecordedCall]:
    """Yield each call of a run that was made after the inputs of these *indexes*, and those of the runs below it.

    A run below is over before the next message, so no reply to an earlier input has a call whose run still works then.
    """
    replies = recording.runs[path].replies
    begin = bisect_left(replies, indexes.start, key=attrgetter("input_index"))
    stop = bisect_left(replies, indexes.stop, key=attrgetter("input_index"))
    for reply in replies[begin:stop]:
        for call in reply.calls:
            yield call
            for below in recording.below.get((path, call.call.id), ()):
                yield from _calls_below(recording, below, indexes)


def _played_call(recording: Recording, call: RecordedCall) -> PlayedCall:
    agents = [recording.runs[call.path[: depth + 1]].state.agent for depth in range(len(call.path))]
    result = call.result
    text = ToolResult(result.content).text if result else None
    args: Any = call.call.malformed or call.call.args
    return PlayedCall(tuple(agents), call.call.name, args, text, result is not None and result.is_error)


# ---- two runs


def _differences(pair: ReplayedTurn) -> Iterator[str]:
    old, new = pair.recorded, pair.replayed
    if old.status != new.status:
        yield f"status: {old.status} -> {'not run' if new is NOT_RUN else new.status}"
    before, after = [call.shown for call in old.calls], [call.shown for call in new.calls]
    for kind, start, stop, first, last in SequenceMatcher(None, before, after, False).get_opcodes():
        if kind == "equal":
            for one, other in zip(old.calls[start:stop], new.calls[first:last], strict=True):
                if (one.result, one.is_error) != (other.result, other.is_error):
                    yield f"result of {one.shown}: {_shown(one.result)} -> {_shown(other.result)}"
        else:
            yield from (f"no longer called: {line}" for line in before[start:stop])
            yield from (f"called now: {line}" for line in after[first:last])
    if old.answer != new.answer:
        yield f"answer: {_shown(old.answer)} -> {_shown(new.answer)}"


def _shown(text: str | None) -> str:
    return "none" if text is None else repr(shortened(text))


def _cells(played: PlayedTurn) -> list[str]:
    if played is NOT_RUN:
        return ["not run", *[""] * 6]
    cost = "?" if played.cost is None else f"${played.cost:.4f}"
    tokens = in_words(played.usage.total, played.usage.unknown)
    numbers = (str(len(played.calls)), str(played.steps), tokens, cost, f"{played.seconds:.1f}")
    return [played.status, *numbers, shortened(" ".join(played.answer.split()))]
