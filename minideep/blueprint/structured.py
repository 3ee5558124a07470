"""Structured questions: ask an agent in a run of its own, and once more if its reply breaks the contract."""

from collections.abc import Callable
from time import perf_counter
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from ..context import ToolContext
from ..errors import ContractViolation
from ..spec import Runnable
from ..turn import Turn
from .prompts import asked_again
from .state import Board, LedgerEntry, escalated

T = TypeVar("T")
_UNFINISHED = {"truncated": "it was cut off at the limit of its length", "refused": "you refused"}
"""The reason that a reply with such a `turn.reason` is refused, as its author reads it."""
MAX_QUOTED = 20_000
"""Characters of a refused reply that its author is shown again."""
MAX_SHOWN = 2_000
"""Characters of a refused reply that a person is shown."""


class Answer(Struct, Generic[T]):
    """The result of `ask`."""

    value: T | None = None
    """The parsed reply. None if every reply broke the contract, or if there was no reply."""
    violation: ContractViolation | None = None
    turn: Turn | None = None
    """The last run. Unless it `ended`, there was no reply."""
    tries: int = 0
    """The number of replies."""
    prompt_bytes: int = 0
    tokens: int = 0
    seconds: float = 0.0
    unknown: int = 0
    """Replies whose tokens are unknown or not fully reported."""

    @property
    def problem(self) -> str:
        """The reason that *value* is None. It never quotes the reply, because planner and reflection read it."""
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

    def ledger_entry(self, turn: int, step: int, node: str, **more: Any) -> LedgerEntry:
        """Return the ledger entry of this answer. *more* adds fields, or replaces `status` and `error`."""
        fields: dict[str, Any] = {"status": "failed" if self.value is None else "done", "error": self.problem}
        fields |= {name: getattr(self, name) for name in ("prompt_bytes", "seconds", "tokens", "unknown")}
        return LedgerEntry(turn, step, node, **(fields | more))

    def without_value(self, board: Board, node: str) -> Board:
        """Return *board* after the part *node* returned no usable reply.

        A broken contract escalates and shows a person the last reply. A model that failed fails the turn, which can
        then be resumed.
        """
        turn = self.turn
        assert turn is not None
        if self.violation is None:
            kind = type(turn.error).__name__ if turn.error else "LimitExceeded"
            return structs.replace(board, failure=[kind, f"{node}: {turn.error or turn.reason}"])
        found = f"{type(self.violation).__name__}: {self.violation}"
        times = "once" if self.tries == 1 else "twice"
        question = f"The {node} broke its contract {times} ({found}). How shall I go on?"
        return escalated(board, node, f"{question} Its last reply was:\n{turn.text[:MAX_SHOWN]}", "contract")


async def ask(
    ctx: ToolContext, agent: Runnable, question: str, parse: Callable[[str], T], *, key: str = "", tries: int = 2
) -> Answer[T]:
    """Run *agent* with *question*. If *parse* raises a `ContractViolation`, ask again and say what was wrong.

    *key* tells apart several questions of one call; *tries* bounds the replies.
    """
    answer: Answer[T] = Answer()
    asked, started = question, perf_counter()
    while answer.tries < tries:
        # Each try is a child of its own: a resumed call finds its finished tries in the log under their keys.
        again = f"again-{answer.tries}" if answer.tries else ""
        turn = answer.turn = await ctx.run(agent, asked, "-".join(filter(None, (key, again))) or None)
        answer.prompt_bytes += len(agent.spec.system.encode()) + len(asked.encode())
        answer.tokens += turn.usage.total
        answer.unknown += turn.usage.unknown
        if turn.status != "ended":
            # The violation belongs to the reply before: reported now, it would hide why the model failed.
            answer.violation = None
            break
        answer.tries += 1
        try:
            if turn.reason in _UNFINISHED:
                raise ContractViolation(_UNFINISHED[turn.reason])
            answer.value, answer.violation = parse(turn.text), None
            break
        except ContractViolation as exc:
            answer.violation = exc
            asked = asked_again(question, turn.text[:MAX_QUOTED], str(exc))
    answer.seconds = perf_counter() - started
    return answer
