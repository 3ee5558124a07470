"""Which part comes next: the whole graph, as one table over the board.

Every line is a tool call of the policy's; the answer is what it says.

    after                   comes
    ----------------------  ------------------------------------------------------------------
    a new message           planner
    planner                 approve_plan, where plans are approved; else subagent_dispatcher
    approve_plan            subagent_dispatcher; again, if an edit is refused; planner, if rejected
    subagent_dispatcher     itself, while waves go well and one is left; then reflection
    reflection              cleanup
    cleanup                 by decision, continue: subagent_dispatcher; replan: planner;
                            end: the answer; escalate: the question, and the turn hands over
    any, that escalates     cleanup
"""

import time
from typing import Any

from msgspec import field, structs

from .. import errors
from ..context import ToolContext
from ..errors import MinideepError, ModelError
from ..events import Compacted, TurnEscalated
from ..messages import Message, ToolCall, ToolMessage, UserMessage
from ..models import Say
from ..ports import Middleware, Request
from ..state import Limits
from . import state as boards
from .answer import filled, names_in
from .contracts import MAX_SAID
from .escalation import escalated
from .files import VirtualFiles
from .state import Board

MESSAGES_KEPT = 200
"""Messages of a turn after which its record in the state is begun anew; the log has them all."""
EARLIER_KEPT = 5
"""Goals before the present one, and things said since, that the planner is told of."""
QUOTED = 1_000
"""Characters of each of them that are kept."""
_CARRIED = ("step", "planned_at", "delivered", "failed", "produced")
"""What of the board outlives a turn that did not reach its goal."""
_UNITS = {"tokens": "tokens", "cost": "US dollars", "seconds": "seconds"}


class Shown(Request, frozen=True):
    """What the policy decides by: no messages, but where the turn stands."""

    board: Board = field(default_factory=Board)
    part: str = ""
    """The part that comes next, or `answer`."""
    answer: str = ""
    """The final answer, with artifacts filled in."""
    failure: tuple[str, str] | None = None
    """Kind and text of what keeps the turn from going on."""


def next_part(board: Board, approving: bool = False) -> str:
    """The part that comes next, or `answer` or `question`."""
    if board.node == "cleanup":
        after = {"continue": "subagent_dispatcher", "replan": "planner", "end": "answer", "escalate": "question"}
        return after[board.decision or "continue"]
    if board.node == "reflection" or board.decision == "escalate":
        return "cleanup"
    if board.node == "subagent_dispatcher":
        return "subagent_dispatcher" if board.clean and board.wave() else "reflection"
    if board.node == "planner" and approving:
        return "approve_plan"
    return "subagent_dispatcher" if board.node in ("planner", "approve_plan") else "planner"


def decide(request: Request) -> Say:
    """The policy: call the part that comes next, or say the answer."""
    assert isinstance(request, Shown)
    if request.failure:
        return _as_error(*request.failure)
    if request.part == "answer":
        return request.answer
    about = {"plan": request.board.plan, "problem": request.board.reason} if request.part == "approve_plan" else {}
    return ToolCall(request.part, about)


def _as_error(kind: str, text: str) -> MinideepError:
    found: Any = getattr(errors, kind, None)
    return found(text) if isinstance(found, type) and issubclass(found, ModelError) else ModelError(f"{kind}: {text}")


