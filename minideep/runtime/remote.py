"""What one process asks the process that runs a turn, over the store's `exchange`, and how events travel there."""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing

import msgspec
from msgspec import Struct, structs

from ..checkpoint import decode_recorded, encode
from ..events import (
    ArgsDelta,
    Event,
    Restarted,
    Rewound,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolEnded,
    ToolStarted,
    with_path,
)
from ..exchange import Answers, Exchange
from ..messages import clean
from ..state import Path

MAX_QUESTION = 2**20
"""Bytes: a longer text is refused before it is decoded."""
SOON, RETRY = 1.0, 0.01
"""Seconds in which a turn that has begun can be asked, and between two tries."""
YES, NO = b"yes", b"no"


class Follow(Struct, frozen=True, array_like=True, tag="follow"):
    """Ask for the events of the turn after a position."""

    number: int
    mark: int


class Cancel(Struct, frozen=True, array_like=True, tag="cancel"):
    reason: str


class Say(Struct, frozen=True, array_like=True, tag="say"):
    text: str


class Sent(Struct, frozen=True, array_like=True):
    """An event on its way."""

    path: Path
    number: int
    at: float
    id: str
    recorded: bool
    data: bytes


Question = Follow | Cancel | Say
UNRECORDED = TextDelta | ThinkingDelta | ArgsDelta | Restarted | Rewound | ToolStarted | ToolEnded
_encoder = msgspec.msgpack.Encoder()
_questions = msgspec.msgpack.Decoder(Question)
_sent = msgspec.msgpack.Decoder(Sent)
_unrecorded = msgspec.msgpack.Decoder(UNRECORDED)


async def request(
    exchange: Exchange, thread_id: str, question: Cancel | Say, runs: Callable[[], Awaitable[bool]]
) -> bool | None:
    """Return whether the process that runs a thread did what was asked: False too if nobody *runs* it, None if that
    process has died or gone away before it said so.
    """
    until = time.monotonic() + SOON
    while (answers := exchange.ask(thread_id, _encoder.encode(question))) is None:
        if not await runs() or time.monotonic() > until:
            return False
        await asyncio.sleep(RETRY)  # A turn that has just begun cannot be asked yet.
    try:
        async with aclosing(answers):
            async for answer in answers:
                return answer == YES
    except ConnectionError:
        pass
    return None


def follow(exchange: Exchange, thread_id: str, number: int, mark: int) -> AsyncGenerator[StreamEvent, None] | None:
    """Return the events of the turn that another process runs; None if it cannot be asked.

    Raises:
        ConnectionError: out of the iteration: that process has died.
    """
    answers = exchange.ask(thread_id, _encoder.encode(Follow(number, mark)))
    return None if answers is None else _received(answers)


async def _received(answers: Answers) -> AsyncGenerator[StreamEvent, None]:
    async with aclosing(answers):
        async for answer in answers:
            yield received(answer)


def read_question(question: bytes) -> Question:
    """Decode a question.

    Raises:
        ValueError: it is none of ours, or too long.
    """
    if len(question) > MAX_QUESTION:
        raise ValueError(f"a question of {len(question):,} bytes; it may have {MAX_QUESTION:,}")
    return _questions.decode(question)


def sent(event: StreamEvent) -> bytes | None:
    """Encode an event for another process; None for an event of a tool's own class, which only this one knows."""
    recorded = isinstance(event, Event)
    if recorded:
        data = encode(event.number, event)  # pyright: ignore[reportArgumentType]
    elif isinstance(event, UNRECORDED):
        # A model may send half a character, which cannot be encoded.
        if isinstance(event, TextDelta | ThinkingDelta | ArgsDelta) and (text := clean(event.text)) != event.text:
            data = _encoder.encode(structs.replace(event, text=text))
        else:
            data = _encoder.encode(event)
    else:
        return None
    return _encoder.encode(Sent(event.path, event.number, event.at, event.id, recorded, data))


def received(data: bytes) -> StreamEvent:
    """Decode an event that `sent` has encoded."""
    one = _sent.decode(data)
    event = decode_recorded(one.data).event if one.recorded else _unrecorded.decode(one.data)
    return with_path(event, one.path, one.number, one.at, one.id)
