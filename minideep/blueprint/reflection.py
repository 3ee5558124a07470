"""Reflection: the plan against what came of it goes in; one decision comes out."""

from collections.abc import Collection
from typing import Any

from msgspec import structs

from ..agent import Agent
from ..context import ToolContext
from ..errors import CheckpointError, FileViolation, ReflectionViolation
from ..middleware import ResponseFormat
from ..ports import Model
from . import prompts, state as boards
from .answer import names_in
from .contracts import DECISION_SCHEMA, Decision, decision_of
from .escalation import escalated, given_up
from .files import Found, VirtualFiles
from .state import Board
from .structured import ask

MAX_REFLECTION_DEPTH = 5
CAP = "Max reflection depth reached."


class Reflection:
    """Judges by names, sizes and errors; asked at most *depth* times a turn."""

    def __init__(self, model: Model, files: VirtualFiles, depth: int = MAX_REFLECTION_DEPTH) -> None:
        self._files = files
        self._depth = depth
        mode = ResponseFormat(DECISION_SCHEMA)
        self.agent = Agent(model, system_prompt=prompts.REFLECTION, middleware=[mode], name="reflection")

    async def reflection(self, ctx: ToolContext) -> str:
        """Ask for a decision, and see that it can be carried out."""
        board = boards.read(ctx.state)
        names = self._files.names(ctx.state, board.ledger)
        question = prompts.reflection_asked(board, self._files.summary(ctx.state, names), self._depth)
        tries = max(1, min(2, self._depth - board.reflection_depth))  # One more where a model had failed.
        answer = await ask(ctx, self.agent, question, lambda said: _read(said, names), tries=tries)
        board.reflection_depth += answer.tries
        if answer.value is None:
            boards.enter(ctx, answer.record(ctx.state, board, "reflection"))
            boards.note(ctx, given_up(board, "reflection", answer))
            return "no decision"
        decided = self._carried_out(board, answer.value)
        if decided.decision == "end":
            try:
                await self._kept(ctx, decided, names)
            except (FileViolation, CheckpointError) as exc:
                decided = self._carried_out(board, Decision("replan", f"the answer was refused: {exc}"))
        came = {"decision": decided.decision, "reason": decided.reason}
        boards.enter(ctx, answer.record(ctx.state, board, "reflection", **came))
        boards.note(ctx, decided)
        return str(decided.decision)

    def _carried_out(self, board: Board, said: Decision) -> Board:
        """The board with the decision, or with the one that must stand in its place."""
        decision = _possible(board, said)
        if decision.decision in ("continue", "replan") and board.reflection_depth >= self._depth:
            last = f" It was to {decision.decision}{f': {decision.reason}' if decision.reason else ''}."
            return escalated(board, "reflection", f"{CAP}{last} How shall I go on?", "reflection_cap")
        if decision.decision == "escalate":
            return escalated(board, "reflection", decision.question)
        ending: dict[str, Any] = (
            {"termination": {"reason": "end"}, "final_answer": decision.final_answer}
            if decision.decision == "end"
            else {}
        )
        return structs.replace(board, node="reflection", decision=decision.decision, reason=decision.reason, **ending)

    async def _kept(self, ctx: ToolContext, board: Board, names: dict[str, Found]) -> None:
        """See that what the answer names is there, and stays.

        Raises:
            FileViolation, CheckpointError: it is not there any more.
        """
        named = [names[name] for name in names_in(board.final_answer)]
        for found in named:
            await self._files.read(ctx, found, board.step)
        self._files.keep(ctx, {found.path for found in named})


def _read(said: str, names: Collection[str]) -> Decision:
    """The decision that a reply holds.

    Raises:
        ReflectionViolation: it holds none, or its answer names what is not there.
    """
    decision = decision_of(said)
    if decision.decision == "end" and (unknown := [one for one in names_in(decision.final_answer) if one not in names]):
        there = ", ".join(sorted(names)) or "none"
        raise ReflectionViolation(f"final_answer names artifacts that are not there: {unknown}; there are {there}")
    return decision


def _possible(board: Board, said: Decision) -> Decision:
    """What is said, if it can be done; else to plan anew, for a reason."""
    if said.decision == "end" and not board.produced:
        return Decision("replan", "the answer was refused: no artifact is done yet")
    if said.decision != "continue" or board.wave():
        return said
    stuck = ", ".join(board.subtasks[place].expected_artifact for place in board.left())
    left = f"what is left waits for artifacts that were not delivered: {stuck}" if stuck else "nothing of it is left"
    return Decision("replan", f"the plan was to be continued, but {left}")
