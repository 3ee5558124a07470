"""Skills: folders of instructions that the prompt only names, and that the model reads when one fits its work."""

import logging
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from ..backends.names import quoted, shown
from ..backends.paths import Missing, below, normal
from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, MinideepError, ToolError
from ..ports import Backend, Middleware, Request
from ..workers import in_thread
from .frontmatter import MAX_HEAD, Skill, one_line, skill

logger = logging.getLogger("minideep")

MAX_FILE = 10_000_000
"""Bytes of the largest `SKILL.md` that is opened."""
MAX_FOLDERS = 200
"""Folders of one source that are looked into."""
MAX_LIST = 20_000
"""Characters of the list that the model is shown."""
MAX_WARNINGS = 10
"""Warnings that the model is shown, each of at most `MAX_WARNING` characters."""
MAX_WARNING = 300

_HEAD = """\
Skills are instructions for certain kinds of work. When one fits, read its whole file with `read_file` before you \
begin, and follow it; its paths start at its folder. None outweighs what the user says."""


class _Candidate(Struct, frozen=True):
    """What may be a skill: the beginning of its file, or why there is none."""

    path: str
    data: bytes = b""
    problem: str = ""


class _Shown(Struct):
    """What a run is shown: *text*, and the system prompt that it was last put after, with it."""

    text: str
    after: str | None = None
    system: str = ""


class SkillsMiddleware(Middleware):
    """Names the skills in *sources*, folders of *backend*, at the end of the system prompt.

    A skill is a folder with a `SKILL.md` that begins with a YAML head: its *name*, which is that of the folder (at
    most 64 lowercase letters, digits and hyphens), and a *description* of at most 1,024 characters; other fields are
    not read. Of two skills of one name that of the later source counts. A source may be missing; what is no good
    skill is left out with one warning, to the model and to the log.

    They are looked for when a run is begun or gone on with, and stay the same until it hands over: so the prompt is
    byte-stable, and a skill that is written meanwhile is there from the next turn on. They are never saved.

    Raises:
        ConfigError: a source is no path.
    """

    @checked
    def __init__(self, sources: Sequence[str], backend: Backend) -> None:
        self._backend = backend
        self._sources = [_source(source, backend) for source in sources]
        self._told: frozenset[str] = frozenset()

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        shown: _Shown | None = ctx.scratch.get(self)
        if shown is None:
            ctx.scratch[self] = shown = _Shown(await self._discover(ctx))
        if not shown.text:
            return request
        if shown.after != request.system:
            shown.after = request.system
            shown.system = f"{request.system}\n\n{shown.text}".lstrip()
        return structs.replace(request, system=shown.system)

    async def _discover(self, ctx: ToolContext) -> str:
        """Read where the backend may be asked, then parse on a thread: neither holds up the loop."""

        def here() -> list[_Candidate]:
            return list(self._candidates(ctx))

        candidates = await in_thread(here) if self._backend.blocking else here()
        if not candidates:
            return ""
        lines, warnings = await in_thread(_sorted_out, candidates)
        for warning in warnings:
            if warning not in self._told:
                logger.warning("skill left out: %s", warning)
        self._told = frozenset(warnings)
        return _text(lines, warnings)

    def _candidates(self, ctx: ToolContext) -> Iterator[_Candidate]:
        for source in self._sources:
            try:
                folders = [info.path for info in self._backend.ls(ctx, source) if info.is_dir]
            except Missing:
                continue
            except MinideepError as exc:
                yield _Candidate(source, problem=str(exc))
                continue
            yield from self._skills(ctx, folders[:MAX_FOLDERS])
            if len(folders) > MAX_FOLDERS:
                yield _Candidate(source, problem=f"of its {len(folders):,} folders the first {MAX_FOLDERS} are read")

    def _skills(self, ctx: ToolContext, folders: list[str]) -> Iterator[_Candidate]:
        for folder in folders:
            path = below(folder, "SKILL.md")
            try:
                yield _Candidate(path, self._beginning(ctx, path))
            except Missing:
                continue
            except MinideepError as exc:
                yield _Candidate(path, problem=str(exc))

    def _beginning(self, ctx: ToolContext, path: str) -> bytes:
        """What a file begins with; one that is too large is not opened."""
        info = next(iter(self._backend.walk(ctx, path)), None)
        if info is None or info.path != path:
            raise ToolError("it is a folder, not a file")
        if info.size > MAX_FILE:
            raise ToolError(f"it is {info.size:,} bytes, more than {MAX_FILE:,}")
        return self._backend.read(ctx, path)[:MAX_HEAD]


def _sorted_out(candidates: list[_Candidate]) -> tuple[list[str], list[str]]:
    """A line for each skill, by name, and a warning for each that is none."""
    found: dict[str, str] = {}
    warnings: list[str] = []
    for candidate in candidates:
        folder = candidate.path.split("/")[-2]
        outcome = candidate.problem or skill(folder, candidate.data)
        if isinstance(outcome, Skill):
            found[outcome.name] = f"- {outcome.name}: {outcome.description} ({shown(candidate.path)})"
        else:
            warnings.append(_warning(candidate.path, outcome))
    return [found[name] for name in sorted(found)], warnings


def _warning(path: str, problem: str) -> str:
    text = one_line(problem if problem.startswith(quoted(path)) else f"{quoted(path)}: {problem}")
    return text if len(text) <= MAX_WARNING else text[: MAX_WARNING - 1] + "…"


def _text(lines: list[str], warnings: list[str]) -> str:
    """What the model is shown: as many whole lines as there is room for, and how many there are besides."""
    room, shown = MAX_LIST, list[str]()
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            shown.append(f"... and {len(lines) - len(shown)} more; find them with `glob` SKILL.md")
            break
        shown.append(line)
    parts = [_HEAD, *shown] if shown else []
    if warnings:
        parts += ["Skills left out because of errors:", *(f"- {warning}" for warning in warnings[:MAX_WARNINGS])]
    if len(warnings) > MAX_WARNINGS:
        parts.append(f"... and {len(warnings) - MAX_WARNINGS} more")
    return "\n".join(parts)


def _source(source: str, backend: Backend) -> str:
    if not source:
        raise ConfigError("SkillsMiddleware: sources are folders such as '/skills', not ''")
    try:
        return normal(source, backend.home)
    except ToolError as exc:
        raise ConfigError(f"SkillsMiddleware: sources: {exc}") from None
