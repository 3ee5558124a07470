"""The messages of a run as its model is shown them: each is looked at once, and all are O(1) to show again."""

from msgspec import structs

from ...messages import Message, Messages
from ...ports import Request


class Shown:
    """What is shown in the place of each message of *base*: `State.messages`, until a compaction makes another list."""

    __slots__ = ("base", "changed", "messages")

    def __init__(self, base: list[Message]) -> None:
        self.begin(base)

    def begin(self, base: list[Message]) -> None:
        """Show the messages of *base*, none of which were looked at."""
        self.base = base
        self.messages: list[Message] = []
        self.changed = False

    def new_in(self, request: Request) -> list[Message]:
        """The messages that were not looked at, as hooks before this one show them."""
        return request.messages[len(self.messages) : len(self.base)]  # type: ignore[return-value]

    def put_into(self, request: Request) -> Request:
        """*request* with these messages, and what others have added behind them."""
        if not self.changed:
            return request
        added = request.messages[len(self.messages) :]
        return structs.replace(request, messages=[*self.messages, *added] if added else Messages(self.messages))
