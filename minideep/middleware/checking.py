"""Checking the final reply of a run: a reply that is refused is answered in the same run, so its work is not lost."""

from collections.abc import Callable, Sequence
from itertools import takewhile

from ..context import ToolContext
from ..messages import Message, ToolMessage, UserMessage
from ..plain_json import from_json
from ..ports import Middleware

FINAL_ANSWER = "final_answer"
"""The tool whose arguments are a typed answer."""
_REFUSED = "Your reply was refused: "
UNFINISHED = {"truncated": "it was cut off at the limit of its length", "refused": "it declined to answer"}
"""Why a reply that stopped like this is no answer, even if a part of it reads as one."""


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
        problem = self._check(last_words(ctx.state.messages), ctx.state.stop)
        return refusal(problem) if problem and self.replies < self._tries else None


def last_words(messages: Sequence[Message]) -> str:
    """Return what a turn came to: the result that ended it, that of `final_answer` first; or else the last text of the
    model since the last message to it, as a reply after a result may be empty.
    """
    results = [message for message in takewhile(_is_result, reversed(messages)) if isinstance(message, ToolMessage)]
    if results:
        given = [result for result in results if not result.is_error]
        given.sort(key=lambda result: result.name != FINAL_ANSWER)
        return given[0].text if given else _refused_answer(messages[: -len(results)])
    for message in reversed(messages):
        if message.role == "user":
            break
        if message.role == "assistant" and message.text:
            return message.text
    return ""


def _is_result(message: Message) -> bool:
    return message.role == "tool"


def _refused_answer(before: Sequence[Message]) -> str:
    calls = before[-1].calls if before and before[-1].role == "assistant" else ()
    return next((written(call.raw) for call in calls if call.name == FINAL_ANSWER), "")


def written(arguments: bytes) -> str:
    """Return the arguments of a call as the model wrote them. What is no object is kept as a text."""
    return arguments.decode() if arguments.startswith(b"{") else str(from_json(arguments))


def refusal(problem: str) -> UserMessage:
    """Return the message that asks for another reply."""
    return UserMessage(f"{_REFUSED}{problem}\n\nReply again, in full.")


def refusals(messages: Sequence[Message]) -> int:
    """Return how many of *messages* refuse a reply."""
    return sum(message.role == "user" and message.text.startswith(_REFUSED) for message in messages)
