"""The subagent pool: dispatches a wave of subtasks, each under its role's own prompt, with the files that it reads.

A subagent's request is built from scratch: its role's prompt, one message, its role's tools. Results are recorded
together at the end of the wave, in the order of the plan.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from msgspec import Struct, structs

from ..agent import Agent
from ..context import ToolContext
from ..errors import ArtifactViolation, CheckpointError, ConfigError, FileViolation, PlanViolation, ToolError
from ..events import FileWritten
from ..messages import clean
from ..middleware import HumanInTheLoopMiddleware, ResponseFormat
from ..models import resolve
from ..plain_json import to_json
from ..ports import Model
from ..state import BUDGETS, Limits, as_bytes
from . import prompts
from .contracts import Artifact, Subtask, parse_artifact
from .files import VirtualFiles, digest, stored_name
from .reading import Reading
from .roles import Role
from .state import Board, FileNote, LedgerEntry, append_to_ledger, escalated, read_board, save_progress
from .structured import MAX_QUOTED, Answer, ask

MAX_PARALLEL = 8
"""Subagents that run at a time, by default: what the rate limits of a small account allow."""


class Assignment(Struct, frozen=True):
    """A dispatched subtask."""

    place: int
    """Its index in the plan."""
    subtask: Subtask
    step: int
    question: str = ""
    """The message that the subagent gets, with references to the files that it reads."""
    read_bytes: int = 0
    """The bytes of those files."""
    error: str = ""
    """The reason that no subagent can be run."""


class Outcome(Struct):
    """The result of an assignment."""

    assignment: Assignment
    answer: Answer[Artifact]
    error: str = ""
    written: FileWritten | None = None

    @property
    def question(self) -> str:
        """The question that the subagent asks of the user."""
        return self.answer.turn.question if self.answer.turn else ""

    @property
    def is_out_of_budget(self) -> bool:
        """True if a budget has stopped the subagent: its role's or the turn's."""
        turn = self.answer.turn
        return turn is not None and turn.status == "exhausted" and turn.reason in BUDGETS

    @property
    def as_planned(self) -> bool:
        """True if the artifact that the plan expects was written."""
        artifact, expected = self.answer.value, self.assignment.subtask.expected_artifact
        return self.written is not None and artifact is not None and artifact.artifact_name == expected


class SubagentPool:
    """The agents of the roles, and the tool that dispatches subtasks to them."""

    def __init__(
        self,
        roles: Mapping[str, Role],
        model: Model,
        files: VirtualFiles,
        limits: Limits,
        max_parallel: int = MAX_PARALLEL,
    ) -> None:
        self.roles = roles
        self._files = files
        self._max_parallel = max_parallel
        self.agents: dict[str, Agent] = {name: _agent_of(role, model, limits) for name, role in roles.items()}

    async def subagent_dispatcher(self, ctx: ToolContext) -> str:
        """Run every subtask whose files are there, side by side, and record the results."""
        board = read_board(ctx.state)
        subtasks = board.subtasks
        wave = [
            await self._assign(ctx, board, Assignment(place, subtasks[place], board.step + count))
            for count, place in enumerate(board.wave(), start=1)
        ]
        outcomes = await self._run_all(ctx, wave)
        for outcome in outcomes:
            await self._write(ctx, outcome)
        return self._record(ctx, board, outcomes)

    async def _run_all(self, ctx: ToolContext, wave: Sequence[Assignment]) -> list[Outcome]:
        """Run the agents of a wave, some at a time, and return their outcomes in the order of the plan."""
        slots = asyncio.Semaphore(self._max_parallel)

        async def run(one: Assignment) -> Outcome:
            async with slots:
                return await self._run(ctx, one)

        # A subagent that waits for a person leaves by an exception. Its siblings finish first, those included that have
        # not begun; the call that is started again finds their runs in the log.
        outcomes = await asyncio.gather(*map(run, wave), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return [outcome for outcome in outcomes if isinstance(outcome, Outcome)]

    async def _assign(self, ctx: ToolContext, board: Board, one: Assignment) -> Assignment:
        """Return the assignment with the subagent's message, or with the reason why there is none."""
        try:
            if one.subtask.role not in self.roles:
                raise PlanViolation(f"unknown role {one.subtask.role!r}; the plan was made with other roles")
            readings = await self._read(ctx, board, one.subtask)
        except (PlanViolation, FileViolation, CheckpointError) as exc:
            return structs.replace(one, error=f"{type(exc).__name__}: {exc}")
        question = prompts.subtask_asked(one.subtask.instruction, [reading.reference for reading in readings])
        return structs.replace(one, question=question, read_bytes=sum(reading.size for reading in readings))

    async def _read(self, ctx: ToolContext, board: Board, subtask: Subtask) -> list[Reading]:
        """Return the files that a subtask reads, all of which can be read now."""
        readings: list[Reading] = []
        for name in dict.fromkeys(subtask.read_files):
            # Looked up anew for each name: reading an evicted file restores it.
            files = self._files.by_name(ctx.state, board.ledger)
            ref = files.get(board.version(subtask, name)) or files.get(name)
            if ref is None:
                raise FileViolation(f"unknown file {name!r}")
            content = await self._files.read(ctx, ref, board.step)
            readings.append(Reading(name, ref.path, len(as_bytes(content)), digest(content)))
        return readings

    async def _run(self, ctx: ToolContext, one: Assignment) -> Outcome:
        """Run the role's agent. Its failure is an outcome: its siblings go on."""
        if one.error:
            return Outcome(one, Answer(), one.error)
        role, expected = self.roles[one.subtask.role], one.subtask.expected_artifact
        key = PurePosixPath(stored_name(role.name, one.step, expected)).stem
        answer = await ask(
            ctx,
            self.agents[role.name],
            one.question,
            lambda reply: _parse(role, reply, expected),
            key=key,
            timeout=role.timeout,
        )
        answer.prompt_bytes += one.read_bytes
        return Outcome(one, answer, answer.problem)

    async def _write(self, ctx: ToolContext, outcome: Outcome) -> None:
        """Write the artifact to the backend.

        Nothing is recorded before the whole wave is over, so a call that is started again finds the state unchanged.
        """
        if (artifact := outcome.answer.value) is None:
            return
        name = stored_name(outcome.assignment.subtask.role, outcome.assignment.step, artifact.artifact_name)
        try:
            outcome.written = await self._files.write(ctx, name, artifact.content)
        except ToolError as exc:
            outcome.error = f"it could not be written: {exc}"

    def _record(self, ctx: ToolContext, board: Board, outcomes: Sequence[Outcome]) -> str:
        """Record the outcomes in the order of the plan. Returns a line of JSON for each."""
        step = board.step + len(outcomes)
        self._files.adopt(ctx, step)
        for outcome in outcomes:
            artifact = outcome.answer.value
            if outcome.written and artifact:
                note = FileNote(artifact.artifact_name, outcome.assignment.subtask.role, step, artifact.status)
                self._files.record(ctx, outcome.written, note)
                board.produced = board.produced or artifact.status == "done"
        entries = [_ledger_entry(ctx.state.turn, outcome) for outcome in outcomes]
        append_to_ledger(ctx, *entries)
        board.step, board.node = step, "subagent_dispatcher"
        # A subtask that the turn's budget has cut short is still to be done, if the user lets the turn go on.
        over = [one for one in outcomes if not (one.is_out_of_budget and ctx.spent.reached(ctx.state.limits))]
        board.clean = all(outcome.as_planned for outcome in over)
        board.delivered = [*board.delivered, *(one.assignment.place for one in over if one.as_planned)]
        board.failed = [*board.failed, *(one.assignment.place for one in over if not one.as_planned)]
        if asking := [(one.assignment.subtask.role, one.question) for one in outcomes if one.question]:
            questions = "\n".join(f"{role} asks: {question}" for role, question in asking)
            board = escalated(board, board.node, questions, by=", ".join(role for role, _ in asking))
        save_progress(ctx, board)
        return "\n".join(to_json([one.artifact, one.status, one.bytes]).decode() for one in entries)


