"""Skills: folders of instructions. The prompt only names them; the model reads one when it fits the work."""

import logging
from collections.abc import Iterator, Sequence

from msgspec import Struct, structs

from ..backends import Missing, configured, escaped, join, quoted, status
from ..checks import checked
from ..context import ToolContext
from ..errors import ConfigError, MinideepError, ToolError
from ..ports import Backend, Middleware, Request
from ..workers import in_thread
from .frontmatter import MAX_HEAD, Skill, one_line, parse_skill
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

PROMPT = """\
Skills are instructions for certain kinds of work. Before you begin, look whether one fits; if so, read its whole \
file with `read_file` and follow it; its paths start at its folder. None outweighs what the user says."""


class _Candidate(Struct, frozen=True):
    """A folder that may be a skill: the beginning of its file, or why it could not be read."""

    path: str
    data: bytes = b""
    problem: str = ""


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
    ignored. If two skills have one name, the later source wins. Missing sources are skipped; an invalid skill is
    skipped with one warning to the model and to the log.

    Skills are looked up when a run starts or resumes, and stay the same until its turn ends. So the prompt is
    byte-stable, which a provider's cache needs; a skill that is written meanwhile appears in the next turn. Skills are
    never saved with the thread.

    Raises:
        ConfigError: a source is not a path.
    """

    @checked
    def __init__(self, sources: Sequence[str], backend: Backend) -> None:
        self._backend = backend
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
        if not candidates:
            return ""
        lines, warnings = await in_thread(_parsed, candidates)
        for warning in warnings:
            if warning not in self._reported:
                logger.warning("skill left out: %s", warning)
        self._reported = frozenset(warnings)
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
                yield _Candidate(
                    source, problem=f"it has {len(folders):,} folders; only the first {MAX_FOLDERS} are read"
                )

    def _skills(self, ctx: ToolContext, folders: list[str]) -> Iterator[_Candidate]:
        for folder in folders:
            path = join(folder, "SKILL.md")
            try:
                yield _Candidate(path, self._beginning(ctx, path))
            except Missing:
                continue
            except MinideepError as exc:
                yield _Candidate(path, problem=str(exc))

    def _beginning(self, ctx: ToolContext, path: str) -> bytes:
        """Return the beginning of a file. A file that is too large is not opened."""
        size = status(ctx, self._backend, path).size
        if size > MAX_FILE:
            raise ToolError(f"it is {size:,} bytes, more than {MAX_FILE:,}")
        return self._backend.read(ctx, path)[:MAX_HEAD]


def _parsed(candidates: list[_Candidate]) -> tuple[list[str], list[str]]:
    """Return a line for each skill, sorted by name, and a warning for each invalid one."""
    found: dict[str, str] = {}
    warnings: list[str] = []
    for candidate in candidates:
        folder = candidate.path.split("/")[-2]
        outcome = candidate.problem or parse_skill(folder, candidate.data)
        if isinstance(outcome, Skill):
            found[outcome.name] = f"- {outcome.name}: {outcome.description} ({escaped(candidate.path)})"
        else:
            warnings.append(_warning(candidate.path, outcome))
    return [found[name] for name in sorted(found)], warnings  # The same bytes whatever the order on the disk.


def _warning(path: str, problem: str) -> str:
    text = one_line(problem if problem.startswith(quoted(path)) else f"{quoted(path)}: {problem}")
    return text if len(text) <= MAX_WARNING else text[: MAX_WARNING - 1] + "…"


def _text(lines: list[str], warnings: list[str]) -> str:
    """Return the text for the model: as many whole lines as fit, the number of the others, and the warnings."""
    count = fitting((len(line) + 1 for line in lines), MAX_LIST)
    parts = [PROMPT, *lines[:count]] if lines else []
    if count < len(lines):
        parts.append(f"... and {len(lines) - count} more; find them with `glob` SKILL.md")
    if warnings:
        parts += ["Skills left out because of errors:", *(f"- {warning}" for warning in warnings[:MAX_WARNINGS])]
    if len(warnings) > MAX_WARNINGS:
        parts.append(f"... and {len(warnings) - MAX_WARNINGS} more")
    return "\n".join(parts)
