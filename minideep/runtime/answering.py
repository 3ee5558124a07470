"""Answering other processes about a turn that runs here."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from ..messages import UserMessage
from .following import Follower
from .live import LiveTurn
from .remote import NO, YES, Cancel, Follow, Say, read_question, sent


async def answer(live: LiveTurn, question: bytes) -> AsyncGenerator[bytes, None]:
    """Yield the answers to a question: events as a follower in this process would get them, or one yes or no.

    Raises:
        ValueError: it is no question.
    """
    match read_question(question):
        case Follow(number, mark):
            follower = Follower(live.journal.store, live.journal.thread_id, f"{number}.{mark}")
            async with aclosing(follower.turn(live)) as events:
                async for event in events:
                    if (data := sent(event)) is not None:
                        yield data
        case Cancel(reason):
            yield YES if await live.cut("agent", reason) else NO
        case Say(text):
            yield YES if await live.say(UserMessage(text)) else NO
