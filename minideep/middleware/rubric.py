"""A rubric: the final reply is graded by criteria, and the agent revises what does not meet them."""

import logging
from collections.abc import Sequence
from typing import Annotated, Any

from msgspec import Meta

from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, ModelError
from ..events import Noted
from ..messages import UserMessage
from ..models import resolve
from ..ports import Ask, Middleware, Model, Reply, Request
from .aside import Aside
from .checking import FINAL_ANSWER, written
from .context.spill import digest
from .context.transcript_text import excerpts
from .grading import unmet

OWNER = "Rubric"
"""The owner of the notes `grade` and `revised`."""
logger: logging.Logger = logging.getLogger("minideep")
WORK_TOKENS, LONGEST, ATTEMPTS = 20_000, 4_000, 2
"""Tokens of the work that a grader reads, characters of each text in it, and how often it is asked for a grade."""


class Rubric(Middleware):
    """Has *model* grade each final reply by *criteria*, and the agent revise what does not meet them, up to *retries*
    times a turn: `Rubric(["Every claim names its source."], "openai:gpt-5")`.

    What the grader takes counts as the agent's. A grade that leaves out a criterion, judges one twice, or finds fault
    without a reason is asked for again, once. If there is none then, the reply stands. The last one stands in any case:
    `state.notes["Rubric"]["grade"]` has the criteria that it does not meet, as `{"unmet": {criterion: reason}}`, or the
    `problem` of a reply without a grade. Graded are the text of a reply without calls, and what `final_answer` is
    given. Runs below the agent are not graded; give a subagent a rubric of its own.

    Raises:
        ConfigError: *criteria* is empty, or an argument is wrong.
    """

    inherit: bool | None = False

    @checked
    def __init__(self, criteria: Sequence[str], model: str | Model, retries: Annotated[int, Meta(ge=0)] = 2) -> None:
        if not criteria:
            raise ConfigError("Rubric: criteria is empty; say what an answer must meet")
        self._criteria = tuple(criteria)
        self.models: Sequence[Model] = (resolve(model),)
        self._retries = retries

    async def wrap_model(self, ctx: ToolContext, request: Request, ask: Ask) -> Reply:
        reply = await ask(request)
        if not isinstance(request, Aside) and (answer := _answer(reply)):
            turn, step = _place(ctx)
            place = [turn, step + 1, digest(answer)]
            # In the log before the reply is: whoever goes on from there, or runs it again, has the grade.
            if ctx.state.notes.get(OWNER, {}).get("grade", {}).get("reply") != place:
                grade = await self._grade(ctx, answer, ask)
                ctx.record(Noted(OWNER, "grade", {"reply": place, **grade}))
        return reply

    async def before_finish(self, ctx: ToolContext) -> UserMessage | None:
        notes, (turn, step) = ctx.state.notes.get(OWNER, {}), _place(ctx)
        grade, revised = notes.get("grade", {"reply": []}), notes.get("revised", [0, 0])
        count = revised[1] if revised[0] == turn else 0
        if grade["reply"][:2] != [turn, step] or not grade.get("unmet") or count >= self._retries:
            return None
        ctx.record(Noted(OWNER, "revised", [turn, count + 1]))
        problems = "\n".join(f"- {criterion}: {reason}" for criterion, reason in grade["unmet"].items())
        return UserMessage(
            f"Your answer does not meet these criteria yet:\n{problems}\n\nReply with all of it, revised."
        )

    async def _grade(self, ctx: ToolContext, answer: str, ask: Ask) -> dict[str, Any]:
        # If nothing may be spent any more, to ask would end the turn without its reply.
        if limit := ctx.spent.reached(ctx.state.limits):
            return {"problem": f"the budget of {limit} is spent"}
        work, problem = excerpts(ctx.state.messages[ctx.state.began :], WORK_TOKENS, LONGEST), ""
        for _ in range(ATTEMPTS):
            try:
                return {"unmet": await unmet(ask, self.models[0], self._criteria, work, answer)}
            except (ModelError, ValueError) as exc:
                problem = str(exc)
        logger.warning("thread %s: a reply is not graded: %s", ctx.thread_id, problem)
        return {"problem": problem}


def _answer(reply: Reply) -> str:
    """Return what may be the last word of a turn: a text without calls, or what `final_answer` is given."""
    calls = reply.message.calls
    given = [written(call.raw) for call in calls if call.name == FINAL_ANSWER]
    if reply.stop != "done" or (calls and not given):
        return ""
    return given[0] if given else reply.message.text


def _place(ctx: ToolContext) -> tuple[int, int]:
    """Return what tells a reply from others of its run: its turn, and its number in the turn."""
    return ctx.state.start.number, ctx.state.step
