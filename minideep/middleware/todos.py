"""Todos: a plan that the agent writes down, and that everybody can watch."""

from collections.abc import Sequence
from typing import Annotated, Any

from ..access import no_access
from ..checks import checked
from ..context import ToolContext
from ..errors import ToolError
from ..events import Noted, TodosWritten
from ..kinds import shown
from ..messages import ToolMessage, UserMessage
from ..parameters import Alias
from ..ports import Middleware
from ..state import AnyState, Todo
from ..tools import Tool
from .todo_items import STATUSES, in_first_words, read_todos

OWNER = "todos"
"""The owner of the note on the turn in which the agent was last reminded of unfinished todos."""

PROMPT = """\
For work of three or more steps, write the plan with `write_todos` first and keep it current, because the user \
watches it. The list does no work, so go on with the next step as soon as it is written."""

DESCRIPTION = """\
Write the todo list, the plan that the user watches. The list you give replaces the old one, so always give all of \
it.

Use it for tasks of three or more steps, when you are given several tasks, or asked for a plan; not for one or two \
simple steps or plain questions. Write 3 to 6 items, each with a result that can be checked.

Mark an item in_progress before you begin it, and completed right after it is done. Completed means that it worked: \
an item that failed, is half done or was not checked stays in_progress, and what is in its way becomes an item of its \
own. Revise as you go: add, change or drop items, but keep completed ones as they are. An empty list clears it. One \
call a reply. A wrong list is an error that says why and changes nothing: give the whole list again."""

_FIELDS = {"content": {"type": "string"}, "status": {"type": "string", "enum": [*STATUSES]}}
_LIST = Alias("todo_list", "items", "tasks", "plan")
_ITEM = {"type": "object", "properties": _FIELDS, "required": [*_FIELDS], "additionalProperties": False}


class TodoListMiddleware(Middleware):
    """Gives the agent the tool `write_todos`; the list is `state.todos`.

    A completed item stays as it is until the list is cleared. A list that an earlier turn completed can be replaced by
    a new one. With *nudge*, a turn that wrote the list and would end with unfinished items goes on, once, with a
    request to finish them or to say why not.
    """

    prompt = PROMPT

    @checked
    def __init__(self, nudge: bool = False) -> None:
        self._nudge = nudge
        tool = Tool(self.write_todos, description=DESCRIPTION, access=no_access, thread_only=True)
        tool.schema["properties"]["todos"]["items"] = _ITEM  # Items are read here, where more of them is understood.
        self.tools: Sequence[Tool] = (tool,)

    async def write_todos(self, todos: Annotated[list[Any], _LIST], ctx: ToolContext) -> str:
        # Each call replaces the whole list and they run at the same time, so it would be chance which one wins.
        if sum(entry.call.name == "write_todos" for entry in ctx.state.open.values()) > 1:
            raise _refused("this reply has several write_todos calls, and none was carried out; make one call")
        try:
            given = read_todos(todos)
        except ValueError as exc:
            raise _refused(str(exc)) from None
        written = in_first_words(given, ctx.state.todos)
        _check_kept(ctx.state, written)
        ctx.record(TodosWritten(tuple(written)))
        return _summary(written) if written == given else f"{_summary(written)}; completed ones keep their first words"

    async def before_finish(self, ctx: ToolContext) -> UserMessage | None:
        state = ctx.state
        if not self._nudge or state.stop != "done" or state.ends or not (left := unfinished(state.todos)):
            return None
        if state.notes.get(OWNER, {}).get("nudged") == state.turn or not _written_this_turn(state) or _at_limit(ctx):
            return None
        ctx.record(Noted(OWNER, "nudged", state.turn))  # Once a turn, or a stubborn model would never end.
        remedy = "Go on with it, or bring it up to date and say what is left and why."
        return UserMessage(f"The todo list is not done yet: {_names(left)}. {remedy}")


def unfinished(todos: Sequence[Todo]) -> list[Todo]:
    """Return the todos that are not completed."""
    return [todo for todo in todos if todo.status != "completed"]


def is_stale(state: AnyState) -> bool:
    """Return whether the list is one of an earlier turn. If the beginning of this turn is not in context, it counts as
    one of this turn.
    """
    return bool(state.todos) and state.said in state.messages and not _written_this_turn(state)


def _check_kept(state: AnyState, todos: list[Todo]) -> None:
    """Check that *todos* keep the completed items unchanged, or start a new list.

    Raises:
        ToolError: they do neither.
    """
    statuses = {todo.content: todo.status for todo in todos}
    completed = [todo for todo in state.todos if todo.status == "completed"]
    changed = [todo for todo in completed if statuses.get(todo.content) != "completed"]
    if not changed or not todos:
        return
    finished = len(completed) == len(state.todos) and not any(todo.content in statuses for todo in completed)
    if finished and not _written_this_turn(state):
        return
    raise _refused(f"completed todos must stay unchanged: {_names(changed)}; or clear the list with [] first")


def _written_this_turn(state: AnyState) -> bool:
    return any(
        isinstance(message, ToolMessage) and message.name == "write_todos" and not message.is_error
        for message in state.messages[state.began :]
    )


def _at_limit(ctx: ToolContext) -> bool:
    """Return whether a limit would stop the turn if it went on. Then it had better end well now."""
    limits = ctx.state.limits
    return (limits.steps is not None and ctx.state.step >= limits.steps) or ctx.spent.reached(limits) is not None


def _summary(todos: list[Todo]) -> str:
    if not todos:
        return "the list is cleared"
    left = unfinished(todos)
    said = f"the list has {len(todos)} items, {len(todos) - len(left)} of them completed"
    idle = left and not any(todo.status == "in_progress" for todo in left)
    return f"{said}; none is in_progress: mark the one that you begin" if idle else said


def _names(todos: list[Todo]) -> str:
    names = ", ".join(shown(todo.content) for todo in todos[:3])
    return f"{names} and {len(todos) - 3} more" if len(todos) > 3 else names


def _refused(problem: str) -> ToolError:
    return ToolError(f"write_todos: {problem}; nothing was changed")
