"""`Exchange`: what a store may offer besides its rows, so that any process can ask the one that runs a turn."""

from collections.abc import AsyncIterator, Callable
from typing import Protocol

Answer = Callable[[bytes], AsyncIterator[bytes]]
"""Answers one question, as an async generator does. It may be closed before its last answer."""

__all__ = ["Answers", "Exchange"]


class Answers(Protocol):
    """The answers to one question, in order."""

    def __aiter__(self) -> "Answers": ...
    async def __anext__(self) -> bytes:
        """Return the next answer. A call that was cancelled can be repeated; no answer is lost.

        Raises:
            ConnectionError: the runner failed to finish, was killed, or its event loop ended.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection, which ends the runner's work on the question. Do so if you may break out early."""
        ...


class Exchange(Protocol):
    """Asks the process that runs a turn, from any other on the same store, which has it as `exchange`, or None there.

    Questions have at most 1 MiB, answers 32 MiB.
    """

    def announce(self, thread: str, answer: Answer) -> None:
        """Let questions about *thread* be answered on the running event loop. Never waits.

        Only who holds the thread may announce it. A failure is logged: the turn must go on.
        """
        ...

    def withdraw(self, thread: str) -> None:
        """End what `announce` began, if it did, before the thread is released. Answers under way go on to their end."""
        ...

    def ask(self, thread: str, question: bytes) -> Answers | None:
        """Ask the process that runs a turn of *thread*. Return None, without waiting, if nobody has announced it.

        If the turn ends before the runner has read the question, no answer comes. Answers are only worked out as they
        are read.

        Raises:
            ValueError: *question* is too long.
            OSError: this process has no file descriptors left.
        """
        ...
