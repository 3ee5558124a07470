"""Callers: what may come back from a public call, and what must be true once it has."""

import asyncio

from msgspec import structs

from harness.simulation.ledger import ENDS
from harness.simulation.loop import Hang, Killed
from minideep.checkpoint.format import encode_state
from minideep.checkpoint.layout import JUMP
from minideep.errors import CheckpointError, ConfigError, HistoryCut, ThreadBusy, ThreadConflict, UnknownThread
from minideep.events import Rewound, UserSaid

STATUSES = ("ended", "paused", "escalated", "failed", "cancelled", "exhausted", "running")


class Call:
    """One public call. What leaves it must be documented, and must have its reason."""

    def __init__(
        self, life, process, thread, verb, *, text="", key=None, wait=False, wrong=False, closes=False, cuts=False
    ):
        self.life, self.process, self.thread, self.verb = life, process, thread, verb
        self.text, self.key, self.wait = text, key, wait
        self._wrong, self._closes, self._cuts = wrong, closes, cuts
        ledger = life.ledger
        self.error = None
        self.began, self.deleted = life.loop.time(), ledger.deleted[thread]
        self.was_there = thread in ledger.threads
        known = ledger.threads.get(thread)
        self.appends = len(known.by) if known else 0
        self.mine = ledger.since(thread, process)

    def __enter__(self) -> "Call":
        self.life.trace(self.verb, self.process.name, self.thread, self.text, self.key)
        return self

    def __exit__(self, kind, error, trace) -> bool:
        if error is None or self.process.dead or isinstance(error, GeneratorExit | Killed | Hang):
            return False
        self.error = error
        self.life.trace("raises", self.process.name, self.verb, self.thread, kind.__name__)
        if isinstance(error, asyncio.CancelledError):
            task = asyncio.current_task()
            self.life.expect(task in self.life.given_up, f"{self.verb} of {self.thread} raised {error!r} by itself")
            self._left()
            return True
        if why := self._unfounded(error):
            self.life.expect(False, f"{self.verb} of {self.thread} raised {error!r}: {why}")
        return True

    def _left(self) -> None:
        """A caller has cancelled its turn: the thread is saved, and nobody's."""
        life, known = self.life, self.life.ledger.threads.get(self.thread)
        sure = life.calm and not (life.unreliable or life.closed or self._is_gone()) and self.verb in ("run", "stream")
        if sure and known is not None and known.inputs[self.text] and self.thread not in life.server.leases:
            life.expect(known.over, f"{self.thread}: {self.text!r} was cancelled, and its turn is not saved")

    def _unfounded(self, error) -> str:
        """Return why an error has no reason; empty if it has one."""
        life, thread = self.life, self.thread
        if isinstance(error, ThreadConflict):
            self.process.unsaved.pop(thread, None)  # Somebody else has gone on.
            return self._no_conflict()
        if isinstance(error, ThreadBusy):
            if self.wait and not (self._closes and "closed" in str(error)):
                return "it should have waited"
            held = thread in life.server.leases or life.server.last_held.get(thread, -1.0) >= self.began
            return "" if held or self._closes else "nobody has held it"
        if isinstance(error, UnknownThread):
            return "" if not self.was_there or life.ledger.deleted[thread] > self.deleted else "it exists"
        if isinstance(error, HistoryCut):
            return "" if life.cuts else "nothing was cut"
        if isinstance(error, ConfigError):
            return "" if self._wrong else "nothing was wrong with it"
        if type(error) is CheckpointError:
            return "" if life.unreliable else "the store has not failed"
        return "it is not documented"

    def _no_conflict(self) -> str:
        life, thread = self.life, self.thread
        ledger = life.ledger
        if (thread, self.process) in ledger.lost or ledger.deleted[thread] > 0:
            return ""
        since = self.mine if life.unreliable or self.process.unsaved.get(thread) else self.appends
        return "" if ledger.others(thread, self.process, since) else "no other writer was there"

    # ---- what came back

    def accepted(self) -> None:
        """A handle was returned: the input is saved, unless the store failed."""
        known = self.life.ledger.threads.get(self.thread)
        if not self.life.unreliable and not self._is_gone():
            lost = (self.thread, self.process) in self.life.ledger.lost
            self.life.expect(lost or (known and known.inputs[self.text]), f"{self.thread}: {self.text!r} was not saved")

    def returned(self, turn) -> None:
        """A turn was returned: what it says is stored, if it says so."""
        life, thread = self.life, self.thread
        expect = life.expect
        life.trace("returned", self.process.name, thread, turn.status, turn.reason, turn.saved, turn.text)
        expect(turn.status in STATUSES, f"{thread}: a turn is {turn.status}")
        expect(turn.status != "failed" or turn.error is not None, f"{thread}: a failed turn has no error")
        if isinstance(turn.error, ThreadConflict):
            why = self._no_conflict()
            expect(not why, f"{thread}: a turn ended with {turn.error!r}: {why}")
            self.process.unsaved.pop(thread, None)
            return
        if not turn.saved:
            expect(life.unreliable, f"{thread}: a turn is not saved: {turn.error!r}")
            if self.text:
                self.process.unsaved.setdefault(thread, []).append(self.text)
            return
        if self._is_gone():
            return
        known = life.ledger.threads.get(thread)
        if known is None:
            expect(False, f"{thread}: a saved turn was returned, and there is no thread")
            return
        self.flushed()
        if self.text:
            expect(known.inputs[self.text], f"{thread}: {self.text!r} was accepted, and is not stored")
        for message in turn.messages:
            if message.role == "assistant" and message.text and not life.cuts:
                expect(message.text in known.replies, f"{thread}: reply {message.text!r} is not stored")
        if self.key is not None and turn.status == "ended":
            first = life.answers.setdefault((thread, self.deleted, self.key), turn.text)
            expect(first == turn.text, f"{thread}: key {self.key} got {first!r} and {turn.text!r}")
        self._same_in_memory(known)

    def flushed(self) -> None:
        """An append went through: what earlier turns left unsaved went along."""
        known = self.life.ledger.threads.get(self.thread)
        for text in self.process.unsaved.pop(self.thread, []):
            if known is not None and not self._is_gone():
                self.life.expect(known.inputs[text], f"{self.thread}: {text!r} was kept unsaved, and is lost")

    def _same_in_memory(self, known) -> None:
        """What the process has in memory is what the log folds to."""
        process, thread = self.process, self.thread
        kept = process.agent._turns._kept.get((process.checked, thread))
        if kept is None or kept.unsaved or not kept.is_current(self.life.server.head(thread)):
            return
        stored = self.life.reader.get_state(thread)
        self.life.expect(_plain(kept.root) == _plain(stored), f"{thread}: memory and log differ")
        self.life.expect(known.last == stored.number or stored.number <= known.last, f"{thread}: the log is ahead")

    def _is_gone(self) -> bool:
        return self.life.ledger.deleted[self.thread] > self.deleted


