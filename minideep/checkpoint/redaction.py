"""Redaction: secrets are taken out of events before they are saved."""

from collections.abc import Callable
from hashlib import sha256

from msgspec import structs

from ..core import share_files
from ..errors import CheckpointError, IllegalEvent
from ..events import AnyEvent, E, FileEdited, FileWritten
from ..state import FileEntry, Path, State, as_bytes
from .batch import Pending
from .format import Recorded, decode_recorded, stored_form
from .replay import fold
from .store import CheckedStore


class Redaction:
    """A thread as it is saved: the events that *redact* returned, and the states that those fold to.

    The states make sure that the log can be read: an event that does not fit them is never saved.
    """

    def __init__(self, redact: Callable[[AnyEvent], AnyEvent], store: CheckedStore) -> None:
        self.redact = redact
        self.states: dict[Path, State] = {}
        self._store = store
        self._ready: list[Pending] = []

    def pending(
        self, pending: list[Pending], live: dict[str, FileEntry], open_run: Callable[[Path], State]
    ) -> list[Pending]:
        """Return the pending events of a journal as they are to be saved. *open_run* reads a run from the store.

        Raises:
            CheckpointError: the hook raised, or returned an event that cannot be saved.
        """
        # The hook sees each event once, even if an append failed in between.
        for path, data, _ in pending[len(self._ready) :]:
            for run in ((), path):  # The main run too, as it has the files.
                if run not in self.states:
                    self.states[run] = open_run(run)
                share_files(self.states[run], self.states[()])
            self._ready.append(self._redacted(path, decode_recorded(data), live))
        return self._ready

    def done(self, count: int, open_runs: set[Path]) -> None:
        """Forget the first *count* events, which are saved, and the runs that are over."""
        del self._ready[:count]
        self.states = {path: state for path, state in self.states.items() if path in open_runs}

    def _redacted(self, path: Path, recorded: Recorded, live: dict[str, FileEntry]) -> Pending:
        number, event = recorded.number, recorded.event
        state, redacted = self.states[path], self.call(event)
        try:
            data, kept = stored_form(number, redacted, recorded.ms)
            fold(self._store, state, number, kept)
        except IllegalEvent as exc:
            if not isinstance(event, FileEdited):
                raise CheckpointError(f"`redact` returned an event that does not fit the log: {exc}") from None
            # The text to replace was redacted before, so the edit fits no more: save the whole file as it is now.
            entry = live.get(event.file)
            content = entry.content if entry else ""
            redacted = self.call(FileWritten(event.file, content, 0, "", event.at, event.by, call_id=event.call_id))
            data, kept = stored_form(number, redacted, recorded.ms)
            fold(self._store, state, number, kept)
        return path, data, isinstance(redacted, FileWritten) and redacted.blob

    def call(self, event: E) -> E:
        """Return *event* as the hook leaves it.

        Raises:
            CheckpointError: the hook raised, or returned something else.
        """
        try:
            redacted = self.redact(event)
        except Exception as exc:  # Whatever `redact` raises: the secret must not be saved, nor the answer lost.
            raise CheckpointError(f"`redact` raised {type(exc).__name__}; nothing was saved") from exc
        if type(redacted) is not type(event):
            raise CheckpointError(f"`redact` must return a {type(event).__name__}, not {type(redacted).__name__}")
        if isinstance(redacted, FileWritten) and redacted.content is not None:
            data = as_bytes(redacted.content)
            # The hash of the original would confirm a guess of the secret.
            return structs.replace(redacted, size=len(data), sha256=sha256(data).hexdigest())
        return redacted
