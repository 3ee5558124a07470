"""Permissions: rules that say which calls of tools may run, which a person decides about, and which are refused.

A rule names an operation and a pattern. The first one of a list that describes a call decides; a call that none
describes is allowed. Of several lists, those of an agent and of the agents above it, the strictest verdict counts.
"""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar
from unicodedata import normalize

from msgspec import Struct

from .access import OPERATIONS, Access
from .backends import Glob, is_within, join
from .checks import UserWritten, check_fields
from .context import ToolContext
from .errors import ConfigError, ToolError
from .kinds import remedy
from .messages import ToolCall
from .tools import Tool

if TYPE_CHECKING:
    from .command_lines import Command

__all__ = ["Allow", "Ask", "Deny", "ask_before_writes", "read_only", "workspace"]
EVERYTHING = "**"
logger: logging.Logger = logging.getLogger("minideep")
RULED = (*OPERATIONS, "*")
When = Callable[[ToolContext, ToolCall], bool]


@remedy("write Allow('read', '/src/**'), Ask('write') or Deny('execute', 'rm *')")
class Rule(UserWritten, frozen=True):
    """What `Allow`, `Ask` and `Deny` have in common.

    *operation* is `read`, `write`, `execute`, `task`, the name of a tool, or `*` for every call that reaches beyond its
    thread. *pattern* describes what is reached: a path (a glob, whose `*` and `**` match hidden names too), a command
    (each simple one of a line), or the name of a subagent; in the last two `*` is any text. The rule counts only where
    *when*, a function of the context and the call, returns True.

    A doubt is decided for the stricter side. `Ask` and `Deny` also describe everything below a path and every command
    that begins as theirs, in other spellings too (upper and lower case, forms of Unicode); `Allow` describes only what
    it says.

    Raises:
        ConfigError: *pattern* is not a path, or stands with the operation `*`, which takes none.
    """

    operation: str
    pattern: str = EVERYTHING
    when: When | None = None

    strictness: ClassVar[int] = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if not self.operation or not self.pattern:
            raise ConfigError(
                f"{self}: operation and pattern must not be empty; leave the pattern out to mean everything"
            )
        if self.operation == "*" and self.pattern != EVERYTHING:
            raise ConfigError(f"{self}: '*' takes no pattern; write one rule for 'read' and one for 'write'")
        if self.operation in ("read", "write"):
            try:
                _glob(self.pattern, "/", self.strictness > 0)
            except ToolError as exc:
                raise ConfigError(f"{self}: {exc}") from None

    def __str__(self) -> str:
        pattern = "" if self.pattern == EVERYTHING else f", {self.pattern!r}"
        return f"{type(self).__name__}({self.operation!r}{pattern}{', when=...' if self.when else ''})"


class Allow(Rule, frozen=True):
    """Lets a call run."""


class Ask(Rule, frozen=True):
    """Makes a call wait for a person."""

    strictness: ClassVar[int] = 1


class Deny(Rule, frozen=True):
    """Refuses a call. No decision of a person changes that."""

    strictness: ClassVar[int] = 2


def read_only() -> list[Rule]:
    """Return rules by which files are read but not changed, and no command runs."""
    return [Deny("write"), Deny("execute")]


def ask_before_writes() -> list[Rule]:
    """Return rules by which a person decides about each change of a file and each command."""
    return [Ask("write"), Ask("execute")]


def workspace(*patterns: str) -> list[Rule]:
    """Return rules by which only files that fit one of *patterns* are changed, and a person decides about commands."""
    return [*(Allow("write", pattern) for pattern in patterns), Deny("write"), Ask("execute")]


ALLOWED = Allow("*")
"""The verdict on a call that no rule describes."""


class Asked(Struct, frozen=True):
    """A call as rules see it."""

    ctx: ToolContext
    call: ToolCall
    thread_only: bool = False
    """True if it changes nothing but its thread. Then `*` does not describe it, only its name does."""


