"""The roles of a pool: who does a subtask, under a prompt of its own, and whose reply is an artifact."""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from ..checks import check_fields
from ..errors import ConfigError
from ..kinds import Seconds
from ..ports import Model
from ..state import Limits
from ..structured import fitting, json_in
from ..tools import Tool

RESERVED = frozenset({"planner", "reflection"})
"""The names of the parts that are no roles."""
_ROLE_NAME = re.compile(r"[A-Za-z0-9][\w-]{0,63}")
_FENCE = re.compile(r"^```[^\n`]*\n(.*?)^```[^\S\n]*$", re.DOTALL | re.MULTILINE)


class Role(Struct, frozen=True):
    """A kind of subagent. What it is asked is its *prompt*, the files that the plan names, and the instruction."""

    name: str
    prompt: str
    """The whole system prompt: nothing is added to it."""
    tools: Sequence[Tool | Callable[..., Any]] = ()
    """All that it has: no tool comes from anywhere else."""
    model: str | Model | None = None
    """None: the blueprint's."""
    validate: Callable[[str], object] | None = None
    """Given the content of an artifact, raises or returns False if it is not to be taken. What it raises is told to
    the subagent, which has one more try."""
    limits: Limits | None = None
    """None: the blueprint's `steps` and `tool_calls`."""
    timeout: Seconds | None = None
    """Seconds that a subtask may take."""
    interrupt_on: Mapping[str, bool] | None = None
    """Tools whose calls wait for a person; the turn is then `paused`, and other subtasks of the wave are not redone."""
    description: str = ""
    """What it is for, in a few words: the planner reads them."""

    def __post_init__(self) -> None:
        check_fields(self)


def one_code_block(content: str) -> None:
    """Check that *content* is one fenced block of Python that compiles.

    Raises:
        ValueError: it is not.
    """
    blocks: list[str] = _FENCE.findall(content)
    outside = _FENCE.sub("", content)
    if len(blocks) != 1 or "```" in outside:
        raise ValueError(f"expected one fenced code block, found {len(blocks)}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Of an odd escape, say, nobody here need hear.
            compile(blocks[0], "<artifact>", "exec", dont_inherit=True)
    except SyntaxError as exc:
        raise ValueError(f"the code does not compile: {exc.msg}, line {exc.lineno}") from None
    except (ValueError, RecursionError, MemoryError) as exc:
        raise ValueError(f"the code does not compile: {type(exc).__name__}") from None


class Defect(Struct, frozen=True):
    """What a critic says of a line."""

    line: int | str | None
    issue: str
    severity: str | int


def list_of_defects(content: str) -> None:
    """Check that *content* is a JSON list of `{line, issue, severity}`.

    Raises:
        ValueError: it is not.
    """
    fitting(json_in(content), list[Defect])


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


def by_name(roles: Iterable[Role]) -> dict[str, Role]:
    """The roles of a pool. A later one takes the place of an earlier one of its name.

    Raises:
        ConfigError: there is none, or one has a name or a prompt that is not usable.
    """
    pool: dict[str, Role] = {}
    for role in roles:
        if not _ROLE_NAME.fullmatch(role.name) or role.name in RESERVED:
            raise ConfigError(f"a role's name is 1 to 64 letters, digits, '_' or '-', and no part's, not {role.name!r}")
        if not role.prompt.strip():
            raise ConfigError(f"role {role.name!r} has no prompt; say who it is and what it returns")
        pool[role.name] = role
    if not pool:
        raise ConfigError("a blueprint needs roles; leave `roles` out for the stock ones")
    return pool