def _plain(state) -> bytes:
    """A state without what may be fetched later."""
    return encode_state(structs.replace(state, files={}, subagents={}))


def decided(life, thread, chosen, call) -> None:
    """Decisions that were taken are stored."""
    known = life.ledger.threads.get(thread)
    if known is None or call._is_gone():
        return
    for wait in chosen:
        life.expect((wait.path, wait.call_id) in known.decided, f"{thread}: the decision about {wait.call_id} is lost")


def undecided(life, thread, chosen) -> None:
    """Decisions that could not be saved are not taken later, when the events before them are saved."""
    known = life.ledger.threads.get(thread)
    places = {(wait.path, wait.call_id) for wait in chosen}
    life.ledger.refused |= {(thread, *place) for place in places if known is None or place not in known.decided}


class Watcher:
    """One who follows a thread, drops off and comes back."""

    def __init__(self, life, thread: str, after: int) -> None:
        self.life, self.thread, self.start, self.last = life, thread, after, after
        self.deleted = life.ledger.deleted[thread]
        self.by = None
        """The process that it asks."""
        self.seen: dict[int, object] = {}
        self.busy = self.last_time = self.blind = False

    @property
    def off(self) -> bool:
        """True once the thread was deleted: what follows is another one's."""
        return self.blind or self.life.ledger.deleted[self.thread] > self.deleted

    def sees(self, event) -> None:
        if self.off:
            return
        newest = max(self.seen, default=self.start)
        known = self.life.ledger.threads.get(self.thread)
        if isinstance(event, Rewound):
            self.life.trace("rewound", self.thread)
            # An input that was never saved, and a crash: which of the numbers before the gap are the same, nobody knows.
            self.blind = self.blind or newest // JUMP - event.to // JUMP > 1
            gone = [number for number in self.seen if number > event.to]
            # Another runner may have given a number of a thread that was lost to an event of its own.
            saved = [one for one in gone if known and known.events.get(one, (0, 0))[1] == self.seen[one]]
            self.life.expect(not saved, f"{self.thread}: rewound to {event.to}, though {saved} are saved")
            for number in gone:
                del self.seen[number]
        elif event.number:
            self.life.expect(event.number > newest, f"{self.thread}: a follower got {event.number} after {newest}")
            self.seen[event.number] = event
            waits = (isinstance(event, UserSaid) and not event.by) or isinstance(event, ENDS)
            if waits and not event.path and not self.life.unreliable and known is not None:
                saved = event.number in known.events or (self.thread, self.by) in self.life.ledger.lost
                self.life.expect(saved, f"{self.thread}: {event.number} was shown before it was saved")
        if event.id:
            self.last = event.id

    def complete(self) -> None:
        """The follower was told that there is no more for now: nothing is missing in between."""
        known = self.life.ledger.threads.get(self.thread)
        if self.off or known is None or self.life.cuts:
            return
        newest = max(self.seen, default=self.start)
        missing = [number for number in known.events if self.start < number < newest and number not in self.seen]
        self.life.expect(not missing, f"{self.thread}: a follower never got {missing}")
        for number, event in self.seen.items():
            if number in known.events:
                stored, name = type(known.events[number][1]).__name__, type(event).__name__
                self.life.expect(name == stored, f"{self.thread}: event {number} is {stored}, and was shown as {name}")

    def finally_complete(self) -> None:
        """Nobody runs the thread any more: the follower has seen exactly what is stored."""
        known = self.life.ledger.threads.get(self.thread)
        if self.off or known is None or self.life.cuts:
            return
        stored = {number for number in known.events if number > self.start}
        self.life.expect(
            stored == set(self.seen), f"{self.thread}: shown and stored differ by {stored ^ set(self.seen)}"
        )
