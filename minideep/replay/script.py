"""`Script`: what a recording answers to a model's request or a call, by where it is asked."""

from collections.abc import Awaitable, Callable

from ..errors import MinideepError, ModelError
from ..state import AnyState, Path
from .recording import RecordedCall, RecordedReply, Recording

Ending = Callable[[Path], Awaitable[MinideepError | None]]
"""Called with the recorded run that has nothing more. It does what was done there, so it may never return; or returns
the error of the recorded request.
"""


class Script:
    """A recording while it is run again.

    A run is found by its path, a reply by its turn and step there, and a call by its place in its reply: so it does not
    matter in which order parallel runs ask.
    """

    def __init__(self, recording: Recording) -> None:
        self.recording: Recording = recording
        self.input_index: int | None = None
        """The index of the input that is run; None if somebody else gives the inputs."""
        self.ending: Ending | None = None
        self.given: int = 0
        """How often the recording was asked for a reply or a result."""
        self._next: dict[Path, int] = {}
        """The index of the reply that a run expects next. Runs stand under their recorded paths."""
        self._asked: dict[Path, tuple[int, int]] = {}
        """Where a run was asked last: the number of the event that began its turn, and the step."""
        self._current: dict[Path, RecordedReply | None] = {}
        self._ids: dict[tuple[Path, str], str] = {}
        """The recorded ids of calls that have another id now: one may be made from the number of an event."""

    def place(self, path: Path) -> Path:
        """Return the path of a run as the recording has it."""
        found: Path = ()
        for key in path:
            call_id, slash, name = key.partition("/")
            found = (*found, f"{self.recorded_id(found, call_id)}{slash}{name}")
        return found

    def recorded_id(self, place: Path, call_id: str) -> str:
        """Return the id that the recording has for a call of the run that is recorded at *place*."""
        return self._ids.get((place, call_id), call_id)

    def reply(self, path: Path, state: AnyState) -> RecordedReply | None:
        """Return the reply to the request that a run makes now, or None if there is none. It may be a later input's."""
        self.given += 1
        place, asked = self.place(path), (state.start.number, state.step)
        # Hooks may ask several times in one step, of which one reply is recorded.
        if self._asked.get(place) == asked:
            return self._current[place]
        index = self._index(place, (state.turn, state.step))
        self._current[place] = found = None if index is None else self.recording.runs[place].replies[index]
        if found is not None and index is not None and not self.is_later(found.input_index):
            self._next[place], self._asked[place] = index + 1, asked
        return found

    def _index(self, place: Path, at: tuple[int, int]) -> int | None:
        """Return the index of the reply of a run that was asked for *at* a turn and a step, of those that are left."""
        replies = self.recording.runs[place].replies if place in self.recording.runs else []
        first = self._next.get(place, 0)
        for index in range(first, len(replies)) if self.input_index is not None else ():
            if (replies[index].turn, replies[index].step) == at:
                return index
        # Turns have other numbers if somebody else gives the inputs, or if one ends in another way: the order counts.
        is_due = first < len(replies) and self.input_index in (None, replies[first].input_index)
        return first if is_due else None

    def call(self, path: Path, state: AnyState, call_id: str) -> RecordedCall | None:
        """Return the recorded call that an open call of a run stands for."""
        self.given += 1
        place = self.place(path)
        reply, open_calls = self._current.get(place), state.open
        if reply is None or call_id not in open_calls:
            return None
        index = list(open_calls).index(call_id)
        if index >= len(reply.calls) or reply.calls[index].call.name != open_calls[call_id].call.name:
            return None
        found = reply.calls[index]
        if found.call.id != call_id:
            self._ids[place, call_id] = found.call.id
        return found

    def has_earlier(self, path: Path, state: AnyState, found: RecordedCall, has_begun: Callable[[str], bool]) -> bool:
        """Return whether a call beside *found* is still under way that was answered before it."""
        reply, entries = self._current.get(self.place(path)), state.open.values()
        if reply is None or found.result is None or len(entries) < len(reply.calls):
            return False
        return any(
            entry.phase not in ("answered", "waiting")
            and has_begun(entry.call.id)
            and other.result
            and other.result.number < found.result.number
            for other, entry in zip(reply.calls, entries, strict=False)
        )

    def has_replies_left(self) -> bool:
        """Return whether any run has a reply left that came after the input that is run."""
        return any(
            reply.input_index == self.input_index
            for place, run in self.recording.runs.items()
            for reply in run.replies[self._next.get(place, 0) :]
        )

    def is_later(self, input_index: int) -> bool:
        """Return whether *input_index* is that of a later input than the one that is run."""
        return self.input_index is not None and input_index > self.input_index

    async def end(self, path: Path, state: AnyState, what: str) -> MinideepError:
        """Do what was done where the recording has nothing more. Return what went wrong there, if the caller goes on:
        the recorded error of a request, or an error that says what is missing.
        """
        error = await self.ending(self.place(path)) if self.ending is not None else None
        where = f"run {'/'.join(path)!r}" if path else "the main run"
        missing = f"the recording of thread {self.recording.thread_id!r} has no {what} in turn {state.turn} of {where}"
        return error or ModelError(missing)
