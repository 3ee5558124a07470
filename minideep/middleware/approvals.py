"""Human-in-the-loop: calls of the named tools, or the first plan of a thread, wait for a person before they run."""

from collections.abc import Callable, Mapping, Sequence

from ..checks import UserWritten, check_fields, checked
from ..context import ToolContext
from ..errors import ConfigError
from ..events import Noted
from ..messages import ToolCall, ToolResult
from ..ports import Middleware
from ..state import DecisionKind, Interrupt

OWNER = "approvals"
"""The owner of the note that a plan of the thread was approved."""
PLAN_PROMPT = """\
The user decides about your first plan before any work starts: call `write_todos` alone in a reply, and do not ask in \
words."""


class Approval(UserWritten, frozen=True, kw_only=True):
    """How a person decides about the calls of one tool, in `interrupt_on`.

    Raises:
        ConfigError: *decisions* names a kind twice, or *describe* is neither text nor a function.
    """

    decisions: Sequence[DecisionKind] = ()
    """The kinds of decision that may be given: `approve`, `edit`, `reject`, `respond`; empty: all."""
    when: Callable[[ToolContext, ToolCall], bool] | None = None
    """Returns True for the calls that wait. None: all do."""
    describe: str | Callable[[ToolContext, ToolCall], str] = ""
    """What the person reads, as text or as a function of the call; empty: that the call waits."""

    def __post_init__(self) -> None:
        check_fields(self)
        if len(set(self.decisions)) < len(self.decisions):
            raise ConfigError(f"Approval.decisions names a kind twice: {list(self.decisions)}")


class HumanInTheLoopMiddleware(Middleware):
    """Makes calls of the tools that *interrupt_on* maps to True, or to an `Approval`, wait until `Agent.resume` brings
    their decisions.

    Put it last in the list, so that the person sees the call as it will run. Other calls of the same reply run
    meanwhile.

    Raises:
        ConfigError: *interrupt_on* is not a mapping of tool names to True, False or an `Approval`.
    """

    @checked
    def __init__(self, interrupt_on: Mapping[str, bool | Approval]) -> None:
        self._approvals = {name: Approval() if on is True else on for name, on in interrupt_on.items() if on}

    def decides_about(self, tool: str) -> bool:
        """Return whether calls of *tool* may wait for a person."""
        return tool in self._approvals

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | Interrupt:
        approval = self._approvals.get(call.name)
        if approval is None or ctx.decision is not None or (approval.when and not approval.when(ctx, call)):
            return call
        said = approval.describe if isinstance(approval.describe, str) else approval.describe(ctx, call)
        reason = said or f"{call.name} runs only when a person has decided"
        return Interrupt(call, reason, decisions=tuple(approval.decisions))


class PlanApprovalMiddleware(Middleware):
    """Makes the first todo list of a thread wait for a person, who approves, edits or rejects it; later ones run.

    Other calls of the same reply are refused, so that no work starts before the decision. Lists of subagents never
    wait. Leave the tool `write_todos` in the agent.
    """

    prompt = PLAN_PROMPT
    inherit: bool | None = False

    async def before_tool(self, ctx: ToolContext, call: ToolCall) -> ToolCall | ToolResult | Interrupt:
        if OWNER in ctx.state.notes or not any(entry.call.name == "write_todos" for entry in ctx.state.open.values()):
            return call
        if call.name != "write_todos":
            problem = f"{call.name} was not run: the user decides about the plan of this reply first"
            return ToolResult(f"{problem}; once it is approved, call again", is_error=True)
        if ctx.decision is not None:
            return call
        return Interrupt(call, "the plan waits for your decision", decisions=("approve", "edit", "reject"))

    async def after_tool(self, ctx: ToolContext, call: ToolCall, result: ToolResult) -> ToolResult:
        if call.name == "write_todos" and not result.is_error and OWNER not in ctx.state.notes:
            ctx.record(Noted(OWNER, "plan", True))
        return result
