"""The messages of a run as its model is shown them. Each message is looked at once, however many steps follow."""

from collections.abc import Sequence

from msgspec import structs

from ...messages import Message, Messages
from ...ports import Request


class View:
    """The messages that stand in place of a run's own, in the same order and number, until its history is replaced."""

    __slots__ = ("_history", "changed", "messages")

    def __init__(self) -> None:
        self.restart(())

    def restart(self, history: Sequence[Message]) -> None:
        """Begin to show the messages of *history*, of which none has been looked at."""
        self._history = history
        self.messages: list[Message] = []
        self.changed: bool = False

    def note_change(self) -> None:
        """Note that a message is shown in another form."""
        self.changed = True

    def follows(self, history: Sequence[Message]) -> bool:
        """Return whether the messages looked at are the first ones of *history*: a compaction begins another one."""
        return history.same_list(self._history) if type(history) is Messages else history is self._history

    def put_into(self, request: Request) -> Request:
        """Return *request* with these messages, and after them the ones that other hooks have added."""
        added = request.messages[len(self.messages) :]
        # A view of the list costs nothing, however long it is. Copying it at every step would make a run quadratic.
        return structs.replace(request, messages=[*self.messages, *added] if added else Messages(self.messages))
