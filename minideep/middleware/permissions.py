"""Holds calls of tools to permissions: lets them through, has a person decide, or refuses them."""

from collections.abc import Iterable, Sequence
from typing import Any, cast

from msgspec import structs

from ..access import Access
from ..backends import hold, is_within, normalized, quoted
from ..checks import check, checked
from ..context import ToolContext
from ..errors import ToolError
from ..kinds import kind_of
from ..messages import ToolCall, ToolResult
from ..permissions import Allow, Ask, Asked, Deny, Policy, Rule, strictest
from ..ports import Backend, Middleware
from ..state import Interrupt
from ..tools import Tool
from .filesystem import FilesystemMiddleware

PROMPT = """\
Rules forbid some calls, and let others wait for a person. Do not look for a way round a rule that forbids a call: do \
without it, or say what you need and why."""
_ACCESSES = kind_of(Sequence[Access])


class PermissionsMiddleware(Middleware):
    """Holds each call to *rules*, by what its tool says that it reaches (`Tool.access`), and by its name.

    A call that `Ask` describes waits until `Agent.resume` brings a decision; one that `Deny` describes is an error
    result, whatever a person says. Relative patterns start at the `home` of *backend*. The rules also hold in every run
    below, which is at least as strict. *within* is another one whose rules hold here besides these.

    The file tools ask again about the place that a path has led to, at the moment when it is reached.

    Raises:
        ConfigError: *rules* are not rules.
    """

    prompt = PROMPT

    @checked
    def __init__(
        self, rules: Sequence[Rule], backend: Backend | None = None, *, within: "PermissionsMiddleware | None" = None
    ) -> None:
        above = within.policy.lists if within else ()
        self._home = backend.home if backend else "/"
        self.policy: Policy = Policy((*above, rules), self._home)

    def decides_about(self, tool: str) -> bool:
        """Return whether a rule restricts calls of *tool* by its name, or as one of all tools."""
        rules = [rule for rules in self.policy.lists for rule in rules if not isinstance(rule, Allow)]
        return any(rule.operation in ("*", tool) for rule in rules)

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | ToolResult | Interrupt:
        tool: Tool | None = ctx.tools.get(call.name)
        if tool is None:
            return call
        try:
            arguments = {name: value for name, value in tool.bind(call, ctx).items() if value is not ctx}
        except ToolError:  # It never runs, and its own error says why.
            return call
        try:
            accesses = tuple(map(self._plain, _told(tool, arguments)))
        except ToolError as exc:  # What cannot be told cannot be allowed.
            return ToolResult(f"{call.name} was not run: {exc}", is_error=True)
        # Our file tools ask again wherever they arrive; what another tool does below a folder, nobody sees.
        seen = isinstance(getattr(tool.function, "__self__", None), FilesystemMiddleware)
        permit = _Permit(self.policy, Asked(ctx, call, tool.thread_only), accesses, seen)
        rule = permit.verdict()
        if isinstance(rule, Deny):
            return ToolResult(permit.refusal(rule), is_error=True)
        if isinstance(rule, Ask) and ctx.decision is None:
            return Interrupt(call, f"{rule} has a person decide")
        hold(ctx, self, permit)
        return call

    def _plain(self, access: Access) -> Access:
        """Return *access* with a path in its normal form: another spelling of it must not lead around a rule.

        Raises:
            ToolError: it is no path.
        """
        if access.operation not in ("read", "write"):
            return access
        return structs.replace(access, subject=normalized(access.subject, self._home))


def _told(tool: Tool, arguments: dict[str, Any]) -> Sequence[Access]:
    """Return what *tool* says that a call reaches.

    Raises:
        ConfigError: its function returned something else.
    """
    told: Any = tool.access(arguments) if tool.access else ()
    if isinstance(told, Iterable):
        told = list(cast(Iterable[Any], told))
    check(told, _ACCESSES, "what access returns", f"tool {tool.name!r}")
    return told


class _Permit:
    """What one call may reach. It is left with the call, as the guard of the files that it uses."""

    def __init__(self, policy: Policy, asked: Asked, accesses: tuple[Access, ...], seen: bool) -> None:
        self._policy, self._asked, self._accesses, self._seen = policy, asked, accesses, seen
        self._changes = {access.operation for access in accesses} == {"write"}
        """True if all that it does to files is part of a change: `write_file` reads what it replaces."""

    def verdict(self) -> Rule:
        """Return the strictest rule about anything that the call reaches."""
        return strictest([self._verdict(access) for access in self._accesses or (None,)])

    def _verdict(self, access: Access | None) -> Rule:
        if access is None or not access.below or not self._seen:
            return self._policy.verdict(self._asked, access)
        found = self._policy.verdict(self._asked, structs.replace(access, below=False))
        if access.operation == "read":  # What is listed or found is filtered.
            listed = isinstance(found, Deny) and self._policy.may_list(self._asked, access.subject)
            return Allow("read") if listed else found
        if isinstance(found, Allow):  # Whether something below is denied is seen when the folder is deleted.
            return self._policy.asks_below(self._asked, access.operation, access.subject) or found
        return found

    def refusal(self, rule: Rule) -> str:
        """Return what the model reads of a call that *rule* forbids."""
        remedy = "do without it, or say that you need it and why"
        lines = [access.subject for access in self._accesses if access.operation == "execute"]
        if lines:
            from ..command_lines import commands

            if any(one.opaque for line in lines for one in commands(line)):
                remedy = f"a command in it cannot be told: write it without `$(...)`, loops and `sh -c`, or {remedy}"
        return f"{self._asked.call.name} was not run: {rule} forbids it; {remedy}"

    # ---- the guard

    def check(self, named: str, real: str, operation: str) -> None:
        operation = "write" if self._changes else operation
        for place in dict.fromkeys((named, real)):
            rule = self._policy.verdict(self._asked, Access(operation, place))
            if isinstance(rule, Deny):
                raise ToolError(f"{_shown(named, place)} was not reached: {rule} forbids it; do without it")
            if isinstance(rule, Ask) and not self._is_approved(place):
                remedy = "make a call of its own for that path"
                raise ToolError(f"{_shown(named, place)} was not reached: {rule} has a person decide; {remedy}")

    def check_folder(self, named: str, real: str) -> None:
        for place in dict.fromkeys((named, real)):
            if not self._policy.may_list(self._asked, place):
                self.check(named, place, "read")

    def shows(self, path: str, is_dir: bool) -> bool:
        if is_dir:
            return self._policy.may_list(self._asked, path)
        return not isinstance(self._policy.verdict(self._asked, Access("read", path)), Deny)

    def _is_approved(self, place: str) -> bool:
        """Return whether a person let the call reach *place*. A person who has seen a link has not seen its target."""
        return self._asked.ctx.decision is not None and any(
            place == access.subject or (access.below and is_within(place, access.subject)) for access in self._accesses
        )


def _shown(named: str, place: str) -> str:
    return quoted(named) if named == place else f"{quoted(named)} leads to {quoted(place)}, which"
