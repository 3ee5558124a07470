"""Skills: folders of instructions. The prompt only names them; the model reads one when it fits the work."""

import logging
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from ..backends import Missing, StateBackend, configured, escaped, join, quoted, status
from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, MinideepError, ToolError
from ..ports import Backend, Middleware, Request
from ..workers import in_thread
from .frontmatter import MAX_HEAD, Skill, body_of, one_line, parse_skill
from .room import fitting

logger: logging.Logger = logging.getLogger("minideep")

MAX_FILE = 10_000_000
"""The largest `SKILL.md` that is opened, in bytes."""
MAX_FOLDERS = 200
"""The most folders of one source that are looked into."""
MAX_LIST = 20_000
"""The most characters of the list that the model is shown."""
MAX_WARNINGS = 10
"""The most warnings that the model is shown, each of at most `MAX_WARNING` characters."""
MAX_WARNING = 300

MAX_PINNED = 100_000
"""The most characters of a pinned skill that the prompt holds."""

PROMPT = """\
Skills are instructions for certain kinds of work. Before you begin, look whether one fits; if so, read its whole \
file with `read_file` (limit 2000) and follow it; its paths start at its folder. None outweighs what the user says."""
PINNED = """\
Follow these skills in all that you do, unless the user says otherwise. Their paths start at their folders."""


class _Candidate(Struct, frozen=True):
    """A folder that may be a skill: its file, or why it could not be read."""

    path: str
    data: bytes = b""
    """The beginning: its head, and as much as is shown of a pinned one."""
    problem: str = ""


class _Found(Struct):
    """What the folders hold."""

    skills: dict[str, tuple[Skill, _Candidate]]
    warnings: list[str]
    """A line for each skill that is left out."""
    remarks: list[str]
    """A line for each that is used though something is wrong with it."""


class _Listing(Struct):
    """The skills that a run is shown."""

    text: str
    prompt: str | None = None
    """The system prompt of the last request."""
    system: str = ""
    """That prompt with *text* after it."""


class SkillsMiddleware(Middleware):
    """Names the skills in *sources*, folders of *backend*, at the end of the system prompt.

    A skill is a folder with a `SKILL.md` that begins with a YAML head: its *name*, which is that of the folder (at
    most 64 lowercase letters, digits and hyphens), and a *description* of at most 1,024 characters. Other fields are
    ignored. If two skills have one name, the later source wins. An invalid skill is skipped, and so is a source that is
    missing or no folder of skills, with one warning to the model and to the log; in a thread's own files a source may
    be missing. What can be mended (no name, another name, a long description, a colon without quotation marks) is, with
    a warning to the log alone.

    The skills named in *pinned* stand in the prompt whole, up to 100,000 characters each, for work that always needs
    them. A skill's other files are read by the model.

    Skills are looked up when a run starts or resumes, and stay the same until its turn ends. So the prompt is
    byte-stable, which a provider's cache needs; a skill that is written meanwhile appears in the next turn. Skills are
    never saved with the thread.

    Raises:
        ConfigError: a source is not a path.
    """

    @checked
    def __init__(self, sources: Sequence[str], backend: Backend, *, pinned: Sequence[str] = ()) -> None:
        self._backend = backend
        self._pinned = tuple(pinned)
        if "" in sources:  # It would be the whole home.
            raise ConfigError("SkillsMiddleware: sources must be folders such as '/skills', not ''")
        self._sources = configured(sources, backend.home, "SkillsMiddleware: sources")
        self._reported: frozenset[str] = frozenset()

    async def before_model(self, ctx: ToolContext, request: Request) -> Request:
        listing: _Listing | None = ctx.scratch.get(self)
        if listing is None:
            ctx.scratch[self] = listing = _Listing(await self._discover(ctx))
        if not listing.text:
            return request
        if listing.prompt != request.system:
            listing.prompt = request.system
            listing.system = f"{request.system}\n\n{listing.text}".lstrip()
        return structs.replace(request, system=listing.system)

    async def _discover(self, ctx: ToolContext) -> str:
        """Read and parse the skills. Neither blocks the event loop: hostile YAML can take long to parse."""

        def here() -> list[_Candidate]:
            return list(self._candidates(ctx))

        candidates = await in_thread(here) if self._backend.blocking else here()
        found = await in_thread(_parsed, candidates) if candidates else _Found({}, [], [])
        found.warnings += [
            f"pinned {name!r}: there is no such skill" for name in self._pinned if name not in found.skills
        ]
        said = [f"skill left out: {line}" for line in found.warnings] + [f"skill {line}" for line in found.remarks]
        for line in said:
            if line not in self._reported:
                logger.warning("%s", line)
        self._reported = frozenset(said)
        return _text(found, self._pinned)

    def _candidates(self, ctx: ToolContext) -> Iterator[_Candidate]:
        for source in self._sources:
            try:
                listed = self._backend.ls(ctx, source)
            except Missing as exc:
                # The files of a thread have no folders before there is something in them.
                if not isinstance(self._backend, StateBackend):
                    yield _Candidate(source, problem=str(exc))
                continue
            except MinideepError as exc:
                yield _Candidate(source, problem=str(exc))
                continue
            folders = [info.path for info in listed if info.is_dir]
            yield from self._skills(ctx, folders[:MAX_FOLDERS])
            if len(folders) > MAX_FOLDERS:
                problem = f"it has {len(folders):,} folders; only the first {MAX_FOLDERS} are read"
                yield _Candidate(source, problem=problem)
            if join(source, "SKILL.md") in [info.path for info in listed]:
                yield _Candidate(source, problem="it is a skill itself; name the folder above it")

    def _skills(self, ctx: ToolContext, folders: list[str]) -> Iterator[_Candidate]:
        for folder in folders:
            path = join(folder, "SKILL.md")
            try:
                data = self._read(ctx, path)
                yield _Candidate(path, data[: MAX_HEAD + (4 * MAX_PINNED if self._pinned else 0)])
            except Missing:
                continue
            except MinideepError as exc:
                yield _Candidate(path, problem=str(exc))

    def _read(self, ctx: ToolContext, path: str) -> bytes:
        """Read a file. One that is too large is not opened."""
        size = status(ctx, self._backend, path).size
        if size > MAX_FILE:
            raise ToolError(f"it is {size:,} bytes, more than {MAX_FILE:,}")
        return self._backend.read(ctx, path)


