"""The todo list: a plan that the agent writes down, and that everybody can watch."""

from typing import Annotated

from msgspec import Meta, Struct

from ..context import ToolContext
from ..events import TodosWritten
from ..messages import clean
from ..ports import Middleware
from ..state import Todo, TodoStatus
from ..tools import Tool

PROMPT = """\
For work of three or more steps, write the plan with `write_todos` first and keep it current: one step `in_progress`, \
each marked `completed` as soon as it is done."""

DESCRIPTION = """\
Write the todo list; the list you give replaces the old one, so give all of it. Use it for tasks of three or more \
steps, with 3 to 6 items; not for one or two simple steps or plain questions. Mark a step in_progress before you begin \
it and completed right after; add, change or drop pending ones as you learn. An empty list clears it. A wrong status \
is an error that names the right ones and leaves the list as it was: give the whole list again."""


class Item(Struct, frozen=True, forbid_unknown_fields=True):
    content: Annotated[str, Meta(min_length=1)]
    status: TodoStatus = "pending"


class TodoListMiddleware(Middleware):
    """Gives the agent `write_todos`; the list is `state.todos`."""

    prompt = PROMPT

    def __init__(self) -> None:
        self.tools = (Tool(self.write_todos, description=DESCRIPTION),)

    async def write_todos(self, todos: list[Item], ctx: ToolContext) -> str:
        ctx.record(TodosWritten(tuple(Todo(clean(item.content), item.status) for item in todos)))
        done = sum(item.status == "completed" for item in todos)
        return f"the list has {len(todos)} items, {done} of them completed" if todos else "the list is cleared"
