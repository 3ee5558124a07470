"""The subagent pool: a wave of subtasks, each done under its role's own prompt, with the files that it reads.

A subagent's request is built from nothing: its role's prompt, one message, its role's tools. Results are taken in
together, in the order of the plan.
"""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from msgspec import Struct, structs

from ..agent import Agent
from ..context import ToolContext
from ..errors import ArtifactViolation, CheckpointError, ConfigError, FileViolation, ToolError
from ..events import FileWritten
from ..messages import clean, to_json
from ..middleware import HumanInTheLoopMiddleware
from ..models import resolve
from ..ports import Model
from ..state import Limits
from . import prompts, state as boards
from .contracts import Artifact, Subtask, artifact_of
from .escalation import escalated
from .files import Found, VirtualFiles, stored_name
from .roles import Role
from .state import Board, Filed, Record
from .structured import QUOTED, Answer, ask


class Assignment(Struct, frozen=True):
    """A subtask that is dispatched."""

    place: int
    """Where it stands in the plan."""
    subtask: Subtask
    step: int
    asked: str = ""
    error: str = ""
    """Why it cannot be asked at all."""


class Report(Struct):
    """What came of it."""

    assignment: Assignment
    answer: Answer[Artifact]
    error: str = ""
    question: str = ""
    """What the subagent asks of the user."""
    written: FileWritten | None = None

    @property
    def as_planned(self) -> bool:
        """Whether the artifact is there that the plan expects."""
        artifact, expected = self.answer.value, self.assignment.subtask.expected_artifact
        return self.written is not None and artifact is not None and artifact.artifact_name == expected


class SubagentPool:
    """The agents of the roles, and how they are dispatched."""

    def __init__(self, roles: Mapping[str, Role], model: Model, files: VirtualFiles, limits: Limits) -> None:
        self.roles = roles
        self._files = files
        self.agents = {name: _agent_of(role, model, limits) for name, role in roles.items()}

    async def subagent_dispatcher(self, ctx: ToolContext) -> str:
        """Have every subtask done whose files are there, side by side, and take in what comes of them."""
        board = boards.read(ctx.state)
        subtasks = board.subtasks
        work = [
            await self._assigned(ctx, board, Assignment(place, subtasks[place], board.step + count))
            for count, place in enumerate(board.wave(), start=1)
        ]
        reports = await asyncio.gather(*(self._delegated(ctx, one) for one in work))
        for report in reports:
            await self._written(ctx, report)
        return self._taken_in(ctx, board, reports)

    async def _assigned(self, ctx: ToolContext, board: Board, one: Assignment) -> Assignment:
        """The assignment with what the subagent is asked."""
        if one.subtask.role not in self.roles:  # The plan was made when there were others.
            return structs.replace(one, error=f"PlanViolation: there is no role {one.subtask.role!r} any more")
        try:
            files = await self._read(ctx, board, one.subtask)
        except (FileViolation, CheckpointError) as exc:
            return structs.replace(one, error=f"{type(exc).__name__}: {exc}")
        return structs.replace(one, asked=prompts.subtask_asked(one.subtask.instruction, files))

    async def _read(self, ctx: ToolContext, board: Board, subtask: Subtask) -> list[tuple[str, str]]:
        files: list[tuple[str, str]] = []
        for name in dict.fromkeys(subtask.read_files):
            there: dict[str, Found] = self._files.names(ctx.state, board.ledger)
            found = there.get(board.version(subtask, name)) or there.get(name)
            if found is None:
                raise FileViolation(f"there is no file {name!r}")
            files.append((name, await self._files.read(ctx, found, board.step)))
        return files

    async def _delegated(self, ctx: ToolContext, one: Assignment) -> Report:
        """Run the role's agent; whatever goes wrong is reported."""
        if one.error:
            return Report(one, Answer(), one.error)
        role, expected = self.roles[one.subtask.role], one.subtask.expected_artifact
        key = PurePosixPath(stored_name(role.name, one.step, expected)).stem
        try:
            async with asyncio.timeout(role.timeout):
                answer = await ask(
                    ctx, self.agents[role.name], one.asked, lambda said: _artifact(role, said, expected), key=key
                )
        except TimeoutError:
            return Report(one, Answer(), f"it took longer than {role.timeout:g} s")
        return Report(one, answer, answer.problem, answer.turn.question if answer.turn else "")

    async def _written(self, ctx: ToolContext, report: Report) -> None:
        """Put the artifact where files are kept; nothing is recorded yet, so that a new start finds all as it was."""
        if (artifact := report.answer.value) is None:
            return
        name = stored_name(report.assignment.subtask.role, report.assignment.step, artifact.artifact_name)
        try:
            report.written = await self._files.write(ctx, name, artifact.content)
        except ToolError as exc:
            report.error = f"it could not be written: {exc}"

    def _taken_in(self, ctx: ToolContext, board: Board, reports: Sequence[Report]) -> str:
        """Record everything, in the order of the plan."""
        step = board.step + len(reports)
        self._files.adopt(ctx, step)
        for report in reports:
            artifact = report.answer.value
            if report.written and artifact:
                about = Filed(artifact.artifact_name, report.assignment.subtask.role, step, artifact.status)
                self._files.enter(ctx, report.written, about)
                board.produced = board.produced or artifact.status == "done"
        records = [_record(ctx.state.turn, report) for report in reports]
        boards.enter(ctx, *records)
        board.step, board.node = step, "subagent_dispatcher"
        board.clean = all(report.as_planned for report in reports)
        board.delivered = [*board.delivered, *(one.assignment.place for one in reports if one.as_planned)]
        board.failed = [*board.failed, *(one.assignment.place for one in reports if not one.as_planned)]
        if asking := [report for report in reports if report.question]:
            roles = [report.assignment.subtask.role for report in asking]
            questions = (f"{role} asks: {one.question}" for role, one in zip(roles, asking, strict=True))
            board = escalated(board, board.node, "\n".join(questions), by=", ".join(roles))
        boards.note(ctx, board)
        return "\n".join(to_json([one.artifact, one.status, one.bytes]).decode() for one in records)