class Policy:
    """Lists of rules that hold together. Relative patterns start at the folder *home*."""

    def __init__(self, lists: Sequence[Sequence[Rule]], home: str = "/") -> None:
        self.lists: tuple[tuple[Rule, ...], ...] = tuple(map(tuple, lists))
        self._home = home

    def verdict(self, asked: Asked, access: Access | None) -> Rule:
        """Return the rule that decides about one *access* of a call; None for a call that tells nothing of itself."""
        pieces: Sequence[Command | None] = (None,)
        if access is not None and access.operation == "execute":
            from .command_lines import commands  # Few agents have a shell.

            pieces = commands(access.subject)
        found = [self._first(rules, asked, access, piece) for rules in self.lists for piece in pieces]
        return strictest(found)

    def may_list(self, asked: Asked, folder: str) -> bool:
        """Return whether *folder* may be listed: it, or something that may be below it, is not denied."""
        access = Access("read", folder)
        return all(
            not isinstance(self._first(rules, asked, access, None), Deny)
            or any(
                _meets(self._starts(rule), folder)
                for rule in _about(rules, asked, "read")
                if not isinstance(rule, Deny)
            )
            for rules in self.lists
        )

    def asks_below(self, asked: Asked, operation: str, folder: str) -> Rule | None:
        """Return the first `Ask` that is about paths in *folder* only, if there is one."""
        asking = [rule for rules in self.lists for rule in _about(rules, asked, operation) if isinstance(rule, Ask)]
        return next((rule for rule in asking if _inside(self._starts(rule), folder)), None)

    def _first(self, rules: Sequence[Rule], asked: Asked, access: Access | None, piece: "Command | None") -> Rule:
        """Return the verdict of one list. Of rules that may or may not describe the access, the strictest counts."""
        possible: list[Rule] = [ALLOWED]
        for rule in rules:
            described = self._describes(rule, asked, access, piece)
            if described is not False:
                possible.append(rule)
            if described:
                break
        return strictest(possible) if len(possible) > 1 else ALLOWED

    def _describes(self, rule: Rule, asked: Asked, access: Access | None, piece: "Command | None") -> bool | None:
        """Return whether *rule* is about the access; None if that cannot be told."""
        operation = access.operation if access is not None else "" if asked.thread_only else "*"
        restricts = rule.strictness > 0
        # A server may name a tool `read` that does anything: what allows reading does not allow that.
        named = rule.operation == asked.call.name and (restricts or rule.operation not in OPERATIONS)
        if not named and rule.operation != operation and (rule.operation != "*" or not operation):
            return False
        if rule.when is not None and not rule.when(asked.ctx, asked.call):
            return False
        if rule.pattern == EVERYTHING:
            return True
        if access is None:
            return None if restricts else False
        if piece is not None:
            return piece.fits(rule.pattern, restricts=restricts)
        if operation in ("read", "write"):
            if access.below:
                return self._describes_below(rule, access.subject)
            return _reaches(_glob(rule.pattern, self._home, restricts), access.subject, restricts)
        from .command_lines import fits

        return fits(rule.pattern, access.subject)

    def _describes_below(self, rule: Rule, folder: str) -> bool | None:
        """Return whether *rule* is about everything below *folder*; None if it is about some of it, or may be."""
        if rule.strictness > 0:
            everything = _reaches(_glob(rule.pattern, self._home, True), folder, True)
            return everything or (None if _meets(self._starts(rule), folder) else False)
        starts = _glob(rule.pattern, self._home, False).starts
        whole = join(starts[0], EVERYTHING) in (rule.pattern, join(self._home, rule.pattern))
        return whole and is_within(folder, starts[0])

    def _starts(self, rule: Rule) -> list[str]:
        """Return the folded paths below which all that *rule* describes lies."""
        return _glob(rule.pattern, self._home, True).starts


def strictest(rules: Sequence[Rule]) -> Rule:
    """Return the strictest of *rules*, the first of its kind."""
    return max(rules, key=lambda rule: rule.strictness)


def _about(rules: Sequence[Rule], asked: Asked, operation: str) -> Iterator[Rule]:
    return (rule for rule in rules if rule.operation in ("*", operation, asked.call.name))


@lru_cache(maxsize=1024)
def _glob(pattern: str, home: str, restricts: bool) -> Glob:
    base = home if "/" in pattern else "/"  # A bare name is one at any depth, wherever `home` is.
    return Glob(_folded(pattern) if restricts else pattern, _folded(base) if restricts else base, dots=True)


def _reaches(glob: Glob, path: str, restricts: bool) -> bool:
    """Return whether *path*, or for a rule that *restricts* a folder above it, matches."""
    if not restricts:
        return glob.matches(path)
    path = _folded(path)
    return glob.matches(path) or _is_in_match(glob, path.rpartition("/")[0])


@lru_cache(maxsize=4096)
def _is_in_match(glob: Glob, folder: str) -> bool:
    """Return whether *folder* or one above it matches. All files of a folder ask the same."""
    return glob.matches(folder or "/") or (folder != "" and _is_in_match(glob, folder.rpartition("/")[0]))


def _folded(text: str) -> str:
    """Return one spelling for all that some disk takes for the same name."""
    return text.lower() if text.isascii() else normalize("NFC", normalize("NFC", text).casefold())


def _meets(starts: list[str], folder: str) -> bool:
    folder = _folded(folder)
    return any(is_within(start, folder) or is_within(folder, start) for start in starts)


def _inside(starts: list[str], folder: str) -> bool:
    folder = _folded(folder)
    return all(is_within(start, folder) for start in starts)


def check_operations(rules: Sequence[Rule], known: Collection[str], tools: Mapping[str, Tool], owner: str) -> None:
    """Check that each rule is about an operation or one of the *known* tools. Misspelt, it would describe nothing.

    Rules that hold files where commands reach them too are logged as a warning, unless one is about commands.

    Raises:
        ConfigError: one is not, or has a pattern for a tool that does not say what its calls reach.
    """
    for rule in rules:
        if rule.operation in RULED:
            continue
        if rule.operation not in known:
            from .mistakes import did_you_mean

            meant = did_you_mean(rule.operation, [*RULED, *known], f"; the tools are {', '.join(sorted(known))}")
            problem = f"{rule} names {rule.operation!r}, which is neither an operation ({', '.join(RULED)}) nor a tool"
            raise ConfigError(f"{owner}: {problem}{meant}")
        tool = tools.get(rule.operation)
        if rule.pattern != EVERYTHING and tool is not None and tool.access is None:
            problem = f"{rule} has a pattern, but tool {tool.name!r} does not say what its calls reach"
            raise ConfigError(f"{owner}: {problem}; give it `Tool(..., access=...)`, or the rule `when=`")
    restricted = {rule.operation for rule in rules if rule.strictness > 0}
    if (
        "execute" in tools
        and restricted & {"read", "write"}
        and not {rule.operation for rule in rules} & {"execute", "*"}
    ):
        remedy = "add a rule for 'execute', or Allow('execute') if that is meant"
        logger.warning("%s: its rules hold files, but not commands, which reach the same files; %s", owner, remedy)
