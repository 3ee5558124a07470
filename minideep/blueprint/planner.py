"""The planner: turns the goal, the plan so far and a summary of the files into an ordered list of subtasks."""

from collections.abc import Mapping
from typing import Any

from msgspec import structs

from ..agent import Agent
from ..context import ToolContext
from ..errors import ConfigError, PlanViolation
from ..middleware import RequestSchema
from ..plain_json import to_json
from ..ports import Model
from . import prompts
from .contracts import MAX_PLAN, Plan, parse_plan, plan_schema
from .files import VirtualFiles
from .roles import Role
from .state import Board, append_to_ledger, read_board, save_plan, save_progress
from .structured import PART_LIMITS, PART_TIMEOUT, ask

PROMPT_LIMIT = 1_500
"""Characters of the planner's system prompt."""


class Planner:
    """Splits the goal, assigns roles and revises the plan. It has no tools and never answers the user."""

    def __init__(
        self,
        model: Model,
        roles: Mapping[str, Role],
        files: VirtualFiles,
        prompt_limit: int,
        timeout: float | None = PART_TIMEOUT,
    ) -> None:
        self._roles = roles
        self._files = files
        self._timeout = timeout
        system = prompts.planner_system(roles.values())
        if len(system) > prompt_limit:
            found = f"the planner's prompt has {len(system):,} characters with these roles, more than {prompt_limit:,}"
            raise ConfigError(f"{found}; shorten the roles' descriptions, or raise planner_prompt_limit")
        output = RequestSchema(plan_schema(list(roles)))
        about: dict[str, Any] = {"name": "planner", "limits": PART_LIMITS}
        self.agent: Agent = Agent(model, system_prompt=system, middleware=[output], **about)

    async def planner(self, ctx: ToolContext) -> str:
        """Ask for a plan and adopt it."""
        board = read_board(ctx.state)
        files = await self._files.offered(ctx, board.ledger)
        question = prompts.planner_asked(board, self._files.summary(ctx.state, files), ctx.state.start.at)
        answer = await ask(
            ctx, self.agent, question, lambda reply: parse_plan(reply, self._roles, files), timeout=self._timeout
        )
        append_to_ledger(ctx, answer.ledger_entry(ctx.state.turn, board.step, "planner"))
        if answer.value is None:
            save_progress(ctx, answer.without_value(board, "planner"))
            return "no plan"
        _adopt(ctx, board, answer.value, "planner")
        return f"{len(answer.value.subtasks)} subtasks"

    async def approve_plan(self, ctx: ToolContext, plan: dict[str, Any], problem: str = "") -> str:
        """Adopt the plan that a person approved, perhaps edited. *problem* shows what was wrong with the last edit."""
        board = read_board(ctx.state)
        files = await self._files.offered(ctx, board.ledger)
        try:
            approved = parse_plan(plan, self._roles, files)
        except PlanViolation as exc:
            # The edit is saved, so that the person corrects it rather than begins again; unless it is so long that
            # it would not fit the state.
            if len(to_json(plan)) <= MAX_PLAN:
                save_plan(ctx, plan)
            save_progress(ctx, structs.replace(board, node="refused_plan", reason=str(exc)))
            return f"refused: {exc}"
        _adopt(ctx, board, approved, "approve_plan")
        return "the plan is approved"


def _adopt(ctx: ToolContext, board: Board, plan: Plan, node: str) -> None:
    """Make *plan* the current plan, with none of its subtasks done."""
    save_plan(ctx, plan)
    fresh: dict[str, Any] = {"delivered": [], "failed": [], "clean": True, "decision": None, "reason": ""}
    save_progress(ctx, structs.replace(board, node=node, planned_at=board.step, **fresh))
