"""The planner: the goal, the plan until now and a summary of the files go in; an ordered list of subtasks comes out."""

from collections.abc import Iterable
from typing import Any

from msgspec import structs

from ..agent import Agent
from ..context import ToolContext
from ..errors import ConfigError, PlanViolation
from ..messages import to_json
from ..middleware import ResponseFormat
from ..ports import Model
from . import prompts, state as boards
from .contracts import MAX_PLAN, Plan, plan_of, plan_schema
from .escalation import given_up
from .files import VirtualFiles
from .roles import Role
from .state import Board
from .structured import ask

PROMPT_LIMIT = 1_500
"""Characters of the planner's system prompt."""


class Planner:
    """Decomposes, assigns and revises. It has no tools, writes no file and never speaks to the user."""

    def __init__(
        self, model: Model, roles: Iterable[Role], files: VirtualFiles, prompt_limit: int = PROMPT_LIMIT
    ) -> None:
        self._roles = {role.name: role for role in roles}
        self._files = files
        system = prompts.planner_system(self._roles.values())
        if len(system) > prompt_limit:
            found = f"the planner's prompt has {len(system):,} characters with these roles, more than {prompt_limit:,}"
            raise ConfigError(f"{found}; shorten the roles' descriptions, or raise planner_prompt_limit")
        mode = ResponseFormat(plan_schema(list(self._roles)))
        self.agent = Agent(model, system_prompt=system, middleware=[mode], name="planner")

    async def planner(self, ctx: ToolContext) -> str:
        """Ask for a plan, and take it in."""
        board = boards.read(ctx.state)
        names = self._files.names(ctx.state, board.ledger)
        question = prompts.planner_asked(board, self._files.summary(ctx.state, names))
        answer = await ask(ctx, self.agent, question, lambda said: plan_of(said, self._roles, names))
        boards.enter(ctx, answer.record(ctx.state, board, "planner"))
        if answer.value is None:
            boards.note(ctx, given_up(board, "planner", answer))
            return "no plan"
        take_in(ctx, board, answer.value)
        return f"{len(answer.value.subtasks)} subtasks"

    async def approve_plan(self, ctx: ToolContext, plan: dict[str, Any], problem: str = "") -> str:
        """Take in the plan as a person has let it through, perhaps edited; *problem* says what was wrong with it."""
        board = boards.read(ctx.state)
        try:
            checked = plan_of(plan, self._roles, self._files.names(ctx.state, board.ledger))
        except PlanViolation as exc:
            if len(to_json(plan)) <= MAX_PLAN:
                boards.note_plan(ctx, plan)
            boards.note(ctx, structs.replace(board, node="refused_plan", reason=str(exc)))
            return f"refused: {exc}"
        take_in(ctx, board, checked, "approve_plan")
        return "the plan is approved"


def take_in(ctx: ToolContext, board: Board, plan: Plan, node: str = "planner") -> None:
    """Let *plan* be the plan: none of it is done yet."""
    boards.note_plan(ctx, plan)
    fresh: dict[str, Any] = {"delivered": [], "failed": [], "clean": True, "decision": None, "reason": ""}
    boards.note(ctx, structs.replace(board, node=node, planned_at=board.step, **fresh))
