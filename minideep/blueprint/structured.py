"""Asking a part of a blueprint: a run with fresh messages, and one more if its reply breaks the contract."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, Generic, TypeVar

from msgspec import Struct

from ..context import ToolContext
from ..errors import ContractViolation
from ..ports import Runnable
from ..state import State
from ..turn import Turn
from .prompts import asked_again
from .state import Board, Record

T = TypeVar("T")
_UNFINISHED = {"truncated": "it was cut off at the limit of its length", "refused": "you refused"}
"""What is said of a reply that did not end by itself."""
QUOTED = 20_000
"""Characters of a refused reply that its author is shown again."""


class Answer(Struct, Generic[T]):
    """What came of asking."""

    value: T | None = None
    """The reply, read; None if it broke the contract each time, or if there was none."""
    violation: ContractViolation | None = None
    turn: Turn | None = None
    """The last run. Unless it `ended`, there was no reply."""
    tries: int = 0
    """Replies that there were."""
    prompt_bytes: int = 0
    tokens: int = 0
    seconds: float = 0.0
    unknown: int = 0
    """Replies whose tokens are not known, or not all of them."""

    @property
    def said(self) -> str:
        return self.turn.text if self.turn else ""

    @property
    def problem(self) -> str:
        """Why there is no value, for those who may not read what was said."""
        if self.turn is None or self.value is not None:
            return ""
        match self.turn.status:
            case "ended":
                return f"its reply was refused {self.tries} times ({type(self.violation).__name__})"
            case "escalated":
                return "it asks the user something"
            case "exhausted":
                why = f" ({self.turn.error})" if self.turn.error else ""
                return f"it reached its limit of {self.turn.reason}{why}"
            case status:
                return f"its run {status} ({self.turn.reason})"

    def record(self, state: State, board: Board, node: str, **more: Any) -> Record:
        """What the ledger is told of it."""
        status = "failed" if self.value is None else "done"
        took = {"prompt_bytes": self.prompt_bytes, "seconds": self.seconds}
        counted = {"tokens": self.tokens, "unknown": self.unknown}
        return Record(state.turn, board.step, node, status=status, error=self.problem, **took, **counted, **more)


async def ask(
    ctx: ToolContext, agent: Runnable, question: str, read: Callable[[str], T], *, key: str = "", tries: int = 2
) -> Answer[T]:
    """Run *agent* with *question*, and again, told what was wrong, while *read* refuses its reply."""
    answer: Answer[T] = Answer()
    asked, started = question, perf_counter()
    while answer.tries < tries:
        again = f"again-{answer.tries}" if answer.tries else ""
        turn = answer.turn = await ctx.run(agent, asked, "-".join(filter(None, (key, again))) or None)
        answer.prompt_bytes += len(agent.spec.system.encode()) + len(asked.encode())
        answer.tokens += turn.usage.total
        answer.unknown += turn.usage.unknown
        if turn.status != "ended":
            answer.violation = None  # Of the reply before: this time there was none.
            break
        answer.tries += 1
        try:
            if turn.reason in _UNFINISHED:
                raise ContractViolation(_UNFINISHED[turn.reason])
            answer.value, answer.violation = read(turn.text), None
            break
        except ContractViolation as exc:
            answer.violation = exc
            asked = asked_again(question, turn.text[:QUOTED], str(exc))
    answer.seconds = perf_counter() - started
    return answer
