"""The messages of a run as its model is shown them. Each is looked at once, however many steps and turns follow."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import structs

from ...messages import Message, Messages, UserMessage
from ...ports import Backend, Request
from ...state import FileEntry
from .spill import file_of_message, message_stub


class View:
    """The messages that stand in place of a run's own, in the same order and number, until its history is replaced.

    A new one goes on with a copy of *before*, the view of the turn before, if there is one.
    """

    __slots__ = ("_backend", "_in_files", "_large", "changed", "given", "history", "messages",
        "source")  # fmt: skip

    def __init__(self, backend: Backend, before: "View | None" = None) -> None:
        self._backend = backend
        self.restart(())
        if before is not None:
            self.history, self.given, self.changed = before.history, before.given, before.changed
            self.source = before.source
            self.messages = before.messages.copy()
            self._large, self._in_files = before._large.copy(), before._in_files.copy()

    def restart(self, history: Sequence[Message]) -> None:
        """Begin to show the messages of *history*, of which none has been looked at."""
        self.history: Sequence[Message] = history
        """The list of the state whose first messages were looked at: a compaction begins another one."""
        self.given: Sequence[Message] = ()
        """The messages of the last request, as hooks before have left them."""
        self.source: Any = None
        """The list that they are a view of. If the next ones are a view of another list, hooks before have changed
        some.
        """
        self.messages: list[Message] = []
        self.changed: bool = False
        self._large: set[str] = set()
        """The files of the messages that are so large that a file may hold their text, and a stub be shown."""
        self._in_files: set[str] = set()
        """Those of them that exist."""

    def note_change(self) -> None:
        """Note that a message is shown in another form."""
        self.changed = True

    def still_right(self, given: Sequence[Message], files: Mapping[str, FileEntry]) -> bool:
        """Return whether *given*, what a new turn shows before this view, and its files do not change what is shown."""
        before, end = self.given, len(self.messages)
        if type(before) is not Messages:  # A list that a hook has made, which may have changed meanwhile.
            return False
        # Other hooks may show a message otherwise from now on. To compare lists of the same objects takes no time.
        same = before.same_list(given) or given[:end] == before[:end]
        return same and self._large & files.keys() == self._in_files

    def shown_message(self, message: UserMessage, files: Mapping[str, FileEntry]) -> UserMessage:
        """Return *message*, or its stub if its text was put into one of *files*."""
        path = file_of_message(message, self._backend)
        if not path:
            return message
        self._large.add(path)
        if path not in files:
            return message
        self._in_files.add(path)
        return message_stub(message, path)

    def put_into(self, request: Request) -> Request:
        """Return *request* with these messages, and after them the ones that other hooks have added."""
        added = request.messages[len(self.messages) :]
        # A view of the list costs nothing, however long it is. Copying it at every step would make a run quadratic.
        return structs.replace(request, messages=[*self.messages, *added] if added else Messages(self.messages))