def _parsed(candidates: list[_Candidate]) -> _Found:
    found = _Found({}, [], [])
    for candidate in candidates:
        folder = candidate.path.split("/")[-2]
        outcome = candidate.problem or parse_skill(folder, candidate.data)
        if not isinstance(outcome, Skill):
            found.warnings.append(_warning(candidate.path, outcome))
            continue
        found.skills[outcome.name] = (outcome, candidate)
        if outcome.remark:
            found.remarks.append(_warning(candidate.path, outcome.remark))
    return found


def _warning(path: str, problem: str) -> str:
    text = one_line(problem if problem.startswith(quoted(path)) else f"{quoted(path)}: {problem}")
    return text if len(text) <= MAX_WARNING else text[: MAX_WARNING - 1] + "…"


def _text(found: _Found, pinned: tuple[str, ...]) -> str:
    """Return the text for the model: as many whole lines as fit, the number of the others, and the warnings; then the
    pinned skills.
    """
    # Sorted: the same bytes whatever the order on the disk.
    listed = [found.skills[name] for name in sorted(found.skills) if name not in pinned]
    lines = [f"- {skill.name}: {skill.description} ({escaped(at.path)})" for skill, at in listed]
    count = fitting((len(line) + 1 for line in lines), MAX_LIST)
    parts = [PROMPT, *lines[:count]] if lines else []
    if count < len(lines):
        parts.append(f"... and {len(lines) - count} more; find them with `glob` SKILL.md")
    warnings = found.warnings
    if warnings:
        parts += ["Skills left out because of errors:", *(f"- {warning}" for warning in warnings[:MAX_WARNINGS])]
    if len(warnings) > MAX_WARNINGS:
        parts.append(f"... and {len(warnings) - MAX_WARNINGS} more")
    whole = [_whole(*found.skills[name]) for name in dict.fromkeys(pinned) if name in found.skills]
    return "\n\n".join(filter(None, ("\n".join(parts), "\n".join([PINNED, *whole]) if whole else "")))


def _whole(skill: Skill, at: _Candidate) -> str:
    """Return a pinned skill as the prompt shows it. Its text cannot end its place and speak as the prompt."""
    text = re.sub(r"<(?=\s*/\s*skill\b)", "&lt;", body_of(at.data), flags=re.IGNORECASE)
    if len(text) > MAX_PINNED:
        text = f"{text[:MAX_PINNED]}\n[cut after {MAX_PINNED:,} characters; read the rest in its file]"
    return f'<skill name="{skill.name}" folder="{escaped(at.path.rpartition("/")[0])}">\n{text}\n</skill>'
