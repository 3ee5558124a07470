"""Turns of the past: the one that an input with a key began, as its log tells it."""

from collections.abc import Mapping

from msgspec import Struct, structs

from ..errors import CheckpointError, ConfigError, CorruptSegment
from ..events import FileEdited, FileWritten, UserSaid
from ..messages import Message
from ..state import FileEntry, State
from .boundaries import accepts, beginning
from .journal import Journal
from .keys import digest, key_rows
from .layout import KeyRow, input_key, read_key_row
from .log import Log
from .replay import last_snapshot, read_consistently, replay, segments
from .store import lost_thread


class PastTurn(Struct, frozen=True):
    """A turn as its log tells it, up to its last boundary."""

    state: State
    messages: tuple[Message, ...]
    """Those since its input, or since it was last resumed."""
    artifacts: Mapping[str, FileEntry]
    """The files that it wrote since then, and that existed at the boundary."""


async def accepted_input(journal: Journal, event: UserSaid) -> KeyRow | None:
    """Return the input that was accepted under the key of *event*, saved or not; None if there is none.

    Raises:
        ConfigError: it is another one.
        ThreadConflict: another writer has accepted it since the thread was opened.
        CheckpointError: the store failed, or the row is damaged.
    """
    at = input_key(journal.thread_id, event.key)
    # As they are saved: by the originals an input that `redact` changes would seem to be another one.
    unsaved = key_rows(journal.thread_id, journal.log.head.epoch, journal.as_saved())
    data = unsaved.get(at) or await journal.store.value(at)
    if data is None:
        return None
    row = read_key_row(at, data)
    if row.epoch != journal.log.head.epoch:  # Of a thread that an earlier version deleted.
        return None
    if at not in unsaved and row.number > journal.log.head.number:  # This runner has lost the thread meanwhile.
        raise lost_thread(journal.thread_id)
    as_saved = journal.redaction.call(event) if journal.redaction else event
    if row.digest != digest(as_saved.message):
        raise ConfigError(f"key={event.key!r} was accepted with another input; give each input a key of its own")
    return row


def past_turn(journal: Journal, row: KeyRow, key: str) -> PastTurn:
    """Return the turn that the input of *row* began, as it was last saved.

    Raises:
        HistoryCut: retention removed it.
        CheckpointError: it cannot be read, or is not saved yet.
    """
    if row.number > journal.log.head.number:
        raise CheckpointError(f"a turn of thread {journal.thread_id!r} is not saved yet; `Agent.save` tries again")
    found = read_consistently(journal.store, journal.thread_id, lambda log: _past_turn(log, row.number, key))
    if found is None:
        raise CorruptSegment(f"thread {journal.thread_id!r} was deleted meanwhile")
    return found


def _past_turn(log: Log, number: int, key: str) -> PastTurn:
    if log.head.truncation is not None and number <= log.head.truncation.number:
        state = beginning(log, ())
        if state.key == key:  # The oldest boundary that is kept is its end.
            return PastTurn(state, tuple(state.messages[state.began :]), {})
    state, _ = last_snapshot(log, (), lambda header: header.last < number)
    messages: list[Message] = []
    written: set[str] = set()
    seen = len(state.messages)
    for _, entries in segments(log, (), state.number):
        for at, event, _ in entries:
            if at > number and isinstance(event, UserSaid) and not event.by:  # The next input.
                return PastTurn(_ended(state), tuple(messages), _existing(state, written))
            begins = accepts(event) and state.status != "running"
            replay(log, state, at, event)
            if at < number or begins:
                messages, seen = [], min(state.began, len(state.messages))
                written.clear()
            # Fewer than before, after a compaction: its summary is not a message of the turn.
            messages += state.messages[seen:] if at >= number else ()
            seen = len(state.messages)
            if isinstance(event, FileWritten | FileEdited) and at >= number:
                written.add(event.file)
    return PastTurn(state, tuple(messages), _existing(state, written))


def _ended(state: State) -> State:
    """Return the state in which a turn was when the next input came. Nobody finishes one that was cut short."""
    if state.status != "running":
        return state
    return structs.replace(state, status="cancelled", reason="cancelled", detail="another input came")


def _existing(state: State, written: set[str]) -> dict[str, FileEntry]:
    return {file: entry for file, entry in state.files.items() if file in written}
