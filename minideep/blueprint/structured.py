"""Structured questions: ask an agent in a run of its own, which is told if its reply breaks the contract."""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any, Generic, TypeVar

from msgspec import Struct, structs

from ..context import ToolContext
from ..errors import ContractViolation
from ..middleware import UNFINISHED, ReplyCheck, last_words, refusals
from ..spec import AgentSpec, Runnable
from ..state import Limits
from ..turn import Turn
from .prompts import asked_again
from .state import Board, LedgerEntry, escalated

T = TypeVar("T")
PART_LIMITS = Limits(steps=5)
"""Of planner and reflection, which have no tools: two replies that are read, and a few calls of tools they do not have.
"""
PART_TIMEOUT = 600.0
"""Seconds that planner or reflection may take, by default: as long as the SDKs wait for one reply."""
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
    timeout: float | None = None
    """The seconds that it was given, if it took longer."""
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
        if self.timeout is not None:
            return f"it took longer than {self.timeout:g} s"
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
        if turn is None or self.violation is None:
            error = turn.error if turn else None
            kind = type(error).__name__ if error else "LimitExceeded"
            return structs.replace(board, failure=[kind, f"{node}: {error or self.problem}"])
        found = f"{type(self.violation).__name__}: {self.violation}"
        times = "once" if self.tries == 1 else "twice"
        question = f"The {node} broke its contract {times} ({found}). How shall I go on?"
        return escalated(board, node, f"{question} Its last reply was:\n{turn.text[:MAX_SHOWN]}", "contract")


class _Checked(Struct, frozen=True):
    """An agent for one question, whose reply *check* reads."""

    agent: Runnable
    check: ReplyCheck

    @property
    def spec(self) -> AgentSpec:
        spec = self.agent.spec
        return structs.replace(spec, before_finish=(*spec.before_finish, self.check), keyed=True)


async def ask(
    ctx: ToolContext,
    agent: Runnable,
    question: str,
    parse: Callable[[str], T],
    *,
    key: str = "",
    tries: int = 2,
    timeout: float | None = None,
) -> Answer[T]:
    """Run *agent* with *question*. If *parse* raises a `ContractViolation`, the same run is told what was wrong.

    *key* tells apart several questions of one call, *tries* bounds the replies, and *timeout* the seconds.
    """
    answer: Answer[T] = Answer()
    started = perf_counter()
    try:
        async with asyncio.timeout(timeout):
            await _run(ctx, agent, question, answer, parse, key, tries)
    except TimeoutError:
        answer.timeout = timeout
    answer.seconds = perf_counter() - started
    return answer


async def _run(
    ctx: ToolContext,
    agent: Runnable,
    question: str,
    answer: Answer[T],
    parse: Callable[[str], T],
    key: str,
    tries: int,
) -> None:
    def read(reply: str, stop: str) -> str:
        try:
            if stop in UNFINISHED:
                raise ContractViolation(UNFINISHED[stop])
            answer.value, answer.violation = parse(reply), None
        except ContractViolation as exc:
            answer.value, answer.violation = None, exc
        return str(answer.violation or "")

    asked = question
    while answer.tries < tries:
        # One round. Earlier versions began a run for each try, and a thread of theirs may go on with the second.
        again = f"again-{answer.tries}" if answer.tries else ""
        check = ReplyCheck(read, tries - answer.tries)
        turn = answer.turn = await ctx.run(_Checked(agent, check), asked, "-".join(filter(None, (key, again))) or None)
        answer.prompt_bytes += len(agent.spec.system.encode()) + len(asked.encode())
        answer.tokens += turn.usage.total
        answer.unknown += turn.usage.unknown
        if turn.status != "ended":
            # The violation belongs to the reply before: reported now, it would hide why the model failed.
            answer.value = answer.violation = None
            return
        answer.tries += max(check.replies, 1 + refusals(turn.messages))
        if not check.replies:  # The run was over already, so nothing of it was read here.
            read(last_words(turn.messages), turn.reason)
        if answer.violation is None:
            return
        asked = asked_again(question, turn.text[:MAX_QUOTED], str(answer.violation))