def _agent_of(role: Role, model: Model, limits: Limits) -> Agent:
    try:
        agent = Agent(
            resolve(role.model) if role.model is not None else model,
            role.tools,
            middleware=[
                *role.middleware,
                *([HumanInTheLoopMiddleware(role.interrupt_on)] if role.interrupt_on else []),
            ],
            limits=role.limits or limits,
            name=role.name,
            response_format=role.response_format,
        )
    except ConfigError as exc:
        raise ConfigError(f"role {role.name!r}: {exc}") from None
    for name in role.interrupt_on or ():
        if name not in agent.spec.tools:
            there = ", ".join(map(repr, agent.spec.tools)) or "none"
            raise ConfigError(f"role {role.name!r}: interrupt_on names {name!r}, but its tools are: {there}")
    # Set here, because `Agent` strips its prompt and adds its model's own words: a role's is sent to the letter.
    agent.spec = structs.replace(agent.spec, system=role.system)
    return agent


def _parse(role: Role, reply: str, expected: str) -> Artifact:
    """Parse the artifact in a reply, as the role's own functions take it.

    Raises:
        ArtifactViolation: the reply is not an artifact, or one of them refuses it.
    """
    form: ResponseFormat[Any] | None = role.response_format
    try:
        artifact = Artifact(expected, form.json_in(reply)) if form else parse_artifact(reply, expected)
        content = role.extract(artifact.content) if role.extract else artifact.content
        verdict = role.validate(content) if role.validate else None
    except ArtifactViolation:
        raise
    except (Exception, SystemExit) as exc:  # Whatever a user's validator raises, the subagent can correct.
        raise ArtifactViolation(clean(str(exc))[:MAX_QUOTED] or type(exc).__name__) from exc
    if verdict is False:
        raise ArtifactViolation(f"it is not what a {role.name} must deliver")
    return structs.replace(artifact, content=content)


def _ledger_entry(turn: int, outcome: Outcome) -> LedgerEntry:
    one, artifact, written = outcome.assignment, outcome.answer.value, outcome.written
    expected = one.subtask.expected_artifact
    found = {"artifact": expected, "status": "failed", "error": outcome.error}
    if written and artifact:
        found |= {"artifact": artifact.artifact_name, "status": artifact.status}
        found |= {"file": written.file[1:], "bytes": written.size, "sha256": written.sha256}
        if not outcome.as_planned:
            found["error"] = f"delivered instead of {expected}"
    return outcome.answer.ledger_entry(turn, one.step, "subagent", place=one.place, role=one.subtask.role, **found)
