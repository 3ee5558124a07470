"""Checking the final reply of a run: a reply that is refused is answered in the same run, so its work is not lost."""

from collections.abc import Callable, Sequence

from ..context import ToolContext
from ..messages import Message, UserMessage
from ..ports import Middleware

_REFUSED = "Your reply was refused: "
UNFINISHED = {"truncated": "it was cut off at the limit of its length", "refused": "you refused"}
"""The reason that a reply which stopped like this is none, as its author reads it."""


class ReplyCheck(Middleware):
    """Refuses final replies of one run, and asks for another until *tries* of them have been read.

    *check* gets the text of a reply and `State.stop`, and returns what is wrong with it, or an empty text.
    """

    inherit: bool | None = False

    def __init__(self, check: Callable[[str, str], str], tries: int) -> None:
        self._check = check
        self._tries = tries
        self.replies: int = 0
        """The final replies that were read, as far as this object has seen the run."""

    async def before_finish(self, ctx: ToolContext) -> UserMessage | None:
        # Counted in the messages too: the first replies may have come in another process.
        self.replies = max(self.replies, refusals(ctx.state.messages)) + 1
        problem = self._check(final_text(ctx.state.messages), ctx.state.stop)
        if not problem or self.replies >= self._tries:
            return None
        return UserMessage(f"{_REFUSED}{problem}\n\nReply again, in full.")


def final_text(messages: Sequence[Message]) -> str:
    """Return the last text of the model since the last message to it: a reply after the last result may be empty."""
    for message in reversed(messages):
        if message.role == "user":
            return ""
        if message.role == "assistant" and message.text:
            return message.text
    return ""


def refusals(messages: Sequence[Message]) -> int:
    """Return how many of *messages* refuse a reply."""
    return sum(message.role == "user" and message.text.startswith(_REFUSED) for message in messages)
