"""An exchange between stores of one process, which can lose a runner as a kill would."""

import asyncio
import copy
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from minideep import MemoryCheckpointer

Answer = Callable[[bytes], AsyncIterator[bytes]]


class LocalExchange:
    """Passes questions from one store to another that shares its rows."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked = 0
        self._killed = asyncio.Event()

    def announce(self, thread: str, answer: Answer) -> None:
        self.answers[thread] = answer

    def withdraw(self, thread: str) -> None:
        self.answers.pop(thread, None)

    def ask(self, thread: str, question: bytes) -> AsyncGenerator[bytes, None] | None:
        answer = self.answers.get(thread)
        if answer is None:
            return None
        self.asked += 1
        return self._passed_on(answer(question))

    def kill(self) -> None:
        """Break off all answers under way, and forget who answers."""
        self.answers.clear()
        self._killed.set()
        self._killed = asyncio.Event()

    async def _passed_on(self, answers: Any) -> AsyncGenerator[bytes, None]:
        killed = asyncio.ensure_future(self._killed.wait())
        try:
            while True:
                more = asyncio.ensure_future(anext(answers, None))
                await asyncio.wait([killed, more], return_when=asyncio.FIRST_COMPLETED)
                if not more.done():
                    more.cancel()
                    await asyncio.wait([more])
                    raise ConnectionError("the runner was killed")
                if (answer := more.result()) is None:
                    return
                yield answer
        finally:
            killed.cancel()
            await answers.aclose()


def twins(exchange: Any = None) -> tuple[MemoryCheckpointer, MemoryCheckpointer]:
    """Return two stores that share rows and locks, as two processes do on one disk."""
    store: Any = MemoryCheckpointer()
    store.exchange = exchange
    return store, copy.copy(store)