class Topology(Middleware):
    """Shows the policy the board; begins and closes turns."""

    def __init__(self, files: VirtualFiles, limits: Limits, *, approving: bool) -> None:
        self._files = files
        self._limits = limits
        self._approving = approving

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        state, last = ctx.state, ctx.state.messages[-1]
        if state.step == 0 and last == state.said:
            begin(ctx)
        board = self._as_decided(ctx, boards.read(state), last)
        if len(state.messages) > MESSAGES_KEPT or (isinstance(last, ToolMessage) and last.name == "approve_plan"):
            ctx.record(Compacted(UserMessage("(earlier parts of this turn)"), len(state.messages)))
        part = next_part(board, self._approving)
        if board.decision not in ("end", "escalate") and (limit := ctx.spent.reached(self._limits)):
            board, part = self._stopped(ctx, board, limit), "question"
        if part == "question":
            ctx.record(TurnEscalated(time.time(), board.question))
            return request
        answer = await self._answer(ctx, board) if part == "answer" else ""
        failure = self._failure(ctx, board, last)
        return Shown("", request.messages, request.tools, board=board, part=part, answer=answer, failure=failure)

    def _failure(self, ctx: ToolContext, board: Board, last: Message) -> tuple[str, str] | None:
        """Kind and text of what keeps the turn from going on. It is told once: a turn that is resumed tries again."""
        if board.failure:
            boards.note(ctx, structs.replace(board, failure=[]))
            return board.failure[0], board.failure[1]
        if ctx.state.step and isinstance(last, ToolMessage) and last.is_error and last.name != "approve_plan":
            return "ModelError", f"{last.name}: {last.text}"
        return None

    def _as_decided(self, ctx: ToolContext, board: Board, last: Message) -> Board:
        """The board after a person, or the check of what a person edited, did not let a plan through."""
        if not (isinstance(last, ToolMessage) and last.name == "approve_plan"):
            return board
        if board.node == "refused_plan":
            board = structs.replace(board, node="planner")
        elif board.node == "planner" and last.is_error and last.text.startswith("approve_plan: "):
            board = structs.replace(board, reason=last.text)  # An edit of another shape: whoever made it is told.
        elif board.node == "planner":
            board = structs.replace(
                board, node="", reason=f"the user did not let the plan through: {last.text[:MAX_SAID]}"
            )
        else:
            return board
        boards.note(ctx, board)
        return board

    def _stopped(self, ctx: ToolContext, board: Board, limit: str) -> Board:
        """The board of a turn that hands over because it may spend no more."""
        most, left, missing = getattr(self._limits, limit), len(board.left()), ctx.spent.missing(limit)
        spent = f"{getattr(ctx.spent, limit) or 0:,.7g}"
        if missing:
            spent = f"at least {spent} ({missing})"
        asks = f"This turn may spend {most:,} {_UNITS[limit]} and has spent {spent}; {left} subtasks are left."
        board = escalated(structs.replace(board, failure=[]), "cleanup", f"{asks} Shall I go on?", "budget")
        self._files.evict(ctx, board)
        boards.note(ctx, board)
        return board

    async def _answer(self, ctx: ToolContext, board: Board) -> str:
        """The final answer, with the artifacts that it names."""
        names = self._files.names(ctx.state, board.ledger)
        contents = {name: await self._files.read(ctx, names[name], board.step) for name in names_in(board.final_answer)}
        return filled(board.final_answer, contents.__getitem__, self._files.answer_limit)


def begin(ctx: ToolContext) -> None:
    """Take in what the user said: a new goal, if the last one was reached; else more about that one."""
    state, board = ctx.state, boards.read(ctx.state)
    said = state.messages[-1].text
    if state.began:
        ctx.record(Compacted(UserMessage("(earlier turns of this thread)"), state.began))
    now: dict[str, Any] = {name: getattr(board, name) for name in _CARRIED}
    if board.goal and board.termination.get("reason") != "end":
        if said not in (board.goal, *board.said[-1:]):  # Else the turn was cut short while it began.
            board.said = [*(one[:QUOTED] for one in board.said[-EARLIER_KEPT:]), said]
        if board.question and "by" not in board.termination:
            now["reason"] = f"the user was asked: {board.question}"
    else:
        if board.goal:
            board.earlier = [*board.earlier[1 - EARLIER_KEPT :], [board.goal[:QUOTED], board.final_answer[:QUOTED]]]
        board.goal, board.said, board.since = said, [], state.turn
        now = {"step": board.step}
        boards.note_plan(ctx, {})
    boards.note_aim(ctx, board)
    boards.note(ctx, structs.replace(Board(), **now))
