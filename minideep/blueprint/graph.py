"""The graph of a blueprint: a table of which part follows which, and the middleware that walks it.

A blueprint is an agent whose replies are computed: each is a tool call that runs the next part, and the last one is the
answer.

    after                   comes
    ----------------------  ------------------------------------------------------------------
    a new message           planner
    planner                 approve_plan if plans need approval, else subagent_dispatcher
    approve_plan            subagent_dispatcher; itself, if an edit is refused; planner, if rejected
    subagent_dispatcher     itself, while waves go well and one is left; then reflection
    reflection              cleanup
    cleanup                 by decision, continue: subagent_dispatcher; replan: planner;
                            end: the answer; escalate: the turn ends with the question
    any that escalates      cleanup
"""

import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from msgspec import structs

from .. import errors
from ..context import ToolContext
from ..errors import MinideepError, ModelError
from ..events import Compacted, TurnEscalated
from ..messages import ToolCall, ToolMessage, UserMessage
from ..middleware import HumanInTheLoopMiddleware
from ..models import Policy, Say
from ..ports import Ask, Middleware, Reply, Request
from ..state import Limits
from .contracts import MAX_QUESTION, fill_in, named_artifacts
from .files import VirtualFiles, as_text
from .reading import ReadFiles
from .state import Board, escalated, read_board, save_objective, save_plan, save_progress

MESSAGES_KEPT = 200
"""When the state has more messages than this, they are compacted. The log keeps all of them. The log has all of them.
"""
EARLIER_KEPT = 5
"""Earlier goals, and earlier messages about the present one, that the planner sees."""
EARLIER_LENGTH = 1_000
"""The maximum number of characters kept of each earlier goal or message."""
_CARRIED = ("step", "planned_at", "delivered", "failed", "produced")
"""Fields of the board that outlive a turn which did not reach its goal."""
_WHERE = ("node", "decision", "reason", "clean")
"""Fields of the board that say which part comes next, and why."""
_UNITS = {"tokens": "tokens", "cost": "US dollars", "seconds": "seconds"}


def next_part(board: Board, approving: bool = False) -> str:
    """Return the part that comes next, or `answer` or `question`."""
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


def middleware_of(
    files: VirtualFiles, roles: Collection[str], budgets: Limits, more: Iterable[Middleware], *, approving: bool
) -> list[Middleware]:
    """Return the middleware of a blueprint: *more* is its author's. What roles read stands outside all others."""
    parts = [ReadFiles(files, roles), Graph(files, budgets, approving=approving), *more]
    return [*parts, HumanInTheLoopMiddleware({"approve_plan": True})] if approving else parts


