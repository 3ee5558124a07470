"""The roles of a pool: each does subtasks under a prompt of its own and replies with an artifact."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import structs

from ..checks import UserWritten, check_fields
from ..datatypes import DataType
from ..documented import Struct
from ..errors import ConfigError
from ..kinds import Seconds
from ..middleware import as_response_format
from ..ports import Middleware, Model
from ..state import Limits
from ..tools import Tool, as_tool

RESERVED = frozenset({"planner", "reflection"})
"""Names that a role cannot have: those of the other agents in `Blueprint.agents`."""
_ROLE_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}")
_FENCE = re.compile(r"^```[^\n`]*\n(.*?)^```[^\S\n]*$", re.DOTALL | re.MULTILINE)


class Role(UserWritten, frozen=True):
    """A kind of subagent. It sees its *prompt*, the files that the plan names, and the instruction: nothing else."""

    name: str
    prompt: str
    """The whole system prompt. Nothing is added to it but the prompts of its own *middleware*."""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    """All of its tools. None are added."""
    model: str | Model | None = None
    """None: the blueprint's."""
    validate: Callable[[str], object] | None = None
    """Called with the content to keep. To refuse it, raise an exception or return False. The text of the
    exception is sent to the subagent, which has one more try.
    """
    limits: Limits | None = None
    """None: the blueprint's, without `tokens`, `cost` and `seconds`, which are budgets of the whole turn."""
    timeout: Seconds | None = None
    """Seconds that a subtask may take."""
    interrupt_on: Mapping[str, bool] | None = None
    """Tools whose calls wait for a person. The turn is then `paused`; finished subtasks are not repeated."""
    description: str = ""
    """The role's purpose, in a few words for the planner."""
    extract: Callable[[str], str] | None = None
    """Called with the content of an artifact; returns the part to keep, such as a block of code without the prose round
    it. It refuses the content as *validate* does.
    """
    middleware: Sequence[Middleware] = ()
    """Its hooks, tools and prompts. Those that guard tools in `Blueprint(middleware=...)` apply to every role."""
    response_format: Any = None
    """The form of its artifacts, as for `Agent`; they are kept as JSON. A model whose provider cannot hold it to the
    form gets a tool `final_answer` more. None: text.
    """

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def tool_names(self) -> list[str]:
        """The names of its tools, those of its middleware included."""
        return [as_tool(one).name for one in (*(one for part in self.middleware for one in part.tools), *self.tools)]

    @property
    def system(self) -> str:
        """The system text of its requests: *prompt*, and after it the prompts of its middleware."""
        return "\n\n".join([self.prompt, *filter(None, (part.prompt.strip() for part in self.middleware))])


def code_block(content: str) -> str:
    """Return the fenced block in *content*, fences included. If there is not exactly one, return all of it."""
    blocks = [found[0] for found in _FENCE.finditer(content)]
    return blocks[0] if len(blocks) == 1 and "```" not in _FENCE.sub("", content) else content


def one_code_block(content: str) -> None:
    """Check that *content* has one fenced block, and that it compiles as Python.

    Raises:
        ValueError: it does not.
    """
    blocks: list[str] = _FENCE.findall(content)
    outside = _FENCE.sub("", content)
    if len(blocks) != 1 or "```" in outside:
        raise ValueError(f"expected one fenced code block, found {len(blocks)}")
    try:
        with warnings.catch_warnings():
            # A `SyntaxWarning`, such as one of an odd escape, concerns the model's code and not this program.
            warnings.simplefilter("ignore")
            compile(blocks[0], "<artifact>", "exec", dont_inherit=True)
    except SyntaxError as exc:
        raise ValueError(f"the code does not compile: {exc.msg}, line {exc.lineno}") from None
    except (ValueError, RecursionError, MemoryError) as exc:
        raise ValueError(f"the code does not compile: {type(exc).__name__}") from None


class Defect(Struct, frozen=True):
    """A critic's remark on a line."""

    line: int | str | None
    issue: str
    severity: str | int


def list_of_defects(content: str) -> None:
    """Check that *content* is a JSON list of `{line, issue, severity}`.

    Raises:
        ValueError: it is not.
    """
    DataType(list[Defect]).read_text(content)


RESEARCH_SPECIALIST = Role(
    "research-specialist",
    "You are a research specialist. Given an instruction, produce a fact-dense summary with inline citations. "
    "Return ONLY the summary. Do NOT plan, do NOT delegate.",
    description="finds facts and sums them up with citations",
)
CODE_WRITER = Role(
    "code-writer",
    "You are a code writer. Given a spec, produce runnable Python. Return ONLY code in one fenced block. "
    "Do NOT explain.",
    extract=code_block,
    validate=one_code_block,
    description="writes runnable Python",
)
CRITIC = Role(
    "critic",
    "You are a critic. Given an artifact and a spec, list concrete defects. Return ONLY a JSON list of "
    "{line, issue, severity}. Do NOT rewrite the artifact.",
    validate=list_of_defects,
    description="lists the defects of an artifact",
)
STOCK_ROLES = (RESEARCH_SPECIALIST, CODE_WRITER, CRITIC)


def roles_by_name(roles: Iterable[Role]) -> dict[str, Role]:
    """Return the roles of a pool by name. A later role replaces an earlier one of the same name.

    Raises:
        ConfigError: *roles* is empty, or one has an unusable name or no prompt.
    """
    pool: dict[str, Role] = {}
    for role in roles:
        if not _ROLE_NAME.fullmatch(role.name) or role.name in RESERVED:
            reserved = " or ".join(map(repr, sorted(RESERVED)))
            wanted = f"1 to 64 letters, digits, '_' or '-', and not {reserved}"
            raise ConfigError(f"a role's name must be {wanted}; found {role.name!r}")
        if not role.prompt.strip():
            raise ConfigError(f"role {role.name!r} has no prompt; say who it is and what it returns")
        pool[role.name] = _with_format(role)
    if not pool:
        raise ConfigError("a blueprint needs at least one role; leave out `roles` for the stock ones")
    return pool


def _with_format(role: Role) -> Role:
    """Return *role* with its `ResponseFormat`, made once."""
    if role.response_format is None:
        return role
    try:
        return structs.replace(role, response_format=as_response_format(role.response_format))
    except ConfigError as exc:
        raise ConfigError(f"role {role.name!r}: {exc}") from None