def _agent_of(role: Role, model: Model, limits: Limits) -> Agent:
    try:
        agent = Agent(
            resolve(role.model) if role.model is not None else model,
            role.tools,
            middleware=[HumanInTheLoopMiddleware(role.interrupt_on)] if role.interrupt_on else [],
            limits=role.limits or limits,
            name=role.name,
        )
    except ConfigError as exc:
        raise ConfigError(f"role {role.name!r}: {exc}") from None
    for name in role.interrupt_on or ():
        if name not in agent.spec.tools:
            raise ConfigError(f"role {role.name!r}: interrupt_on names {name!r}, which is none of its tools")
    agent.spec = structs.replace(agent.spec, system=role.prompt)  # To the letter: nothing is stripped or added.
    return agent


def _artifact(role: Role, said: str, expected: str) -> Artifact:
    """The artifact that a reply is, if the role's validator takes it.

    Raises:
        ArtifactViolation: it is none, or is refused.
    """
    try:
        artifact = artifact_of(said, expected)
    except FileViolation as exc:
        raise ArtifactViolation(str(exc)) from None
    try:
        verdict = role.validate(artifact.content) if role.validate else None
    except (Exception, SystemExit) as exc:  # The hook door: a validator is anybody's, its refusal to be mended.
        raise ArtifactViolation(clean(str(exc))[:QUOTED] or type(exc).__name__) from exc
    if verdict is False:
        raise ArtifactViolation(f"it is not what a {role.name} must deliver")
    return artifact


def _record(turn: int, report: Report) -> Record:
    one, artifact, written, answer = report.assignment, report.answer.value, report.written, report.answer
    name = artifact.artifact_name if written and artifact else one.subtask.expected_artifact
    unplanned = f"delivered instead of {one.subtask.expected_artifact}" if written and not report.as_planned else ""
    return Record(
        turn,
        one.step,
        "subagent",
        place=one.place,
        role=one.subtask.role,
        artifact=name,
        file=written.file[1:] if written else "",
        bytes=written.size if written else 0,
        sha256=written.sha256 if written else "",
        status=artifact.status if written and artifact else "failed",
        error=report.error or unplanned,
        prompt_bytes=answer.prompt_bytes,
        seconds=answer.seconds,
        tokens=answer.tokens,
    )