class Graph(Middleware):
    """Begins turns, ends them with a question, and makes each reply from the board."""

    def __init__(self, files: VirtualFiles, limits: Limits, *, approving: bool) -> None:
        self._files = files
        self._limits = limits
        self._approving = approving

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        self._enter(ctx)
        return request

    async def add_files(self, ctx: ToolContext, files: Mapping[str, str | bytes]) -> None:
        await self._files.add(ctx, files, read_board(ctx.state).step)

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Ask) -> Reply:
        said = await self.next_reply(ctx, read_board(ctx.state))
        return await ask(request, model=Policy(lambda request: said))

    async def next_reply(self, ctx: ToolContext, board: Board) -> Say:
        """Return the call of the next part, the final answer, or the error that fails the turn."""
        if board.failure:
            # Raised once, so that a turn that is resumed tries again.
            save_progress(ctx, structs.replace(board, failure=[]))
            return _as_error(*board.failure)
        if (part := next_part(board, self._approving)) == "answer":
            return await self._final_answer(ctx, board)
        return ToolCall(part, {"plan": board.plan, "problem": board.reason} if part == "approve_plan" else {})

    def _enter(self, ctx: ToolContext) -> None:
        """Bring the board up to date with the last message, and end the turn if a question is due."""
        last = ctx.state.messages[-1]
        if ctx.state.step == 0 and last == ctx.state.said:
            _begin(ctx)
        board = read_board(ctx.state)
        approval = last if isinstance(last, ToolMessage) and last.name == "approve_plan" else None
        if approval:
            board = self._after_approval(ctx, board, approval)
        elif ctx.state.step and isinstance(last, ToolMessage) and last.is_error:
            board = structs.replace(board, failure=["ModelError", f"{last.name}: {last.text}"])
            save_progress(ctx, board)
        if len(ctx.state.messages) > MESSAGES_KEPT or approval:  # A call of `approve_plan` holds a whole plan.
            ctx.record(Compacted(UserMessage("(earlier parts of this turn)"), len(ctx.state.messages)))
        if board.decision not in ("end", "escalate") and (limit := ctx.spent.reached(self._limits)):
            board = self._over_budget(ctx, board, limit)
        if next_part(board, self._approving) == "question":
            ctx.record(TurnEscalated(time.time(), board.question))

    def _after_approval(self, ctx: ToolContext, board: Board, last: ToolMessage) -> Board:
        """Return *board* after a person rejected a plan, or after an edit of theirs was refused."""
        if board.node == "refused_plan":
            board = structs.replace(board, node="planner")
        elif board.node == "planner" and last.is_error and last.text.startswith("approve_plan: "):
            # The edit does not even fit the tool's arguments: its author sees why, and edits again.
            board = structs.replace(board, reason=last.text)
        elif board.node == "planner":
            reason = f"the user did not let the plan through: {last.text[:MAX_QUESTION]}"
            board = structs.replace(board, node="", reason=reason)
        else:
            return board
        save_progress(ctx, board)
        return board

    def _over_budget(self, ctx: ToolContext, board: Board, limit: str) -> Board:
        """Return *board* after a budget is spent: the turn asks whether to go on."""
        allowed, missing = getattr(self._limits, limit), ctx.spent.missing(limit)
        spent = f"{getattr(ctx.spent, limit) or 0:,.7g}"
        if missing:
            spent = f"at least {spent} ({missing})"
        found = f"This turn may spend {allowed:,} {_UNITS[limit]} and has spent {spent}"
        question = f"{found}; subtasks left: {len(board.left())}. Shall I go on?"
        # What the rest of the plan reads stays: the turn after the answer goes on with it.
        self._files.evict(ctx, structs.replace(board, decision="continue"))
        stopped = {name: getattr(board, name) for name in _WHERE}
        board = escalated(structs.replace(board, failure=[], stopped=stopped), "cleanup", question, "budget")
        save_progress(ctx, board)
        return board

    async def _final_answer(self, ctx: ToolContext, board: Board) -> str:
        """Return the final answer with the contents of the artifacts that it names."""
        files, contents = self._files.by_name(ctx.state, board.ledger), dict[str, str]()
        for name in named_artifacts(board.final_answer):
            if name not in contents:  # Reading an evicted file records it again, so each is read once.
                contents[name] = as_text(await self._files.read(ctx, files[name], board.step))
        return fill_in(board.final_answer, contents.__getitem__, self._files.answer_limit)


def _as_error(kind: str, text: str) -> MinideepError:
    found: Any = getattr(errors, kind, None)
    return found(text) if isinstance(found, type) and issubclass(found, ModelError) else ModelError(f"{kind}: {text}")


def _begin(ctx: ToolContext) -> None:
    """Record what the user said: a new goal if the last one was reached, else a message about the last one."""
    state, board = ctx.state, read_board(ctx.state)
    said = state.messages[-1].text
    if state.began:  # The state holds the messages of one turn. What the next one needs of the others is on the board.
        ctx.record(Compacted(UserMessage("(earlier turns of this thread)"), state.began))
    now: dict[str, Any] = {name: getattr(board, name) for name in _CARRIED}
    if board.goal and board.termination.get("reason") != "end":
        if said not in (board.goal, *board.said[-1:]):  # It stands there already if the turn was cut short right here.
            board.said = [*(one[:EARLIER_LENGTH] for one in board.said[-EARLIER_KEPT:]), said]
        if board.termination.get("reason") == "budget":  # The plan is as good as it was: nothing is planned anew.
            now |= board.stopped
        elif board.question and "by" not in board.termination:
            now["reason"] = f"the user was asked: {board.question}"
    else:
        if board.goal:
            reached = [board.goal[:EARLIER_LENGTH], board.final_answer[:EARLIER_LENGTH]]
            board.earlier = [*board.earlier[1 - EARLIER_KEPT :], reached]
        board.goal, board.said, board.since = said, [], state.turn
        now = {"step": board.step}
        save_plan(ctx, {})
    save_objective(ctx, board)
    save_progress(ctx, structs.replace(Board(), **now))
