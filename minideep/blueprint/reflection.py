"""Reflection: compares the plan with its results and makes one decision."""

from collections.abc import Collection, Mapping
from typing import Any

from msgspec import structs

from ..agent import Agent
from ..context import ToolContext
from ..errors import CheckpointError, FileViolation, ReflectionViolation
from ..middleware import RequestSchema
from ..ports import Model
from . import prompts
from .contracts import DECISION_SCHEMA, Decision, named_artifacts, parse_decision
from .files import FileRef, VirtualFiles
from .state import Board, append_to_ledger, escalated, read_board, save_progress
from .structured import PART_LIMITS, PART_TIMEOUT, ask

MAX_REFLECTION_DEPTH = 5
CAP = "Max reflection depth reached."


class Reflection:
    """Judges by names, sizes and errors, with at most *depth* replies a turn."""

    def __init__(self, model: Model, files: VirtualFiles, depth: int, timeout: float | None = PART_TIMEOUT) -> None:
        self._files = files
        self._depth = depth
        self._timeout = timeout
        about: dict[str, Any] = {"name": "reflection", "limits": PART_LIMITS}
        output = RequestSchema(DECISION_SCHEMA)
        self.agent: Agent = Agent(model, system_prompt=prompts.REFLECTION, middleware=[output], **about)

    async def reflection(self, ctx: ToolContext) -> str:
        """Ask for a decision and check that it can be carried out."""
        board = read_board(ctx.state)
        files = await self._files.offered(ctx, board.ledger)
        question = prompts.reflection_asked(board, self._files.summary(ctx.state, files), self._depth)
        # At least one try: a model that failed at the last look leaves none, and resuming the turn must ask again.
        tries = max(1, min(2, self._depth - board.reflection_depth))
        answer = await ask(
            ctx, self.agent, question, lambda reply: _parse(reply, files), tries=tries, timeout=self._timeout
        )
        board.reflection_depth += answer.tries
        if answer.value is None:
            append_to_ledger(ctx, answer.ledger_entry(ctx.state.turn, board.step, "reflection"))
            save_progress(ctx, answer.without_value(board, "reflection"))
            return "no decision"
        decided = self._decide(board, answer.value)
        if decided.decision == "end":
            try:
                await self._keep_named(ctx, decided, files)
            except (FileViolation, CheckpointError) as exc:
                decided = self._decide(board, Decision("replan", f"the answer was refused: {exc}"))
        made = {"decision": decided.decision, "reason": decided.reason}
        append_to_ledger(ctx, answer.ledger_entry(ctx.state.turn, board.step, "reflection", **made))
        save_progress(ctx, decided)
        return str(decided.decision)

    def _decide(self, board: Board, wanted: Decision) -> Board:
        """Return *board* with the decision *wanted*, or with the one that must replace it."""
        decision = _feasible(board, wanted)
        if decision.decision in ("continue", "replan") and board.reflection_depth >= self._depth:
            last = f" It was to {decision.decision}{f': {decision.reason}' if decision.reason else ''}."
            return escalated(board, "reflection", f"{CAP}{last} How shall I go on?", "reflection_cap")
        if decision.decision == "escalate":
            return escalated(board, "reflection", decision.question)
        made: dict[str, Any] = {"decision": decision.decision, "reason": decision.reason}
        if decision.decision == "end":
            made |= {"termination": {"reason": "end"}, "final_answer": decision.final_answer}
        return structs.replace(board, node="reflection", **made)

    async def _keep_named(self, ctx: ToolContext, board: Board, files: Mapping[str, FileRef]) -> None:
        """Check that the artifacts that the answer names can be read, and keep them from eviction.

        Raises:
            FileViolation, CheckpointError: one cannot be read.
        """
        named = [files[name] for name in dict.fromkeys(named_artifacts(board.final_answer))]
        for file in named:
            await self._files.read(ctx, file, board.step)
        self._files.keep(ctx, {file.path for file in named})


def _parse(reply: str, files: Collection[str]) -> Decision:
    """Parse a decision whose answer names only *files*.

    Raises:
        ReflectionViolation: the reply holds none.
    """
    decision = parse_decision(reply)
    if decision.decision == "end":
        named = dict.fromkeys(named_artifacts(decision.final_answer))
        if unknown := [name for name in named if name not in files]:
            there = ", ".join(sorted(files)) or "none"
            found = f"final_answer names unknown artifacts: {unknown}; artifacts: {there}"
            raise ReflectionViolation(f"{found}; for braces that name none, write \\\\{{{{")
    return decision


def _feasible(board: Board, wanted: Decision) -> Decision:
    """Return *wanted* if it can be carried out, else a decision to replan that says why not."""
    if wanted.decision == "end" and not board.produced:
        return Decision("replan", "the answer was refused: no artifact is done yet")
    if wanted.decision != "continue" or board.wave():
        return wanted
    stuck = ", ".join(board.subtasks[place].expected_artifact for place in board.left())
    left = f"what is left waits for artifacts that were not delivered: {stuck}" if stuck else "nothing of it is left"
    return Decision("replan", f"the plan was to be continued, but {left}")
