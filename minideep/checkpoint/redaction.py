"""What a log must not hold, taken out of events before they are saved."""

from collections.abc import Callable
from hashlib import sha256

from msgspec import structs

from ..errors import CheckpointError, IllegalEvent
from ..events import AnyEvent, FileEdited, FileWritten
from ..ports import Store
from ..state import FileEntry, Path, State, as_bytes
from . import format as codec
from .log import fold

Redact = Callable[[AnyEvent], AnyEvent]
"""Gives the event that is saved in the place of the one that happened: of the same type and with the same ids."""


class Redaction:
    """A thread as it is written: the events that *redact* has made, and the states that those fold to.

    The states make sure that what is written can be read: an event that does not fit them is never saved.
    """

    def __init__(self, redact: Redact, store: Store) -> None:
        self.redact = redact
        self._store = store
        self._ready: list[tuple[Path, bytes]] = []
        self.states: dict[Path, State] = {}

    def pending(
        self, pending: list[tuple[Path, bytes]], live: dict[str, FileEntry], opened: Callable[[Path], State]
    ) -> list[tuple[Path, bytes]]:
        """The pending events of a journal as they are to be saved. *opened* reads a run from the store.

        Raises:
            CheckpointError: the hook raised, or gave what cannot be saved.
        """
        for path, data in pending[len(self._ready) :]:
            number, event = codec.decode_numbered(data)
            for run in ((), path):
                if run not in self.states:
                    self.states[run] = opened(run)
                self.states[run].files = self.states[()].files
            self._ready.append((path, self._written(path, number, event, live)))
        return self._ready

    def done(self, count: int, open_runs: set[Path]) -> None:
        """Forget what is saved, and the runs that are over."""
        del self._ready[:count]
        self.states = {path: state for path, state in self.states.items() if path in open_runs}

    def _written(self, path: Path, number: int, event: AnyEvent, live: dict[str, FileEntry]) -> bytes:
        state, redacted = self.states[path], self._called(event)
        try:
            data = codec.encode(number, redacted)
            fold(self._store, state, number, codec.decode(data))
        except IllegalEvent as exc:
            if not isinstance(event, FileEdited):
                raise CheckpointError(f"`redact` made an event that does not fit the log: {exc}") from None
            entry = live.get(event.file)  # The edited text is there no more: what the file is now is written instead.
            content = entry.content if entry else ""
            whole = FileWritten(event.file, content, 0, "", event.at, event.by)
            data = codec.encode(number, self._called(whole))
            fold(self._store, state, number, codec.decode(data))
        return data

    def _called(self, event: AnyEvent) -> AnyEvent:
        try:
            redacted = self.redact(event)
        except Exception as exc:  # The hook door: what it should have taken out must not be saved, nor the answer lost.
            raise CheckpointError(f"`redact` raised {type(exc).__name__}; nothing was saved") from exc
        if type(redacted) is not type(event):
            raise CheckpointError(f"`redact` must give a {type(event).__name__}, not {type(redacted).__name__}")
        if isinstance(redacted, FileWritten) and redacted.content is not None:
            data = as_bytes(redacted.content)
            return structs.replace(redacted, size=len(data), sha256=sha256(data).hexdigest())
        return redacted
