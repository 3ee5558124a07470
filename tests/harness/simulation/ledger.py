"""What has landed in a simulated store, event by event, and the promises that can be judged by it."""

from collections import Counter
from typing import Any

from minideep.checkpoint.format import read_segment
from minideep.events import (
    CallStarted,
    Decided,
    ModelReplied,
    Resumed,
    ToolReturned,
    TurnCancelled,
    TurnEnded,
    TurnEscalated,
    TurnExhausted,
    TurnFailed,
    TurnPaused,
    UserSaid,
)
from minideep.messages import Usage
from minideep.state import Approve, Edit

ENDS = (TurnPaused, TurnEnded, TurnEscalated, TurnFailed, TurnCancelled, TurnExhausted)


class Known:
    """One thread, from its first append until it is deleted."""

    def __init__(self) -> None:
        self.events: dict[int, tuple[tuple[str, ...], Any]] = {}
        self.last = 0
        self.returned: set[tuple[tuple[str, ...], str]] = set()
        """Calls that have a result."""
        self.started: Counter[tuple[tuple[str, ...], str]] = Counter()
        self.allowed: Counter[tuple[tuple[str, ...], str]] = Counter()
        """How often a call was approved or edited."""
        self.decided: set[tuple[tuple[str, ...], str]] = set()
        self.inputs: Counter[str] = Counter()
        self.keys: Counter[str] = Counter()
        self.replies: set[str] = set()
        self.appends = 0
        self.by: list[tuple[Any, int]] = []
        """The writer of each append, and the last event that it left."""
        self.began = 0
        """The event with which the turn began, as its counters see it."""
        self.over = True
        self.status = ""
        self.is_fork = False


class Ledger:
    """The threads that a simulated store has, and what was found wrong with them."""

    def __init__(self) -> None:
        self.threads: dict[str, Known] = {}
        self.violations: list[str] = []
        self.deleted: Counter[str] = Counter()
        self.refused: set[tuple[str, tuple[str, ...], str]] = set()
        """Calls about which a decision was refused, and none was given since."""
        self.lost: set[tuple[str, Any]] = set()
        """Threads that a process has lost to the server's will."""

    def expect(self, true: object, what: str) -> None:
        """Note a violation. It is raised by the life: here a store's error handling would swallow it."""
        if not true:
            self.violations.append(what)

    def note_loss(self, thread: str, process: Any) -> None:
        self.lost.add((thread, process))

    def others(self, thread: str, process: Any, since: int) -> bool:
        """Return whether another process has appended after append number *since*."""
        known = self.threads.get(thread)
        return known is not None and any(by is not process for by, _ in known.by[since:])

    def since(self, thread: str, process: Any) -> int:
        """Return the number of appends up to the last one of *process*."""
        known = self.threads.get(thread)
        places = [place for place, (by, _) in enumerate(known.by, 1) if by is process] if known else []
        return places[-1] if places else 0

    # ---- appends

    def landed(self, process, thread, expected, head, rows, deletes) -> bool:
        """Note an append; return whether it added events."""
        if head is None:
            self.threads.pop(thread, None)
            self.deleted[thread] += 1
            return False
        new = expected is None
        known = self.threads.setdefault(thread, Known())
        found = []
        for key, data in rows.items():
            if key.startswith("log/"):
                header, entries = read_segment(data, key)
                for one in entries:  # A segment that replaces others holds theirs as they were.
                    before = known.events.get(one.number)
                    same = before in (None, (header.path, one.event))
                    self.expect(same, f"{thread}: event {one.number} was {before} and is {one.event}")
                    if before is None:
                        found.append((one.number, header.path, one.event))
        found.sort(key=lambda one: one[0])
        if head == expected or (deletes and not found):  # Maintenance.
            self.expect(not found, f"{thread}: maintenance has added events {[one[0] for one in found]}")
            return bool(found)
        known.is_fork = known.is_fork or (new and any(isinstance(event, ENDS) for *_, event in found))
        known.by.append((process, found[-1][0] if found else known.last))
        for number, path, event in found:
            self.expect(number > known.last, f"{thread}: number {number} comes after {known.last}")
            known.last = number
            known.events[number] = (path, event)
            self._see(thread, known, number, path, event)
        return bool(found)

    def _see(self, thread: str, known: Known, number: int, path: tuple[str, ...], event: Any) -> None:
        match event:
            case UserSaid():
                known.inputs[event.message.text] += 1
                if not path and event.key:
                    known.keys[event.key] += 1
                    self.expect(known.keys[event.key] == 1, f"{thread}: key {event.key} was accepted twice")
            case ToolReturned():
                known.returned.add((path, event.call_id))
            case CallStarted():
                known.started[path, event.call_id] += 1
            case Decided():
                refused = (thread, path, event.call_id) in self.refused
                self.expect(not refused, f"{thread}: a decision about {event.call_id} was refused, and is taken")
                known.decided.add((path, event.call_id))
                if isinstance(event.decision, Approve | Edit):
                    known.allowed[path, event.call_id] += 1
            case ModelReplied():
                known.replies.add(event.message.text)
        if not path:
            self._turn(thread, known, number, event)

    def _turn(self, thread: str, known: Known, number: int, event: Any) -> None:
        if (isinstance(event, UserSaid) and not event.by) or (isinstance(event, Resumed) and known.over):
            known.began, known.over, known.status = number, False, "running"
        elif isinstance(event, Resumed):
            known.status = "running"
        elif isinstance(event, ENDS):
            known.over, known.status = True, type(event).__name__.removeprefix("Turn").lower()
            if not isinstance(event, TurnEscalated):
                self._costs(thread, known, number, event)

    def _costs(self, thread: str, known: Known, number: int, event: Any) -> None:
        """The costs at a boundary are the sum of what the log has of the turn."""
        replies = [
            one for at, (_, one) in known.events.items() if known.began < at < number and isinstance(one, ModelReplied)
        ]
        usage = sum((one.usage for one in replies), Usage())
        costs = event.costs
        if costs is None:
            self.expect(known.is_fork, f"{thread}: the boundary at {number} has no costs")
            return
        said, summed = (costs.steps, costs.usage.total), (len(replies), usage.total)
        self.expect(said == summed, f"{thread}: the costs at {number} say {said}, and the log {summed}")
